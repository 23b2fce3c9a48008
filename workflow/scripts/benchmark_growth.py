"""Run the stage `benchmark_growth`."""

from aam.runtime.entry import main
from aam.stages import benchmark_growth

if __name__ == "__main__":
    main(benchmark_growth.run, snakemake)
