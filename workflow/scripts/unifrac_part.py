"""Compute a share of the distances between samples, for one of several jobs."""

from stage_job import run_job

from aam.config.settings.data import UnifracPartSettings
from aam.stages.unifrac_part import compute_part
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, UnifracPartSettings) as job:
        compute_part(
            table=job.inputs["table"],
            tree=job.inputs["tree"],
            metric=job.settings.metric,
            alpha=job.settings.alpha,
            part=job.settings.part,
            parts=job.settings.parts,
            engine=job.settings.engine,
            threads=job.runtime.threads,
            work=job.runtime.work,
            part_out=job.outputs["part"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
