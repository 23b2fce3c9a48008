"""Trees that stages exchange: their files, and the branches above each feature."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.data.trees import (
    branch_fractions,
    branches_of,
    check_lengths,
    find_branches,
    parse_newick,
    read_newick,
    read_tree,
    split_root,
    write_newick,
)
from aam.util.errors import InputError

NEWICK = "(((a:1,b:2):0.5,c:3):0.25,d:4);"


def test_names_and_lengths_come_back_from_a_file(tmp_path):
    path = tmp_path / "tree.nwk"
    names = ["a_b", "it's", "a (b)", "x[1]", "d;e:f,g", "plain"]
    quoted = ["'" + name.replace("'", "''") + "'" for name in names]
    tree = parse_newick(f"({','.join(f'{name}:0.1' for name in quoted)})inner:2;")
    write_newick(path, tree)
    back = read_newick(path)
    assert [tip.name for tip in back.tips()] == names
    assert [tip.length for tip in back.tips()] == [0.1] * 6
    text = path.read_text()
    assert "a_b:0.1,'it''s':0.1" in text
    assert "inner" not in text
    assert text.endswith("plain:0.1):2.0;\n")


def test_lengths_keep_all_their_digits_and_may_be_missing(tmp_path):
    path = tmp_path / "tree.nwk"
    write_newick(path, parse_newick("((a:0.30000000000000004,b),c:1e-300);"))
    assert path.read_text() == "((a:0.30000000000000004,b),c:1e-300);\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a,b);(c,d);", "more than one tree"),
        ("(a:1:2,b);", "a branch of two lengths, :1:"),
    ],
)
def test_several_trees_and_branches_of_two_lengths_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_newick(text)


def test_punctuation_in_quotes_and_comments_is_no_syntax():
    tree = parse_newick("('a;b':1,'c:1:2':2,d[;:3:4]:3);")
    assert [tip.name for tip in tree.tips()] == ["a;b", "c:1:2", "d"]


def test_a_root_of_many_children_is_split_into_two():
    tree = split_root(parse_newick("(a:1,b:2,c:3);"))
    first, others = tree.children
    assert (first.name, first.length) == ("a", 1.0)
    assert (others.length, [tip.name for tip in others.tips()]) == (0.0, ["b", "c"])
    two = parse_newick("(a:1,(b:2,c:3):1);")
    assert [child.length for child in split_root(two).children] == [1.0, 1.0]


def test_a_tree_is_cut_down_to_the_features_of_a_table(tmp_path):
    path = tmp_path / "tree.nwk"
    path.write_text("(((a:1,b:2):0.5,c:3):0.25,d:4):9;")
    whole = read_tree(path, ["a", "b", "c", "d"])
    assert whole.length is None, "no feature is above the root"
    some = read_tree(path, ["a", "d"])
    assert {tip.name for tip in some.tips()} == {"a", "d"}
    assert some.find("a").distance(some) == 1.75
    with pytest.raises(AssertionError, match="lacks feature 'e' of the table"):
        read_tree(path, ["a", "e"])


def test_branches_are_above_the_features_below_them():
    membership, lengths = find_branches(parse_newick(NEWICK), ["d", "a", "c", "b"])
    below = {
        tuple(column): length
        for column, length in zip(membership.toarray().T, lengths, strict=True)
    }
    assert below == {
        (1, 0, 0, 0): 4.0,
        (0, 1, 0, 0): 1.0,
        (0, 0, 1, 0): 3.0,
        (0, 0, 0, 1): 2.0,
        (0, 1, 0, 1): 0.5,
        (0, 1, 1, 1): 0.25,
    }
    assert membership.dtype == np.int64
    assert find_branches(parse_newick("(a,b:1);"), ["a", "b"])[1].tolist() == [0.0, 1.0]


def test_without_a_tree_there_are_no_branches(tmp_path):
    membership, lengths = branches_of(None, ["a", "b"])
    assert (membership.shape, lengths.shape) == ((2, 0), (0,))
    path = tmp_path / "tree.nwk"
    path.write_text(NEWICK)
    membership, lengths = branches_of(path, ["a", "b"])
    assert (membership @ lengths).tolist() == [1.75, 2.75]


def test_the_fraction_of_a_branch_is_that_of_the_reads_below_it():
    counts = csr_array(np.array([[1, 3, 0, 4], [0, 0, 5, 0]]))
    table = FeatureTable(["s1", "s2"], ["a", "b", "c", "d"], counts)
    fractions, lengths = branch_fractions(table, parse_newick(NEWICK))
    by_length = dict(zip(lengths.tolist(), fractions.toarray().T.tolist(), strict=True))
    assert by_length == {
        1.0: [1 / 8, 0],
        2.0: [3 / 8, 0],
        3.0: [0, 1],
        4.0: [1 / 2, 0],
        0.5: [1 / 2, 0],
        0.25: [1 / 2, 1],
    }


def test_two_samples_whose_branches_have_no_length_are_refused(tmp_path):
    counts = csr_array(np.array([[1, 0, 0], [0, 2, 0], [0, 0, 3]]))
    ids = ["s1", "s2", "s3"]
    path = tmp_path / "tree.nwk"
    check_lengths(ids, counts, np.array([0.0, 1.0, 1.0]), path)
    check_lengths(ids, counts, np.array([1.0, 1.0, 1.0]), path)
    with pytest.raises(InputError, match=r"length 0 only.*2 samples \('s1', 's3'\)"):
        check_lengths(ids, counts, np.array([0.0, 1.0, 0.0]), path)
