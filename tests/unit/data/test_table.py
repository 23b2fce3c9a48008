"""Tables of features: what is selected, merged and aligned keeps the reads of every sample."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.table import (
    FeatureTable,
    TableFacts,
    align_features,
    read_biom,
    read_lineages,
    reads_of_samples,
    write_biom,
)

COUNTS = np.array([[1, 0, 3, 0], [0, 2, 0, 0], [4, 5, 6, 0]])
TABLE = FeatureTable(["s1", "s2", "s3"], list("abcd"), csr_array(COUNTS))


def contents_of(table: FeatureTable) -> tuple[list[str], list[str], list[list[int]]]:
    """Return the samples, the features and the reads of a table."""
    return table.sample_ids, table.feature_ids, table.counts.toarray().tolist()


def test_selecting_samples_leaves_out_features_that_have_no_reads_in_them():
    assert contents_of(TABLE.select_samples(np.array([2, 1]))) == (
        ["s3", "s2"],
        ["a", "b", "c"],
        [[4, 5, 6], [0, 2, 0]],
    )
    assert contents_of(TABLE.select_samples(np.array([1]))) == (["s2"], ["b"], [[2]])
    assert TABLE.reads.tolist() == [4, 2, 15]


def test_leaving_out_features_leaves_out_those_without_reads_too():
    left = TABLE.without_features(["a"])
    assert contents_of(left) == (["s1", "s2", "s3"], ["b", "c"], [[0, 3], [2, 0], [5, 6]])


def test_reads_of_merged_features_are_added_up():
    merged = TABLE.merge_features({"a": "c", "b": "b", "c": "c", "d": "b"})
    assert contents_of(merged) == (["s1", "s2", "s3"], ["b", "c"], [[0, 4], [2, 0], [5, 10]])
    assert merged.counts.has_canonical_format


def test_facts_decide_the_type_of_the_values():
    amounts = TABLE.with_facts(is_counted=False, noun="genus")
    assert (amounts.counts.dtype, amounts.facts.noun) == (np.float64, "genus")
    assert amounts.with_facts(is_counted=True).counts.dtype == np.int64
    assert reads_of_samples(amounts) is None
    assert reads_of_samples(TABLE).to_dict() == {"s1": 4, "s2": 2, "s3": 15}


def test_tables_are_aligned_to_all_features_and_the_wanted_samples():
    other = FeatureTable(["s3", "s1"], ["e", "a"], csr_array(np.array([[7, 8], [9, 0]])))
    first, second = align_features([TABLE, other], ["s1", "s3"])
    assert contents_of(first) == (["s1", "s3"], list("abcde"), [[1, 0, 3, 0, 0], [4, 5, 6, 0, 0]])
    assert contents_of(second) == (["s1", "s3"], list("abcde"), [[0, 0, 0, 0, 9], [8, 0, 0, 0, 7]])
    with pytest.raises(AssertionError, match="a sample is missing"):
        align_features([other], ["s2"])


@pytest.mark.parametrize(
    ("samples", "counts", "facts"),
    [
        (["s1"], csr_array(COUNTS), TableFacts()),
        (["s1", "s2", "s3"], csr_array(COUNTS.astype(float)), TableFacts()),
        (["s1", "s2", "s3"], csr_array(COUNTS), TableFacts(is_counted=False)),
    ],
)
def test_a_table_whose_parts_do_not_fit_is_refused(samples, counts, facts):
    with pytest.raises(AssertionError):
        FeatureTable(samples, list("abcd"), counts, facts)


def test_ranks_that_are_not_known_stay_where_others_follow(tmp_path):
    lineages = {"a": ["Bacteria", "", "Clostridia"], "b": ["Bacteria", "Firmicutes"]}
    write_biom(tmp_path / "t.biom", TABLE, {}, lineages)
    found = read_lineages(tmp_path / "t.biom")
    assert found == {"a": "Bacteria; ; Clostridia", "b": "Bacteria; Firmicutes"}


def test_a_file_comes_back_without_zeros_that_it_stores(tmp_path):
    counts = csr_array(COUNTS + 1)
    counts.data -= 1
    table = FeatureTable(["s1", "s2", "s3"], list("abcd"), counts)
    write_biom(tmp_path / "t.biom", table, {"code": "1"})
    back = read_biom(tmp_path / "t.biom")
    assert contents_of(back) == contents_of(TABLE)
    assert back.counts.nnz == 6
    assert back.counts.dtype == np.int64
