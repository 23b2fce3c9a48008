"""Draw the same number of reads from every sample of a table."""

from stage_job import run_job

from aam.config.settings.data import RarefySettings
from aam.stages.rarefy import rarefy_table
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, RarefySettings) as job:
        rarefy_table(
            table=job.inputs["table"],
            tree=job.inputs.get("tree"),
            depth=job.settings.depth,
            seed=job.settings.seed,
            view=job.settings.view,
            table_out=job.outputs["table"],
            dropped_out=job.outputs["dropped"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
