"""Run the stage `plot_importance`."""

from aam.stages import plot_importance
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_importance.run, snakemake)
