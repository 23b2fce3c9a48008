"""What a table can do: reads or amounts, sequences, lineages, and the names of its features."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.importing.counts import import_counts
from aam.data.lineage_tree import build_lineage_tree
from aam.data.nouns import name_features, split_lineage
from aam.data.rarefaction import rarefy
from aam.data.table import ASV_READS, FeatureTable, TableFacts, read_biom, read_lineages, write_biom
from aam.distances.engines import ScikitBio, Sparse
from aam.util.errors import InputError

GENERA = [
    "k__Bacteria;p__Firmicutes;f__A;g__One",
    "k__Bacteria;p__Firmicutes;f__A;g__Two",
    "k__Bacteria;p__Firmicutes;f__A;__",
    "k__Bacteria;p__Proteobacteria;f__B;g__Three",
    "Unassigned",
]
COUNTS = np.array([[5, 0, 3, 9, 1], [4, 8, 0, 2, 0], [7, 1, 1, 0, 3]])


def write_text(path: Path, features: list[str], values: np.ndarray) -> Path:
    lines = ["\t".join(["#OTU ID", "s1", "s2", "s3"])]
    lines += [
        "\t".join([name, *map(str, row)]) for name, row in zip(features, values.T, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def of_amounts(values: np.ndarray) -> FeatureTable:
    names = [f"f{i}" for i in range(values.shape[1])]
    samples = [f"s{i}" for i in range(values.shape[0])]
    return FeatureTable(
        samples, names, csr_array(values), TableFacts(is_counted=False, has_sequences=False)
    )


def test_ids_that_are_lineages_name_the_features_and_are_kept(tmp_path: Path) -> None:
    found = import_counts(write_text(tmp_path / "t.tsv", GENERA, COUNTS))
    expected = TableFacts(has_sequences=False, has_lineages=True, noun="genus")
    assert found.table.facts == expected
    assert found.sequences == {}
    path = tmp_path / "t.biom"
    write_biom(path, found.table, {}, found.lineages)
    assert read_biom(path).facts == expected
    assert read_lineages(path)[GENERA[2]] == "k__Bacteria; p__Firmicutes; f__A"
    assert "Unassigned" not in read_lineages(path)


def test_a_table_of_reads_of_asvs_keeps_its_bytes(tmp_path: Path) -> None:
    counts = csr_array(np.array([[1, 2], [3, 0]]))
    write_biom(tmp_path / "t.biom", FeatureTable(["a", "b"], ["x", "y"], counts), {})
    assert b"aam-facts" not in (tmp_path / "t.biom").read_bytes()
    assert read_biom(tmp_path / "t.biom").facts == ASV_READS


@pytest.mark.parametrize(
    ("ids", "noun"),
    [
        (["4479944", "1234"], "OTU"),
        (["ASV_1", "ASV_2"], "ASV"),
        (["g__Bacteroides", "g__Prevotella"], "genus"),
        (["G000005825", "G000006175"], "genome"),
        (["GCF_000005845.2", "GCA_000008865.1"], "genome"),
        (["PWY-7219: adenosine", "ARGSYN-PWY: arginine"], "pathway"),
        (["UniRef90_A0A001", "UniRef90_B3C"], "gene family"),
        (["Bacteroides", "Prevotella"], "feature"),
    ],
)
def test_ids_say_what_features_are(ids: list[str], noun: str) -> None:
    assert name_features(ids) == noun


def test_lineages_end_at_the_last_known_rank() -> None:
    assert split_lineage("k__A; p__B; g__; s__") == ["k__A", "p__B"]
    assert split_lineage("k__A|p__|g__C") == ["k__A", "p__", "g__C"]
    assert split_lineage("Unassigned;__;__") == []


def test_each_rank_of_a_lineage_is_a_unit_of_length() -> None:
    lineages = {name: split_lineage(name) for name in GENERA}
    tree = build_lineage_tree(lineages, GENERA)
    one, two, family, three, unassigned = (tree.find(name) for name in GENERA)
    assert {tip.name for tip in tree.tips()} == set(GENERA)
    assert one.distance(two) == 2, "genera of one family"
    # What is known to the family alone is of it, and of no genus of it.
    assert one.distance(family) == 2
    assert one.distance(three) == 6
    assert unassigned.distance(one) == 5


def test_the_lineage_of_a_lone_feature_has_a_root_above_it() -> None:
    tree = build_lineage_tree({"a": ["k__A", "g__B"]}, ["a"])
    assert not tree.is_tip()
    assert [tip.name for tip in tree.tips()] == ["a"]


def test_hashes_without_their_sequences_are_refused(tmp_path: Path) -> None:
    hashes = [f"{i:032x}" for i in range(5)]
    with pytest.raises(InputError, match="hashes of sequences.*sequences"):
        import_counts(write_text(tmp_path / "t.tsv", hashes, COUNTS))


def test_amounts_are_scaled_and_all_samples_stay() -> None:
    table = of_amounts(np.array([[0.5, 1.5, 0.0], [30.0, 0.0, 70.0]]))
    scaled = rarefy(table, 1000, 1, 0)
    assert scaled.sample_ids == table.sample_ids
    np.testing.assert_allclose(scaled.counts.toarray(), [[0.25, 0.75, 0], [0.3, 0, 0.7]])


@pytest.mark.parametrize("metric", ["bray_curtis", "robust_aitchison"])
def test_distances_of_amounts_are_those_of_their_definition(metric: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.random((6, 40)) * (rng.random((6, 40)) > 0.5)
    table = rarefy(of_amounts(values), 1, 0)
    with Sparse().compute(table, None, metric, {}) as rows:
        found = np.asarray(rows[0:6])
    assert (np.diag(found) == 0).all()
    np.testing.assert_array_equal(found, found.T)
    dense = table.counts.toarray()
    if metric == "bray_curtis":
        expected = 0.5 * np.abs(dense[:, None] - dense).sum(axis=2)
        np.testing.assert_allclose(found, expected)


def test_weighted_unifrac_takes_amounts() -> None:
    table = of_amounts(COUNTS.astype(float))
    tree = build_lineage_tree({}, table.feature_ids)
    with ScikitBio().compute(table, tree, "weighted_normalized", {}) as values:
        found = np.asarray(values[:])
    shares = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    # On a tree of one unit to each feature it is Bray-Curtis of the shares.
    np.testing.assert_allclose(found, 0.5 * np.abs(shares[:, None] - shares).sum(axis=2))
