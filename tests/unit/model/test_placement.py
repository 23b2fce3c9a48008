"""Sketches of branches, and of ASVs, known and new, against distances on the tree."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from aam.data.tokens import TokenStore
from aam.model.batch import Masked, SampleBlock
from aam.model.known_asvs import KnownAsvs
from aam.model.placement import PER_MISMATCH, Placement
from aam.model.sketch import SketchDistance, branch_noise, own_noise, pooled_sketches
from aam.unifrac.in_batch import BatchDistances

K = 4096
ERROR = 5 * 1.28 / np.sqrt(K)
"""Five deviations of a mean of K Gumbel variables."""


@pytest.fixture
def rng():
    return np.random.default_rng(5)


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
def placement(study) -> Placement:
    return learned(*study, np.arange(40))


def learned(tokens, exact, asvs_U, numbers=K) -> Placement:
    placement = Placement(numbers).eval()
    above_UE = csr_array(exact.above_FE[asvs_U])
    placement.learn(KnownAsvs.of(tokens, asvs_U), above_UE, exact.length_E)
    return placement


def block_of(counts_BU: np.ndarray) -> SampleBlock:
    asv_BA = np.tile(np.arange(counts_BU.shape[1]), (len(counts_BU), 1))
    parts = asv_BA, counts_BU > 0, counts_BU.astype(np.float32)
    return SampleBlock(*(torch.from_numpy(part) for part in parts))


def unifrac(sketch_UK: torch.Tensor, counts_BU: np.ndarray) -> np.ndarray:
    """Return distances [B, B] by the sketches of ASVs."""
    block = block_of(counts_BU)
    sketch_BK, _ = pooled_sketches(sketch_UK[block.asv_BA], block)
    return SketchDistance(0, K)(sketch_BK).numpy()


def test_sketches_of_known_asvs_tell_unweighted_unifrac(study, placement, rng):
    tokens, exact = study
    counts_BF = rng.poisson(0.4, (12, 40)) + np.eye(12, 40, dtype=int)
    found_BB = unifrac(placement(torch.from_numpy(tokens.tokens)), counts_BF)
    assert np.abs(found_BB - exact(csr_array(counts_BF))["unweighted"]).max() < ERROR
    assert np.all(np.diag(found_BB) == 0)


def test_a_new_asv_has_the_branches_of_the_nearest_known_one_and_its_own(study, placement):
    tokens, exact = study
    new_US = tokens.tokens[[0, 7]]
    new_US[0, :3], new_US[1, 10] = new_US[0, :3] % 4 + 1, new_US[1, 10] % 4 + 1
    letters = torch.from_numpy(np.concatenate([tokens.tokens[[0, 7]], new_US]))
    found_BB = unifrac(placement(letters), np.eye(4, dtype=int))
    height_U = exact.above_FE[[0, 7]] @ exact.length_E
    own_U = PER_MISMATCH * np.array([3, 1]) / tokens.lengths[[0, 7]]
    for row, (own, height) in enumerate(zip(own_U, height_U, strict=True)):
        assert abs(found_BB[row, row + 2] - own / (own + height)) < ERROR


def test_sketches_depend_neither_on_the_order_of_asvs_nor_on_portions(study, rng, monkeypatch):
    tokens, exact = study
    letters = torch.from_numpy(tokens.tokens)
    whole = learned(tokens, exact, np.arange(40), 200)
    expected = whole(letters)
    assert torch.equal(learned(tokens, exact, rng.permutation(40), 200)(letters), expected)
    order = torch.from_numpy(rng.permutation(40))
    assert torch.equal(whole(letters[order]), expected[order])
    monkeypatch.setattr("aam.model.placement.ASVS_AT_ONCE", 7)
    assert torch.equal(whole(letters), expected)
    whole.train()
    for rows in (slice(0, 20), slice(10, 40), slice(0, 40)):
        assert torch.equal(whole(letters[rows]), expected[rows].half().float())


def test_known_asvs_travel_with_the_weights(study, placement):
    tokens, _ = study
    letters = torch.from_numpy(tokens.tokens)
    copy = Placement(K).eval()
    copy.load_state_dict(placement.state_dict())
    assert torch.equal(copy(letters), placement(letters))
    small = {
        name: x.bfloat16() if x.is_floating_point() else x
        for name, x in placement.state_dict().items()
    }
    copy.load_state_dict(small)
    assert (copy(letters) - placement(letters)).abs().max() < 0.01


def test_what_lies_above_one_known_asv_alone_is_its_own(study):
    tokens, exact = study
    few = learned(tokens, exact, np.array([3, 4, 30]))
    found_BB = unifrac(few(torch.from_numpy(tokens.tokens[[3, 4, 30]])), np.eye(3, dtype=int))
    counts_BF = np.eye(40, dtype=int)[[3, 4, 30]]
    assert np.abs(found_BB - exact(csr_array(counts_BF))["unweighted"]).max() < ERROR
    assert len(few.length_E) < len(exact.length_E) / 10


def test_what_two_sequences_do_not_both_have_is_no_mismatch(study, placement):
    tokens, _ = study
    whole = tokens.tokens[tokens.lengths == 30][:2]
    same = [whole, whole.copy(), np.pad(whole, ((0, 0), (0, 9)), constant_values=2)]
    same[1][:, [4, 20]] = 5
    expected, unknown, longer = (placement(torch.from_numpy(one)) for one in same)
    assert torch.equal(expected, unknown)
    assert torch.equal(expected, longer)
    assert torch.equal(expected, placement(torch.from_numpy(whole[:, :20])))
    assert (placement(torch.full((1, 30), 5, dtype=torch.uint8)) < 2 * np.log(1e-6)).all()


def test_known_asvs_may_have_no_branch_in_common(study):
    tokens, _ = study
    star = Placement(K).eval()
    star.learn(KnownAsvs.of(tokens, np.arange(3)), csr_array(np.eye(3)), np.ones(3))
    found_BB = unifrac(star(torch.from_numpy(tokens.tokens[:3])), np.eye(3, dtype=int))
    assert np.abs(found_BB + np.eye(3) - 1).max() < ERROR


def test_masked_nucleotides_leave_the_sketch_as_it_is(study, new_encoder):
    tokens, exact = study
    part = new_encoder(30, sketch=40).asv
    part.sketch.learn(KnownAsvs.of(tokens, np.arange(40)), exact.above_FE, exact.length_E)
    letters_US = torch.from_numpy(tokens.tokens[tokens.lengths == 30][:4])
    asv_M, position_M = torch.tensor([0, 0, 2]), torch.tensor([3, 19, 7])
    masked = Masked(asv_M, position_M, letters_US[asv_M, position_M].long() - 1)
    hidden_US = letters_US.clone()
    hidden_US[asv_M, position_M] = 6
    whole, part_of_it = part(letters_US, None, "math")[0], part(hidden_US, masked, "math")[0]
    assert torch.equal(whole[:, 16:], part_of_it[:, 16:])
    other = Masked(asv_M, position_M, (masked.base_M + 1) % 4)
    assert not torch.equal(whole[:, 16:], part(hidden_US, other, "math")[0][:, 16:])


def test_own_noise_is_a_gumbel_variable_of_the_sequence_alone():
    letters_US = torch.randint(1, 5, (300, 90), dtype=torch.uint8)
    noise_UK = own_noise(letters_US, 512)
    assert abs(float(noise_UK.mean()) - 0.5772) < 0.02
    assert abs(float(noise_UK.var()) - np.pi**2 / 6) < 0.05
    assert torch.equal(own_noise(letters_US[7:8], 512)[0], noise_UK[7])
    changed_US = letters_US.clone()
    changed_US[:, 40] = changed_US[:, 40] % 4 + 1
    for other_UK in (own_noise(changed_US, 512), branch_noise(torch.arange(300).int(), 512)):
        together = torch.stack([other_UK.flatten(), noise_UK.flatten()])
        assert abs(float(torch.corrcoef(together)[0, 1])) < 0.02
    assert torch.equal(own_noise(torch.nn.functional.pad(letters_US, (0, 10)), 512), noise_UK)


def test_a_sample_has_the_largest_numbers_of_its_asvs_and_rarer_ones_count_less():
    sketch_AK = torch.randn(6, 50)
    block = block_of(np.array([[100, 1, 0, 0, 0, 0], [1, 100, 0, 0, 0, 0]]))
    plain_BK, weighted_BK = pooled_sketches(sketch_AK[block.asv_BA], block)
    assert torch.equal(plain_BK[0], sketch_AK[:2].amax(dim=0))
    assert torch.equal(plain_BK[0], plain_BK[1])
    assert ((weighted_BK - sketch_AK[:2]).abs().mean(dim=1) < 0.2).all()
    block.count_mask_BA = block.present_BA & (torch.arange(6) == 1)
    masked_BK = pooled_sketches(sketch_AK[block.asv_BA], block)[1]
    assert not torch.equal(masked_BK[1], weighted_BK[1])
