import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.data.augmentation import Augmentation, build_store
from aam.data.sequences import tokenize
from aam.data.stores import TokenStore
from aam.data.table import FeatureTable
from aam.model.known_asvs import KnownAsvs
from aam.reference_tree.nearest import encode

LETTERS = np.array(list("ACGT"))


@pytest.fixture
def sequences() -> list[str]:
    return ["".join(LETTERS[row]) for row in np.random.default_rng(3).integers(0, 4, (50, 100))]


def store(sequences: list[str]) -> TokenStore:
    letters, lengths = tokenize(sequences, 120)
    return TokenStore([str(number) for number in range(len(sequences))], lengths, letters)


@pytest.fixture
def asvs(sequences) -> KnownAsvs:
    return KnownAsvs.from_tokens(store(sequences), np.arange(50))


def test_a_file_gives_back_what_was_written(asvs, sequences, tmp_path):
    asvs = KnownAsvs.from_tokens(store([*sequences, "ACGTA"]), np.arange(51))
    KnownAsvs.from_tokens(store(["ACNGT"]), np.arange(1)).write(tmp_path / "n")
    assert KnownAsvs.open(tmp_path / "n").bases_US.tolist() == [[0, 1, 0, 2, 3]]
    asvs.write(tmp_path / "known")
    assert np.array_equal(KnownAsvs.open(tmp_path / "known").bases_US, asvs.bases_US)


def test_an_asv_is_near_up_to_three_mismatches_in_a_hundred(asvs, sequences):
    def change_bases(number: int) -> str:
        first = sequences[0]
        return "".join("ACGT"["ACGT".index(x) ^ 1] for x in first[:number]) + first[number:]

    others = [change_bases(3), change_bases(4), sequences[1][:60], sequences[2] + "ACGT", "A" * 100]
    nearest = asvs.nearest(encode(others, 120))
    assert nearest.is_near_Q.tolist() == [True, False, True, True, False]
    assert nearest.row_Q[nearest.is_near_Q].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda s: s, "100% of the reads"),
        (lambda s: s[::-1].translate(str.maketrans("ACGT", "TGCA")), "reverse complemented"),
        (lambda s: "CATG" + s[:-4], "100% if their first 4 bases are cut off"),
        (lambda s: s[2:], "100% if they began 2 bases earlier"),
        (lambda s: "".join(sorted(s)), "another region"),
    ],
)
def test_a_study_is_told_how_it_should_be_read(asvs, sequences, read, said):
    tokens = store([read(s) for s in sequences])
    once = FeatureTable(["a"], tokens.feature_ids, csr_array(np.ones((1, 50), np.int64)))
    nothing = Augmentation(asv_dropout=0, cutmix=0, seed=0)
    samples = build_store(tokens.feature_ids, [once], nothing)
    fraction, sentence = asvs.familiarity(samples, tokens)
    assert said in sentence
    assert fraction == float(sentence.startswith("100%"))


def reverse_complement(sequence: str) -> str:
    return sequence[::-1].translate(str.maketrans("ACGT", "TGCA"))


@pytest.mark.parametrize("length", [100, 120, 150, 250])
@pytest.mark.parametrize(
    ("read", "said"),
    [
        (reverse_complement, "reverse complemented"),
        (lambda s: "CATG" + s, "100% if their first 4 bases are cut off"),
    ],
)
def test_reads_longer_than_the_encoder_reads_are_turned_before_they_are_cut(
    asvs, sequences, length, read, said
):
    """The encoder reads 100 bases, the token cache 120; the reads go on behind these."""
    rng = np.random.default_rng(8)
    behind = ["".join(LETTERS[row]) for row in rng.integers(0, 4, (50, length - 100))]
    whole = [read(one + more) for one, more in zip(sequences, behind, strict=True)]
    tokens = store(whole).cut(100)
    once = FeatureTable(["a"], tokens.feature_ids, csr_array(np.ones((1, 50), np.int64)))
    samples = build_store(tokens.feature_ids, [once], Augmentation(asv_dropout=0, cutmix=0, seed=0))
    by_name = dict(zip(tokens.feature_ids, whole, strict=True))
    fraction, sentence = asvs.familiarity(samples, tokens, by_name)
    assert fraction == 0
    assert said in sentence


def test_asvs_of_two_studies_are_joined_each_once(asvs, sequences):
    both = asvs.join(KnownAsvs.from_tokens(store([sequences[0], "ACGT"]), np.arange(2)))
    assert len(both.bases_US) == 51
    assert both.nearest(encode(["ACGT", sequences[3]], 120)).is_near_Q.all()
