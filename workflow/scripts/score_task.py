"""Run the stage `score`."""

from aam.stages import score
from aam.stages.entry import main

if __name__ == "__main__":
    main(score.run, snakemake)
