"""Run the stage `benchmark_speed`."""

from aam.stages import benchmark_speed
from aam.stages.entry import main

if __name__ == "__main__":
    main(benchmark_speed.run, snakemake)
