"""Say which clades moved the predictions of the samples of another table."""

from stage_job import run_job

from aam.config.settings.tasks import PredictSettings
from aam.stages.explain_predictions import explain_predictions

if __name__ == "__main__":
    with run_job(snakemake, PredictSettings) as job:
        explain_predictions(
            model=job.inputs["model"],
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            reference=next(iter(job.settings.references), None),
            effects_out=job.outputs["effects"],
        )
