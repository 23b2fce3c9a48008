"""Place and name the sequences of a study in a reference of whole genes."""

from stage_job import run_job

from aam.config.settings.data import FindGenesSettings
from aam.stages.find_genes import find_genes

if __name__ == "__main__":
    with run_job(snakemake, FindGenesSettings) as job:
        find_genes(
            table=job.inputs["table"],
            sequences=job.inputs["sequences"],
            reference=job.settings.reference,
            digest=job.settings.digest,
            threads=job.runtime.threads,
            genes_out=job.outputs["genes"],
        )
