"""Predict the samples of another table by the models of a task."""

from stage_job import run_job

from aam.config.settings.tasks import PredictSettings
from aam.stages.predict import predict_table

if __name__ == "__main__":
    with run_job(snakemake, PredictSettings) as job:
        predict_table(
            model=job.inputs["model"],
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            metadata=job.inputs.get("metadata"),
            asvs=job.inputs.get("asvs"),
            reference=next(iter(job.settings.references), None),
            threads=job.runtime.threads,
            predictions_out=job.outputs["predictions"],
            notes_out=job.outputs["notes"],
        )
