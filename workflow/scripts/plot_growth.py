"""Run the stage `plot_growth`."""

from aam.runtime.entry import main
from aam.stages import plot_growth

if __name__ == "__main__":
    main(plot_growth.run, snakemake)
