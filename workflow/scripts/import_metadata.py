"""Check the user's metadata."""

from stage_job import run_job

from aam.stages.import_metadata import import_metadata
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        import_metadata(
            table=job.inputs["table"],
            metadata=job.inputs.get("metadata"),
            metadata_out=job.outputs["metadata"],
            notes_out=job.outputs["notes"],
            provenance=provenance(job.settings, job.inputs),
        )
