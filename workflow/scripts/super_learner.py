"""Keep the mixture of a model and the baselines for other tables."""

from stage_job import run_job

from aam.learners.kept_task import KeptTask
from aam.stages.super_learner import keep_super_learner
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        keep_super_learner(
            model=job.inputs["model"],
            digests=job.inputs["digests"],
            predictions=job.inputs["predictions"],
            nested=job.inputs["nested"],
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            tree=job.inputs["tree"],
            sequences=job.inputs["sequences"],
            name=job.settings["names"]["model"],
            task=KeptTask.read(job.settings),
            directory_out=job.outputs["directory"],
            digest_out=job.outputs["digest"],
            provenance=provenance(job.settings, job.inputs),
        )
