import numpy as np
import pytest

from aam.data import duration
from aam.data.folds import TEST
from aam.inference.outputs import Outputs
from aam.model.predictor import load_predictor
from aam.tasks.finetune import recipes
from aam.tasks.finetune.recipe_mixture import recipe_mixture
from aam.tasks.finetune.recipes import affordable_recipes, possible_recipes, recipe_settings

SIX = np.arange(18) % 6
ALL = ["kernel", "partial", "full"]


@pytest.fixture
def setup(new_task):
    def build(**changes):
        observed = [str(number) for number in range(18)]
        common = {"observed": observed, "samples": np.arange(18), "fold": SIX, "encoder": "auto"}
        return new_task(**{**common, **changes}).setup

    return build


@pytest.fixture
def costs(monkeypatch) -> None:
    """Let each of six folds take a core 0, 10 and 30 seconds; two cores 30 s and 90 s in all."""
    seconds = {"kernel": 0, "partial": 10, "full": 30}
    monkeypatch.setattr(recipes, "seconds", lambda setup, shape, own, samples: seconds[own.encoder])


def test_as_many_recipes_as_the_budget_allows_are_trained_the_cheapest_first(
    setup, costs, monkeypatch
):
    """Of five folds and 500 samples; here are six folds, and few samples are no less."""
    found = {}
    for minutes in (0.4, 0.6, 1.9, 2.1):
        found[minutes] = affordable_recipes(setup(budget_minutes=minutes * 5 / 6))
    assert found == {0.4: ALL[:1], 0.6: ALL[:2], 1.9: ALL[:2], 2.1: ALL}
    # Twice as many samples as the budget is for.
    monkeypatch.setattr(duration, "SAMPLES", 9)
    assert affordable_recipes(setup(budget_minutes=1.1 * 5 / 6)) == ALL


def test_the_cheapest_recipe_is_trained_whatever_the_budget(setup, monkeypatch):
    own = setup(budget_minutes=1e-9)
    assert affordable_recipes(own) == ["kernel"]
    # As a kernel machine of many samples is not.
    seconds = {"kernel": 50, "partial": 10, "full": 30}
    monkeypatch.setattr(recipes, "seconds", lambda setup, shape, own, samples: seconds[own.encoder])
    assert affordable_recipes(own) == ["partial"]


def test_several_models_cost_as_many_times(setup):
    shape = setup().make_encoder(0, 0).shape
    one, two = (setup(models=models) for models in (1, 2))
    cost = [recipes.seconds(own, shape, recipe_settings(own, 0, "full"), 15) for own in (one, two)]
    assert cost[1] == 2 * cost[0] > 0


def test_fewer_labels_get_more_passes_and_all_layers_over_the_asvs_are_trained(setup, monkeypatch):
    own = setup()
    found = recipe_settings(own, 0, "full")
    assert (found.epochs, found.batch_size) == (recipes.MOST_EPOCHS, 32)
    assert found.dropout == own.settings.dropout, "what auto leaves alone"
    # 15 samples are a step.
    for steps, epochs in ((1, recipes.LEAST_EPOCHS), (20, 20)):
        monkeypatch.setattr(recipes, "STEPS", steps)
        assert recipe_settings(own, 0, "full").epochs == epochs
    assert recipe_settings(own, 0, "partial").trained_layers == 1, "as many as there are"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ordinal", {"target": {"classes": ("low", "mid", "high")}}),
        ("regression", {"loss": "quantile"}),
        ("regression", {"count_weight": 0.5}),
        ("regression", {"loss": "mse"}),
    ],
)
def test_what_a_kernel_machine_cannot_learn_is_left_to_the_network(
    new_task, kind, changes, monkeypatch
):
    assert possible_recipes(new_task(kind, encoder="auto", **changes).setup) == ["partial", "full"]
    plain = new_task(encoder="auto").setup
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


def test_weights_follow_the_held_out_errors_of_what_a_fold_is_trained_on(setup):
    """Neither the fold itself nor the test set, whatever is said there, has a part in them."""
    own = setup(fold=np.where(np.arange(18) < 3, TEST, SIX))
    outputs = predicted(own, {"kernel": 1.0, "full": 9.0})
    found = recipe_mixture(own, 3, outputs).weights
    assert found["kernel"] > 0.7
    assert sum(found.values()) == pytest.approx(1)
    for part in (3, TEST):
        outputs["kernel"].point_NC[own.labelled.fold == part] += 1000
    assert recipe_mixture(own, 3, outputs).weights == found
    assert recipe_mixture(own, 4, outputs).weights["kernel"] < 0.1, "it is trained on fold 3"


def test_labels_that_are_left_out_have_no_part_in_the_weights(setup):
    own = setup(labels=0.5)
    outputs = predicted(own, {"kernel": 1.0, "full": 9.0})
    found = recipe_mixture(own, 0, outputs).weights
    outputs["kernel"].point_NC[~own.labelled.training(0, 0.5, own.settings.seed)] += 1000
    assert recipe_mixture(own, 0, outputs).weights == found


def test_columns_count_alike_whatever_their_units(setup):
    two = np.arange(36).reshape(18, 2).astype(float)
    columns = {"target": {"columns": ("a", "b")}}
    found = []
    for units in ((1, 1), (1, 1000)):
        own = setup(observed=(two * units).astype(str), **columns)
        off = {"partial": (9.0, 1.0), "full": (1.0, 5.0)}
        outputs = {name: Outputs((two + error) * units) for name, error in off.items()}
        found.append(recipe_mixture(own, 0, outputs).weights["full"])
    assert found[0] == pytest.approx(found[1], abs=1e-3)
    assert found[0] > 0.5


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_fold_is_predicted_by_its_recipes_with_their_shares(new_task, ask, monkeypatch, kind):
    """All of them together predict the test set."""
    monkeypatch.setattr(recipes, "MOST_EPOCHS", 2)
    fold = np.array([0, 1, 2, 0, 1, 2, TEST, TEST, TEST])
    task = new_task(kind, encoder="auto", fold=fold, models=2)
    finished = task.run()
    one = ["kernel", "partial", "partial-1", "full", "full-1"]
    assert list(finished.models) == [f"fold{number}-{name}" for number in range(3) for name in one]
    for number in range(3):
        of_fold = [finished.weights[recipe][number] for recipe in ALL]
        assert sum(of_fold) == pytest.approx(1)
        shares = [finished.shares[f"fold{number}-{name}"].weight for name in one]
        assert shares == pytest.approx([of_fold[0], *np.repeat(np.array(of_fold[1:]) / 2, 2)])
    samples = task.setup.labelled.samples
    for part in (0, 1, 2, TEST):
        own = {n: s for n, s in finished.shares.items() if part in (TEST, int(n[4]))}
        said = {}
        for name, share in own.items():
            value_NC = ask(load_predictor(finished.models[name])[0], samples[part == fold]).point_NC
            said.setdefault((name[:8], share), []).append(value_NC)
        expected, total = 0, 0
        for (_, share), both in said.items():
            # Two models of a recipe are averaged before they are scaled.
            value_NC, weight = np.mean(both, axis=0), share.weight * len(both)
            if kind == "classification":
                value_NC = value_NC ** (1 / share.temperature)
                value_NC = value_NC / value_NC.sum(axis=1, keepdims=True)
            expected, total = expected + weight * value_NC, total + weight
        expected = expected / total
        np.testing.assert_allclose(finished.outputs.point_NC[part == fold], expected, rtol=1e-4)
