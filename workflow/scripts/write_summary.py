"""Run the stage `summary`."""

from aam.stages import summary
from aam.stages.entry import main

if __name__ == "__main__":
    main(summary.run, snakemake)
