"""Sketches of sets of branches."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from aam.data.tokens import TokenStore
from aam.model.batch import Masked, SampleBlock
from aam.model.sketch import SketchDistance, SketchHead, own_noise, pooled_sketches
from aam.tasks.pretrain.tree_sketches import tree_sketches
from aam.unifrac.in_batch import BatchDistances

K = 4096


@pytest.fixture
def study(tmp_path, rng):
    """A tree of 40 tips in a row of halves, with sequences of two lengths."""
    letters = rng.integers(1, 5, (40, 30)).astype(np.uint8)
    lengths = np.where(np.arange(40) % 3, 30, 24).astype(np.int32)
    letters[np.arange(30) >= lengths[:, None]] = 0
    names = [f"asv{number}" for number in range(40)]
    nodes = [f"{name}:{rng.uniform(0.01, 0.2):.4f}" for name in names]
    while len(nodes) > 1:
        pairs = zip(nodes[::2], nodes[1::2], strict=False)
        joined = [f"({a},{b}):{rng.uniform(0.05, 0.5):.4f}" for a, b in pairs]
        nodes = joined + nodes[len(joined) * 2 :]
    tree = tmp_path / "tree.nwk"
    tree.write_text(nodes[0] + ";")
    tokens = TokenStore(names, lengths, letters)
    return tokens, BatchDistances.of(["unweighted"], tree, names, 1.0)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def block_of(counts_BF: np.ndarray) -> SampleBlock:
    asv_BA = np.tile(np.arange(counts_BF.shape[1]), (len(counts_BF), 1))
    parts = asv_BA, counts_BF > 0, counts_BF.astype(np.float32)
    return SampleBlock(*(torch.from_numpy(part) for part in parts))


def test_sketches_of_a_tree_tell_unweighted_unifrac(study, rng):
    tokens, exact = study
    sketch_FK, own = tree_sketches(exact.above_FE, exact.length_E, tokens, K, 0)
    assert np.log(0.01) < own < np.log(0.2)
    counts_BF = rng.poisson(0.4, (12, 40)) + np.eye(12, 40, dtype=int)
    block = block_of(counts_BF)
    sketch_BK, _ = pooled_sketches(sketch_FK[block.asv_BA], block)
    head = SketchDistance(0, K)
    found_BB = head(torch.cat([sketch_BK, sketch_BK], dim=1)).numpy()
    true_BB = exact(csr_array(counts_BF))["unweighted"]
    # The deviation of a mean of K Gumbel variables is 1.28 / sqrt(K).
    assert np.abs(found_BB - true_BB).max() < 5 * 1.28 / np.sqrt(K)
    assert np.all(np.diag(found_BB) == 0)


def test_a_sketch_of_the_tree_depends_on_neither_order_nor_portions(study, monkeypatch):
    tokens, exact = study
    whole, _ = tree_sketches(exact.above_FE, exact.length_E, tokens, 100, 0)
    monkeypatch.setattr("aam.tasks.pretrain.tree_sketches.ASVS_AT_ONCE", 7)
    parts, _ = tree_sketches(exact.above_FE, exact.length_E, tokens, 100, 0)
    assert torch.equal(whole, parts)
    order = np.random.default_rng(1).permutation(40)
    names = [tokens.feature_ids[row] for row in order]
    shuffled = TokenStore(names, tokens.lengths[order], tokens.tokens[order])
    moved, _ = tree_sketches(exact.above_FE[order], exact.length_E, shuffled, 100, 0)
    assert torch.equal(whole[order], moved)


def test_own_noise_is_a_gumbel_variable_of_the_sequence_alone():
    letters_US = torch.randint(1, 5, (300, 90), dtype=torch.uint8)
    noise_UK = own_noise(letters_US, 512)
    assert abs(float(noise_UK.mean()) - 0.5772) < 0.02
    assert abs(float(noise_UK.var()) - np.pi**2 / 6) < 0.05
    assert torch.equal(own_noise(letters_US[7:8], 512)[0], noise_UK[7])
    changed_US = letters_US.clone()
    changed_US[:, 40] = changed_US[:, 40] % 4 + 1
    together = torch.stack([own_noise(changed_US, 512).flatten(), noise_UK.flatten()])
    assert abs(float(torch.corrcoef(together)[0, 1])) < 0.02


def test_a_sample_has_the_largest_numbers_of_its_asvs_and_rarer_ones_count_less():
    sketch_AK = torch.randn(6, 50)
    counts = np.array([[100, 1, 0, 0, 0, 0], [1, 100, 0, 0, 0, 0]])
    block = block_of(counts)
    plain_BK, weighted_BK = pooled_sketches(sketch_AK[block.asv_BA], block)
    assert torch.equal(plain_BK[0], sketch_AK[:2].amax(dim=0))
    assert torch.equal(plain_BK[0], plain_BK[1])
    near = (weighted_BK - sketch_AK[:2]).abs().mean(dim=1)
    assert (near < 0.2).all()
    hidden = block.present_BA & (torch.arange(6) == 1)
    block.count_mask_BA = hidden
    masked_BK = pooled_sketches(sketch_AK[block.asv_BA], block)[1]
    assert not torch.equal(masked_BK[1], weighted_BK[1])


def test_a_head_starts_at_the_sketch_it_is_given():
    head = SketchHead(16, 30)
    torch.nn.init.zeros_(head.out.weight)
    mean_K = torch.linspace(0, 3, 30)
    head.start(mean_K, -40.0)
    tokens = torch.randint(1, 5, (5, 20), dtype=torch.uint8)
    assert torch.allclose(head(torch.randn(5, 16), tokens), mean_K.expand(5, -1))


def test_masked_nucleotides_leave_the_variables_of_an_own_branch(new_encoder):
    part = new_encoder(20, sketch=40).asv
    torch.nn.init.zeros_(part.sketch.out.weight)
    part.sketch.start(torch.full((40,), -99.0), 0.0)
    letters_US = torch.randint(1, 5, (4, 20), dtype=torch.uint8)
    asv_M, position_M = torch.tensor([0, 0, 2]), torch.tensor([3, 19, 7])
    masked = Masked(asv_M, position_M, letters_US[asv_M, position_M].long() - 1)
    hidden_US = letters_US.clone()
    hidden_US[asv_M, position_M] = 6
    whole, part_of_it = part(letters_US, None, "math")[0], part(hidden_US, masked, "math")[0]
    assert torch.equal(whole[:, 16:], part_of_it[:, 16:])
    assert not torch.equal(whole[:, 16:], part(hidden_US, None, "math")[0][:, 16:])
