"""Run the stage `plot_benchmark`."""

from aam.runtime.entry import main
from aam.stages import plot_benchmark

if __name__ == "__main__":
    main(plot_benchmark.run, snakemake)
