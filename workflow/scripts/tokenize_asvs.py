"""Turn every ASV of a table into tokens."""

from stage_job import run_job

from aam.config.settings.data import TokenizeSettings
from aam.stages.tokenize import tokenize_asvs
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake, TokenizeSettings) as job:
        tokenize_asvs(
            table=job.inputs["table"],
            sequences=job.inputs["sequences"],
            taxonomy=job.inputs.get("taxonomy"),
            max_length_bp=job.settings.max_length_bp,
            tokens_out=job.outputs["tokens"],
            provenance=provenance(job.settings.plain(), job.inputs),
        )
