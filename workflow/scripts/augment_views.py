"""Run the stage `augment`."""

from aam.stages import augment
from aam.stages.entry import main

if __name__ == "__main__":
    main(augment.run, snakemake)
