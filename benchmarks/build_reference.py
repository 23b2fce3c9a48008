"""Makes the folder of a reference tree that comes with the package.

Run as `python -m benchmarks.build_reference ../shared/data/corpus aam/reference_tree/v4`: the ASVs
of the corpus with the branches above them, the licences of the studies, and a manifest of where
everything comes from. The same corpus gives the same bytes.
"""

import argparse
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from aam.config.references import TREE
from aam.data.importing.tree import load_tree
from aam.reference_tree.tree import ReferenceTree
from aam.util.atomic import atomic_path, write_json
from aam.util.manifest import MANIFEST, digests_in

COMMAND = "python -m benchmarks.build_reference ../shared/data/corpus aam/reference_tree/v4"
LENGTH_BP = 90
LICENCES = "LICENSES.txt"
KEYS = ("study", "repository", "path", "blob", "licence")
ROW = re.compile(r"\| (\w+) \| (\S+) `([^`]+)`.*?\| `([0-9a-f]{40})` \| ([\w.-]+) \|")
"""A source in the corpus's README."""


def sources(readme: str) -> list[dict[str, str]]:
    """Return every study of the corpus, with its repository, path, blob and licence."""
    return [dict(zip(KEYS, row, strict=True)) for row in ROW.findall(readme)]


def build(corpus: Path, target: Path) -> None:
    """Write the folder `target` from the folder of the corpus."""
    studies = sources((corpus / "README.md").read_text(encoding="utf-8"))
    metadata = pd.read_csv(corpus / "metadata.tsv", sep="\t", dtype=str)
    assert {source["study"] for source in studies} == {*metadata["study"]}
    tree = ReferenceTree.from_tree(load_tree(corpus / "tree.nwk"), LENGTH_BP)
    with atomic_path(target) as partial:
        partial.mkdir(parents=True)
        tree.write(partial / TREE)
        shutil.copyfile(corpus / LICENCES, partial / LICENCES)
        manifest = {
            "command": COMMAND,
            "sequences": len(tree.bases_US),
            "branches": len(tree.parent_B) - 1,
            "length_bp": LENGTH_BP,
            "sha256": digests_in(partial),
            "studies": studies,
        }
        write_json(partial / MANIFEST, manifest)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build a reference."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("target", type=Path)
    given = parser.parse_args(arguments)
    build(given.corpus, given.target)


if __name__ == "__main__":
    main()
