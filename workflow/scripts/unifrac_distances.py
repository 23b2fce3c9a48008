"""Compute distances between samples, or join the parts of several jobs."""

from stage_job import run_job

from aam.config.settings.data import UnifracSettings
from aam.stages.unifrac import compute_distances
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, UnifracSettings) as job:
        # The parts are made of the same files.
        made_from = {name: path for name, path in job.inputs.items() if name != "parts"}
        compute_distances(
            table=job.inputs["table"],
            tree=job.inputs.get("tree"),
            computed=job.inputs.get("parts"),
            metric=job.settings.metric,
            alpha=job.settings.alpha,
            engine=job.settings.engine,
            checked_pairs=job.settings.checked_pairs,
            threads=job.runtime.threads,
            work=job.runtime.work,
            distances_out=job.outputs["distances"],
            provenance=provenance(job.settings.plain(), made_from),
        )
