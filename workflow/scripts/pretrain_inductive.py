"""Run the stage `pretrain_inductive`."""

from aam.runtime.entry import main
from aam.stages import pretrain_inductive

if __name__ == "__main__":
    main(pretrain_inductive.run, snakemake)
