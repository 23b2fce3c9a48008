"""Fit baselines to all labelled samples, and take their numbers out of scikit-learn's objects.

What predicts from them is in `aam.learners.baselines.arrays`. The fits are those of
`predict_others` (`aam.learners.baselines.registry`), which tests compare predictions with.

Shape suffixes: N samples, L training samples of a method, P features, T trees, V nodes, C classes.
"""

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from aam.data.folds import TEST
from aam.data.predictions import class_codes, class_order
from aam.learners.baselines import decision_trees, kernel_ridge, linear_and_nearest
from aam.learners.baselines.arrays import ROWS_AT_ONCE, FittedMethod, kernel_features
from aam.learners.baselines.problem import PREVALENCE, Problem, frequent_features

Fit = Callable[[Problem], FittedMethod]
"""Fits a baseline to the labelled samples of an encoded task."""


def fit_methods(task: Problem, held_out: int = TEST) -> dict[str, FittedMethod]:
    """Fit baselines to the labelled samples.

    Parameters
    ----------
    task
        The labelled samples, with the names of the baselines in `asked`.
    held_out
        Fold whose samples are not learned from; -1: all are.

    Returns
    -------
    dict
        The methods by name.
    """
    encoded = dataclasses.replace(task.encode(), held_out=held_out)
    are_alike = len(np.unique(encoded.target[encoded.train])) == 1
    methods = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for message in ("y_pred contains classes not in y_true", "A single label was found"):
            warnings.filterwarnings("ignore", message=message)
        for name in task.asked or ():
            # Samples that are all alike teach every method the same; some refuse them.
            fit = fit_constant if are_alike and name in REFUSE_ALIKE else FITS[name]
            methods[name] = fit(encoded)
    return methods


def _method(
    task: Problem, form: str, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> FittedMethod:
    """Return a method with what every method of the task has."""
    if task.regression:
        shared = {"unit": task.unit, "bounds": list(task.bounds)}
    else:
        shared = {"classes": len(task.classes)}
    return FittedMethod({"form": form, **shared, **facts}, arrays)


def _columns_of(task: Problem, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the columns of the classes that have some codes of `Problem.encode`."""
    return class_codes(np.asarray(class_order(task.classes))[codes], task.classes)


def _one_hot(task: Problem, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the targets of some rows, [L, C]: numbers, or 1 for the class."""
    if task.regression:
        return task.target[rows].astype(np.float64)[:, None]
    return np.eye(len(task.classes))[_columns_of(task, task.target[rows])]


def fit_constant(task: Problem) -> FittedMethod:
    """Take the median of the labels, or the shares of the classes.

    Parameters
    ----------
    task
        The labelled samples, as `Problem.encode` returns them.
    """
    targets_LC = _one_hot(task, task.train)
    value = np.median(targets_LC) if task.regression else targets_LC.mean(axis=0)
    return _method(task, "constant", {"values": np.atleast_1d(value)}, {})


def fit_random_forest(task: Problem) -> FittedMethod:
    """Grow a random forest whose trees are averaged; for the parameter see `fit_constant`."""
    return _mean_of_trees(task, decision_trees.new_random_forest(task), shared=True)


def fit_random_forest_median(task: Problem) -> FittedMethod:
    """Grow the same forest for medians of leaves; for the parameter see `fit_constant`."""
    return _median_of_leaves(task, decision_trees.new_random_forest(task), shared=True)


def fit_extra_trees(task: Problem) -> FittedMethod:
    """Grow trees that are split at random; for the parameter see `fit_constant`."""
    forest = decision_trees.new_extra_trees(task)
    if task.regression:
        return _median_of_leaves(task, forest, shared=task.landmarks is not None)
    return _mean_of_trees(task, forest, shared=True)


def _mean_of_trees(task: Problem, forest: Any, *, shared: bool) -> FittedMethod:
    parts = decision_trees.parts_of_split(task, task.train, forest, shared=shared)
    values = []
    for part in parts:
        for tree in part.forest.estimators_:
            value_VC = tree.tree_.value[:, 0, :]
            if not task.regression:
                whole_VC = np.zeros((len(value_VC), len(task.classes)))
                whole_VC[:, _columns_of(task, part.forest.classes_)] = value_VC
                value_VC = whole_VC
            values.append(value_VC)
    arrays = {**_nodes_of_parts(parts), "values": np.concatenate(values)}
    return _method(task, "mean of trees", arrays, {})


def _median_of_leaves(task: Problem, forest: Any, *, shared: bool) -> FittedMethod:
    parts = decision_trees.parts_of_split(task, task.train, forest, shared=shared)
    labels, number_N = np.unique(task.target, return_inverse=True)
    weights = []
    for part in parts:
        train = part.train
        if task.landmarks is not None:
            train = np.intersect1d(train, task.landmarks)
        leaf_LT = part.forest.apply(part.reads(task, train))
        for tree, leaf_L in zip(part.forest.estimators_, leaf_LT.T, strict=True):
            size_V = np.bincount(leaf_L, minlength=tree.tree_.node_count)
            entries = (1.0 / size_V[leaf_L], (leaf_L, number_N[train]))
            weights.append(csr_array(entries, shape=(len(size_V), len(labels))))
    weight_VL = csr_array(vstack(weights, format="csr"))
    weight_VL.sum_duplicates()
    arrays = {
        **_nodes_of_parts(parts),
        "labels": labels.astype(np.float64),
        "label_offsets": weight_VL.indptr.astype(np.int64),
        "label_numbers": weight_VL.indices.astype(np.int32),
        "label_weights": weight_VL.data,
    }
    first = np.sort(number_N[parts[0].train])
    return _method(task, "median of leaves", arrays, {"middle": int(first[len(first) // 2])})


def _nodes_of_parts(parts: Sequence[decision_trees.ForestPart]) -> dict[str, NDArray[Any]]:
    """Return the nodes of all trees of a forest, one tree behind the other."""
    columns = np.unique(np.concatenate([part.features for part in parts]))
    trees = [
        (
            tree.tree_.children_left,
            tree.tree_.children_right,
            np.searchsorted(columns, part.features)[np.maximum(tree.tree_.feature, 0)],
            tree.tree_.threshold,
        )
        for part in parts
        for tree in part.forest.estimators_
    ]
    return {"columns": columns, **_join_trees(trees)}


def _join_trees(trees: Sequence[tuple[NDArray[Any], ...]]) -> dict[str, NDArray[Any]]:
    """Return arrays of the nodes [V] of trees, each with its nodes counted from 0.

    Parameters
    ----------
    trees
        Left and right children, -1 for leaves, features and thresholds.
    """
    sizes = [len(left) for left, *_ in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    left, right = (
        np.concatenate(
            [
                np.where(tree[side] < 0, -1, tree[side] + root)
                for tree, root in zip(trees, roots, strict=True)
            ]
        ).astype(np.int32)
        for side in (0, 1)
    )
    return {
        "roots": roots.astype(np.int32),
        "left": left,
        "right": right,
        "features": np.concatenate([tree[2] for tree in trees]).astype(np.int32),
        "thresholds": np.concatenate([tree[3] for tree in trees]).astype(np.float64),
    }


def fit_gradient_boosting(task: Problem) -> FittedMethod:
    """Add up boosted trees; for the parameter see `fit_constant`."""
    columns = frequent_features(task)
    model = decision_trees.new_gradient_boosting(task)
    model.fit(task.counts[task.train][:, columns].toarray(), task.target[task.train])
    # scikit-learn has no public access to the trees; a test compares predictions.
    nodes = [predictor.nodes for rounds in model._predictors for predictor in rounds]
    trees = []
    for own in nodes:
        is_leaf = own["is_leaf"].astype(bool)
        left = np.where(is_leaf, -1, own["left"].astype(np.int64))
        right = np.where(is_leaf, -1, own["right"].astype(np.int64))
        trees.append((left, right, own["feature_idx"], own["num_threshold"]))
    arrays = {
        "columns": columns,
        **_join_trees(trees),
        "values": np.concatenate([own["value"] for own in nodes])[:, None],
        "start": np.asarray(model._baseline_prediction, np.float64).ravel(),
    }
    if not task.regression:
        arrays["codes"] = _columns_of(task, model.classes_)
    return _method(task, "sum of trees", arrays, {})


def fit_elastic_net(task: Problem) -> FittedMethod:
    """Fit an elastic net of log-ratios; for the parameter see `fit_constant`."""
    narrow = task.restrict_to_landmarks()
    columns = frequent_features(narrow)
    pipeline = linear_and_nearest.new_elastic_net(narrow)
    rows = narrow.train
    pipeline.fit(narrow.counts[:, columns].astype(np.float64)[rows], narrow.target[rows])
    scaler: StandardScaler = pipeline[1]
    model = getattr(pipeline[2], "best_estimator_", pipeline[2])
    arrays = {
        "columns": columns,
        "mean": scaler.mean_,
        "scale": scaler.scale_,
        "coefficients": np.atleast_2d(model.coef_),
        "intercept": np.atleast_1d(np.asarray(model.intercept_, np.float64)),
    }
    if not task.regression:
        arrays["codes"] = _columns_of(task, model.classes_)
    return _method(task, "linear", arrays, {"added": float(narrow.pseudocount)})


def fit_kernel_clr(task: Problem) -> FittedMethod:
    """Fit a kernel of log-ratios; for the parameter see `fit_constant`."""
    labelled = task.learn_from(np.flatnonzero(task.fold >= 0))
    samples_F = (labelled.counts[labelled.train] > 0).sum(axis=0)
    least = min(PREVALENCE * len(labelled.train), samples_F.max())
    columns = np.flatnonzero(samples_F >= least)
    return _kernel(task, kernel_ridge.ridge_clr(task), "log-ratios", columns, labelled.pseudocount)


def fit_kernel_clades(task: Problem) -> FittedMethod:
    """Fit a kernel of reads of clades; for the parameter see `fit_constant`."""
    labelled = task.learn_from(np.flatnonzero(task.fold >= 0))
    columns = linear_and_nearest.prevalent_branches(labelled)
    return _kernel(task, kernel_ridge.ridge_clades(task), "clades", columns, labelled.pseudocount)


def fit_kernel_distances(task: Problem) -> FittedMethod:
    """Fit a kernel of distances; for the parameter see `fit_constant`."""
    nothing = np.zeros(0, np.int64)
    return _kernel(task, kernel_ridge.ridge_distances(task), "distances", nothing, 0.0)


def _distance_columns(task: Problem, train: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the columns of the distances that are those to some training samples."""
    return train if task.landmarks is None else np.searchsorted(task.landmarks, train)


def _kernel(
    task: Problem,
    ridge: kernel_ridge.KernelRidge,
    pairs: str,
    columns: NDArray[np.intp],
    added: float,
) -> FittedMethod:
    """Return the expansion of a fit over its training samples."""
    solved = ridge.solve(task.train)
    facts: dict[str, Any] = {
        "pairs": pairs,
        "kernel": "gaussian" if solved.kernel == 1 else "linear",
        "scale": solved.scale,
        "added": float(added),
    }
    arrays: dict[str, NDArray[Any]] = {
        "columns": columns,
        "rows": _distance_columns(task, solved.train) if pairs == "distances" else solved.train,
        "duals": solved.dual_TC,
        "intercept": solved.intercept_C,
    }
    products = ridge.kernels[solved.kernel].products
    if products is not None:
        arrays["center"] = products.center_P
        if products.axes_PD is not None:
            arrays["axes"] = np.ascontiguousarray(products.axes_PD)
        if facts["kernel"] == "linear" and products.axes_PD is None:
            arrays |= _weights_of(task, facts, arrays)
            # A linear kernel is a linear function of the features: no sample is kept for it.
            del arrays["rows"], arrays["duals"]
    if not task.regression:
        facts["temperature"] = solved.temperature
        arrays["is_missing"] = solved.is_missing_C
        arrays["codes"] = _columns_of(task, np.arange(len(task.classes)))
    return _method(task, "kernel", arrays, facts)


def _weights_of(
    task: Problem, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return the weights [P, C] that a linear kernel gives to the features."""
    features = kernel_features(facts, arrays, task.above, task.lengths)
    weight_PC = np.zeros((len(arrays["center"]), arrays["duals"].shape[1]))
    for first in range(0, len(arrays["rows"]), ROWS_AT_ONCE):
        rows = arrays["rows"][first : first + ROWS_AT_ONCE]
        known_LP = features(csr_array(task.counts[rows])) - arrays["center"]
        weight_PC += known_LP.T @ arrays["duals"][first : first + ROWS_AT_ONCE]
    return {"weights": weight_PC / facts["scale"]}


def fit_neighbours(task: Problem) -> FittedMethod:
    """Choose the number of neighbours; for the parameter see `fit_constant`."""
    narrow = task.restrict_to_landmarks()
    searched = linear_and_nearest.new_neighbours(narrow)
    searched.fit(
        narrow.distances[np.ix_(narrow.train, narrow.columns)], narrow.target[narrow.train]
    )
    model = getattr(searched, "best_estimator_", searched)
    arrays = {
        "rows": _distance_columns(narrow, narrow.train),
        "targets": _one_hot(narrow, narrow.train),
    }
    return _method(task, "neighbours", arrays, {"neighbours": int(model.n_neighbors)})


FITS: dict[str, Fit] = {
    "median": fit_constant,
    "majority": fit_constant,
    "random_forest": fit_random_forest,
    "random_forest_median": fit_random_forest_median,
    "extra_trees": fit_extra_trees,
    "kernel_clr": fit_kernel_clr,
    "kernel_clades": fit_kernel_clades,
    "kernel_unifrac": fit_kernel_distances,
    "kernel_bray_curtis": fit_kernel_distances,
    "gradient_boosting": fit_gradient_boosting,
    "elastic_net": fit_elastic_net,
    "knn_unifrac": fit_neighbours,
    "knn_bray_curtis": fit_neighbours,
}
"""What fits each baseline of `aam.config.baselines.BASELINES`."""
REFUSE_ALIKE = frozenset({"gradient_boosting", "elastic_net", "knn_unifrac", "knn_bray_curtis"})
"""Baselines in whose place a constant stands where all labels are the same (`registry`)."""
