"""Pretrain an encoder per fold of a task."""

from stage_job import run_job

from aam.config.settings.training import PretrainSettings
from aam.stages.pretrain_inductive import pretrain_fold_encoders
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, PretrainSettings) as job:
        pretrain_fold_encoders(
            inputs=PretrainInputs.model_validate(job.inputs),
            members=job.inputs["members"],
            settings=job.settings,
            runtime=job.runtime,
            encoders_out=job.outputs["encoders"],
            digests_out=job.outputs["digests"],
            scores_out=job.outputs["scores"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
