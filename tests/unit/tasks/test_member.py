from dataclasses import replace

import numpy as np
import pytest
import torch

from aam.data.target import QUANTILES
from aam.model.batch import CATEGORIES
from aam.model.predictor import load_predictor
from aam.tasks.finetune.fold_model import FoldModel, Known
from aam.train.data.dataset import AsvDataset

ABOUT = {}
FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
HOST = ["cat", "dog", "", "hen", "cat", "dog", "cat", "dog", "cat"]


def deeper(new_encoder):
    """Return what makes encoders of three blocks over the ASVs of a sample."""
    return lambda fold, number: new_encoder(20, seed=8, asv_layers=1, sample_layers=3)


@pytest.mark.parametrize(("layers", "trained"), [(1, {2}), (2, {1, 2}), (9, {0, 1, 2})])
def test_a_partial_encoder_trains_the_blocks_at_the_top(
    new_task, new_encoder, feeds, layers, trained
):
    make = deeper(new_encoder)
    setup = new_task(encoder="partial", trained_layers=layers, make_encoder=make)
    models = setup.run(ABOUT).models
    start = make(0, 0).state_dict()
    weights = load_predictor(models["fold1"])[0].encoder.state_dict()
    changed = {name for name in start if not torch.equal(start[name], weights[name])}
    expected = {f"sample.blocks.{number}." for number in trained} | {"sample.pooling."}
    assert {part for part in expected if any(name.startswith(part) for name in changed)} == expected
    assert all(name.startswith(tuple(expected)) for name in changed)
    assert all(isinstance(dataset, AsvDataset) for dataset in feeds)


@pytest.mark.parametrize("thinned", [{}, {"asv_dropout": 0.3, "count_weight": 0.5}])
def test_asv_embeddings_made_before_train_the_same_model(new_task, new_encoder, thinned, tmp_path):
    setup = new_task(
        encoder="partial",
        trained_layers=1,
        make_encoder=deeper(new_encoder),
        dropout=0.0,
        learning_rate=3e-3,
        **thinned,
    )
    known = setup._known(0)
    assert known.asv_UD is not None
    models = [FoldModel(setup.study, 0, 0, "fold0", kept) for kept in (known, Known())]
    folder = tmp_path / "fly"
    models[1] = replace(models[1], study=replace(setup.study, work=folder))
    # Not the weights: attention is blind to some, which rounding alone moves.
    points, losses = [], []
    for model in models:
        predictor, history = model.trained(model.study.work / "finished" / "fold0", ABOUT)
        points.append(model.outputs(predictor, np.arange(9)).point_NC)
        losses.append([record["value"] for record in history if "loss" in record["name"]])
    np.testing.assert_allclose(points[0], points[1], rtol=1e-3)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert np.ptp(losses[0]) > 0.1
    assert np.ptp(points[0]) > 1


@pytest.mark.parametrize(
    ("fusion", "encoder"),
    [
        *((name, "full") for name in ("concat", "add", "gated", "attention", "scale")),
        ("attention", "frozen"),
        ("attention", "partial"),
        ("scale", "frozen"),
    ],
)
def test_a_model_is_told_the_categories_and_unknown_is_one(
    new_task, said, feeds, fusion, encoder, tmp_path
):
    """The category `hen` is in fold 0 alone, so that its model has never seen it."""
    common = {
        "target": {"condition": ("host",)},
        "fusion": fusion,
        "encoder": encoder,
        "learning_rate": 0.02,
    }
    setup = new_task(categories={"host": HOST}, **common)
    finished = setup.run(ABOUT)
    told, samples = np.array(HOST, object)[:, None], setup.study.labelled.samples
    for fold, directory in enumerate(finished.models.values()):
        predictor = load_predictor(directory)[0]
        assert ("hen" in predictor.vocabulary.categories[0]) == (fold != 0)
        at = fold == FOLD
        found = said(predictor, samples[at], told[at]).point_NC
        np.testing.assert_allclose(found, finished.outputs.point_NC[at], rtol=1e-4)
        others = np.array([["dog"]] * 3, object)
        assert (said(predictor, samples[at], others).point_NC != found).any()
    batches = [dataset[step] for dataset in feeds for step in range(len(dataset))]
    numbers = {int(n) for batch in batches for n in batch.values[CATEGORIES].flatten()}
    assert numbers == {0, 1, 2, 3}
    missing = ["" if name == "hen" else name for name in HOST]
    work = tmp_path / "other"
    other = new_task(categories={"host": missing}, work=work, **common).run(ABOUT)
    at = FOLD == 0
    np.testing.assert_array_equal(other.outputs.point_NC[at], finished.outputs.point_NC[at])


def test_each_category_has_a_scale_of_its_own(new_task, said):
    sex = ["m", "f", "f", "m", "f", "m", "f", "m", "f"]
    observed = [str((1000 if name == "m" else 10) + i) for i, name in enumerate(sex)]
    setup = new_task(
        observed=observed, categories={"sex": sex}, target={"transform_by": "sex"}, epochs=1
    )
    finished = setup.run(ABOUT)
    is_male, point_L = np.array(sex) == "m", finished.outputs.point_NC[:, 0]
    assert (np.abs(point_L[is_male] - 1004) < 20).all()
    assert (np.abs(point_L[~is_male] - 14) < 20).all()
    at = FOLD == 2
    predictor = load_predictor(finished.models["fold2"])[0]
    found = said(predictor, setup.study.labelled.samples[at], by=np.array(sex)[at])
    np.testing.assert_allclose(found.point_NC[:, 0], point_L[at], rtol=1e-4)


@pytest.mark.parametrize("encoder", ["full", "frozen"])
def test_several_columns_of_quantiles_are_predicted_at_once(new_task, said, encoder):
    observed = [[str(i), str(5000 + 100 * i)] for i in range(9)]
    setup = new_task(
        observed=observed,
        target={"columns": ("age", "weight"), "bounds": (0.0, None)},
        loss="quantile",
        encoder=encoder,
    )
    finished = setup.run(ABOUT)
    outputs = finished.outputs
    assert outputs.point_NC.shape == (9, 2)
    assert outputs.quantile_NCQ.shape == (9, 2, len(QUANTILES))
    assert (np.diff(outputs.quantile_NCQ) >= 0).all()
    np.testing.assert_array_equal(outputs.point_NC, outputs.quantile_NCQ[..., 2])
    assert outputs.quantile_NCQ.min() >= 0
    assert (outputs.point_NC[:, 1] > 3000).all()
    assert (outputs.point_NC[:, 0] < 100).all()
    at = FOLD == 1
    found = said(load_predictor(finished.models["fold1"])[0], setup.study.labelled.samples[at])
    np.testing.assert_allclose(found.quantile_NCQ, outputs.quantile_NCQ[at], rtol=1e-4, atol=1e-3)


def test_ordered_classes_keep_their_order_and_learn(new_task):
    levels = np.array(["low", "mid", "high"])[np.arange(20) * 3 // 20]
    setup = new_task(
        "ordinal",
        levels.tolist(),
        samples=np.arange(20),
        fold=np.arange(20) % 2,
        target={"classes": ("low", "mid", "high")},
        epochs=25,
        learning_rate=5e-3,
        dropout=0.0,
    )
    share_LK = setup.run(ABOUT).outputs.point_NC
    np.testing.assert_allclose(share_LK.sum(axis=1), 1)
    assert np.corrcoef(share_LK @ [0, 1, 2], np.arange(20))[0, 1] > 0.5
