"""Run the stage `plot_pretraining`."""

from aam.stages import plot_pretraining
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_pretraining.run, snakemake)
