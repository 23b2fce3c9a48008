"""Run the stage `unifrac`."""

from aam.runtime.entry import main
from aam.stages import unifrac

if __name__ == "__main__":
    main(unifrac.run, snakemake)
