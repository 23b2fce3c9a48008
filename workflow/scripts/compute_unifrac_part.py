"""Run the stage `unifrac_part`."""

from aam.stages import unifrac_part
from aam.stages.entry import main

if __name__ == "__main__":
    main(unifrac_part.run, snakemake)
