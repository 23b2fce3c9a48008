"""Run the stage `folds`."""

from aam.runtime.entry import main
from aam.stages import folds

if __name__ == "__main__":
    main(folds.run, snakemake)
