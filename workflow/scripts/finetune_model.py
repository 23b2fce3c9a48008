"""Run the stage `finetune`."""

from aam.stages import finetune
from aam.stages.entry import main

if __name__ == "__main__":
    main(finetune.run, snakemake)
