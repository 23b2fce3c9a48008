"""Measure by how much the answer to a task is worse without each named clade."""

from stage_job import run_job

from aam.stages.clade_losses import measure_clade_losses

if __name__ == "__main__":
    with run_job(snakemake) as job:
        measure_clade_losses(
            model=job.inputs["model"],
            baselines=job.inputs["baselines"],
            nested_baselines=job.inputs["nested_baselines"],
            losses_out=job.outputs["losses"],
        )
