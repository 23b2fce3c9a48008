"""Run the stage `summary`."""

from aam.runtime.entry import main
from aam.stages import summary

if __name__ == "__main__":
    main(summary.run, snakemake)
