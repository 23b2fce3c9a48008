"""Gather the rarefied tables, and augmented rows, in the store that training reads."""

from stage_job import run_job

from aam.config.settings.data import StoreSamplesSettings
from aam.stages.store_samples import store_samples
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, StoreSamplesSettings) as job:
        store_samples(
            tokens=job.inputs["tokens"],
            views=job.inputs["views"],
            asv_dropout=job.settings.asv_dropout,
            cutmix=job.settings.cutmix,
            seed=job.settings.seed,
            samples_out=job.outputs["samples"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
