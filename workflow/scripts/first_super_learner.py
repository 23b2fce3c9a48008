"""Keep the mixture of a task's baselines for other tables."""

from stage_job import run_job

from aam.learners.kept_task import KeptTask
from aam.stages.first_super_learner import keep_baselines
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        keep_baselines(
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            folds=job.inputs["folds"],
            views=job.inputs["views"],
            tree=job.inputs["tree"],
            sequences=job.inputs["sequences"],
            table=job.inputs["table"],
            task=KeptTask.read(job.settings),
            directory_out=job.outputs["directory"],
            digest_out=job.outputs["digest"],
            provenance=provenance(job.settings, job.inputs),
        )
