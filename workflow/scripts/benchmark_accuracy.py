"""Gather the accuracy of every model and task."""

from stage_job import run_job

from aam.stages.benchmark_accuracy import gather_accuracy

if __name__ == "__main__":
    with run_job(snakemake) as job:
        gather_accuracy(
            scores=job.inputs["scores"],
            table_out=job.outputs["table"],
        )
