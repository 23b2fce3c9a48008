"""Keep the mixture of the methods of a task for other tables."""

from stage_job import run_job

from aam.config.settings.tasks import SuperLearnerSettings
from aam.stages.super_learner import keep_super_learner
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, SuperLearnerSettings) as job:
        keep_super_learner(
            model=job.inputs.get("model"),
            predictions=job.inputs.get("predictions"),
            nested=job.inputs.get("nested"),
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            tree=job.inputs.get("tree"),
            sequences=job.inputs["sequences"],
            table=job.inputs["table"],
            taxonomy=job.inputs.get("taxonomy"),
            clades=job.inputs.get("clades"),
            clade_features=job.inputs.get("clade_features"),
            settings=job.settings,
            directory_out=job.outputs["directory"],
            digest_out=job.outputs["digest"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
