"""Run the stage `simulate`."""

from aam.stages import simulate
from aam.stages.entry import main

if __name__ == "__main__":
    main(simulate.run, snakemake)
