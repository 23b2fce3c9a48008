"""Pretrain an encoder per fold of a task."""

from stage_job import run_job

from aam.stages.pretrain_inductive import pretrain_fold_encoders
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.settings import PretrainSettings
from aam.util.provenance import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        pretrain_fold_encoders(
            inputs=PretrainInputs.read(job.inputs),
            members=job.inputs["members"],
            settings=PretrainSettings.read(job.settings),
            runtime=job.runtime,
            encoders_out=job.outputs["encoders"],
            digests_out=job.outputs["digests"],
            scores_out=job.outputs["scores"],
            provenance=provenance(job.settings, job.inputs),
        )
