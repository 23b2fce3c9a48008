"""Run the stage `plot_models`."""

from aam.stages import plot_models
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_models.run, snakemake)
