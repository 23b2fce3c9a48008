import dataclasses
import math
import shutil

import numpy as np
import pytest

from aam.config.sections import finetuning
from aam.data.folds import TEST
from aam.inference.outputs import Outputs
from aam.model.predictor import load_predictor
from aam.tasks.finetune import recipes
from aam.tasks.finetune.recipe_mixture import recipe_mixture
from aam.tasks.finetune.recipes import affordable_recipes, possible_recipes, recipe_settings

SIX = np.arange(18) % 6
ALL = ["kernel", "partial", "full"]


@pytest.fixture(autouse=True)
def known_recipes(monkeypatch) -> None:
    """Another recipe of the program changes none of these tests."""
    kept = {name: recipes.RECIPES[name] for name in ALL}
    monkeypatch.setattr(recipes, "RECIPES", kept)


@pytest.fixture
def setup(new_task):
    def build(**changes):
        observed = [str(number) for number in range(18)]
        common = {"observed": observed, "samples": np.arange(18), "fold": SIX, "recipe": "auto"}
        return new_task(**{**common, **changes}).setup

    return build


@pytest.fixture
def costs(monkeypatch) -> None:
    """Let each fit take a core 0, 10 and 30 seconds: six folds, and five nested fits.

    Two cores take 55 s and 165 s in all.
    """
    seconds = {"kernel": 0, "partial": 10, "full": 30}
    monkeypatch.setattr(recipes, "seconds", lambda setup, shape, own, samples: seconds[own.recipe])


def test_as_many_recipes_as_the_budget_allows_are_trained_the_cheapest_first(
    setup, costs, monkeypatch
):
    """Of five folds and 500 samples; here are six folds, and few samples are no less."""
    found = {}
    for minutes in (0.9, 1.0, 3.6, 3.8):
        found[minutes] = list(affordable_recipes(setup(budget_minutes=minutes * 5 / 6)))
    assert found == {0.9: ALL[:1], 1.0: ALL[:2], 3.6: ALL[:2], 3.8: ALL}
    # Four times as many samples as the budget is for.
    monkeypatch.setattr(finetuning, "BUDGET_SAMPLES", 4.5)
    assert list(affordable_recipes(setup(budget_minutes=1.9 * 5 / 6))) == ALL


def test_the_cheapest_recipe_is_trained_whatever_the_budget(setup, monkeypatch):
    own = setup(budget_minutes=1e-9)
    assert affordable_recipes(own) == {"kernel": 1}
    # As a kernel head of many samples is not.
    seconds = {"kernel": 50, "partial": 10, "full": 30}
    monkeypatch.setattr(recipes, "seconds", lambda setup, shape, own, samples: seconds[own.recipe])
    assert affordable_recipes(own) == {"partial": 1}


def test_what_is_left_of_the_budget_buys_further_networks(setup, costs):
    """A second network of `partial` takes 60 s of a core, of six folds, and of `full` 180 s."""
    for minutes, networks in ((1.0, 1), (1.5, 2), (2.0, 3), (3.6, 3)):
        found = affordable_recipes(setup(budget_minutes=minutes * 5 / 6))
        assert found == {"kernel": 1, "partial": networks}
    found = affordable_recipes(setup(budget_minutes=100))
    assert found == {"kernel": 1, "partial": 3, "full": 3}
    # Two are asked for: 115 s, and none is left out of them.
    assert affordable_recipes(setup(networks=2, budget_minutes=1.0 * 5 / 6)) == {"kernel": 1}
    found = affordable_recipes(setup(networks=2, budget_minutes=1.5 * 5 / 6))
    assert found == {"kernel": 1, "partial": 2}


def test_fewer_labels_get_more_passes_and_all_layers_over_the_asvs_are_trained(setup, monkeypatch):
    own = setup()
    shape = own.make_encoder(0, 0).shape
    found = recipe_settings(own, shape, "full", 15)
    assert (found.epochs, found.batch_size) == (recipes.MOST_EPOCHS, 32)
    assert found.dropout == own.settings.dropout, "what auto leaves alone"
    # 15 samples are a step.
    for steps, epochs in ((1, recipes.LEAST_EPOCHS), (20, 20)):
        monkeypatch.setattr(recipes, "STEPS", steps)
        assert recipe_settings(own, shape, "full", 15).epochs == epochs
    assert recipe_settings(own, shape, "partial", 15).trained_layers == 1, "as many as there are"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ordinal", {"target": {"classes": ("low", "mid", "high")}}),
        ("regression", {"loss": "quantile"}),
        ("regression", {"loss": "mse"}),
    ],
)
def test_what_a_kernel_head_cannot_learn_is_left_to_the_network(
    new_task, kind, changes, monkeypatch
):
    assert possible_recipes(new_task(kind, recipe="auto", **changes).setup) == ["partial", "full"]
    plain = new_task(recipe="auto").setup
    assert possible_recipes(plain)[0] == "kernel"
    monkeypatch.setattr(recipes, "MOST_SAMPLES", 8)
    assert possible_recipes(plain) == ["partial", "full"], "nor can it learn from many samples"


def predicted(setup, errors: dict[str, float]) -> dict[str, Outputs]:
    """Return outputs of recipes that are off by about so much."""
    truth_LC = setup.labelled.observed_LC.astype(float)
    draw = np.random.default_rng(0)
    return {
        name: Outputs(truth_LC + draw.normal(0, error, truth_LC.shape))
        for name, error in errors.items()
    }


def test_weights_follow_the_errors_of_the_samples_that_they_are_fitted_to(setup):
    """What is said of other samples has no part in them."""
    own = setup()
    outputs = predicted(own, {"kernel": 1.0, "full": 9.0})
    is_row = SIX != 3
    weights = recipe_mixture(own, is_row, outputs).weights
    assert weights["kernel"] > 0.7
    assert sum(weights.values()) == pytest.approx(1)
    outputs["kernel"].point_NC[SIX == 3] += 1000
    assert recipe_mixture(own, is_row, outputs).weights == weights
    assert recipe_mixture(own, SIX != 4, outputs).weights["kernel"] < 0.1


def test_without_any_sample_to_fit_weights_to_they_are_equal(setup):
    own = setup()
    outputs = predicted(own, {"kernel": 1.0, "full": 9.0})
    weights = recipe_mixture(own, np.zeros(18, bool), outputs).weights
    assert weights == {"kernel": 0.5, "full": 0.5}


def test_labels_that_are_left_out_have_no_part_in_the_weights(new_task, monkeypatch):
    """Nested predictions of samples without a label say nothing about a recipe."""
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    task = new_task(recipe="auto", labels=0.5)
    labelled = task.setup.labelled
    seed = task.setup.settings.seed
    is_used = [labelled.training(fold, 0.5, seed) for fold in (TEST, 0, 1, 2)]
    is_left_out = ~np.any(is_used, axis=0)
    assert 0 < is_left_out.sum() < len(is_left_out)
    before = task.run().mixed.weights
    labelled.observed_LC[is_left_out] = "-500"
    shutil.rmtree(task.setup.work)
    assert task.run().mixed.weights == before


def test_columns_count_alike_whatever_their_units(setup):
    two = np.arange(36).reshape(18, 2).astype(float)
    columns = {"target": {"columns": ("a", "b")}}
    found = []
    for units in ((1, 1), (1, 1000)):
        own = setup(observed=(two * units).astype(str), **columns)
        off = {"partial": (9.0, 1.0), "full": (1.0, 5.0)}
        outputs = {name: Outputs((two + error) * units) for name, error in off.items()}
        found.append(recipe_mixture(own, SIX != 0, outputs).weights["full"])
    assert found[0] == pytest.approx(found[1], abs=1e-3)
    assert found[0] > 0.5


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_fold_is_predicted_by_its_recipes_with_their_shares(new_task, ask, monkeypatch, kind):
    """All of them together predict the test set."""
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    fold = np.array([0, 1, 2, 0, 1, 2, TEST, TEST, TEST])
    task = new_task(kind, recipe="auto", fold=fold, networks=2)
    monkeypatch.setattr(recipes, "MOST_NETWORKS", 2)
    finished = task.run()
    one = ["kernel", "partial", "partial-1", "full", "full-1"]
    assert list(finished.models) == [f"fold{number}-{name}" for number in range(3) for name in one]
    final = [finished.mixed.weights[recipe][TEST] for recipe in ALL]
    for number in range(3):
        weights = [finished.mixed.weights[recipe][number] for recipe in ALL]
        assert sum(weights) == pytest.approx(1)
        assert weights != final, "of a fold they rest on what never saw it"
        shares = [finished.shares[f"fold{number}-{name}"].weight for name in one]
        assert shares == pytest.approx([final[0], *np.repeat(np.array(final[1:]) / 2, 2)])
    samples = task.setup.labelled.samples
    said = {}
    for name, share in finished.shares.items():
        model = load_predictor(finished.models[name])[0]
        said.setdefault((name[:8], share), []).append(ask(model, samples[fold == TEST]).point_NC)
    expected, total = 0, 0
    for (_, share), both in said.items():
        # Two models of a recipe are averaged before they are scaled.
        value_NC, weight = np.mean(both, axis=0), share.weight * len(both)
        if kind == "classification":
            value_NC = value_NC ** (1 / share.temperature)
            value_NC = value_NC / value_NC.sum(axis=1, keepdims=True)
        expected, total = expected + weight * value_NC, total + weight
    np.testing.assert_allclose(
        finished.mixed.outputs.point_NC[fold == TEST], expected / total, rtol=1e-4
    )
    assert len(finished.mixed.draws) == 2
    assert not np.array_equal(finished.mixed.draws[0].point_NC, finished.mixed.draws[1].point_NC)
    if kind == "regression":
        both_LC = np.mean([draw.point_NC for draw in finished.mixed.draws], axis=0)
        np.testing.assert_allclose(both_LC, finished.mixed.outputs.point_NC, rtol=1e-4)
        for number in range(3):
            parts = [
                finished.mixed.weights[name][number] * finished.mixed.by_recipe[name].point_NC
                for name in ALL
            ]
            mixed_LC = finished.mixed.outputs.point_NC
            np.testing.assert_allclose(
                mixed_LC[fold == number], sum(parts)[fold == number], rtol=1e-4
            )


def test_the_seconds_of_transformers_are_those_that_the_constants_were_fitted_with(setup):
    """By these the recipes were chosen whose scores are published: 12 weights per width squared."""
    own = setup()
    shape = own.make_encoder(0, 0).shape
    shape = dataclasses.replace(shape, encoder="transformer", ffn_ratio=4)
    store = own.store
    asvs = 15 * store.offsets[len(store.sample_ids)] / len(store.sample_ids)
    patches = 0.4 * math.ceil(own.tokens.tokens.shape[1] / shape.patch_bp)
    found = {}
    for name, blocks in (("partial", 3.3), ("full", 3.3 + patches)):
        settings = recipe_settings(own, shape, name, 15)
        operations = 6 * 12 * shape.width**2 * blocks * asvs * settings.epochs
        found[name] = recipes.seconds(own, shape, settings, 15)
        assert found[name] == pytest.approx(operations / recipes.SPEED)
    lstm = dataclasses.replace(shape, encoder="bilstm")
    settings = recipe_settings(own, lstm, "full", 15)
    assert found["partial"] < recipes.seconds(own, lstm, settings, 15) < found["full"]
