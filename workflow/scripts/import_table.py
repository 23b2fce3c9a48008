"""Check the user's table and the sequences of its features."""

from stage_job import run_job

from aam.config.settings.data import ImportTableSettings
from aam.stages.import_table import import_table
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, ImportTableSettings) as job:
        # The metadata tell the axes apart: other values of theirs leave the table as it is.
        sources = {name: path for name, path in job.inputs.items() if name != "metadata"}
        import_table(
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            metadata=job.inputs.get("metadata"),
            values=job.settings.values,
            table_out=job.outputs["table"],
            sequences_out=job.outputs["sequences"],
            dropped_out=job.outputs["dropped"],
            notes_out=job.outputs["notes"],
            provenance=provenance(job.settings.plain(), sources),
        )
