"""The reference tree: what lies where, however it is asked for."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import aam
from aam.config.references import REFERENCES, TREE
from aam.data.table import FeatureTable
from aam.data.trees import parse_newick
from aam.distances import engines
from aam.distances.engines import ScikitBio
from aam.reference_tree.nearest import (
    UNKNOWN,
    KnownSequences,
    decode,
    encode,
    pack,
    reverse_complement,
    unpack,
)
from aam.reference_tree.phylogeny import ReferencePhylogeny
from aam.reference_tree.reading import AS_IS, Reading, recognize_reading
from aam.reference_tree.tree import PER_DIFFERENCE, ReferenceTree, place_sequences
from aam.util.atomic import read_json
from aam.util.digests import MANIFEST, digests_in
from aam.util.errors import InputError
from aam.util.scikit_bio import TreeNode

LENGTH = 40
SHIFTS = (1, 20, -1, -20)
LETTERS = np.array(list("ACGT"))
PLACED_SHA256 = "f95e759ae7cc16cba2777d7487c4b1473b67468639fa7cafdf1e4a2e87fc0996"
"""Of sequences placed on the shipped reference, on an Intel Xeon with AVX-512."""
METRICS = ("unweighted", "weighted_normalized", "weighted_unnormalized", "generalized")


def random_sequence(rng, length=LENGTH):
    return "".join(LETTERS[rng.integers(0, 4, length)])


@pytest.fixture(scope="module")
def known():
    """Return the tree of twelve sequences, of scikit-bio, and their names."""
    rng = np.random.default_rng(1)
    names = [random_sequence(rng) for _ in range(12)]
    nodes = [TreeNode(name, length=float(rng.uniform(0.01, 0.5))) for name in names]
    while len(nodes) > 2:
        pair = [nodes.pop(int(rng.integers(len(nodes)))) for _ in range(2)]
        nodes.append(TreeNode(children=pair, length=float(rng.uniform(0.01, 0.5))))
    return TreeNode(children=nodes), names


@pytest.fixture(scope="module")
def tree(known):
    return ReferenceTree.from_tree(known[0], LENGTH)


def changed(sequence, *positions):
    """Return a sequence with other bases at some positions."""
    letters = list(sequence)
    for position in positions:
        letters[position] = "ACGT"["ACGT".index(letters[position]) - 1]
    return "".join(letters)


def distances_of(tree, names):
    return tree.cophenet().filter(names).data


def test_placed_sequences_hang_below_the_nearest_known_ones(tree, known):
    original, names = known
    sequences = {
        "same": names[0],
        "longer": names[0] + "ACGT",
        "one": changed(names[0], 3),
        "two": changed(names[5], 0, 39),
        "far root": names[7],
    }
    expected = original.copy()
    for name, near, differences in (
        ("same", 0, 0),
        ("longer", 0, 0),
        ("one", 0, 1),
        ("two", 5, 2),
        ("far root", 7, 0),
    ):
        own = TreeNode(name, length=PER_DIFFERENCE * differences / LENGTH)
        expected.find(names[near]).append(own)
    for order in (1, -1):
        given_names = list(sequences)[::order]
        placed = place_sequences(tree, {name: sequences[name] for name in given_names}).to_tree()
        assert sorted(tip.name for tip in placed.tips()) == sorted(sequences)
        np.testing.assert_allclose(
            distances_of(placed, given_names), distances_of(expected, given_names), atol=1e-6
        )
        # The root is that of the reference, however few sequences are placed.
        heights = [placed.find(name).distance(placed) for name in given_names]
        expected_heights = [expected.find(name).distance(expected) for name in given_names]
        np.testing.assert_allclose(heights, expected_heights, atol=1e-6)
        assert all(len(node.children) != 1 for node in placed.non_tips())


def test_what_is_left_out_leaves_the_distances_of_the_rest(tree, known):
    original, names = known
    is_left_out = np.array([name in names[:5] for name in tree.sequences()])
    rest = tree.without(is_left_out)
    assert rest.sequences() == [name for name in tree.sequences() if name not in names[:5]]
    placed = place_sequences(rest, {name: name for name in names[5:]}).to_tree()
    np.testing.assert_allclose(
        distances_of(placed, names[5:]), distances_of(original, names[5:]), atol=1e-6
    )
    assert (rest.parent_B[1:] < np.arange(1, len(rest.parent_B))).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_nearest_is_that_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    known_US = rng.integers(0, 4, (9, 12)).astype(np.uint8)
    known_US[0, 9:] = UNKNOWN
    others_QS = rng.integers(0, 5, (6, 12)).astype(np.uint8)
    others_QS[1] = known_US[3]
    nearest = KnownSequences(known_US).nearest(others_QS)
    for row, other_S in enumerate(others_QS):
        matches = [((other_S == one_S) & (other_S < UNKNOWN)).sum() for one_S in known_US]
        expected = matches.index(max(matches))
        if (known_US == other_S).all(axis=1).any():
            expected = int((known_US == other_S).all(axis=1).argmax())
        compared = (other_S < UNKNOWN) & (known_US[expected] < UNKNOWN)
        assert nearest.row_Q[row] == expected
        assert nearest.compared_Q[row] == compared.sum()
        assert nearest.differences_Q[row] == (compared & (other_S != known_US[expected])).sum()
    alone = [KnownSequences(known_US).nearest(others_QS[[row]]).row_Q[0] for row in range(6)]
    assert alone == nearest.row_Q.tolist()


def test_a_lost_or_gained_base_is_aligned():
    rng = np.random.default_rng(3)
    names = [random_sequence(rng, 90) for _ in range(50)]
    known = KnownSequences(encode(names, 90))
    others = [
        names[7][:20] + names[7][21:] + "A",
        names[9][:30] + "G" + names[9][30:],
        names[11],
        random_sequence(rng, 90),
    ]
    plain = known.nearest(encode(others, 90))
    nearest = known.aligned(encode(others, 90), plain)
    assert nearest.row_Q[:3].tolist() == [7, 9, 11]
    assert nearest.differences_Q[:3].tolist() == [1, 1, 0]
    assert nearest.is_aligned_Q[:3].tolist() == [True, True, False]
    assert nearest.distance_Q[3] > 0.2
    assert (nearest.distance_Q <= plain.distance_Q).all()
    assert plain.distance_Q[0] > 0.2


def test_unknown_bases_are_no_edits_of_an_alignment():
    rng = np.random.default_rng(3)
    names = [random_sequence(rng, 90) for _ in range(50)]
    known = KnownSequences(encode(names, 90))
    lost = names[7][:20] + names[7][21:] + "A"
    unknown = lost[:40] + "N" * 10 + lost[50:]
    missing = "N" * 10 + lost[10:]
    bases_QS = encode([lost, unknown, missing], 90)
    nearest = known.aligned(bases_QS, known.nearest(bases_QS))
    assert nearest.is_aligned_Q.all()
    assert nearest.row_Q.tolist() == [7, 7, 7]
    assert nearest.differences_Q.tolist() == [1, 1, 1]
    whole = nearest.compared_Q[0]
    assert nearest.compared_Q.tolist() == [whole, whole - 10, whole - 10]


@pytest.mark.parametrize(
    "reading",
    [
        AS_IS,
        Reading(reverse_complement=True),
        *(Reading(shift=bases) for bases in (1, 20, -1, -20)),
    ],
    ids=str,
)
def test_reads_of_another_strand_or_start_are_recognized(reading, caplog):
    rng = np.random.default_rng(4)
    whole = [random_sequence(rng, 150) for _ in range(30)]
    names = [text[20:110] for text in whole]
    star = TreeNode(children=[TreeNode(name, length=1.0) for name in names])
    reference = ReferencePhylogeny(ReferenceTree.from_tree(star, 90))
    if reading.reverse_complement:
        reads = [reverse_complement(text) for text in names]
        assert [reverse_complement(text) for text in reads] == names
    else:
        reads = [text[20 - reading.shift :] for text in whole]
    sequences = {str(number): text for number, text in enumerate(reads)}
    tree = reference.tree_of_known
    if reading != AS_IS:
        texts = list(sequences.values())
        assert recognize_reading(tree.known_sequences, texts, np.ones(30)) == (reading, 1.0)
    frame = reference.place(sequences)
    assert frame["nearest"].tolist() == names
    assert (frame["differences"] == 0).all()
    assert (frame["compared"] == 90 + min(reading.shift, 0)).all()
    assert (str(reading) in caplog.text) == (reading != AS_IS)
    # Reads of another region stay as they are.
    others = {str(number): random_sequence(rng, 90) for number in range(30)}
    assert recognize_reading(tree.known_sequences, list(others.values()), np.ones(30)) is None
    assert not reference.place(others)["is_near"].any()


def test_bases_are_packed_and_unpacked():
    names = ["ACGTT", "G", "TTT"]
    bases_US = encode(names, 6)
    assert decode(bases_US) == names
    assert encode(["acgu"], 4).tolist() == [[0, 1, 2, 3]]
    assert encode(["ANGT"], 3).tolist() == [[0, UNKNOWN, 2]]
    np.testing.assert_array_equal(unpack(pack(bases_US), np.array([5, 1, 3])), bases_US[:, :5])


def test_a_file_is_read_as_it_was_written(tree, tmp_path):
    for name in ("one", "two"):
        tree.write(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    again = ReferenceTree.read(tmp_path / "one")
    for part in ("bases_US", "tip_U", "parent_B", "length_B"):
        np.testing.assert_array_equal(getattr(again, part), getattr(tree, part))
    (tmp_path / "cut").write_bytes((tmp_path / "one").read_bytes()[:-3])
    (tmp_path / "text").write_text("(a,b);")
    for name in ("cut", "text", "absent"):
        with pytest.raises(InputError, match=name):
            ReferenceTree.read(tmp_path / name)


def test_tips_that_cannot_be_told_apart_are_refused():
    for names, said in ((("ACGT", "ACGA"), "same first 3"), (("ACGT", "ANGA"), "not A, C, G or T")):
        star = TreeNode(children=[TreeNode(name, length=1.0) for name in names])
        with pytest.raises(ValueError, match=said):
            ReferenceTree.from_tree(star, 3)


@pytest.fixture
def study(known):
    """Return a table in which some features are known, and their sequences."""
    rng = np.random.default_rng(5)
    names = known[1]
    sequences = {f"f{number}": name for number, name in enumerate(names[:6])}
    sequences |= {f"g{number}": changed(name, number) for number, name in enumerate(names[4:9])}
    counts = csr_array(rng.poisson(2.0, (7, len(sequences))) + (np.arange(len(sequences)) == 0))
    return FeatureTable([f"s{row}" for row in range(7)], list(sequences), counts), sequences


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_exact_on_the_placed_tree(tree, study, metric):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    frame = reference.distances(table, sequences, metric, alpha=0.3)
    placed = parse_newick(str(reference.tree(sequences)))
    parameters = {"alpha": 0.3} if metric == "generalized" else {}
    with ScikitBio().compute(table, placed, metric, parameters) as expected:
        np.testing.assert_allclose(frame.to_numpy(), expected, atol=1e-6)
    assert frame.index.tolist() == table.sample_ids


def test_many_samples_are_compared_by_products(tree, study, monkeypatch):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    expected = reference.distances(table, sequences)
    monkeypatch.setattr(engines, "_is_large", lambda samples: True)
    monkeypatch.setattr(engines, "_fast_engines", None)
    np.testing.assert_allclose(reference.distances(table, sequences), expected, atol=1e-6)


def test_diversity_and_distances_without_a_tree(tree, study):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    with ScikitBio().compute(table, reference.tree(sequences), "faith_pd", {}) as expected:
        np.testing.assert_allclose(reference.faith_pd(table, sequences), expected, atol=1e-6)
    a, b = table.counts[[0]].toarray()[0], table.counts[[1]].toarray()[0]
    found = reference.distances(table, sequences, "bray_curtis").iloc[0, 1]
    assert found == pytest.approx(np.abs(a - b).sum() / (a + b).sum())
    for metric in ("faith_pd", "unknown"):
        with pytest.raises(InputError, match="metric"):
            reference.distances(table, sequences, metric)


def test_only_metrics_that_need_the_tree_place_sequences_and_miss_those_that_are_not_given(
    tree, study
):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    some = {name: text for name, text in sequences.items() if name != "g3"}
    message = r"sequences: got no sequence for feature 'g3' of 11 in the table; .*Hint: add"
    for compute in (reference.distances, reference.faith_pd, reference.features):
        with pytest.raises(InputError, match=message):
            compute(table, some)
    for metric in ("bray_curtis", "robust_aitchison"):
        expected = reference.distances(table, sequences, metric)
        without_sequences = reference.distances(table, metric=metric)
        np.testing.assert_array_equal(without_sequences, expected)
    depth = int(np.sort(table.reads)[1])
    assert len(reference.distances(table, metric="bray_curtis", depth=depth)) == 6


def test_rarefying_leaves_shallow_samples_out(tree, study):
    table, sequences = study
    depth = int(np.sort(table.reads)[1])
    frame = ReferencePhylogeny(tree).distances(table, sequences, depth=depth)
    kept = [
        name for name, reads in zip(table.sample_ids, table.reads, strict=True) if reads >= depth
    ]
    assert frame.index.tolist() == kept


def test_features_of_two_studies_have_the_same_columns(tree, study):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    frame = reference.features(table, sequences)
    placement = place_sequences(tree, sequences)
    for column in frame:
        lies_below = np.zeros(len(sequences), bool)
        for feature, row in enumerate(placement.nearest.row_Q):
            node = tree.tip_U[row]
            while node > 0:
                lies_below[feature] |= node == column
                node = tree.parent_B[node]
        fraction = table.counts.toarray()[:, lies_below].sum(axis=1) / table.reads
        expected = np.log1p(2000 * fraction) * np.sqrt(tree.length_B[column])
        np.testing.assert_allclose(frame[column], expected, rtol=1e-6)
    some = table.select_samples(np.array([2, 4]))
    other = reference.features(some, sequences)
    joined = other.reindex(columns=frame.columns, fill_value=0.0)
    np.testing.assert_allclose(joined.to_numpy(), frame.loc[["s2", "s4"]].to_numpy())


def test_the_reference_that_is_shipped_is_whole():
    folder = REFERENCES["v4"]
    manifest = read_json(folder / MANIFEST)
    assert manifest["sha256"] == digests_in(folder)
    assert (folder / TREE).stat().st_size < 2_000_000
    assert len(manifest["studies"]) == 15
    assert {"blob", "licence", "repository"} < manifest["studies"][0].keys()
    tree = aam.reference("v4").tree_of_known
    assert len(tree.bases_US) == manifest["sequences"] == 34_507
    some = tree.sequences()[::500]
    frame = aam.reference("v4").place({name: name + "ACGT" for name in some})
    assert frame["nearest"].tolist() == some
    assert (frame["branch_length"] == 0).all()
    with pytest.raises(InputError, match="v5"):
        aam.reference("v5")


def test_placing_gives_the_same_bytes_on_every_machine():
    """Compare with bytes that another machine wrote: no machine type has its own tree."""
    rng = np.random.default_rng(3)
    known = aam.reference("v4").tree_of_known.sequences()[::700]
    sequences = {}
    for number, sequence in enumerate(known):
        positions = rng.choice(len(sequence), number % 6, replace=False)
        shift = number % 2
        sequences[f"asv{number}"] = changed(sequence, *positions)[shift:] + "ACGT"
    reference = aam.reference("v4")
    frame = reference.place(sequences)
    text = frame.to_csv(sep="\t") + str(reference.tree(sequences))
    assert hashlib.sha256(text.encode()).hexdigest() == PLACED_SHA256


@pytest.mark.parametrize("where", ["a FASTA file", "a column"])
def test_a_table_is_read_by_its_sequences_whichever_axis_has_them(tree, study, tmp_path, where):
    table, sequences = study
    reference = ReferencePhylogeny(tree)
    frame = pd.DataFrame(table.counts.toarray(), table.sample_ids, table.feature_ids)
    path = tmp_path / "table.tsv"
    fasta = None
    if where == "a column":
        frame = frame.T
        frame.insert(0, "sequence", [sequences[name] for name in frame.index])
    else:
        fasta = tmp_path / "sequences.fasta"
        fasta.write_text("".join(f">{name}\n{text}\n" for name, text in sequences.items()))
    frame.to_csv(path, sep="\t", index_label="")
    for metric in ("unweighted", "bray_curtis"):
        expected = reference.distances(table, sequences, metric)
        pd.testing.assert_frame_equal(reference.distances(path, fasta, metric), expected)
