"""Run the stage `plot`."""

from aam.runtime.entry import main
from aam.stages import plot

if __name__ == "__main__":
    main(plot.run, snakemake)
