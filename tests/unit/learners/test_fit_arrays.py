"""Which arrays are kept of fitted baselines.

`test_fitted_arrays.py` compares what they predict with refits.
"""

import dataclasses

import numpy as np
import pytest
from problems import problem_of
from scipy.sparse import csr_array

from aam.learners.baselines import kernel_ridge
from aam.learners.baselines.arrays import ComparedSamples
from aam.learners.baselines.fit_arrays import fit_methods
from aam.learners.baselines.problem import PSEUDOCOUNT, Problem
from aam.learners.baselines.registry import predict_others

METHODS = ["extra_trees", "kernel_clr", "gradient_boosting", "elastic_net", "knn_unifrac"]
SAMPLES = 24


def study(kind: str = "regression", **more) -> Problem:
    rng = np.random.default_rng(0)
    level = np.arange(SAMPLES) / 4
    counts = rng.poisson(np.exp(1 + level[:, None] * [0.3, 0.1, 0]))
    distances = np.abs(level[:, None] - level)
    target = level * 2
    if kind == "classification":
        target = np.array(["10", "2"])[(np.arange(SAMPLES) % 4 == 0).astype(int)]
    classes = [] if kind == "regression" else ["10", "2", "none"]
    fold = np.arange(SAMPLES) % 3
    return problem_of(target, counts, distances, fold, classes, **{"asked": METHODS, **more})


def test_the_constant_of_numbers_is_their_median():
    # Targets are 0, 0.5, 1 and so on up to 11.5.
    numbers = fit_methods(study(asked=["median"], bounds=(0.0, None)))["median"]
    assert numbers.arrays["values"].tolist() == [5.75]
    assert numbers.facts == {"form": "constant", "unit": 1.0, "bounds": [0.0, None]}


def test_the_constant_of_classes_is_the_share_of_each():
    classes = fit_methods(study("classification", asked=["majority"]))["majority"]
    assert classes.arrays["values"].tolist() == [0.75, 0.25, 0.0]
    assert classes.facts == {"form": "constant", "classes": 3}


def test_a_fold_that_is_held_out_is_not_learned_from():
    task = study(asked=["median", "knn_unifrac", "kernel_unifrac"])
    found = fit_methods(task, held_out=1)
    others = np.flatnonzero(task.fold != 1)
    assert found["median"].arrays["values"].tolist() == [np.median(task.target[others])]
    for name in ("knn_unifrac", "kernel_unifrac"):
        assert found[name].arrays["rows"].tolist() == others.tolist()
    assert found["knn_unifrac"].arrays["targets"][:, 0].tolist() == task.target[others].tolist()
    whole = fit_methods(task)
    assert whole["knn_unifrac"].arrays["rows"].tolist() == list(range(SAMPLES))


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_where_all_labels_are_alike_a_constant_stands_for_methods_that_refuse_them(kind):
    task = study(kind)
    task = dataclasses.replace(task, target=np.repeat(task.target[:1], SAMPLES))
    forms = {name: method.facts["form"] for name, method in fit_methods(task).items()}
    assert forms.pop("extra_trees") in ("mean of trees", "median of leaves")
    assert forms.pop("kernel_clr") == "kernel"
    assert set(forms.values()) == {"constant"}


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_where_labels_differ_no_method_is_a_constant(kind):
    methods = fit_methods(study(kind))
    assert list(methods) == METHODS
    assert "constant" not in {method.facts["form"] for method in methods.values()}


def test_without_a_name_of_a_baseline_none_is_fitted():
    assert fit_methods(study(asked=None)) == {}


def test_neighbours_have_the_targets_of_training_in_the_order_of_the_classes():
    task = study("classification", asked=["knn_unifrac"], landmarks=np.arange(0, SAMPLES, 2))
    task = dataclasses.replace(task, distances=task.distances[:, ::2])
    method = fit_methods(task)["knn_unifrac"]
    # The columns of the distances are the landmarks.
    assert method.arrays["rows"].tolist() == list(range(12))
    is_second = np.arange(0, SAMPLES, 2) % 4 == 0
    assert method.arrays["targets"].tolist() == [[1 - two, two, 0] for two in is_second]
    assert method.facts["neighbours"] in (1, 3, 5)


def test_leaves_of_medians_give_each_tree_a_weight_of_one():
    task = study(asked=["random_forest_median"])
    arrays = fit_methods(task)["random_forest_median"].arrays
    assert arrays["labels"].tolist() == sorted(set(task.target.tolist()))
    pointer = arrays["label_offsets"]
    for node, (first, last) in enumerate(zip(pointer[:-1], pointer[1:], strict=True)):
        weight = arrays["label_weights"][first:last].sum()
        assert weight == pytest.approx(1.0 if arrays["left"][node] < 0 else 0.0)


def allow_one_kernel(monkeypatch, kernel: str) -> None:
    """Make every fit take the linear or the Gaussian kernel, whichever would be better."""
    choose = kernel_ridge.KernelRidge._choose
    number = ["linear", "gaussian"].index(kernel)

    def choose_it(self, train):
        return dataclasses.replace(choose(self, train), kernel=number)

    monkeypatch.setattr(kernel_ridge.KernelRidge, "_choose", choose_it)


def test_a_linear_kernel_of_features_is_kept_as_weights(monkeypatch):
    allow_one_kernel(monkeypatch, "linear")
    for method in fit_methods(study(asked=["kernel_clr", "kernel_clades"])).values():
        assert method.facts["kernel"] == "linear"
        assert method.arrays["weights"].shape == (3, 1)
        assert not method.needs_samples
        assert method.facts["added"] == PSEUDOCOUNT


def test_a_gaussian_kernel_of_features_is_kept_as_samples(monkeypatch):
    allow_one_kernel(monkeypatch, "gaussian")
    for method in fit_methods(study(asked=["kernel_clr", "kernel_clades"])).values():
        assert method.facts["kernel"] == "gaussian"
        assert method.arrays["rows"].tolist() == list(range(SAMPLES))
        assert method.arrays["duals"].shape == (SAMPLES, 1)
        assert method.needs_reads


def test_a_kernel_of_distances_needs_distances():
    assert fit_methods(study(asked=["kernel_unifrac"]))["kernel_unifrac"].needs_distances


@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
def test_kernels_of_projected_features_predict_what_refits_do(monkeypatch, kernel):
    # The features of landmarks are projected on two of three axes, and samples are kept.
    monkeypatch.setattr(kernel_ridge, "MOST_AXES", 2)
    allow_one_kernel(monkeypatch, kernel)
    fold = np.where(np.arange(SAMPLES) >= 18, -1, np.arange(SAMPLES) % 3)
    task = study(asked=["kernel_clr", "kernel_clades"], landmarks=np.arange(0, 18, 2))
    task = dataclasses.replace(task, fold=fold)
    expected = predict_others(task, 1).set_index(["baseline", "row"])["predicted"]
    samples = ComparedSamples(
        counts=csr_array(task.counts[18:]),
        above=task.above,
        lengths=task.lengths,
        kept=csr_array(task.counts[:18]),
        distances=task.distances[18:],
    )
    for name, method in fit_methods(task).items():
        assert method.arrays["axes"].shape == (3, 2)
        assert method.arrays["rows"].tolist() == list(range(0, 18, 2))
        assert method.needs_reads
        found = method.predict(samples)[:, 0]
        # Projected features have 32 bits.
        assert found.tolist() == pytest.approx(expected[name].tolist(), abs=1e-4)


def test_kernels_leave_out_features_of_fewer_than_one_percent_of_the_samples():
    # Of 200 samples one, two, three and all have a feature.
    counts = (np.arange(200)[:, None] < [1, 2, 3, 200]).astype(int)
    target = np.arange(200.0)
    distances = np.zeros((200, 200))
    asked = ["kernel_clr", "kernel_clades"]
    task = problem_of(target, counts, distances, np.arange(200) % 4, asked=asked)
    for method in fit_methods(task).values():
        assert method.arrays["columns"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "kind", "form"),
    [
        ("random_forest", "regression", "mean of trees"),
        ("random_forest_median", "regression", "median of leaves"),
        ("extra_trees", "regression", "median of leaves"),
        ("extra_trees", "classification", "mean of trees"),
    ],
)
def test_trees_of_numbers_are_kept_for_medians_but_those_of_the_plain_forest(name, kind, form):
    assert fit_methods(study(kind, asked=[name]))[name].facts["form"] == form
