"""Run the stage `score`."""

from aam.runtime.entry import main
from aam.stages import score

if __name__ == "__main__":
    main(score.run, snakemake)
