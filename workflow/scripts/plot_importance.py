"""Run the stage `plot_importance`."""

from aam.runtime.entry import main
from aam.stages import plot_importance

if __name__ == "__main__":
    main(plot_importance.run, snakemake)
