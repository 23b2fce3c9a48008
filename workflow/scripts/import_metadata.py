"""Run the stage `import_metadata`."""

from aam.runtime.entry import main
from aam.stages import import_metadata

if __name__ == "__main__":
    main(import_metadata.run, snakemake)
