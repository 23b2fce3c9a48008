import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data import same_reads
from aam.data.same_reads import Fingerprints


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
