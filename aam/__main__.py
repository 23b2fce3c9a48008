"""`python -m aam init`: a commented configuration for a table and its metadata."""

import argparse
import sys
from pathlib import Path

from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table, without_empty
from aam.data.study import columns_of, configuration, proposed_depth
from aam.util.atomic import write_text
from aam.util.errors import InputError, problem


def main(arguments: list[str] | None = None) -> None:
    """Write the configuration, and say how it is run."""
    parser = argparse.ArgumentParser(prog="python -m aam", description=__doc__)
    init = parser.add_subparsers(required=True).add_parser("init", help="write a configuration")
    init.add_argument("table", type=Path, help="feature table: .qza, BIOM or TSV")
    init.add_argument("metadata", type=Path, help="QIIME 2 metadata")
    for name in ("sequences", "tree", "taxonomy"):
        init.add_argument(f"--{name}", type=Path, help=f"{name} of the features: .qza or text")
    init.add_argument("--output", type=Path, required=True, help="the file to write, mine.yaml")
    given = {key: value for key, value in vars(parser.parse_args(arguments)).items() if value}
    output = given.pop("output")
    if output.exists():
        raise problem(output, "a file that is there", "a new one", "give another --output")
    table, _ = without_empty(load_table(given["table"]))
    feature_sequences(table, given["table"], given.get("sequences"))
    columns = columns_of(load_metadata(given["metadata"]))
    paths = {name: str(path) for name, path in given.items()}
    write_text(output, configuration(paths, columns, proposed_depth(table)))
    print(f"Look at {output}, then run: snakemake --cores 2 --configfile {output} -- check")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
