import pytest
import torch

from aam.model.batch import Masked
from aam.model.heads import DistanceHead, NucleotideHead, Thresholds, ValueHead

pytestmark = pytest.mark.usefixtures("one_thread")


def embeddings(rows: int = 12) -> torch.Tensor:
    return torch.randn(rows, 16, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("bounded", "mean"), [(True, 0.7), (False, 3.0)])
def test_distances_follow_the_formula_in_fp32_and_start_at_their_mean(bounded, mean):
    torch.manual_seed(0)
    head, x = DistanceHead(16, bounded=bounded), embeddings(40)
    others = ~torch.eye(40, dtype=torch.bool)
    with torch.no_grad():
        head.calibrate(x, mean)
        assert float(head(x)[others].mean()) == pytest.approx(mean, abs=0.05)
        head.eval()
        distances = head(x)
        euclidean = (
            torch.cdist(head.project_samples(x), head.project_samples(x)) * head.log_scale.exp()
        )
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(head(x), distances)
        near, far = (
            head.pairwise_distances(x, x[3:]),
            head.pairwise_distances(x + 1000, x[3:] + 1000),
        )
    expected = 1 - torch.exp(-euclidean) if bounded else euclidean
    torch.testing.assert_close(distances[others], expected[others], atol=1e-5, rtol=0)
    torch.testing.assert_close(distances, distances.T, atol=1e-5, rtol=0)
    assert distances.diagonal().max() < 2e-3
    torch.testing.assert_close(far, near, atol=2e-2, rtol=0)


def test_a_batch_of_samples_that_are_all_alike_has_a_scale():
    head = DistanceHead(4, bounded=True)
    head.calibrate(torch.randn(6, 4), 0.0)
    assert torch.isfinite(head.log_scale)


def test_equal_samples_give_finite_gradients():
    x = embeddings(1).repeat(3, 1).requires_grad_()
    DistanceHead(16, bounded=True)(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_nucleotide_logits_are_those_of_each_masked_position():
    torch.manual_seed(0)
    head, patches = NucleotideHead(16, 3), torch.randn(4, 5, 16)
    masked = Masked(torch.tensor([0, 0, 3]), torch.tensor([0, 14, 7]), torch.tensor([1, 2, 3]))
    logits = head(patches[masked.asv_M, masked.position_M // 3], masked)
    assert logits.shape == (3, 4)
    everything = head.bases(head.norm(patches)).reshape(4, 15, 4)
    torch.testing.assert_close(logits, everything[[0, 0, 3], [0, 14, 7]])


def test_a_drift_common_to_all_samples_changes_nothing_and_each_is_predicted_alone():
    torch.manual_seed(0)
    head, x = ValueHead(16, 2), embeddings(50)
    torch.testing.assert_close(head(x * 20 + 3), head(x), atol=1e-4, rtol=0)
    assert torch.isfinite(head(torch.ones(10, 16))).all()
    head.eval()
    torch.testing.assert_close(head(x[:1]), head(x)[:1])


@pytest.mark.parametrize("fractions", [[0.2, 0.5, 0.3], [0.9, 0.1], [0.1, 0.2, 0.3, 0.4]])
def test_thresholds_start_at_the_fractions_of_the_classes(fractions):
    above = torch.sigmoid(Thresholds(fractions)(torch.zeros(1, 1)))
    expected = [sum(fractions[k + 1 :]) for k in range(len(fractions) - 1)]
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
