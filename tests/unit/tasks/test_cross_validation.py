from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from aam.batches.dataset import AsvDataset, BatchDataset, EmbeddingDataset
from aam.data.folds import TEST
from aam.inference.asv_cache import module_digest
from aam.inference.embed import embed_samples
from aam.model.batch import CATEGORIES
from aam.model.predictor import load_predictor
from aam.tasks.finetune import cross_validation, recipes
from aam.tasks.finetune.fold_model import FoldModel, FrozenEmbeddings
from aam.util.atomic import write_json
from aam.util.run_options import RunOptions

FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
WITH_TEST = np.array([0, 1, 2, 0, 1, 2, TEST, TEST, TEST])
LEVELS = ("low", "mid", "high")
HOST = ["cat", "dog", "", "hen", "cat", "dog", "cat", "dog", "cat"]


def learned(history: list[dict]) -> list[dict]:
    """Return the records that do not depend on the machine."""
    return [record for record in history if record["split"] != "system"]


def predictors_of(finished) -> list:
    return [load_predictor(directory)[0] for directory in finished.models.values()]


@pytest.fixture
def deeper(new_encoder):
    return lambda fold, number: new_encoder(20, seed=8, asv_layers=1, sample_layers=3)


@pytest.mark.parametrize(("recipe", "fold"), [("full", FOLD), ("frozen", WITH_TEST)])
def test_no_model_is_trained_on_a_row_made_of_its_held_out_samples(new_task, recipe, fold):
    task = new_task(recipe=recipe, epochs=20, fold=fold)
    models = [model for _, model in task._fold_models(task.models())]
    assert [model.fold for model in models] == [0, 1, 2]
    for model in models:
        dataset = model.dataset(model.new_predictor())
        rows = np.unique(np.concatenate([dataset.rows(step)[0] for step in range(len(dataset))]))
        offsets, parents = dataset.store.parent_offsets, dataset.store.parents
        drawn = {parent for row in rows for parent in parents[offsets[row] : offsets[row + 1]]}
        assert drawn == set(task.setup.labelled.samples[(fold != model.fold) & (fold != TEST)])
        assert isinstance(dataset, EmbeddingDataset) == (recipe == "frozen")


@pytest.mark.parametrize(
    ("kind", "recipe", "fold", "part"),
    [
        ("regression", "full", FOLD, 1),
        ("classification", "partial", FOLD, 1),
        ("ordinal", "frozen", FOLD, 1),
        ("regression", "frozen", WITH_TEST, TEST),
        ("regression", "kernel", FOLD, 1),
        ("classification", "kernel", FOLD, 1),
        ("regression", "auto", FOLD, 1),
        ("regression", "auto", WITH_TEST, TEST),
        ("classification", "auto", WITH_TEST, TEST),
    ],
)
def test_the_labels_of_a_fold_do_not_change_its_predictions(
    new_task, kind, recipe, fold, part, tmp_path, monkeypatch
):
    """Those of the test set change nothing at all; weights of a fold rest on nested predictions."""
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    common = {"recipe": recipe, "fold": fold}
    common["target"] = {"classes": LEVELS} if kind == "ordinal" else {}
    before = new_task(kind, **common)
    labels = before.setup.labelled.observed_LC[:, 0].tolist()
    other = {"gut": "skin", "skin": "gut", "low": "high", "mid": "low", "high": "mid"}
    for i in np.flatnonzero(fold == part):
        labels[i] = "-500" if kind == "regression" else other[labels[i]]
    after = new_task(kind, labels, work=tmp_path / "other", **common)
    first = before.run().mixed
    second = after.run().mixed
    pairs = [(first.by_recipe[name], second.by_recipe[name]) for name in first.by_recipe]
    pairs.append((first.outputs, second.outputs))
    same = [(one.point_NC == other.point_NC).all(axis=1) for one, other in pairs]
    is_same = np.all(same, axis=0)
    assert is_same.tolist() == (np.ones(9, bool) if part == TEST else fold == part).tolist()


def test_several_models_of_a_fold_and_all_of_them_for_the_test_set_are_averaged(
    new_task, ask, augmented, devices
):
    task = new_task("classification", fold=WITH_TEST, networks=2)
    finished = task.run()
    assert list(finished.models) == ["fold0", "fold0-1", "fold1", "fold1-1", "fold2", "fold2-1"]
    steps = {(r["fold"], r["model"], r["step"]) for r in finished.history}
    assert steps == set(product(range(3), range(2), (1, 2)))
    config = load_predictor(finished.models["fold1-1"])[1]
    assert (config["remark"], config["fold"]) == ("from the test", 1)
    predictors, samples = predictors_of(finished), task.setup.labelled.samples
    assert list(finished.digests.values()) == [module_digest(each) for each in predictors]
    point_LK = finished.mixed.outputs.point_NC
    np.testing.assert_allclose(point_LK.sum(axis=1), 1)
    for part in (0, 1, 2, TEST):
        models = predictors if part == TEST else predictors[2 * part : 2 * part + 2]
        each = [ask(predictor, samples[part == WITH_TEST]).point_NC for predictor in models]
        np.testing.assert_allclose(point_LK[part == WITH_TEST], np.mean(each, axis=0), rtol=1e-5)
        assert not np.allclose(each[0], each[1], rtol=1e-3)
    first, rows = predictors[0].encoder, np.sort(samples[WITH_TEST != TEST])
    expected = embed_samples(first, augmented.store, augmented.tokens, rows, devices)
    torch.testing.assert_close(finished.reference_ND, expected)
    assert finished.reference_model == "fold0"
    assert finished.trained_on == [augmented.store.sample_ids[row] for row in rows]


def test_novelty_is_measured_by_the_encoder_that_no_training_changed(
    new_task, augmented, devices, monkeypatch
):
    """Where one of the recipes leaves it as it is; it need not be the first."""
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    networks = {"partial": 1, "kernel": 1}
    monkeypatch.setattr(cross_validation, "affordable_recipes", lambda _: networks)
    task = new_task(recipe="auto")
    finished = task.run()
    assert finished.reference_model == "fold0-kernel"
    rows = np.sort(task.setup.labelled.samples)
    encoder = task.setup.make_encoder(0, 0)
    expected = embed_samples(encoder, augmented.store, augmented.tokens, rows, devices)
    torch.testing.assert_close(finished.reference_ND, expected)


def test_a_fraction_of_the_labels_is_that_of_whole_groups(new_task, datasets, tmp_path):
    """Groups of two samples; two groups are the least, and a smaller fraction is in a larger."""
    hosts = [f"host {number // 2}" for number in range(20)]
    common = {"samples": np.arange(20), "fold": np.arange(20) // 2 % 2, "units": hosts}
    common["recipe"] = "frozen"
    labels, few = [str(number) for number in range(20)], [set(), set()]
    for fraction, groups in ((0.01, 2), (0.4, 2), (0.8, 4)):
        task = new_task(observed=labels, work=tmp_path / str(fraction), labels=fraction, **common)
        finished = task.run()
        found = finished.mixed.outputs.point_NC
        both = {sample for dataset in datasets for sample in dataset.samples}
        names = task.setup.store.sample_ids
        assert finished.trained_on == [names[sample] for sample in sorted(both)]
        for fold, dataset in enumerate(datasets):
            trained = {hosts[sample] for sample in dataset.samples}
            assert len(dataset.samples) == 2 * len(trained) == 2 * groups
            assert all(int(host.split()[1]) % 2 != fold for host in trained)
            assert few[fold] <= set(dataset.samples)
            few[fold] = set(dataset.samples)
        datasets.clear()
    others = [label if i in few[0] | few[1] else "-77" for i, label in enumerate(labels)]
    again = new_task(observed=others, work=tmp_path / "again", labels=0.8, **common).run()
    np.testing.assert_array_equal(again.mixed.outputs.point_NC, found)


def test_an_inductive_fold_starts_from_its_own_encoder(new_task, new_encoder, ask):
    def make(fold: int, number: int):
        return new_encoder(20, seed=30 + fold, asv_layers=1, sample_layers=1)

    task = new_task(recipe="partial", inductive=True, make_encoder=make, fold=WITH_TEST)
    finished = task.run()
    samples, point_LC = task.setup.labelled.samples, finished.mixed.outputs.point_NC
    predictors = predictors_of(finished)
    for fold, predictor in enumerate(predictors):
        start, kept = make(fold, 0).asv.state_dict(), predictor.encoder.asv.state_dict()
        assert all(torch.equal(kept[name], start[name]) for name in start)
        found = ask(predictor, samples[fold == WITH_TEST]).point_NC
        np.testing.assert_allclose(found, point_LC[fold == WITH_TEST], rtol=1e-4)
    each = [ask(predictor, samples[TEST == WITH_TEST]).point_NC for predictor in predictors]
    np.testing.assert_allclose(np.mean(each, axis=0), point_LC[TEST == WITH_TEST], rtol=1e-4)


def test_only_what_is_not_finished_is_trained_again(new_task, datasets):
    """A cleanup that was killed half way, and settings that come back, leave such folders."""
    other = {"fingerprint": "other-fold1", "records": []}
    first = new_task().run()
    configs = [(folder / "config.json").read_bytes() for folder in first.models.values()]
    for damage in (
        lambda finished: (finished / "fold1" / "model.safetensors").unlink(),
        lambda finished: (finished / "fold1" / "config.json").unlink(),
        lambda finished: (finished / "fold1.json").unlink(),
        # A run of other settings was killed between its curves and its model.
        lambda finished: write_json(finished / "fold1.json", other),
    ):
        datasets.clear()
        damage(first.models["fold1"].parent)
        task = new_task()
        again = task.run()
        assert len(datasets) == 1
        assert set(task.setup.labelled.samples[FOLD == 1]).isdisjoint(datasets[0].samples)
        np.testing.assert_array_equal(again.mixed.outputs.point_NC, first.mixed.outputs.point_NC)
        assert learned(again.history) == learned(first.history)
        assert {r["fold"] for r in again.history if r["split"] == "system"} == {0, 1, 2}
        assert again.digests == first.digests
        assert configs == [(path / "config.json").read_bytes() for path in again.models.values()]
    datasets.clear()
    other = new_task(fingerprint="other", epochs=1).run()
    assert len(datasets) == 3
    assert len({*first.digests.values(), *other.digests.values()}) == 6


def test_an_interrupted_fold_goes_on(new_task, monkeypatch, tmp_path):
    expected = new_task(work=tmp_path / "other").run()
    step, left = BatchDataset.__getitem__, [6]

    def failing(self, number):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self, number)

    runtime = RunOptions(checkpoint_every_s=0)
    with monkeypatch.context() as patched:
        patched.setattr(BatchDataset, "__getitem__", failing)
        with pytest.raises(KeyboardInterrupt):
            new_task(runtime=runtime).run()
    found = new_task(runtime=runtime).run()
    np.testing.assert_array_equal(found.mixed.outputs.point_NC, expected.mixed.outputs.point_NC)
    assert learned(found.history) == learned(expected.history)


@pytest.mark.parametrize("kind", ["regression", "ordinal"])
def test_a_strong_signal_is_learned(new_task, kind):
    """The samples lie on a gradient; what is learned on two folds holds in the third."""
    place, is_ordinal = np.arange(20), kind == "ordinal"
    labels = np.array(LEVELS)[place * 3 // 20] if is_ordinal else place.astype(str)
    common = {"target": {"classes": LEVELS}} if is_ordinal else {}
    common |= {"samples": place, "fold": place % 2, "dropout": 0.0}
    task = new_task(kind, labels.tolist(), epochs=20, learning_rate=5e-3, **common)
    point_LC = task.run().mixed.outputs.point_NC
    value_L = point_LC @ [0, 1, 2] if is_ordinal else point_LC[:, 0]
    assert np.corrcoef(value_L, place)[0, 1] > 0.5


@pytest.mark.parametrize(("layers", "chosen"), [(1, {2}), (9, {0, 1, 2})])
def test_a_partial_encoder_trains_the_blocks_at_the_top(new_task, deeper, datasets, layers, chosen):
    finished = new_task(recipe="partial", trained_layers=layers, make_encoder=deeper).run()
    start, weights = deeper(0, 0).state_dict(), predictors_of(finished)[1].encoder.state_dict()
    changed = {name for name in start if not torch.equal(start[name], weights[name])}
    expected = {f"sample.blocks.{number}." for number in chosen} | {"sample.pooling."}
    assert {part for part in expected if any(name.startswith(part) for name in changed)} == expected
    assert all(name.startswith(tuple(expected)) for name in changed)
    assert all(isinstance(dataset, AsvDataset) for dataset in datasets)


def test_asv_embeddings_made_before_train_the_same_model(new_task, deeper, tmp_path):
    settings = {"trained_layers": 1, "dropout": 0.0, "learning_rate": 3e-3, "asv_dropout": 0.3}
    task = new_task(recipe="partial", make_encoder=deeper, **settings)
    frozen, elsewhere = task._frozen(0), replace(task.setup, work=tmp_path / "other")
    assert frozen.asv_UD is not None
    # Not the weights: attention is blind to some, which rounding alone moves.
    points, losses = [], []
    for setup, known in ((task.setup, frozen), (elsewhere, FrozenEmbeddings())):
        model = FoldModel(setup, 0, 0, "fold0", known)
        predictor, history = cross_validation.train_or_read(model)
        points.append(model.outputs(predictor, np.arange(9)).point_NC)
        losses.append([record["value"] for record in history if "loss" in record["name"]])
    np.testing.assert_allclose(points[0], points[1], rtol=1e-3)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert np.ptp(losses[0]) > 0.1
    assert np.ptp(points[0]) > 1


@pytest.mark.parametrize("recipe", ["full", "partial", "frozen"])
def test_covariates_reach_the_model_and_unknown_is_one(new_task, ask, datasets, recipe, tmp_path):
    """The category `hen` is in fold 0 alone, so that its model has never seen it."""
    common = {"recipe": recipe, "learning_rate": 0.02}
    common["target"] = {"condition": ("host",)}
    task = new_task(categories={"host": HOST}, **common)
    finished = task.run()
    host_LF, samples = np.array(HOST, object)[:, None], task.setup.labelled.samples
    for fold, predictor in enumerate(predictors_of(finished)):
        assert ("hen" in predictor.vocabulary.categories[0]) == (fold != 0)
        at = fold == FOLD
        found = ask(predictor, samples[at], host_LF[at]).point_NC
        np.testing.assert_allclose(found, finished.mixed.outputs.point_NC[at], rtol=1e-4)
        assert (ask(predictor, samples[at], [["dog"]] * 3).point_NC != found).any()
    batches = [dataset[step] for dataset in datasets for step in range(len(dataset))]
    numbers = {int(n) for batch in batches for n in batch.values[CATEGORIES].flatten()}
    assert numbers == {0, 1, 2, 3}
    missing = ["" if name == "hen" else name for name in HOST]
    other = new_task(categories={"host": missing}, work=tmp_path / "other", **common).run()
    at = FOLD == 0
    np.testing.assert_array_equal(
        other.mixed.outputs.point_NC[at], finished.mixed.outputs.point_NC[at]
    )


def test_each_category_has_a_scale_of_its_own(new_task, ask):
    sex = np.array(["m", "f", "f", "m", "f", "m", "f", "m", "f"])
    observed = [str((1000 if name == "m" else 10) + i) for i, name in enumerate(sex)]
    target = {"transform_by": "sex"}
    task = new_task(observed=observed, categories={"sex": sex}, target=target, epochs=1)
    finished = task.run()
    point_L, at = finished.mixed.outputs.point_NC[:, 0], FOLD == 2
    assert (np.abs(point_L - np.where(sex == "m", 1004, 14)) < 20).all()
    predictor = load_predictor(finished.models["fold2"])[0]
    found = ask(predictor, task.setup.labelled.samples[at], by=sex[at])
    np.testing.assert_allclose(found.point_NC[:, 0], point_L[at], rtol=1e-4)
