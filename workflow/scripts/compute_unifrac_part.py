"""Run the stage `unifrac_part`."""

from aam.runtime.entry import main
from aam.stages import unifrac_part

if __name__ == "__main__":
    main(unifrac_part.run, snakemake)
