"""Run the stage `pretrain`."""

from aam.stages import pretrain
from aam.stages.entry import main

if __name__ == "__main__":
    main(pretrain.run, snakemake)
