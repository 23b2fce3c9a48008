"""Run the stage `import_table`."""

from aam.stages import import_table
from aam.stages.entry import main

if __name__ == "__main__":
    main(import_table.run, snakemake)
