"""Run the stage `benchmark_scaling`."""

from aam.stages import benchmark_scaling
from aam.stages.entry import main

if __name__ == "__main__":
    main(benchmark_scaling.run, snakemake)
