"""Run the stage `pretrain`."""

from aam.runtime.entry import main
from aam.stages import pretrain

if __name__ == "__main__":
    main(pretrain.run, snakemake)
