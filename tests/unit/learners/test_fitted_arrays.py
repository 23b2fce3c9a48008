"""Baselines as plain arrays predict what refitting them does, which is the slow reference."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from aam.config.baselines import BASELINES
from aam.learners.baselines.arrays import ComparedSamples, read_methods, write_methods
from aam.learners.baselines.fit_arrays import FITS, fit_methods
from aam.learners.baselines.problem import Problem
from aam.learners.baselines.registry import PREDICTORS, predict_others, suitable_baselines

LABELLED, OTHERS, FEATURES = 60, 25, 40
KINDS = ("regression", "classification")


def study(kind: str, *, tree: bool = True, landmarks: bool = False) -> Problem:
    """Return labelled samples and others of fold -1, whose first features tell the label."""
    rng = np.random.default_rng(5)
    samples = LABELLED + OTHERS
    level = rng.normal(size=samples)
    counts = rng.poisson(3 * np.exp(0.5 * rng.normal(size=(samples, FEATURES))))
    counts[:, :4] = rng.poisson(4 * np.exp(level))[:, None] + rng.poisson(1, (samples, 4))
    distances = rng.random((samples, samples)).astype(np.float32) + 0.5
    distances[:, :LABELLED] += np.abs(level[:, None] - level[:LABELLED])
    # A copy of a training sample, which neighbours ask alone.
    distances[LABELLED, 3] = 0
    distances[:LABELLED, :LABELLED] += distances[:LABELLED, :LABELLED].T
    np.fill_diagonal(distances, 0)
    above = (rng.random((FEATURES, 30)) < 0.2).astype(float) if tree else np.zeros((FEATURES, 0))
    names = ["10", "2", "b"]
    target = level * 3 + 40
    if kind != "regression":
        target = np.array(names)[np.digitize(level, [-0.5, 0.4])]
    chosen = np.arange(0, LABELLED, 2) if landmarks else None
    columns = np.arange(LABELLED) if chosen is None else chosen
    return Problem(
        kind=kind,
        target=target,
        classes=[] if kind == "regression" else names,
        fold=np.concatenate([np.arange(LABELLED) % 4, np.full(OTHERS, -1)]),
        group=np.full(samples, "", np.str_),
        counts=csr_array(counts / 2),
        distances=distances[:, columns],
        above=csr_array(above),
        lengths=rng.random(above.shape[1]),
        seed=3,
        landmarks=chosen,
        asked=list(BASELINES),
    )


def labelled_part(task: Problem) -> Problem:
    return dataclasses.replace(
        task,
        target=task.target[:LABELLED],
        fold=task.fold[:LABELLED],
        group=task.group[:LABELLED],
        counts=csr_array(task.counts[:LABELLED]),
        distances=task.distances[:LABELLED],
        asked=suitable_baselines(task),
    )


def samples_of(task: Problem) -> ComparedSamples:
    return ComparedSamples(
        counts=csr_array(task.counts[LABELLED:]),
        above=task.above,
        lengths=task.lengths,
        kept=csr_array(task.counts[:LABELLED]),
        distances=task.distances[LABELLED:],
    )


def refitted(task: Problem) -> dict[str, np.ndarray]:
    columns = [f"probability:{name}" for name in task.classes] or ["predicted"]
    return {
        str(name): part[columns].to_numpy(np.float64)
        for name, part in predict_others(task, 1).groupby("baseline")
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("landmarks", [False, True])
def test_arrays_predict_what_refitting_does(kind, tree, landmarks):
    task = study(kind, tree=tree, landmarks=landmarks)
    expected = refitted(task)
    methods = read_methods(*write_methods(fit_methods(labelled_part(task))))
    assert set(methods) == set(expected)
    for name, method in methods.items():
        # In a study with landmarks, features of kernels have 32 bits.
        atol = 1e-4 if landmarks and name.startswith("kernel_c") else 1e-9
        np.testing.assert_allclose(
            method.predict(samples_of(task)), expected[name], rtol=0, atol=atol, err_msg=name
        )
    constants = ("median", "majority")
    assert all(np.ptp(expected[name]) > 0 for name in methods if name not in constants)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_numbers_of_any_size_and_labels_that_are_alike(kind):
    task = study(kind)
    if kind == "regression":
        task = dataclasses.replace(task, target=task.target * 1e7, bounds=(3.9e8, 4.1e8))
    else:
        # A class that no sample has, and for the rest two classes.
        target = np.where(task.target == "b", "2", task.target)
        task = dataclasses.replace(task, target=target)
    for one in (task, dataclasses.replace(task, target=np.repeat(task.target[:1], len(task.fold)))):
        asked = [name for name in FITS if name in PREDICTORS or name.startswith("kernel")]
        asked += ["extra_trees"]
        one = dataclasses.replace(one, asked=asked)
        expected = refitted(one)
        methods = fit_methods(labelled_part(one))
        for name, method in methods.items():
            scale = max(1.0, np.abs(expected[name]).max())
            found = method.predict(samples_of(one))
            np.testing.assert_allclose(
                found, expected[name], rtol=0, atol=1e-9 * scale, err_msg=name
            )


@pytest.mark.parametrize("kind", KINDS)
def test_methods_on_features_hold_no_sample(kind):
    task = study(kind)
    methods = fit_methods(labelled_part(task))
    compared = {name for name, method in methods.items() if method.needs_samples}
    free = {name for name in methods if not name.startswith(("kernel", "knn"))}
    assert not compared & free
    nothing = dataclasses.replace(
        samples_of(task), kept=csr_array((0, FEATURES)), distances=np.zeros((OTHERS, 0), np.float32)
    )
    for name in set(methods) - compared:
        expected = methods[name].predict(samples_of(task))
        np.testing.assert_array_equal(methods[name].predict(nothing), expected)
        # Neither does any array have a number for each sample, but where a leaf has its labels.
        sizes = {key: array.shape for key, array in methods[name].arrays.items()}
        allowed = {"labels"} if methods[name].facts["form"] == "median of leaves" else set()
        assert all(LABELLED not in shape for key, shape in sizes.items() if key not in allowed)


def test_every_baseline_has_arrays():
    assert set(FITS) == set(BASELINES)


def test_predicting_takes_no_scikit_learn():
    code = "import sys, aam.learners.baselines.arrays; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
