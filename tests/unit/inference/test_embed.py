import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches.collate import assemble, bucket
from aam.data.target import Target
from aam.inference import embed
from aam.inference.embed import asvs_of, embed_asvs, embed_samples, sample_batches
from aam.model.asv_encoders import ENCODERS
from aam.model.predictor import Predictor


def rounded_up(number: int) -> int:
    return bucket(number, embed.BITS)


ROWS = np.array([6, 1, 19, 6, 11, 0, 8])
CPU = torch.device("cpu")
LOADS = """
import sys
from pathlib import Path
from aam.inference.embed import load_encoder
load_encoder(Path(sys.argv[1]))
assert "torch._dynamo" not in sys.modules, "PyTorch's compiler takes as long to import as PyTorch"
"""


@pytest.mark.parametrize(
    ("tokens_per_batch", "rows_per_block", "with_asvs"),
    [(8192, 4096, False), (40, 4096, True), (9, 3, False)],
)
def test_embeddings_in_batches_are_those_of_one_forward_pass(
    mixed_lengths, new_encoder, devices, monkeypatch, tokens_per_batch, rows_per_block, with_asvs
):
    """Without dropout, whatever the mode of the encoder, which stays as it was."""
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", tokens_per_batch)
    monkeypatch.setattr(embed, "ROWS_PER_BLOCK", rows_per_block)
    encoder, store, tokens = new_encoder(20), mixed_lengths.store, mixed_lengths.tokens
    with torch.no_grad():
        expected = encoder(assemble(store, tokens, ROWS)).sample_BD
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.5
    asvs = np.arange(len(tokens.lengths))
    asv_UD = embed_asvs(encoder, tokens, asvs, devices) if with_asvs else None
    found = embed_samples(encoder, store, tokens, ROWS, devices, asv_UD)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert encoder.training


def test_every_asv_of_the_rows_is_encoded_once(mixed_lengths, new_encoder, devices, monkeypatch):
    encoder, store, tokens = new_encoder(20), mixed_lengths.store, mixed_lengths.tokens
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", 30)
    monkeypatch.setattr(embed, "ROWS_PER_BLOCK", 2)
    encoded, encode = [], encoder.asv.forward

    def spy(tokens_US, *options):
        encoded.extend(row.numpy().tobytes() for row in tokens_US)
        return encode(tokens_US, *options)

    monkeypatch.setattr(encoder.asv, "forward", spy)
    rows = np.array([1, 0, 1])
    embed_samples(encoder, store, tokens, rows, devices)
    held = {int(a) for row in rows for a in store.asvs[slice(*store.offsets[row : row + 2])]}
    expected = {tokens.tokens[asv, : tokens.lengths[asv]].tobytes() for asv in held}
    assert sorted(encoded) == sorted(expected)
    assert asvs_of(store, rows, len(tokens.lengths)).tolist() == sorted(held)
    assert len(held) < len(tokens.lengths)


@given(limit=st.integers(1, 2000), scores=st.integers(1, 50), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_batches_hold_every_row_once_richest_first_and_fit(tiny, limit, scores, seed):
    """A batch is padded to its richest; only a batch of one sample may be too large."""
    store = tiny.store
    rows = np.random.default_rng(seed).integers(0, 20, 25)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(embed, "TOKENS_ON_CPU", limit)
        patched.setattr(embed, "SCORES_PER_TOKEN", scores)
        batches = [members for members, _ in sample_batches(store, rows, np.arange(30), CPU)]
    order = np.concatenate(batches)
    assert sorted(order) == list(range(25))
    richness = np.diff(store.offsets)[rows]
    assert (np.diff(richness[order]) <= 0).all()
    for members in batches:
        width = rounded_up(int(richness[members].max()))
        if len(members) > 1:
            assert len(members) * width <= limit
            assert len(members) * width**2 <= limit * scores
    for members in batches[:-1]:
        width, more = rounded_up(int(richness[members].max())), 1.5 * len(members) + 1
        assert more * width > limit or more * width**2 > limit * scores


def test_few_shapes_reach_the_model(mixed_lengths, new_encoder, devices, monkeypatch):
    """A CPU keeps kernels per shape: they have to be of rounded sizes, whatever the rows."""
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", 500)
    encoder, sizes = new_encoder(20), set()
    encoder.asv.register_forward_pre_hook(lambda _, given: sizes.add(len(given[0])))
    encoder.sample.register_forward_pre_hook(
        lambda _, given: sizes.update(given[1].present_BA.shape)
    )
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(20)[: 3 + seed // 2]
        embed_samples(encoder, mixed_lengths.store, mixed_lengths.tokens, rows, devices)
    assert len(sizes) > 3
    assert sizes == {rounded_up(size) for size in sizes}


def test_no_rows_give_no_embeddings_and_some_can_be_trained_on(tiny, new_encoder, devices):
    nothing, encoder = np.empty(0, np.int64), new_encoder(20)
    assert embed_samples(encoder, tiny.store, tiny.tokens, nothing, devices).shape == (0, 16)
    weight = torch.ones(16, requires_grad=True)
    found = embed_samples(encoder, tiny.store, tiny.tokens, ROWS, devices)
    (found @ weight).square().sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_fresh_process_loads_an_encoder_without_the_compiler(kind, new_encoder, tmp_path):
    target = Target.fit("regression", ("age",), [["1"], ["2"]], np.ones(2, bool))
    folder = tmp_path / "model"
    Predictor(new_encoder(20, encoder=kind), target, seed=0).save(folder, {})
    loaded = subprocess.run(
        [sys.executable, "-c", LOADS, str(folder)], capture_output=True, text=True, check=False
    )
    assert loaded.returncode == 0, loaded.stderr
