"""Run the stage `import_table`."""

from aam.runtime.entry import main
from aam.stages import import_table

if __name__ == "__main__":
    main(import_table.run, snakemake)
