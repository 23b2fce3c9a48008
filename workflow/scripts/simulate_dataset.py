"""Run the stage `simulate`."""

from aam.runtime.entry import main
from aam.stages import simulate

if __name__ == "__main__":
    main(simulate.run, snakemake)
