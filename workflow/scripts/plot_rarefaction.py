"""Run the stage `plot_rarefaction`."""

from aam.runtime.entry import main
from aam.stages import plot_rarefaction

if __name__ == "__main__":
    main(plot_rarefaction.run, snakemake)
