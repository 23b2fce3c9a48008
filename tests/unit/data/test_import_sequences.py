import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from aam.data.importing.sequences import feature_sequences, is_sequence, load_sequences
from aam.data.sequences import read_fasta, write_fasta
from aam.data.table import FeatureTable
from aam.util.errors import InputError

ASV = "ACGTTGCA" * 5


def table(features, sample="s1"):
    counts = csr_array(np.ones((1, len(features)), dtype=np.int64))
    return FeatureTable([sample], list(features), counts)


def fasta(tmp_path, text):
    path = tmp_path / "rep-seqs.fasta"
    path.write_bytes(text.encode())
    return path


@given(st.text("ACGTRYSWKMBDHVN", min_size=1), st.integers(1, 60))
def test_the_width_of_lines_does_not_matter(tmp_path_factory, sequence, width):
    lines = [sequence[i : i + width] for i in range(0, len(sequence), width)]
    path = fasta(tmp_path_factory.mktemp("fasta"), ">x\n" + "\n".join(lines) + "\n")
    assert load_sequences(path) == {"x": sequence}
    sequences = {"b c": sequence, "0001": "NNRY", "a>b": "A"}
    write_fasta(path, sequences)
    assert list(read_fasta(path).items()) == list(sequences.items())


def test_dialects_and_all_problems_of_a_fasta_at_once(tmp_path):
    path = fasta(tmp_path, "\ufeff>0001 some words\r\nacgu\r\nNRy\r\n\r\n>x\tmore\r\nT\r\n")
    assert load_sequences(path) == {"0001": "ACGTNRY", "x": "T"}
    with pytest.raises(InputError, match="'hello' before the first header.*'>'"):
        load_sequences(fasta(tmp_path, "hello\nworld\n"))
    with pytest.raises(InputError) as caught:
        load_sequences(fasta(tmp_path, ">a\nACXZ\n>b\n>a\nAC-GT\n>\nAC\n"))
    unnamed, doubled, empty, strange = str(caught.value).splitlines()
    assert "1 headers without an ID" in unnamed
    assert "more than once: 1 (a)" in doubled
    assert "without a sequence: 1 (b)" in empty
    assert "'-'" in strange
    assert "before the alignment" in strange
    assert all(line.startswith(str(path)) for line in str(caught.value).splitlines())


def test_sequences_are_those_of_the_file_then_the_ids_themselves(tmp_path):
    features = [ASV, ASV.lower().replace("t", "u") + "nn"]
    found = feature_sequences(table(features), tmp_path / "t.biom", None)
    assert list(found.items()) == [(features[0], ASV), (features[1], ASV + "NN")]
    path = fasta(tmp_path, f">other\nAA\n>b\nCC\n>a\nGG\n>{ASV}\nTT\n")
    found = feature_sequences(table(["a", "b", ASV, ASV + "A"]), tmp_path / "t.biom", path)
    assert list(found.items()) == [("a", "GG"), ("b", "CC"), (ASV, "TT"), (ASV + "A", ASV + "A")]


@pytest.mark.parametrize(
    ("ids", "likeness"),
    [
        ([hashlib.md5(b"x").hexdigest(), hashlib.md5(b"y").hexdigest()], "look like hashes"),
        (["4479944", "1234"], "look like OTU numbers"),
        (["Zotu1", "OTU_2"], "look like OTU numbers"),
        (["Bacteroides", "ACGT" * 4, "ACGT" * 5 + "_1"], "are no sequences"),
    ],
)
def test_ids_without_a_sequence_are_named_with_what_they_look_like(tmp_path, ids, likeness):
    assert not any(map(is_sequence, ids))
    path = tmp_path / "t.biom"
    message = rf"{path}: got .*{likeness}.*: {len(ids)} \({ids[0]}.*datasets.<name>.sequences"
    with pytest.raises(InputError, match=message):
        feature_sequences(table([*ids, ASV]), path, None)
    with pytest.raises(InputError, match="transposed"):
        feature_sequences(table(ids, sample=ASV), path, None)
    given = fasta(tmp_path, ">a\nACGT\n")
    with pytest.raises(InputError, match=rf"{given}: got no sequence for .*{ids[0]}.* features"):
        feature_sequences(table(["a", *ids]), path, given)
