"""Compute the richness of every sample by depth."""

from stage_job import run_job

from aam.stages.rarefaction_curve import compute_rarefaction_curves

if __name__ == "__main__":
    with run_job(snakemake) as job:
        compute_rarefaction_curves(
            table=job.inputs["table"],
            curve_out=job.outputs["curve"],
        )
