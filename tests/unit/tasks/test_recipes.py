import numpy as np
import pytest

from aam.data.folds import TEST
from aam.tasks.finetune import recipes
from aam.tasks.finetune.fold_model import FrozenEmbeddings
from aam.tasks.finetune.recipes import affordable, choose, possible_recipes, recipe_settings

SIX = np.arange(18) % 6


@pytest.fixture
def setup(new_task):
    """Return the setup of 18 samples in six folds, whose choice costs what a test says."""

    def build(**changes):
        observed = [str(number) for number in range(18)]
        common = {"samples": np.arange(18), "fold": SIX, "encoder": "auto"}
        return new_task(observed=observed, **{**common, **changes}).setup

    return build


@pytest.mark.parametrize(
    ("minutes", "tried", "parts"),
    [(1e-9, ["kernel"], 0), (1.0, ["kernel", "partial", "full"], 5)],
)
def test_a_budget_decides_what_is_tried(setup, minutes, tried, parts):
    own = setup(budget_minutes=minutes)
    settings = {name: recipe_settings(own, 0, name) for name in possible_recipes(own)}
    assert affordable(own, settings, 0) == (tried, parts)


def test_recipes_are_tried_cheapest_first_on_as_many_parts_as_fit(setup, monkeypatch):
    """Each of six folds costs a core 60 s and 180 s, less a fifth inside: 24, 72; 90 s the last."""
    monkeypatch.setattr(
        recipes,
        "seconds",
        lambda setup, shape, settings, samples: {"kernel": 0, "partial": 10, "full": 30}[
            settings.encoder
        ],
    )
    found = {}
    for minutes in (0.8, 1.0, 1.5, 2.6, 5.0, 9.0):
        # Of five folds and 500 samples; here are six folds, and few samples are no less.
        own = setup(budget_minutes=minutes * 5 / 6)
        settings = {name: recipe_settings(own, 0, name) for name in possible_recipes(own)}
        found[minutes] = affordable(own, settings, 0)
    two, three = ["kernel", "partial"], ["kernel", "partial", "full"]
    assert found == {
        0.8: (["kernel"], 0),
        1.0: (two, 1),
        1.5: (two, 2),
        2.6: (two, 5),
        5.0: (three, 2),
        9.0: (three, 4),
    }


def test_a_budget_grows_with_the_samples(setup, monkeypatch):
    monkeypatch.setattr(recipes, "seconds", lambda *_: 10)
    own = setup(budget_minutes=1.2)
    settings = {name: recipe_settings(own, 0, name) for name in possible_recipes(own)}
    assert affordable(own, settings, 0) == (["kernel", "partial"], 1)
    # Twice as many as it is for.
    monkeypatch.setattr(recipes, "SAMPLES", 9)
    assert affordable(own, settings, 0) == (["kernel", "partial", "full"], 1)


def test_samples_of_one_group_leave_nothing_to_choose_on(setup):
    own = setup(fold=np.arange(18) % 2, units=["one"] * 18, budget_minutes=9.0)
    settings = {name: recipe_settings(own, 0, name) for name in possible_recipes(own)}
    assert affordable(own, settings, 0) == (["kernel"], 0)


def test_fewer_labels_get_more_passes(setup, monkeypatch):
    own = setup()
    found = recipe_settings(own, 0, "full")
    assert (found.epochs, found.batch_size) == (recipes.MOST_EPOCHS, 32)
    assert found.dropout == own.settings.dropout, "what auto leaves alone"
    # 15 samples are a step.
    for steps, epochs in ((1, recipes.LEAST_EPOCHS), (20, 20)):
        monkeypatch.setattr(recipes, "STEPS", steps)
        assert recipe_settings(own, 0, "full").epochs == epochs


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ordinal", {"target": {"classes": ("low", "mid", "high")}}),
        ("regression", {"loss": "quantile"}),
        ("regression", {"count_weight": 0.5}),
        ("regression", {"loss": "mse"}),
    ],
)
def test_what_a_kernel_machine_cannot_learn_is_left_to_the_network(new_task, kind, changes):
    assert possible_recipes(new_task(kind, encoder="auto", **changes).setup) == ["partial", "full"]
    assert possible_recipes(new_task("regression", encoder="auto").setup)[0] == "kernel"


def test_many_samples_are_not_for_a_kernel_machine(new_task, monkeypatch):
    monkeypatch.setattr(recipes, "MOST_SAMPLES", 8)
    assert possible_recipes(new_task(encoder="auto").setup) == ["partial", "full"]


def test_the_recipe_of_least_error_is_chosen_and_kept(setup, monkeypatch):
    """The samples that are held out, and those of no fold, are no part of what is tried on."""
    seen = []

    def errors(setup, fold, name, settings, frozen, parts):
        training = setup.labelled.training(fold, 1.0, 0)
        seen.append((name, parts, int(training.sum())))
        error = {"kernel": 0.7, "partial": 0.4, "full": 0.5}[name]
        return error, [error - 0.1, error + 0.1]

    monkeypatch.setattr(recipes, "_errors", errors)
    own = setup(budget_minutes=9.0, fold=np.where(np.arange(18) < 3, TEST, SIX))
    choice = choose(own, 3, FrozenEmbeddings())
    assert (choice.recipe, choice.settings.encoder) == ("partial", "partial")
    assert choice.settings.trained_layers == 1, "as many as there are"
    assert choice.errors == {"kernel": 0.7, "partial": 0.4, "full": 0.5}
    assert choice.optimism == pytest.approx(0.0), "partial is the best on each part"
    assert seen == [("kernel", 5, 12), ("partial", 5, 12), ("full", 5, 12)]
    assert choose(own, 3, FrozenEmbeddings()) == choice
    assert len(seen) == 3, "it is known"


def test_optimism_is_what_looking_at_the_quoted_part_gains():
    """By the others the first part takes the second recipe, and the second part the first."""
    assert recipes.optimism_of(np.array([[0.1, 0.5], [0.4, 0.3]])) == pytest.approx(0.45 - 0.3)
    for seed in range(20):
        error_RP = np.random.default_rng(seed).random((3, 5))
        assert recipes.optimism_of(error_RP) >= 0


def test_the_error_is_that_of_models_which_saw_neither_the_fold_nor_the_part(new_task, datasets):
    task = new_task(encoder="auto", fold=np.arange(9) % 3, budget_minutes=9.0)
    frozen = task._frozen(0)
    settings = recipe_settings(task.setup, 0, "full").model_copy(update={"epochs": 1})
    error, by_part = recipes._errors(task.setup, 0, "full", settings, frozen, 5)
    # Parts of three samples each.
    assert 0 < error < 10
    assert error == pytest.approx(np.mean(by_part))
    held_out = set(task.setup.labelled.samples[np.arange(9) % 3 == 0])
    trained = [set(dataset.samples) for dataset in datasets]
    assert len(trained) == 2
    assert not trained[0] & trained[1]
    assert not held_out & (trained[0] | trained[1])
