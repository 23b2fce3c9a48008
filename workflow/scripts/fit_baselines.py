"""Run the stage `baselines`."""

from aam.runtime.entry import main
from aam.stages import baselines

if __name__ == "__main__":
    main(baselines.run, snakemake)
