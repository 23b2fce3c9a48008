import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.sequences import tokenize
from aam.data.stores import TokenStore
from aam.distributed import devices as devices_module
from aam.distributed.devices import Devices
from aam.inference import asv_cache
from aam.inference.asv_cache import (
    AsvEmbeddings,
    embed_asvs_cached,
    encoder_digest,
    module_digest,
    sequence_keys,
)
from aam.inference.embed import embed_asvs

SEQUENCE = st.text(alphabet="ACGTN", min_size=1, max_size=12)


def store_of(sequences: list[str], width: int = 20) -> TokenStore:
    letters_US, length_U = tokenize(sequences, width)
    return TokenStore([f"other{i}" for i in range(len(sequences))], length_U, letters_US)


@pytest.fixture(scope="module")
def cache(mixed_lengths, new_encoder, devices, tmp_path_factory):
    """Return a file with the embeddings of all ASVs by the encoder of seed 0."""
    encoder, path = new_encoder(20), tmp_path_factory.mktemp("cache") / "asvs.safetensors"
    asv_UD = embed_asvs_cached(encoder, mixed_lengths.tokens, devices, None)
    digest = encoder_digest(encoder, "fp32")
    AsvEmbeddings.write(path, mixed_lengths.tokens, asv_UD, digest, {"aam.version": "0"})
    return path


@pytest.fixture
def computed(monkeypatch) -> list[int]:
    seen = []

    def spy(encoder, tokens, asvs_U, devices):
        seen.extend(asvs_U.tolist())
        return embed_asvs(encoder, tokens, asvs_U, devices)

    monkeypatch.setattr(asv_cache, "embed_asvs", spy)
    return seen


@given(known=st.lists(SEQUENCE, min_size=1, unique=True), asked=st.lists(SEQUENCE, min_size=1))
@settings(deadline=None, max_examples=40)
def test_a_lookup_is_that_of_a_dictionary_of_sequences(tmp_path_factory, known, asked):
    path = tmp_path_factory.mktemp("cache") / "asvs.safetensors"
    AsvEmbeddings.write(path, store_of(known), torch.zeros(len(known), 2), "digest")
    place = {sequence: row for row, sequence in enumerate(known)}
    found = AsvEmbeddings.open(path).find(sequence_keys(store_of(asked, width=31)))
    assert found.tolist() == [place.get(sequence, -1) for sequence in asked]


def test_an_open_file_is_mapped_and_not_read(cache):
    asv_UD = AsvEmbeddings.open(cache).asv_UD
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    bounds = [([int(end, 16) for end in line[0].split("-")], line[-1]) for line in maps]
    files = [name for (low, high), name in bounds if low <= asv_UD.data_ptr() < high]
    assert files == [str(cache)]


def test_only_what_a_cache_lacks_is_computed(
    mixed_lengths, new_encoder, devices, cache, computed, caplog
):
    """The IDs, the order and the width of the tokens of the other study are its own."""
    known = list(mixed_lengths.sequences.values())
    other = store_of(["ACGTACGTAC", known[4], known[0], "GGGGG", known[29]], width=26)
    with caplog.at_level(logging.INFO):
        found = embed_asvs_cached(new_encoder(20), other, devices, cache)
    assert computed == [0, 3]
    assert "3 of 5 ASV embeddings read, 2 to compute" in caplog.text
    expected = embed_asvs(new_encoder(20), other, np.arange(5), devices)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    full = embed_asvs_cached(new_encoder(20), mixed_lengths.tokens, devices, cache)
    assert computed == [0, 3]
    assert torch.equal(full, AsvEmbeddings.open(cache).asv_UD)


@pytest.mark.parametrize(("seed", "precision"), [(1, "fp32"), (0, "bf16")])
def test_a_cache_of_another_encoder_or_arithmetic_is_not_used_and_said_once(
    mixed_lengths, new_encoder, cache, computed, caplog, monkeypatch, seed, precision
):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    encoder, devices = new_encoder(20, seed=seed), Devices(precision, 1)
    found = embed_asvs_cached(encoder, mixed_lengths.tokens, devices, cache)
    assert computed == list(range(30))
    assert [r.levelname for r in caplog.records if "another encoder" in r.message] == ["WARNING"]
    assert torch.equal(found, embed_asvs(encoder, mixed_lengths.tokens, np.arange(30), devices))


def test_the_digest_is_that_of_weights_shape_and_arithmetic(new_encoder):
    same, changed, above = (new_encoder(20).eval() for _ in range(3))
    with torch.no_grad():
        changed.asv.stem.bias[3] = torch.nextafter(changed.asv.stem.bias[3], torch.tensor(1.0))
        above.sample.pooling.score.weight += 1
    # Heads have no weights of their own: only the architecture tells two from four.
    others = [new_encoder(20), new_encoder(20, 1), changed, new_encoder(20, heads=4)]
    digests = [encoder_digest(encoder, "bf16") for encoder in others]
    assert len({encoder_digest(same, "fp32"), *digests}) == 5
    assert encoder_digest(same, "bf16") == digests[0]
    assert encoder_digest(above, "bf16") == digests[0], "the sample encoder does not count"
    assert module_digest(above) != module_digest(same)
