"""Run the stage `plot_growth`."""

from aam.stages import plot_growth
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_growth.run, snakemake)
