"""Draw figures of recorded results."""

from stage_job import run_job

from aam.config.settings.plot import PlotSettings
from aam.stages.plot import draw_figures

if __name__ == "__main__":
    with run_job(snakemake, PlotSettings) as job:
        draw_figures(
            settings=job.settings,
            records=job.inputs,
            figures_out=job.outputs,
        )
