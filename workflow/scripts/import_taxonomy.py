"""Check the user's taxonomy."""

from stage_job import run_job

from aam.config.settings.data import ImportTaxonomySettings
from aam.stages.import_taxonomy import import_taxonomy

if __name__ == "__main__":
    with run_job(snakemake, ImportTaxonomySettings) as job:
        import_taxonomy(
            table=job.inputs["table"],
            taxonomy=job.inputs.get("taxonomy"),
            genes=job.inputs.get("genes"),
            reference=job.settings.reference,
            is_asked=job.settings.is_asked,
            dropped=job.inputs["dropped"],
            taxonomy_out=job.outputs["taxonomy"],
            notes_out=job.outputs["notes"],
        )
