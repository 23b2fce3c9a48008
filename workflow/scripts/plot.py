"""Draw figures of recorded results."""

from stage_job import run_job

from aam.stages.plot import draw_figures

if __name__ == "__main__":
    with run_job(snakemake) as job:
        draw_figures(
            draw=job.settings["draw"],
            records=job.inputs,
            settings=job.settings,
            figures_out=job.outputs,
        )
