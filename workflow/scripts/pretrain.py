"""Pretrain an encoder."""

from stage_job import run_job

from aam.config.settings.training import PretrainSettings
from aam.stages.pretrain import pretrain_encoder
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, PretrainSettings) as job:
        pretrain_encoder(
            inputs=PretrainInputs.model_validate(job.inputs),
            settings=job.settings,
            runtime=job.runtime,
            model_out=job.outputs["model"],
            scores_out=job.outputs["scores"],
            history_out=job.outputs["history"],
            embeddings_out=job.outputs["embeddings"],
            asvs_out=job.outputs["asvs"],
            pairs_out=job.outputs["pairs"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
