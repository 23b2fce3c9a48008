"""Predict a task by simple methods."""

from stage_job import run_job

from aam.config.settings.tasks import BaselinesSettings
from aam.stages.baselines import fit_baselines
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, BaselinesSettings) as job:
        fit_baselines(
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            tree=job.inputs.get("tree"),
            distances=job.inputs["distances"],
            kind=job.settings.kind,
            classes=job.settings.classes,
            bounds=job.settings.bounds,
            baselines=job.settings.baselines,
            seed=job.settings.seed,
            threads=job.runtime.threads,
            predictions_out=job.outputs["predictions"],
            nested_out=job.outputs["nested"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
