"""Run the stage `benchmark_speed`."""

from aam.runtime.entry import main
from aam.stages import benchmark_speed

if __name__ == "__main__":
    main(benchmark_speed.run, snakemake)
