"""Run the stage `import_metadata`."""

from aam.stages import import_metadata
from aam.stages.entry import main

if __name__ == "__main__":
    main(import_metadata.run, snakemake)
