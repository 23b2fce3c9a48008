"""Makes the folder of a reference tree that comes with the package.

Run as `python -m benchmarks.build_reference ../shared/data/corpus aam/reference_tree/v4`: the tree
of the ASVs of the corpus by FastTree, rooted at its midpoint, the licences of the studies, and a
manifest of where everything comes from. The same corpus gives the same bytes; FastTree takes about
two minutes.
"""

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from aam.config.references import TREE
from aam.data.importing.tree import load_tree
from aam.data.trees import parse_newick
from aam.reference_tree.tree import ReferenceTree
from aam.util.atomic import atomic_path, write_json
from aam.util.digests import MANIFEST, digests_in
from aam.util.scikit_bio import TreeNode

COMMAND = "python -m benchmarks.build_reference ../shared/data/corpus aam/reference_tree/v4"
FASTTREE = ("fasttree", "-nt", "-fastest", "-nosupport")
"""Jukes-Cantor with CAT: nearer than the general model to trees of development studies that were
aligned (docs/experiments.md)."""
SEED = 0
"""Of the order of the sequences: the better of two that were tried, on the same studies."""
LENGTH_BP = 90
LICENCES = "LICENSES.txt"
KEYS = ("study", "repository", "path", "blob", "licence")
ROW = re.compile(r"\| (\w+) \| (\S+) `([^`]+)`.*?\| `([0-9a-f]{40})` \| ([\w.-]+) \|")
"""A source in the corpus's README."""


def sources(readme: str) -> list[dict[str, str]]:
    """Return every study of the corpus, with its repository, path, blob and licence."""
    return [dict(zip(KEYS, row, strict=True)) for row in ROW.findall(readme)]


def infer(corpus: Path) -> TreeNode:
    """Return the tree of the ASVs of the corpus, taken as they are, without an alignment.

    The order in which FastTree gets the sequences changes the tree a little: it is a permutation of
    their order in the tree of the corpus.
    """
    names = [tip.name for tip in load_tree(corpus / "tree.nwk").tips()]
    order = np.random.default_rng(SEED).permutation(len(names))
    fasta = "".join(f">{names[row]}\n{names[row]}\n" for row in order)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        FASTTREE, input=fasta, capture_output=True, text=True, env=environment, check=True
    )
    return parse_newick(done.stdout)


def build(corpus: Path, target: Path, inferred: TreeNode) -> None:
    """Write the folder `target` from the folder of the corpus and the tree of its ASVs."""
    studies = sources((corpus / "README.md").read_text(encoding="utf-8"))
    metadata = pd.read_csv(corpus / "metadata.tsv", sep="\t", dtype=str)
    assert {source["study"] for source in studies} == {*metadata["study"]}
    tree = ReferenceTree.from_tree(inferred.root_at_midpoint(), LENGTH_BP)
    with atomic_path(target) as partial:
        partial.mkdir(parents=True)
        tree.write(partial / TREE)
        shutil.copyfile(corpus / LICENCES, partial / LICENCES)
        manifest = {
            "command": COMMAND,
            "tree": f"{' '.join(FASTTREE)}, order of the sequences by seed {SEED}",
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
    parser.add_argument("--tree", type=Path, help="what FastTree made before, in Newick")
    given = parser.parse_args(arguments)
    if given.tree is None:
        inferred = infer(given.corpus)
    else:
        inferred = load_tree(given.tree, is_rooted=False)
    build(given.corpus, given.target, inferred)


if __name__ == "__main__":
    main()
