"""Run the stage `benchmark_growth`."""

from aam.stages import benchmark_growth
from aam.stages.entry import main

if __name__ == "__main__":
    main(benchmark_growth.run, snakemake)
