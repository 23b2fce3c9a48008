from dataclasses import replace

import numpy as np
import pytest
import torch

from aam.data.target import QUANTILES
from aam.model.batch import CATEGORIES
from aam.model.predictor import load_predictor
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.tasks.finetune.training import trained
from aam.train.data.dataset import AsvDataset

FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
HOST = ["cat", "dog", "", "hen", "cat", "dog", "cat", "dog", "cat"]


@pytest.fixture
def deeper(new_encoder):
    """Return what makes encoders of three blocks over the ASVs of a sample."""
    return lambda fold, number: new_encoder(20, seed=8, asv_layers=1, sample_layers=3)


@pytest.mark.parametrize(("layers", "chosen"), [(1, {2}), (9, {0, 1, 2})])
def test_a_partial_encoder_trains_the_blocks_at_the_top(new_task, deeper, datasets, layers, chosen):
    models = new_task(encoder="partial", trained_layers=layers, make_encoder=deeper).run().models
    start = deeper(0, 0).state_dict()
    weights = load_predictor(models["fold1"])[0].encoder.state_dict()
    changed = {name for name in start if not torch.equal(start[name], weights[name])}
    expected = {f"sample.blocks.{number}." for number in chosen} | {"sample.pooling."}
    assert {part for part in expected if any(name.startswith(part) for name in changed)} == expected
    assert all(name.startswith(tuple(expected)) for name in changed)
    assert all(isinstance(dataset, AsvDataset) for dataset in datasets)


@pytest.mark.parametrize("dropout", [{}, {"asv_dropout": 0.3, "count_weight": 0.5}])
def test_asv_embeddings_made_before_train_the_same_model(new_task, deeper, dropout, tmp_path):
    task = new_task(
        encoder="partial",
        trained_layers=1,
        make_encoder=deeper,
        dropout=0.0,
        learning_rate=3e-3,
        **dropout,
    )
    frozen, elsewhere = task._frozen(0), replace(task.setup, work=tmp_path / "other")
    assert frozen.asv_UD is not None
    # Not the weights: attention is blind to some, which rounding alone moves.
    points, losses = [], []
    for setup, known in ((task.setup, frozen), (elsewhere, FrozenEmbeddings())):
        model = FoldModel(setup, 0, 0, known)
        predictor, history = trained(model)
        points.append(model.outputs(predictor, np.arange(9)).point_NC)
        losses.append([record["value"] for record in history if "loss" in record["name"]])
    np.testing.assert_allclose(points[0], points[1], rtol=1e-3)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert np.ptp(losses[0]) > 0.1
    assert np.ptp(points[0]) > 1


@pytest.mark.parametrize(
    ("fusion", "encoder"),
    [("concat", "full"), ("attention", "full"), ("attention", "partial"), ("scale", "frozen")],
)
def test_covariates_reach_the_model_and_unknown_is_one(
    new_task, said, datasets, fusion, encoder, tmp_path
):
    """The category `hen` is in fold 0 alone, so that its model has never seen it."""
    common = {
        "target": {"condition": ("host",)},
        "fusion": fusion,
        "encoder": encoder,
        "learning_rate": 0.02,
    }
    task = new_task(categories={"host": HOST}, **common)
    finished = task.run()
    host_LF, samples = np.array(HOST, object)[:, None], task.setup.labelled.samples
    for fold, directory in enumerate(finished.models.values()):
        predictor = load_predictor(directory)[0]
        assert ("hen" in predictor.vocabulary.categories[0]) == (fold != 0)
        at = fold == FOLD
        found = said(predictor, samples[at], host_LF[at]).point_NC
        np.testing.assert_allclose(found, finished.outputs.point_NC[at], rtol=1e-4)
        others = np.array([["dog"]] * 3, object)
        assert (said(predictor, samples[at], others).point_NC != found).any()
    batches = [dataset[step] for dataset in datasets for step in range(len(dataset))]
    numbers = {int(n) for batch in batches for n in batch.values[CATEGORIES].flatten()}
    assert numbers == {0, 1, 2, 3}
    missing = ["" if name == "hen" else name for name in HOST]
    other = new_task(categories={"host": missing}, work=tmp_path / "other", **common).run()
    at = FOLD == 0
    np.testing.assert_array_equal(other.outputs.point_NC[at], finished.outputs.point_NC[at])


def test_each_category_has_a_scale_of_its_own(new_task, said):
    sex = ["m", "f", "f", "m", "f", "m", "f", "m", "f"]
    observed = [str((1000 if name == "m" else 10) + i) for i, name in enumerate(sex)]
    task = new_task(
        observed=observed, categories={"sex": sex}, target={"transform_by": "sex"}, epochs=1
    )
    finished = task.run()
    is_male, point_L = np.array(sex) == "m", finished.outputs.point_NC[:, 0]
    assert (np.abs(point_L[is_male] - 1004) < 20).all()
    assert (np.abs(point_L[~is_male] - 14) < 20).all()
    at = FOLD == 2
    predictor = load_predictor(finished.models["fold2"])[0]
    found = said(predictor, task.setup.labelled.samples[at], by=np.array(sex)[at])
    np.testing.assert_allclose(found.point_NC[:, 0], point_L[at], rtol=1e-4)


def test_several_columns_of_quantiles_are_predicted_at_once(new_task, said):
    task = new_task(
        observed=[[str(i), str(5000 + 100 * i)] for i in range(9)],
        target={"columns": ("age", "weight"), "bounds": (0.0, None)},
        loss="quantile",
    )
    finished = task.run()
    outputs = finished.outputs
    assert outputs.point_NC.shape == (9, 2)
    assert outputs.quantile_NCQ.shape == (9, 2, len(QUANTILES))
    assert (np.diff(outputs.quantile_NCQ) >= 0).all()
    np.testing.assert_array_equal(outputs.point_NC, outputs.quantile_NCQ[..., 2])
    assert outputs.quantile_NCQ.min() >= 0
    assert (outputs.point_NC[:, 1] > 3000).all()
    assert (outputs.point_NC[:, 0] < 100).all()
    at = FOLD == 1
    found = said(load_predictor(finished.models["fold1"])[0], task.setup.labelled.samples[at])
    np.testing.assert_allclose(found.quantile_NCQ, outputs.quantile_NCQ[at], rtol=1e-4, atol=1e-3)


def test_ordered_classes_keep_their_order_and_learn(new_task):
    levels = np.array(["low", "mid", "high"])[np.arange(20) * 3 // 20]
    task = new_task(
        "ordinal",
        levels.tolist(),
        samples=np.arange(20),
        fold=np.arange(20) % 2,
        target={"classes": ("low", "mid", "high")},
        epochs=25,
        learning_rate=5e-3,
        dropout=0.0,
    )
    share_LK = task.run().outputs.point_NC
    np.testing.assert_allclose(share_LK.sum(axis=1), 1)
    assert np.corrcoef(share_LK @ [0, 1, 2], np.arange(20))[0, 1] > 0.5
