"""Check the user's taxonomy."""

from stage_job import run_job

from aam.stages.import_taxonomy import import_taxonomy

if __name__ == "__main__":
    with run_job(snakemake) as job:
        import_taxonomy(
            table=job.inputs["table"],
            taxonomy=job.inputs["taxonomy"],
            dropped=job.inputs["dropped"],
            taxonomy_out=job.outputs["taxonomy"],
            notes_out=job.outputs["notes"],
        )
