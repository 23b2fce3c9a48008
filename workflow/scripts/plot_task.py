"""Run the stage `plot_task`."""

from aam.runtime.entry import main
from aam.stages import plot_task

if __name__ == "__main__":
    main(plot_task.run, snakemake)
