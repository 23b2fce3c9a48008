"""Sketches of sets of branches."""

import numpy as np
import torch

from aam.model.batch import SampleBlock
from aam.model.sketch import branch_noise, own_noise, pooled_sketches


def block_of(counts_BF: np.ndarray) -> SampleBlock:
    asv_BA = np.tile(np.arange(counts_BF.shape[1]), (len(counts_BF), 1))
    parts = asv_BA, counts_BF > 0, counts_BF.astype(np.float32)
    return SampleBlock(*(torch.from_numpy(part) for part in parts))


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
    padded_US = torch.nn.functional.pad(letters_US, (0, 10))
    assert torch.equal(own_noise(padded_US, 512), noise_UK)


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
