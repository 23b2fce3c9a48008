"""A tree made from the sequences themselves: MAFFT, FastTree, minimum variance rooting."""

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from aam.data.trees.newick import parse_newick
from aam.data.trees.rooting import root_by_variance
from aam.util.errors import problem
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)

_PROGRAMS = {"mafft": ("mafft",), "fasttree": ("fasttree", "FastTree")}


def build_tree(sequences: Mapping[str, str], threads: int, scratch: Path | None) -> TreeNode:
    """Align sequences, infer their tree by approximate maximum likelihood, and root it.

    MAFFT (Katoh and Standley 2013) chooses its strategy by the number of sequences; FastTree
    (Price et al. 2010) fits GTR with its CAT approximation. Equal sequences enter once and come
    out as tips of length zero.

    Parameters
    ----------
    sequences
        Sequence by feature ID.
    threads
        Threads of MAFFT; the tree does not depend on them.
    scratch
        Folder for temporary files; None: the system's.

    Raises
    ------
    InputError
        A program is not installed.
    RuntimeError
        A program failed.
    """
    distinct = sorted(set(sequences.values()))
    logger.info("building a tree of %d features, %d sequences", len(sequences), len(distinct))
    if len(distinct) > 1:
        tree = root_by_variance(_infer(distinct, threads, scratch))
    else:
        tree = TreeNode(children=[TreeNode("0", length=0.0)])
    return _with_features(tree, distinct, sequences)


def _infer(distinct: Sequence[str], threads: int, scratch: Path | None) -> TreeNode:
    """Return the unrooted tree of distinct sequences, whose positions name the tips."""
    mafft = _program("mafft")
    fasttree = _program("fasttree")
    if scratch is not None:
        scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        fasta = Path(folder) / "sequences.fasta"
        alignment = Path(folder) / "alignment.fasta"
        fasta.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(distinct)))
        # `--threadit 0` keeps MAFFT from refining in parallel, where the result depends on timing.
        options = ["--auto", "--nuc", "--quiet", "--thread", str(threads), "--threadit", "0"]
        alignment.write_text(_output([mafft, *options, str(fasta)]))
        return parse_newick(_output([fasttree, "-nt", "-gtr", "-quiet", str(alignment)]))


def _program(name: str) -> str:
    for spelling in _PROGRAMS[name]:
        program = shutil.which(spelling)
        if program is not None:
            return program
    raise problem(
        "configuration key datasets.<name>.tree",
        f"null, but the program '{name}' is not installed",
        "a tree, or the programs MAFFT and FastTree to make one",
        "install them: `apt install mafft fasttree` or `conda install -c bioconda mafft fasttree`",
    )


def _output(command: list[str]) -> str:
    """Run a program and return what it printed; its complaints become part of the error."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    logger.info("running %s", " ".join(command))
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0 or not done.stdout:
        tail = "\n".join(done.stderr.splitlines()[-10:])
        raise RuntimeError(f"{command[0]} failed with exit code {done.returncode}:\n{tail}")
    return done.stdout


def _with_features(
    tree: TreeNode, distinct: Sequence[str], sequences: Mapping[str, str]
) -> TreeNode:
    """Replace the positions at the tips by the features that have the sequence."""
    features: dict[str, list[str]] = {text: [] for text in distinct}
    for name, text in sequences.items():
        features[text].append(name)
    for tip in list(tree.tips()):
        names = features[distinct[int(tip.name)]]
        tip.name = names[0] if len(names) == 1 else None
        if len(names) > 1:
            tip.extend([TreeNode(name, length=0.0) for name in names])
    return tree
