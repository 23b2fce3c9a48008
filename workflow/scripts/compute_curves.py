"""Run the stage `rarefaction_curve`."""

from aam.stages import rarefaction_curve
from aam.stages.entry import main

if __name__ == "__main__":
    main(rarefaction_curve.run, snakemake)
