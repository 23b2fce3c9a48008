"""Run the stage `import_tree`."""

from aam.stages import import_tree
from aam.stages.entry import main

if __name__ == "__main__":
    main(import_tree.run, snakemake)
