"""Predict the samples of another table by the baselines of a task."""

from stage_job import run_job

from aam.stages.predict_first import predict_by_baselines

if __name__ == "__main__":
    with run_job(snakemake) as job:
        predict_by_baselines(
            model=job.inputs["model"],
            table=job.inputs["table"],
            sequences=job.inputs.get("sequences"),
            predictions_out=job.outputs["predictions"],
            notes_out=job.outputs["notes"],
        )
