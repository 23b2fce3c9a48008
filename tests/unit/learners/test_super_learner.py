from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from problems import learners_of, nested_of, predictions_of, problem_of

from aam.data.predictions import by_baseline
from aam.learners import mixture as module
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import cross_validate
from aam.learners.super_learner import Learner, learners_by_target, mix_to_one, super_learner

ROWS = 60


def tables(kind: str) -> dict[str, pd.DataFrame]:
    """Return predictions of three methods, the first the best."""
    rng = np.random.default_rng(0)
    tables, fold = {}, np.arange(ROWS) % 5 - 1
    number = rng.normal(size=ROWS)
    name = np.where(number > 0.3, "y", "x")
    for method, error in (("good", 0.3), ("fair", 0.6), ("poor", 3.0)):
        guess = number + rng.normal(0, error, ROWS)
        if kind == "regression":
            tables[method] = predictions_of(number, guess, fold)
            continue
        share = 1 / (1 + np.exp(3 * (0.3 - guess)))
        shares, predicted = np.stack([1 - share, share], axis=1), np.where(share > 0.5, "y", "x")
        tables[method] = predictions_of(name, predicted, fold, shares, "xy")
    return tables


def methods_of(
    kind: str, skills: list[float], units: int, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, list[str], np.ndarray]:
    """Return the predictions of methods with such skills, 0 to 1, for two samples of each unit."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(units), 2)
    code = group % 2
    shared = rng.normal(size=len(code))
    values = {}
    for number, skill in enumerate(skills):
        noise = (shared + rng.normal(size=len(code))) / np.sqrt(2)
        guess = skill * (2 * code - 1 + noise * np.sqrt(1 / skill - 1))
        share = 1 / (1 + np.exp(-2 * guess / (1 - skill)))
        is_number = kind == "regression"
        value = guess[:, None] if is_number else np.stack([1 - share, share], axis=1)
        values[f"m{number}"] = value
    observed = 2.0 * code - 1 if kind == "regression" else np.array(["x", "y"])[code]
    return values, observed, [] if kind == "regression" else ["x", "y"], group


def mean_error(value: np.ndarray, observed: np.ndarray) -> float:
    """Return the mean absolute error, or the log loss."""
    if value.shape[1] == 1:
        return float(np.abs(observed - value[:, 0]).mean())
    return float(-np.log(value[np.arange(len(observed)), (observed == "y").astype(int)]).mean())


def no_groups() -> pd.Series:
    names = [f"s{i}" for i in range(ROWS)]
    return pd.Series(names, names)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_weights_of_a_fold_rest_on_nested_predictions_without_it(kind):
    """Neither the labels of the fold nor what its own models say of others have a part in them."""
    learners = learners_of(tables(kind))
    first = super_learner(learners, no_groups())
    value = "predicted" if kind == "regression" else "probability:y"
    changed = {}
    for name, learner in learners.items():
        table = learner.predictions.copy()
        # Models that predict other folds have seen fold 2: what they say is changed.
        others = (table["fold"] >= 0) & (table["fold"] != 2)
        table.loc[others, value] = table.loc[others, value].to_numpy()[::-1]
        if kind == "classification":
            table["probability:x"] = 1 - table[value]
        changed[name] = Learner(table, learner.nested)
    second = super_learner(changed, no_groups())
    is_in_fold = first.predictions["fold"] == 2
    for name in ("predictions", "chosen"):
        one = getattr(first, name).loc[is_in_fold, value]
        other = getattr(second, name).loc[is_in_fold, value]
        assert one.tolist() == other.tolist()
    assert first.names[2] == second.names[2] == "good"
    # Weights that are not nested look at them, and so do those for new samples.
    one = first.unnested.loc[is_in_fold, value]
    assert one.tolist() != second.unnested.loc[is_in_fold, value].tolist()
    assert first.mixture.weights != second.mixture.weights


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_neither_the_order_of_rows_nor_of_methods_matters(kind):
    given = tables(kind)
    mixed = super_learner(learners_of(given), no_groups())
    order = np.random.default_rng(1).permutation(ROWS)
    turned = {name: given[name].iloc[order] for name in ("poor", "good", "fair")}
    others = super_learner(learners_of(turned), no_groups())
    assert others.mixture.weights == pytest.approx(mixed.mixture.weights, abs=1e-4)
    value = "predicted" if kind == "regression" else "probability:y"
    expected = mixed.predictions[value].to_numpy()[order]
    assert others.predictions[value].to_numpy() == pytest.approx(expected, abs=1e-3)
    assert others.names == mixed.names


def test_a_learner_with_fewer_nested_predictions_leaves_weights_to_the_rows_that_all_have():
    learners = learners_of(tables("regression"))
    nested = learners["good"].nested
    sample_ids = set(nested.loc[nested["without"] == 0, "sample-id"][:10])
    is_kept = nested["sample-id"].isin(sample_ids)
    fewer = {**learners, "good": Learner(learners["good"].predictions, nested[is_kept])}
    cut = {
        name: Learner(one.predictions, one.nested[one.nested["sample-id"].isin(sample_ids)])
        for name, one in learners.items()
    }
    first = super_learner(fewer, no_groups()).predictions
    second = super_learner(cut, no_groups()).predictions
    pd.testing.assert_frame_equal(first, second)


def test_without_nested_predictions_all_learners_count_alike():
    learners = {
        name: Learner(one.predictions, one.nested.iloc[:0])
        for name, one in learners_of(tables("regression")).items()
    }
    mixed = super_learner(learners, no_groups()).predictions
    mean = np.mean([one.predictions["predicted"] for one in learners.values()], axis=0)
    is_kept = mixed["fold"] >= 0
    np.testing.assert_allclose(mixed["predicted"][is_kept], mean[is_kept])


def test_a_learner_without_nested_probabilities_leaves_equal_weights():
    """Where folds are too small for a nested fit, its table lacks the columns of classes."""
    learners = learners_of(tables("classification"))
    nothing = pd.DataFrame({"sample-id": [], "without": [], "predicted": []})
    learners["poor"] = Learner(learners["poor"].predictions, nothing)
    mixed = super_learner(learners, no_groups()).predictions
    share = [one.predictions["probability:y"] for one in learners.values()]
    is_kept = mixed["fold"] >= 0
    mean = np.mean(share, axis=0)[is_kept]
    np.testing.assert_allclose(mixed["probability:y"][is_kept], mean)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_twenty_groups_suffice_for_a_method_that_is_clearly_ahead_of_seven(kind):
    skills = [0.8, *[0.1] * 7]
    weights = [
        module.Mixture.fit(*methods_of(kind, skills, units=20, seed=seed)).weights["m0"]
        for seed in range(10)
    ]
    assert np.mean(weights) > 0.9


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_mixture_of_methods_that_are_equally_good_is_nearly_as_good_as_their_mean(kind):
    behind = []
    for seed in range(10):
        mixture = module.Mixture.fit(*methods_of(kind, [0.5] * 8, units=20, seed=seed))
        values, observed, classes, _ = methods_of(kind, [0.5] * 8, units=500, seed=100 + seed)
        means = module.Mixture(dict.fromkeys(values, 1 / 8), mixture.temperatures)
        mixed, mean = (mean_error(one.apply(values), observed) for one in (mixture, means))
        behind.append(mixed / mean - 1)
    assert np.mean(behind) < 0.04


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_methods_that_predict_the_same_share_their_weight(kind):
    values, observed, classes, group = methods_of(kind, [0.5, 0.4, 0.4], units=30, seed=0)
    values["copy"] = values["m0"]
    weights = module.Mixture.fit(values, observed, classes, group).weights
    assert weights["copy"] == pytest.approx(weights["m0"], abs=1e-4)
    alike = dict.fromkeys("abc", values["m0"])
    weights = module.Mixture.fit(alike, observed, classes, group).weights
    assert list(weights.values()) == pytest.approx([1 / 3] * 3, abs=1e-4)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_copies_of_samples_are_hardly_evidence_but_in_groups_of_their_own(kind):
    values, observed, classes, group = methods_of(kind, [0.6, 0.5, 0.45], 20, seed=0)
    once = module.Mixture.fit(values, observed, classes, group).weights
    thrice = {name: np.tile(value, (3, 1)) for name, value in values.items()}
    observed = np.tile(observed, 3)
    same_groups = np.tile(group, 3)
    other_groups = np.concatenate([group, 20 + group, 40 + group])
    same = module.Mixture.fit(thrice, observed, classes, same_groups).weights
    other = module.Mixture.fit(thrice, observed, classes, other_groups).weights
    # What is expected of groups before they are seen makes copies count a little.
    assert abs(same["m0"] - once["m0"]) < (other["m0"] - once["m0"]) / 2
    assert other["m0"] > same["m0"] + 0.02


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_few_groups_of_many_samples_tell_methods_apart_and_three_samples_do_not(kind):
    values, observed, classes, group = methods_of(kind, [0.8, 0.2], units=200, seed=0)
    mixture = module.Mixture.fit(values, observed, classes, group % 3)
    assert mixture.weights["m0"] > 0.9
    one_group = module.Mixture.fit(values, observed, classes, np.zeros_like(group))
    assert one_group.weights == {"m0": 0.5, "m1": 0.5}
    first = {name: value[[0, 2, 4]] for name, value in values.items()}
    three = module.Mixture.fit(first, observed[[0, 2, 4]], classes, np.arange(3))
    assert three.weights == {"m0": 0.5, "m1": 0.5}


def test_a_group_that_contradicts_the_others_leaves_few_groups_unsure():
    """The better method of nine groups is the worse one of the tenth, by as much as of the nine."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(10), 250)
    observed = rng.normal(size=len(group))
    noise = rng.normal(size=(2, len(group)))
    alike = {"good": 0.9 * noise[0], "fair": noise[1]}
    swapped = {
        "good": np.where(group > 0, 0.9 * noise[0], 1.9 * noise[0]),
        "fair": np.where(group > 0, noise[1], 0.1 * noise[1]),
    }
    weights = []
    for errors in (alike, swapped):
        values = {name: (observed - error)[:, None] for name, error in errors.items()}
        weights.append(module.Mixture.fit(values, observed, [], group).weights["good"])
    assert weights[0] > weights[1] + 0.1


def test_a_method_that_is_far_off_leaves_the_others_their_weights():
    given = tables("regression")
    expected = super_learner(learners_of(given), no_groups()).mixture.weights
    given["wild"] = given["poor"].assign(predicted=1e5 * given["poor"]["predicted"])
    weights = super_learner(learners_of(given), no_groups()).mixture.weights
    assert weights["wild"] == pytest.approx(0, abs=1e-3)
    assert weights["good"] == pytest.approx(expected["good"], abs=0.1)


@pytest.mark.parametrize(("samples", "least", "most"), [(8, 0.7, 0.97), (4000, 0.99, 1.0)])
def test_few_samples_without_an_error_do_not_make_a_mixture_sure(samples, least, most):
    code = np.arange(samples) % 2
    share = np.where(code == 0, 0.7, 0.3)
    values = {name: np.stack([share, 1 - share], axis=1) for name in "ab"}
    mixture = module.Mixture.fit(values, np.array(["x", "y"])[code], ["x", "y"], np.arange(samples))
    assert least < mixture.apply(values)[0, 0] < most


def study(kind: str) -> Problem:
    """Return samples along a gradient, in five folds, which cheap methods learn from."""
    rng = np.random.default_rng(3)
    gradient = rng.random(50)
    reads = rng.poisson(3 + 20 * gradient[:, None] * np.array([1, 0, 0, 0.5]))
    distances = np.abs(gradient[:, None] - gradient) + 0.05
    np.fill_diagonal(distances, 0)
    target = gradient + rng.normal(0, 0.2, 50)
    asked = ["elastic_net", "kernel_clr", "kernel_unifrac", "knn_unifrac"]
    if kind == "classification":
        names = np.where(target > 0.5, "y", "x")
        return problem_of(names, reads, distances, np.arange(50) % 5, "xy", asked=asked)
    return problem_of(target, reads, distances, np.arange(50) % 5, asked=asked)


def fitted(task: Problem) -> dict[str, Learner]:
    """Return the learners of a study, fitted with and without pairs of folds."""
    tables = cross_validate(task, threads=1)
    predictions, nested = tables.predictions, tables.nested
    for table in (predictions, nested):
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
    return learners_by_target(predictions, nested)[""]


def groups_of(task: Problem) -> pd.Series:
    names = [f"s{row}" for row in range(len(task.target))]
    return pd.Series(names, names)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_no_label_of_a_fold_has_a_part_in_what_is_predicted_for_it(kind):
    """All methods are fitted again to changed labels of fold 2: its predictions stay the same."""
    task = study(kind)
    value = "predicted" if kind == "regression" else "probability:y"
    is_in_fold = task.fold == 2
    other = np.where(task.target == "x", "y", "x") if kind == "classification" else 9.0
    changed = replace(task, target=np.where(is_in_fold, other, task.target))
    first, second = (super_learner(fitted(one), groups_of(one)) for one in (task, changed))
    for name in ("predictions", "chosen"):
        before = getattr(first, name)[value][is_in_fold]
        assert before.tolist() == getattr(second, name)[value][is_in_fold].tolist()
        assert before.nunique() > 1
    assert first.unnested[value][is_in_fold].tolist() != second.unnested[value][is_in_fold].tolist()


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_it_is_the_super_learner_that_is_made_anew_without_each_fold(kind):
    """The slow reference cross-validates all other folds again, without any part of the fold.

    Of the five folds the first and the last are made so.
    """
    task = study(kind)
    value = "predicted" if kind == "regression" else "probability:y"
    predictions = super_learner(fitted(task), groups_of(task)).predictions
    for fold in (0, 4):
        inner = replace(task, fold=np.where(task.fold == fold, -1, task.fold))
        table = cross_validate(inner, threads=1).predictions
        table.insert(0, "sample-id", table.pop("row").map("s{}".format))
        parts = by_baseline(table)
        learners = {
            name: Learner(parts[name][""], nested_of(parts[name][""])) for name in task.asked
        }
        expected = super_learner(learners, groups_of(task)).predictions
        is_in_fold = task.fold == fold
        np.testing.assert_allclose(
            predictions[value][is_in_fold], expected[value][is_in_fold], atol=1e-3
        )


def learner_of(predicted, fold, observed, nested) -> Learner:
    """Return a learner; `nested` has sample, block and prediction of each row."""
    ids, blocks, values = zip(*nested, strict=True)
    table = pd.DataFrame({"sample-id": ids, "without": blocks, "predicted": values})
    return Learner(predictions_of(observed, predicted, fold), table)


def units_of_their_own(samples: int) -> pd.Series:
    names = [f"s{row}" for row in range(samples)]
    return pd.Series(names, names)


def two_learners() -> dict[str, Learner]:
    """Return learners of three folds and a sample that is set aside.

    Without block 0 the first errs by 1 and 1 and the second by 2 and 2; without block 1 the first
    errs by 3 and 1, the second by 2 and 1; without block 2 both err by as much. On their own folds
    the second errs less.
    """
    fold = np.array([0, 1, 2, -1])
    observed = np.array([0.0, 10.0, 20.0, 30.0])
    first = [("s1", 0, 11.0), ("s2", 0, 19.0), ("s0", 1, 3.0), ("s2", 1, 21.0)]
    first += [("s0", 2, 1.0), ("s1", 2, 12.0)]
    second = [("s1", 0, 12.0), ("s2", 0, 18.0), ("s0", 1, -2.0), ("s2", 1, 21.0)]
    second += [("s0", 2, -2.0), ("s1", 2, 9.0)]
    return {
        "first": learner_of([1.0, 11.0, 21.0, 31.0], fold, observed, first),
        "second": learner_of([0.5, 10.5, 20.5, 30.5], fold, observed, second),
    }


def test_the_chosen_learner_of_a_fold_has_the_least_nested_error():
    mixed = super_learner(two_learners(), units_of_their_own(4))
    assert mixed.names == {0: "first", 1: "second", 2: "first"}
    # The sample that is set aside is predicted by the one that errs least on all folds.
    assert mixed.chosen["predicted"].tolist() == [1.0, 10.5, 21.0, 30.5]


def test_learners_that_two_samples_cannot_tell_apart_count_alike():
    mixed = super_learner(two_learners(), units_of_their_own(4))
    assert set(mixed.mixtures) == {0, 1, 2}
    assert mixed.mixtures[0].weights == {"first": 0.5, "second": 0.5}
    assert mixed.predictions["predicted"][:3].tolist() == [0.75, 10.75, 20.75]


def test_the_chosen_learner_of_classes_has_the_best_mean_recall():
    fold = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    observed = np.array(["x", "y", "x", "y", "x", "x", "x", "y"])
    # Block 0 is chosen for by the samples of fold 1, of which three are x. The first calls all x;
    # the second is right of two x and of the y.
    shares = {"first": [0.9] * 8, "second": [0.9, 0.1, 0.9, 0.1, 0.9, 0.9, 0.1, 0.1]}
    tables = {}
    for name, share in shares.items():
        columns = np.stack([share, 1 - np.array(share)], axis=1)
        predicted = np.where(columns[:, 0] > 0.5, "x", "y")
        tables[name] = predictions_of(observed, predicted, fold, columns, "xy")
    mixed = super_learner(learners_of(tables), units_of_their_own(8))
    assert mixed.names == {0: "second", 1: "second"}
    assert mixed.chosen["predicted"].tolist() == [*"xyxyxxyy"]


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_weights_for_other_tables_and_unnested_ones_are_fitted_to_whole_folds(kind):
    given = tables(kind)
    mixed = super_learner(learners_of(given), no_groups())
    fold = given["good"]["fold"].to_numpy()
    classes = [] if kind == "regression" else ["x", "y"]
    value = "predicted" if kind == "regression" else "probability:y"
    columns = [f"probability:{name}" for name in classes] or ["predicted"]

    def fitted(rows: np.ndarray) -> module.Mixture:
        values = {name: table.loc[rows, columns].to_numpy() for name, table in given.items()}
        observed = given["good"]["observed"][rows].to_numpy()
        return module.Mixture.fit(values, observed, classes, np.flatnonzero(rows))

    assert mixed.mixture.weights == pytest.approx(fitted(fold >= 0).weights, abs=1e-6)
    every = {name: table[columns].to_numpy() for name, table in given.items()}
    for number in (-1, 0, 3):
        rows = fold == number
        mixture = fitted((fold >= 0) & ~rows)
        expected = mixture.apply(every)[rows, -1]
        found = mixed.unnested.loc[rows, value].to_numpy()
        assert found == pytest.approx(expected, abs=1e-6)
    is_test = fold == -1
    for table in (mixed.predictions, mixed.unnested):
        expected = mixed.mixture.apply(every)[is_test, -1]
        assert table.loc[is_test, value].to_numpy() == pytest.approx(expected)
    if classes:
        share = mixed.predictions["probability:y"]
        assert mixed.predictions["predicted"].tolist() == np.where(share > 0.5, "y", "x").tolist()


def test_a_lone_learner_is_not_mixed():
    learners = learners_of(tables("classification"))
    assert mix_to_one({"good": learners["good"]}, no_groups()) is learners["good"]


def test_a_mixture_is_a_learner_that_can_be_mixed_again():
    learners = learners_of(tables("classification"))
    one = mix_to_one(learners, no_groups())
    mixed = super_learner(learners, no_groups())
    pd.testing.assert_frame_equal(one.predictions, mixed.predictions)
    assert list(one.nested) == [
        *("sample-id", "without", "probability:x", "probability:y", "predicted")
    ]
    for block in range(4):
        part = one.nested[one.nested["without"] == block].set_index("sample-id")
        nested = {
            name: learner.nested[learner.nested["without"] == block].set_index("sample-id")
            for name, learner in learners.items()
        }
        columns = ["probability:x", "probability:y"]
        values = {name: table.loc[part.index, columns].to_numpy() for name, table in nested.items()}
        expected = mixed.mixtures[block].apply(values)
        np.testing.assert_allclose(part[columns].to_numpy(), expected)
        assert part["predicted"].tolist() == np.array(["x", "y"])[expected.argmax(axis=1)].tolist()
    assert one.nested["without"].tolist() == sorted(one.nested["without"])


def test_what_belongs_to_single_learners_is_left_out_of_a_mixture():
    given = tables("regression")
    given["good"] = given["good"].assign(
        **{"quantile:0.05": 0.0, "unnested": 0.0, "draw:0": 0.0, "note": "kept"}
    )
    mixed = super_learner(learners_of(given), no_groups()).predictions
    assert list(mixed) == ["sample-id", "fold", "observed", "predicted", "note"]


def test_learners_are_the_baselines_with_nested_predictions_by_target():
    rows = [(name, target) for name in ("median", "b", "a") for target in ("bmi", "age")]
    predictions = pd.DataFrame(rows, columns=["baseline", "target"]).assign(predicted=range(6))
    nested = predictions[2:].assign(predicted=range(10, 14))
    found = learners_by_target(predictions, nested)
    assert {target: list(learners) for target, learners in found.items()} == {
        "bmi": ["b", "a"],
        "age": ["b", "a"],
    }
    assert found["age"]["a"].predictions.to_dict("list") == {"predicted": [5]}
    assert found["age"]["a"].nested.to_dict("list") == {"predicted": [13]}
    assert found["bmi"]["b"].nested.to_dict("list") == {"predicted": [10]}


def test_predictions_of_other_folds_are_not_mixed():
    given = tables("regression")
    learners = learners_of(given)
    moved = given["fair"].assign(fold=np.roll(given["fair"]["fold"], 1))
    learners["fair"] = Learner(moved, learners["fair"].nested)
    with pytest.raises(AssertionError, match="other folds"):
        super_learner(learners, no_groups())
