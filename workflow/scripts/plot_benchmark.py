"""Run the stage `plot_benchmark`."""

from aam.stages import plot_benchmark
from aam.stages.entry import main

if __name__ == "__main__":
    main(plot_benchmark.run, snakemake)
