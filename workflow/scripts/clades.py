"""Name the clades that the label of a task depends on."""

from stage_job import run_job

from aam.config.settings.tasks import CladesSettings
from aam.stages.clades import name_clades

if __name__ == "__main__":
    with run_job(snakemake, CladesSettings) as job:
        name_clades(
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            tree=job.inputs.get("tree"),
            taxonomy=job.inputs.get("taxonomy"),
            table=job.inputs["table"],
            sequences=job.inputs["sequences"],
            kind=job.settings.kind,
            classes=job.settings.classes,
            seed=job.settings.seed,
            rarefaction_seed=job.settings.rarefaction_seed,
            clades_out=job.outputs["clades"],
            samples_out=job.outputs["samples"],
            features_out=job.outputs["features"],
            tree_out=job.outputs["named_tree"],
            sequences_out=job.outputs["sequences"],
        )
