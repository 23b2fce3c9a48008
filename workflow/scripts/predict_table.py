"""Run the stage `predict`."""

from aam.stages import predict
from aam.stages.entry import main

if __name__ == "__main__":
    main(predict.run, snakemake)
