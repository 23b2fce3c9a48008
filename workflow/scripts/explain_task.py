"""Run the stage `explain`."""

from aam.stages import explain
from aam.stages.entry import main

if __name__ == "__main__":
    main(explain.run, snakemake)
