"""Run the stage `benchmark_accuracy`."""

from aam.stages import benchmark_accuracy
from aam.stages.entry import main

if __name__ == "__main__":
    main(benchmark_accuracy.run, snakemake)
