"""Run the stage `pretrain_inductive`."""

from aam.stages import pretrain_inductive
from aam.stages.entry import main

if __name__ == "__main__":
    main(pretrain_inductive.run, snakemake)
