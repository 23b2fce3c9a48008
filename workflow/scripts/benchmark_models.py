"""Run the stage `benchmark_models`."""

from aam.runtime.entry import main
from aam.stages import benchmark_models

if __name__ == "__main__":
    main(benchmark_models.run, snakemake)
