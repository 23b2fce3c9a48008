"""Run the stage `import_tree`."""

from aam.runtime.entry import main
from aam.stages import import_tree

if __name__ == "__main__":
    main(import_tree.run, snakemake)
