"""What every ASV encoder has to keep to, whatever its layers."""

from dataclasses import replace
from itertools import pairwise
from typing import get_args
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.batches import collate
from aam.batches.collate import assemble
from aam.batches.masking import Masker
from aam.config.sections.model import ModelSettings
from aam.data.sequences import MASK, PAD
from aam.data.stores import TokenStore
from aam.model.asv_encoders import ENCODERS
from aam.model.encoder import set_dropout

properties = settings(deadline=None, max_examples=8)
ROWS = st.lists(st.integers(0, 19), min_size=1, max_size=20, unique=True)
KINDS = {
    "transformer": {"encoder": "transformer"},
    "bilstm": {"encoder": "bilstm"},
    "bdh": {"encoder": "bdh", "asv_layers": 3},
    # One token per nucleotide and few neurons per head: the attention goes through the state.
    "bdh state": {"encoder": "bdh", "heads": 8, "patch_bp": 1},
    "attention without reads": {"encoder": "transformer", "reads_in_attention": False},
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(scope="module")
def all_rows(kind, mixed_lengths, new_encoder):
    encoder = new_encoder(20, **kind)
    embeddings = embed(encoder, mixed_lengths.store, mixed_lengths.tokens, range(20))
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    assert distances[np.triu_indices(20, 1)].min() > 1e-3
    return encoder, embeddings


def embed(encoder, store, tokens, rows, per_block=16) -> np.ndarray:
    with torch.no_grad(), patch.object(collate, "SAMPLES_PER_BLOCK", per_block):
        return encoder(assemble(store, tokens, np.array(rows))).sample_BD.numpy()


def everything(encoder, batch) -> list[torch.Tensor]:
    """Return embeddings, states of masked patches and the gradients of all weights."""
    torch.manual_seed(3)
    encoder.zero_grad()
    encoded = encoder(batch)
    sample_BD, hidden = encoded.sample_BD, torch.cat(encoded.nucleotides)
    ((sample_BD * torch.arange(16)).square().sum() + (hidden**3).sum()).backward()
    return [sample_BD.detach(), hidden.detach(), *(p.grad.clone() for p in encoder.parameters())]


@given(rows=ROWS, per_block=st.integers(1, 20))
@properties
def test_other_samples_order_and_padding_do_not_matter(mixed_lengths, all_rows, rows, per_block):
    encoder, expected = all_rows
    embeddings = embed(encoder, mixed_lengths.store, mixed_lengths.tokens, rows, per_block)
    np.testing.assert_allclose(embeddings, expected[rows], atol=1e-5)


@given(seed=st.integers(0, 10**6), more=st.integers(0, 30))
@properties
def test_order_of_asvs_and_width_of_their_store_do_not_matter(mixed_lengths, all_rows, seed, more):
    encoder, expected = all_rows
    tokens, store = mixed_lengths.tokens, mixed_lengths.store
    rng = np.random.default_rng(seed)
    new_row = rng.permutation(len(tokens.lengths))
    old_row = np.argsort(new_row)
    padded = np.pad(tokens.tokens, ((0, 0), (0, more)), constant_values=PAD)
    names = [tokens.feature_ids[i] for i in old_row]
    moved = TokenStore(names, tokens.lengths[old_row], padded[old_row])
    bounds = pairwise(store.offsets)
    within = np.concatenate([start + rng.permutation(end - start) for start, end in bounds])
    asvs = new_row[store.asvs[within]].astype(np.int32)
    shuffled = replace(store, asvs=asvs, counts=store.counts[within])
    np.testing.assert_allclose(embed(encoder, shuffled, moved, range(20)), expected, atol=1e-5)


def test_every_nucleotide_reaches_every_patch_and_their_direction_matters(kind, tiny, new_encoder):
    encoder, tokens = new_encoder(20, **kind), torch.from_numpy(tiny.tokens.tokens[:1])
    batch = assemble(tiny.store, tiny.tokens, np.arange(1), masker=Masker(0.9, 0))
    masked = batch.asvs[0].masked
    only_first = replace(masked, asv_M=torch.zeros_like(masked.asv_M))
    with torch.no_grad():
        pooled, states = encoder.asv(tokens, only_first, "auto")
        assert (encoder.asv(tokens.flip(1), None, "auto")[0] - pooled).abs().max() > 1e-2
        for position in (0, 9, 19):
            changed = tokens.clone()
            changed[0, position] = changed[0, position] % 4 + 1
            other, moved = encoder.asv(changed, only_first, "auto")
            assert (other - pooled).abs().max() > 1e-6
            assert (moved - states).abs().amax(-1).min() > 1e-7


@pytest.mark.parametrize("masking", ["random", "block", "patch"])
def test_what_is_masked_does_not_leak(kind, masking, tiny, new_encoder):
    """Other bases under the mask change no output, and the states asked for are theirs."""
    encoder, masker = new_encoder(20, **kind), Masker(0.3, 0, masking, 3)
    rows, tokens = np.arange(6), tiny.tokens
    before = assemble(tiny.store, tokens, rows, masker=masker)
    everywhere, _ = masker.mask(tokens.tokens, np.arange(len(tokens.lengths)), 0)
    hidden = everywhere == MASK
    other = replace(tokens, tokens=np.where(hidden, tokens.tokens % 4 + 1, tokens.tokens))
    after = assemble(tiny.store, other, rows, masker=masker)
    bases = [batch.asvs[0].masked.base_M for batch in (before, after)]
    assert (bases[0] != bases[1]).all()
    with torch.no_grad():
        first, second = encoder(before), encoder(after)
    assert torch.equal(first.sample_BD, second.sample_BD)
    assert torch.equal(first.nucleotides[0], second.nucleotides[0])


@pytest.mark.parametrize("what", ["layers", "micro-batches"])
def test_computing_activations_again_changes_nothing(kind, mixed_lengths, new_encoder, what):
    batch = assemble(mixed_lengths.store, mixed_lengths.tokens, np.arange(6), masker=Masker(0.2, 0))
    results = []
    for recompute in ("nothing", what):
        encoder = new_encoder(20, **kind)
        set_dropout(encoder, 0.3)
        encoder.recompute(recompute)
        results.append(everything(encoder, batch))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_every_weight_has_a_gradient_and_bf16_is_near_fp32(kind, mixed_lengths, new_encoder):
    batch = assemble(mixed_lengths.store, mixed_lengths.tokens, np.arange(9), masker=Masker(0.2, 0))
    encoder = new_encoder(20, **kind)
    exact = everything(encoder, batch)
    assert all(gradient.any() for gradient in exact[2:])
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("this CPU has no instructions for bf16")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = everything(encoder, batch)
    assert (low[0] - exact[0]).norm() < 0.03 * exact[0].norm()
    # The parts of the gradient of a single number may cancel.
    least = 1e-5 * torch.cat([wanted.flatten() for wanted in exact[2:]]).norm()
    for rounded, wanted in zip(low[2:], exact[2:], strict=True):
        assert rounded.dtype == torch.float32
        assert (rounded - wanted).norm() < 0.25 * wanted.norm().clamp(min=least)


def test_weights_follow_from_the_seed_alone_and_leave_the_global_generator_alone(kind, new_encoder):
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = new_encoder(20, **kind).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    same, other = (new_encoder(20, seed=seed, **kind).state_dict() for seed in (0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_bdh_has_the_weights_of_one_layer_however_often_it_is_gone_through(new_encoder):
    once, often = (new_encoder(20, encoder="bdh", asv_layers=layers).asv for layers in (1, 5))
    often.load_state_dict(once.state_dict())
    tokens = torch.randint(1, 5, (4, 20), dtype=torch.uint8)
    with torch.no_grad():
        assert not torch.allclose(*(asv(tokens, None, "auto")[0] for asv in (once, often)))


def test_the_configuration_offers_every_encoder():
    assert set(get_args(ModelSettings.model_fields["encoder"].annotation)) == ENCODERS.keys()
