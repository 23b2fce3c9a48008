"""Run the stage `finetune`."""

from aam.runtime.entry import main
from aam.stages import finetune

if __name__ == "__main__":
    main(finetune.run, snakemake)
