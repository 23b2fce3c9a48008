"""Run the stage `benchmark_models`."""

from aam.stages import benchmark_models
from aam.stages.entry import main

if __name__ == "__main__":
    main(benchmark_models.run, snakemake)
