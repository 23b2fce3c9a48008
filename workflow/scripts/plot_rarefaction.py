"""Run the stage `plot_rarefaction`."""

from aam.stages import plot_rarefaction
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_rarefaction.run, snakemake)
