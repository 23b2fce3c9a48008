"""Run the stage `explain`."""

from aam.runtime.entry import main
from aam.stages import explain

if __name__ == "__main__":
    main(explain.run, snakemake)
