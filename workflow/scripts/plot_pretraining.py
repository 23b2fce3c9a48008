"""Run the stage `plot_pretraining`."""

from aam.runtime.entry import main
from aam.stages import plot_pretraining

if __name__ == "__main__":
    main(plot_pretraining.run, snakemake)
