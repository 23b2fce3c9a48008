"""Run the stage `predict`."""

from aam.runtime.entry import main
from aam.stages import predict

if __name__ == "__main__":
    main(predict.run, snakemake)
