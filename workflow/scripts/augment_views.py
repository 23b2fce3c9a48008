"""Run the stage `augment`."""

from aam.runtime.entry import main
from aam.stages import augment

if __name__ == "__main__":
    main(augment.run, snakemake)
