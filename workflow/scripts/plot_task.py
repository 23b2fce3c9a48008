"""Run the stage `plot_task`."""

from aam.stages import plot_task
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_task.run, snakemake)
