"""Run the stage `tokenize`."""

from aam.stages import tokenize
from aam.stages.entry import main

if __name__ == "__main__":
    main(tokenize.run, snakemake)
