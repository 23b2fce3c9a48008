"""Write a result as an artifact that QIIME 2 reads."""

from stage_job import run_job

from aam.stages.export_qza import export_artifact
from aam.util.digests import provenance

if __name__ == "__main__":
    with run_job(snakemake) as job:
        export_artifact(
            source=job.inputs["source"],
            semantic_type=job.settings["type"],
            artifact_out=job.outputs["artifact"],
            provenance=provenance(job.settings, job.inputs),
        )
