"""Run the stage `baselines`."""

from aam.stages import baselines
from aam.stages.entry import main

if __name__ == "__main__":
    main(baselines.run, snakemake)
