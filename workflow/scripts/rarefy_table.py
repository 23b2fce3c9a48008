"""Run the stage `rarefy`."""

from aam.runtime.entry import main
from aam.stages import rarefy

if __name__ == "__main__":
    main(rarefy.run, snakemake)
