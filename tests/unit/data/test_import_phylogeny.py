import shutil

import numpy as np
import pytest

from aam.data.trees.infer import build_tree, root_at_midpoint
from aam.data.trees.newick import parse_newick, write_newick
from aam.util.errors import InputError

needs_programs = pytest.mark.skipif(
    shutil.which("mafft") is None or shutil.which("fasttree") is None,
    reason="MAFFT or FastTree is not installed",
)


def two_clades(per_clade=6):
    """Return sequences of two groups: far apart between, close within."""
    rng = np.random.default_rng(1)
    letters = np.array(list("ACGT"))
    sequences = {}
    for clade in "xy":
        ancestor = rng.integers(0, 4, 120)
        for i in range(per_clade):
            own = ancestor.copy()
            places = rng.choice(120, 3, replace=False)
            own[places] = rng.integers(0, 4, 3)
            sequences[f"{clade}_{i} 's"] = "".join(letters[own])
    return sequences


@needs_programs
def test_clades_are_found_and_the_root_lies_between(tmp_path):
    tree = build_tree(two_clades(), threads=1, scratch=tmp_path / "scratch")
    sides = [{tip.name[0] for tip in child.tips()} for child in tree.children]
    assert sorted(map(sorted, sides)) == [["x"], ["y"]]
    assert all(node.length >= 0 for node in tree.traverse(include_self=False))
    assert {tip.name for tip in tree.tips()} == two_clades().keys()
    assert list((tmp_path / "scratch").iterdir()) == []


@needs_programs
def test_threads_do_not_change_the_tree(tmp_path):
    for threads in (1, 2):
        write_newick(tmp_path / f"{threads}.nwk", build_tree(two_clades(15), threads, None))
    assert (tmp_path / "1.nwk").read_bytes() == (tmp_path / "2.nwk").read_bytes()


@needs_programs
@pytest.mark.parametrize("distinct", [1, 2, 3])
@pytest.mark.parametrize("copies", [1, 2])
def test_a_handful_of_sequences_is_enough(distinct, copies):
    texts = list(two_clades(3).values())[:distinct]
    sequences = {f"{i}-{j}": text for i, text in enumerate(texts) for j in range(copies)}
    tree = build_tree(sequences, 1, None)
    assert {tip.name for tip in tree.tips()} == sequences.keys()
    assert len(tree.children) <= 2
    assert all(node.length is not None for node in tree.traverse(include_self=False))
    assert tree.find("0-0").distance(tree.find(f"0-{copies - 1}")) == 0


def test_midpoint_at_a_node_still_gives_two_children():
    tree = root_at_midpoint(parse_newick("(a:1,b:1,c:1);"))
    assert len(tree.children) == 2
    assert tree.find("a").distance(tree.find("c")) == 2


@pytest.mark.parametrize("lacking", ["mafft", "fasttree"])
def test_a_missing_program_is_named_with_what_to_install(monkeypatch, lacking):
    def which(name):
        return None if name.lower() == lacking else f"/usr/bin/{name}"

    monkeypatch.setattr(shutil, "which", which)
    message = f"datasets.<name>.tree: .*'{lacking}' is not installed.*apt install mafft fasttree"
    with pytest.raises(InputError, match=message):
        build_tree(two_clades(3), 1, None)


def test_a_program_that_fails_says_why(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: shutil.os.path.realpath("/bin/ls"))
    with pytest.raises(RuntimeError, match="exit code 2"):
        build_tree(two_clades(3), 1, None)
