"""Run the stage `folds`."""

from aam.stages import folds
from aam.stages.entry import main

if __name__ == "__main__":
    main(folds.run, snakemake)
