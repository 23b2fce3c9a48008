"""Run the stage `rarefy`."""

from aam.stages import rarefy
from aam.stages.entry import main

if __name__ == "__main__":
    main(rarefy.run, snakemake)
