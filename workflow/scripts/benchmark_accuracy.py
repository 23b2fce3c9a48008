"""Run the stage `benchmark_accuracy`."""

from aam.runtime.entry import main
from aam.stages import benchmark_accuracy

if __name__ == "__main__":
    main(benchmark_accuracy.run, snakemake)
