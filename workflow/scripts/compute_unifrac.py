"""Run the stage `unifrac`."""

from aam.stages import unifrac
from aam.stages.entry import main

if __name__ == "__main__":
    main(unifrac.run, snakemake)
