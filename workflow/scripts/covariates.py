"""Predict a task from its covariates, alone and with the features."""

from stage_job import run_job

from aam.config.settings.tasks import CovariatesSettings
from aam.stages.covariates import fit_covariates
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, CovariatesSettings) as job:
        fit_covariates(
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            metadata=job.inputs["metadata"],
            covariates=job.settings.covariates,
            kind=job.settings.kind,
            classes=job.settings.classes,
            bounds=job.settings.bounds,
            seed=job.settings.seed,
            threads=job.runtime.threads,
            predictions_out=job.outputs["predictions"],
            nested_out=job.outputs["nested"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
