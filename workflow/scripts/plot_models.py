"""Run the stage `plot_models`."""

from aam.runtime.entry import main
from aam.stages import plot_models

if __name__ == "__main__":
    main(plot_models.run, snakemake)
