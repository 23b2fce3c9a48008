"""Run the stage `benchmark_scaling`."""

from aam.runtime.entry import main
from aam.stages import benchmark_scaling

if __name__ == "__main__":
    main(benchmark_scaling.run, snakemake)
