"""Run the stage `tokenize`."""

from aam.runtime.entry import main
from aam.stages import tokenize

if __name__ == "__main__":
    main(tokenize.run, snakemake)
