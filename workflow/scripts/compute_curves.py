"""Run the stage `rarefaction_curve`."""

from aam.runtime.entry import main
from aam.stages import rarefaction_curve

if __name__ == "__main__":
    main(rarefaction_curve.run, snakemake)
