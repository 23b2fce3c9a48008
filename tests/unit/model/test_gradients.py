"""Gradients of whole models, compared with differences of their losses in double precision."""

import numpy as np
import pytest
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call

from aam.data.target import Target
from aam.model.batch import TARGET, Batch, map_tensors
from aam.model.encoder import set_dropout
from aam.model.predictor import Predictor

SHAPE = {"width": 8, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 5}
COLUMNS = {"regression": ("age",), "classification": ("site",)}


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep double precision where models call `Tensor.float`, to leave a lower one."""
    monkeypatch.setattr(Tensor, "float", Tensor.double)


def has_right_gradients(model: nn.Module, batch: Batch) -> bool:
    """Compare the gradient of all weights along random directions with differences."""
    set_dropout(model, 0.0)
    model.double()
    batch = map_tensors(batch, lambda part: part.double() if part.is_floating_point() else part)
    names, weights = zip(*model.named_parameters(), strict=True)

    def loss(*values: Tensor) -> Tensor:
        return functional_call(model, dict(zip(names, values, strict=True)), (batch,))["loss"]

    return gradcheck(loss, weights, fast_mode=True, raise_exception=False)


@pytest.mark.parametrize("encoder", ["transformer", "bilstm", "bdh"])
def test_in_pretraining(double, encoder, new_encoder, new_model, new_feed):
    values = {"faith_pd": np.random.default_rng(1).uniform(size=(20, 1)).astype(np.float32)}
    model = new_model(
        new_encoder(20, encoder=encoder, **SHAPE),
        weights={"unweighted": 1.0, "faith_pd": 0.1},
        variances={"unweighted": 0.1, "faith_pd": 0.1},
    )
    assert has_right_gradients(model, new_feed(values=values)[0])


@pytest.mark.parametrize("kind", COLUMNS)
def test_with_the_head_of_a_task(double, kind, new_encoder, new_feed):
    observed = [[str(row)] if kind == "regression" else ["ab"[row % 2]] for row in range(20)]
    target = Target.fit(kind, COLUMNS[kind], observed, np.ones(20, bool))
    values = {TARGET: target.encode(observed)}
    model = Predictor(new_encoder(20, **SHAPE), target, seed=0)
    assert has_right_gradients(model, new_feed(distances={}, values=values)[0])
