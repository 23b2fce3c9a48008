import numpy as np
import pytest
import torch

from aam.model.batch import Masked
from aam.model.build import initialize
from aam.model.heads import DistanceHead, NucleotideHead, Thresholds, ValueHead, make_head

pytestmark = pytest.mark.usefixtures("one_thread")
HEADS = ["linear", "mlp", "residual"]


def embeddings(rows: int = 12, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bounded", [True, False])
def test_distances_follow_the_formula(bounded):
    torch.manual_seed(0)
    head, x = DistanceHead(16, bounded=bounded).eval(), embeddings()
    with torch.no_grad():
        head.log_scale.fill_(-1.0)
        found = head(x)
        euclidean = torch.cdist(head.projected(x), head.projected(x)) * np.exp(-1)
    expected = 1 - torch.exp(-euclidean) if bounded else euclidean
    apart = ~torch.eye(12, dtype=torch.bool)
    torch.testing.assert_close(found[apart], expected[apart], atol=1e-5, rtol=0)
    torch.testing.assert_close(found, found.T, atol=1e-5, rtol=0)
    assert found.diagonal().max() < 1e-3


def test_distances_of_embeddings_far_from_the_origin():
    head, x = DistanceHead(16, bounded=False), embeddings()
    with torch.no_grad():
        near, far = head.between(x, x[3:]), head.between(x + 1000, x[3:] + 1000)
    torch.testing.assert_close(far, near, atol=2e-2, rtol=0)


@pytest.mark.parametrize(("bounded", "mean"), [(True, 0.7), (False, 3.0)])
def test_calibration_starts_at_the_mean_distance(bounded, mean):
    torch.manual_seed(0)
    head, x = DistanceHead(16, bounded=bounded), embeddings(40)
    head.calibrate(x, mean)
    found = head(x).detach()[np.triu_indices(40, 1)].mean()
    assert float(found) == pytest.approx(mean, abs=0.05)


def test_equal_samples_give_finite_gradients():
    head = DistanceHead(16, bounded=True)
    x = embeddings(1).repeat(3, 1).requires_grad_()
    head(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_distances_are_computed_in_fp32_under_bf16():
    head, x = DistanceHead(16, bounded=True), embeddings()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = head(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, head(x))


def test_nucleotide_logits_are_those_of_each_masked_position():
    torch.manual_seed(0)
    head, patches = NucleotideHead(16, 3), torch.randn(4, 5, 16)
    masked = Masked(torch.tensor([0, 0, 3]), torch.tensor([0, 14, 7]), torch.tensor([1, 2, 3]))
    logits = head(patches[masked.asv_M, masked.position_M // 3], masked)
    assert logits.shape == (3, 4)
    everything = head.bases(head.norm(patches)).reshape(4, 15, 4)
    torch.testing.assert_close(logits, everything[[0, 0, 3], [0, 14, 7]])


@pytest.mark.parametrize("name", HEADS)
def test_a_drift_common_to_all_samples_changes_no_value_in_training(name):
    torch.manual_seed(0)
    head, x = make_head(name, 16, 2), embeddings(50)
    torch.testing.assert_close(head(x * 20 + 3), head(x), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", HEADS)
def test_a_trained_value_head_treats_each_sample_alone(name):
    head, x = make_head(name, 16, 2), embeddings(50)
    for _ in range(5):
        head(x)
    head.eval()
    torch.testing.assert_close(head(x[:1]), head(x)[:1])


def test_a_constant_embedding_does_not_break_the_standardization():
    head = ValueHead(16, 1)
    assert torch.isfinite(head(torch.ones(10, 16))).all()
    assert torch.isfinite(head.eval()(torch.ones(1, 16))).all()


def test_the_residual_head_is_the_sum_of_two_layers_and_of_one():
    torch.manual_seed(0)
    head, x = make_head("residual", 16, 2).eval(), embeddings()
    two, one = make_head("mlp", 16, 2).eval(), make_head("linear", 16, 2).eval()
    two.load_state_dict({k: v for k, v in head.state_dict().items() if k in two.state_dict()})
    torch.nn.init.zeros_(one.out.bias)
    one.out.weight = head.linear.weight
    torch.testing.assert_close(head(x), two(x) + one(x))


def test_the_weights_of_two_layers_are_those_of_all_heads_made_before():
    """Their draws come in the order hidden, out: a pretrained model's numbers hang on it."""
    torch.manual_seed(0)
    head = ValueHead(16, 2)
    initialize(head)
    torch.manual_seed(0)
    torch.nn.Linear(16, 16), torch.nn.Linear(16, 2)
    expected = [torch.empty(16, 16).normal_(std=0.05), torch.empty(2, 16).normal_(std=0.05)]
    assert torch.equal(head.hidden.weight, expected[0])
    assert torch.equal(head.out.weight, expected[1])


@pytest.mark.parametrize("shares", [[0.2, 0.5, 0.3], [0.9, 0.1], [0.1, 0.2, 0.3, 0.4]])
def test_thresholds_start_at_the_shares_of_the_classes(shares):
    above = torch.sigmoid(Thresholds(shares)(torch.zeros(1, 1)))
    expected = [sum(shares[k + 1 :]) for k in range(len(shares) - 1)]
    torch.testing.assert_close(above, torch.tensor([expected]))


def test_thresholds_stay_in_order_whatever_is_learned():
    thresholds = Thresholds([0.5, 0.0, 0.0, 0.5, 0.0])
    assert torch.isfinite(thresholds(torch.zeros(1, 1))).all()
    with torch.no_grad():
        thresholds.gaps.copy_(torch.tensor([-50.0, -3.0, 20.0]))
    logits = thresholds(torch.linspace(-9, 9, 7)[:, None])
    assert logits.shape == (7, 4)
    assert (logits.diff(dim=1) <= 0).all()
    assert (logits.diff(dim=0) > 0).all()
