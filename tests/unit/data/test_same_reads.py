import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data import same_reads
from aam.data.same_reads import (
    Fingerprints,
    KnownSamples,
    fingerprint_samples,
    longest_bp,
    sequences_as_read,
)
from aam.data.table import FeatureTable, TableFacts


def counted(counts: list[list[int]] | np.ndarray, sequences: list[str]) -> Fingerprints:
    return Fingerprints.from_counts(csr_array(np.array(counts, np.int64)), sequences)


@pytest.fixture(scope="module")
def sequences() -> list[str]:
    rng = np.random.default_rng(3)
    return ["".join(rng.choice(list("ACGT"), 20)) for _ in range(60)]


@pytest.fixture(scope="module")
def reads() -> np.ndarray:
    """Return 50 samples around one composition, of 1000 reads each: they are much alike."""
    rng = np.random.default_rng(4)
    mean = rng.dirichlet(np.full(60, 0.3))
    return np.stack([rng.multinomial(1000, rng.dirichlet(300 * mean + 1e-3)) for _ in range(50)])


def test_the_same_reads_are_recognized_in_any_order_and_similar_ones_are_not(reads, sequences):
    known = counted(reads[:25], sequences)
    rows = np.random.default_rng(5).permutation(50)
    columns = np.random.default_rng(6).permutation(60)
    other = counted(reads[rows][:, columns], [sequences[column] for column in columns])
    assert other.are_among(known).tolist() == (rows < 25).tolist()


def test_sequences_that_are_cut_to_the_same_are_one_asv(reads, sequences):
    """Their reads are added, as the models read them."""
    known = counted(reads, [*sequences[:59], sequences[0]])
    joined = reads[:, :59].copy()
    joined[:, 0] += reads[:, 59]
    assert counted(joined, sequences[:59]).are_among(known).all()


@pytest.mark.parametrize(("left_out", "same"), [(0, True), (30, True), (31, False)])
def test_some_asvs_may_be_left_out(sequences, left_out, same):
    """Chloroplasts, for instance, or those of one read."""
    given = np.arange(60) + 1
    filtered = given.copy()
    filtered[:left_out] = 0
    known = counted([given], sequences)
    assert counted([filtered], sequences).are_among(known).tolist() == [same]


@pytest.mark.parametrize(("changed", "same"), [(20, True), (21, False)])
def test_half_of_the_asvs_with_their_counts_must_be_common(sequences, changed, same):
    """Of 60 ASVs 20 with another count leave 40 of 80 parts in common."""
    given = np.arange(60) + 1
    other = given.copy()
    other[:changed] += 100
    known = counted([given], sequences)
    assert counted([other], sequences).are_among(known).tolist() == [same]


def test_few_asvs_agree_by_chance_and_tell_nothing(sequences):
    four = [[996, 2, 1, 1, 0], [991, 5, 2, 1, 1]]
    assert counted(four, sequences[:5]).are_among(counted(four, sequences[:5])).tolist() == [
        False,
        True,
    ]


def test_blocks_give_the_same(reads, sequences, monkeypatch):
    known = counted(reads[::2], sequences)
    monkeypatch.setattr(same_reads, "ROWS_PER_BLOCK", 7)
    found = counted(reads, sequences).are_among(known)
    assert found.tolist() == [True, False] * 25


def test_nothing_is_among_nothing(reads, sequences):
    known = counted(reads, sequences)
    empty = counted(np.zeros((0, 60), np.int64), sequences)
    assert empty.are_among(known).shape == (0,)
    assert not known.are_among(empty).any()


NAMES = [f"asv{number}" for number in range(60)]


def table_of(reads, ids=None):
    samples = [f"s{row}" for row in range(len(reads))] if ids is None else ids
    return FeatureTable(samples, NAMES, csr_array(reads))


def test_samples_are_marked_by_their_id_or_by_their_reads(reads, sequences):
    by_name = dict(zip(NAMES, sequences, strict=True))
    fingerprints = fingerprint_samples(table_of(reads), ["s7", "s3"], by_name)
    known = KnownSamples(frozenset(["s7", "s3"]), fingerprints)
    other = table_of(reads[[3, 7, 8, 9]], ["copy", "s7", "s3", "new"])
    marks = known.marks(other, sequences)
    assert marks.index.tolist() == ["copy", "s7", "s3", "new"]
    assert marks["in_training"].tolist() == ["reads", "id", "id", ""]
    assert marks["same_reads"].tolist() == [True, True, False, False]


def test_fingerprints_come_back_from_their_file(tmp_path, reads, sequences):
    known = counted(reads[:3], sequences)
    known.write(tmp_path / "parts.safetensors")
    back = Fingerprints.open(tmp_path / "parts.safetensors")
    np.testing.assert_array_equal(back.part_P, known.part_P)
    np.testing.assert_array_equal(back.offsets, known.offsets)
    assert np.diff(back.offsets).tolist() == (reads[:3] > 0).sum(axis=1).tolist()


def test_sequences_are_compared_as_long_as_the_longest_known_one(reads, sequences):
    known = {
        name: text[: 20 - number % 3]
        for number, (name, text) in enumerate(zip(NAMES, sequences, strict=True))
    }
    assert longest_bp(known) == 20
    table = table_of(reads)
    study = fingerprint_samples(table, table.sample_ids, known)
    read = sequences_as_read(table, {**known, "other": "A" * 40}, 20)
    assert Fingerprints.from_counts(table.counts, read).are_among(study).all()


def test_sequences_are_cut_and_other_letters_are_read_as_unknown(reads):
    long = dict.fromkeys(NAMES, "RYACGTACGTACGTACGTACGTAA")
    assert sequences_as_read(table_of(reads), long, 6) == ["NNACGT"] * 60


@pytest.fixture(scope="module")
def shares(reads) -> np.ndarray:
    return reads / reads.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def known_taxa(reads) -> Fingerprints:
    """Return samples of amounts of taxa, which have no sequences."""
    facts = TableFacts(is_counted=False, has_sequences=False, noun="taxon")
    samples = [f"s{row}" for row in range(len(reads))]
    table = FeatureTable(samples, NAMES, csr_array(reads.astype(float)), facts)
    return fingerprint_samples(table, samples, {})


def test_amounts_are_recognized_by_their_shares_to_a_millionth(known_taxa, shares):
    assert Fingerprints.from_counts(csr_array(shares), NAMES).are_among(known_taxa).all()
    near = csr_array(shares + 1.2e-6 * (shares > 0))
    assert not Fingerprints.from_counts(near, NAMES).are_among(known_taxa).any()


def test_features_without_sequences_are_recognized_by_their_ids(known_taxa, shares):
    renamed = Fingerprints.from_counts(csr_array(shares), [f"other {name}" for name in NAMES])
    assert not renamed.are_among(known_taxa).any()
