"""What fitted baselines predict where some features have the reads of other samples.

Thousands of such rows differ from a sample in a few features. Only what these change is computed:
the trees that ask for them on the way of the sample, and the columns of kernels that they lead to.
Tests compare with `FittedMethod.predict` of whole rows.

Shape suffixes: M samples, R rows with replaced reads, N training samples, L those of a method, F
features, P features of a kernel, X those of them that may differ, V nodes of all trees, T trees, C
classes, or 1 for numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.learners.baselines.arrays import (
    FORMS,
    ComparedSamples,
    FittedMethod,
    Floats,
    find_leaves,
    finish,
    finish_kernel,
    half_labels,
    kernel_features,
    known_features,
    label_weights,
)


@dataclass(frozen=True, eq=False)
class ReplacedReads:
    """Rows that have other reads of some features than a sample."""

    counts: csr_array
    """Reads, or amounts, [R, F]."""
    origin_R: NDArray[np.intp]
    """Number of the sample that each row is like otherwise."""
    features: NDArray[np.intp]
    """Features that may differ."""
    distances: NDArray[np.float32]
    """Distances of rows to training samples, [R, N]; empty where no method asks for them."""


Predict = Callable[[ReplacedReads], Floats]
"""Returns numbers [R, 1], or probabilities of the classes [R, C], of rows with replaced reads."""


def predict_replaced(method: FittedMethod, samples: ComparedSamples) -> Predict:
    """Return a function that predicts rows with replaced reads.

    Parameters
    ----------
    method
        The method.
    samples
        The samples that the rows come from, and what the method compares with.
    """
    form = method.facts["form"]
    if form in ("mean of trees", "median of leaves"):
        predict = _trees(method, samples)
    elif form == "kernel" and method.facts["pairs"] != "distances" and "axes" not in method.arrays:
        predict = _kernel(method, samples)
    else:
        predict = _whole_rows(method, samples)
    return lambda rows: finish(method.facts, predict(rows))


def _whole_rows(method: FittedMethod, samples: ComparedSamples) -> Predict:
    """Return the prediction of whole rows, for methods that are fast or rare."""
    form = FORMS[method.facts["form"]]

    def predict(rows: ReplacedReads) -> Floats:
        compared = replace(samples, counts=rows.counts, distances=rows.distances)
        return form(method.facts, method.arrays, compared)

    return predict


def _trees(method: FittedMethod, samples: ComparedSamples) -> Predict:
    """Return the prediction of trees, which are followed where they ask for replaced reads."""
    arrays = method.arrays
    columns = arrays["columns"]
    leaf_MT = find_leaves(arrays, samples.counts[:, columns].toarray().astype(np.float32))
    is_median = method.facts["form"] == "median of leaves"
    if is_median:
        weight_VL = label_weights(arrays)
        nodes = weight_VL.shape[0]
        weight_ML = (_count_leaves(leaf_MT, nodes) @ weight_VL).toarray()

    def predict(rows: ReplacedReads) -> Floats:
        leaf_RT = leaf_MT[rows.origin_R]
        is_asked_V = _ask_for(arrays, np.isin(columns, rows.features))
        row_A, tree_A = np.nonzero(is_asked_V[leaf_RT])
        reads_RP = rows.counts[:, columns].toarray().astype(np.float32)
        before_A = leaf_RT[row_A, tree_A]
        after_A = find_leaves(arrays, reads_RP, row_A, arrays["roots"][tree_A])
        if not is_median:
            leaf_RT[row_A, tree_A] = after_A
            mean_RC: Floats = arrays["values"][leaf_RT].mean(axis=1)
            return mean_RC
        moved = np.flatnonzero(before_A != after_A)
        entries = np.repeat([1.0, -1.0], len(moved))
        places = (np.tile(row_A[moved], 2), np.concatenate([after_A[moved], before_A[moved]]))
        change_RV = csr_array((entries, places), shape=(len(leaf_RT), nodes))
        total_RL = weight_ML[rows.origin_R] + (change_RV @ weight_VL).toarray()
        return half_labels(method.facts, arrays, total_RL)

    return predict


def _count_leaves(leaf_MT: NDArray[np.intp], nodes: int) -> csr_array:
    """Return 1 where a sample ends in a node, [M, V]."""
    samples, trees = leaf_MT.shape
    offsets = np.arange(samples + 1) * trees
    return csr_array((np.ones(leaf_MT.size), leaf_MT.ravel(), offsets), shape=(samples, nodes))


def _ask_for(arrays: Any, is_replaced_P: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether the way to each node asks for a replaced feature, [V]."""
    left, right = arrays["left"], arrays["right"]
    is_asked_V = np.zeros(len(left), np.bool_)
    inner = arrays["roots"][left[arrays["roots"]] >= 0]
    while len(inner):
        is_asked_below = is_asked_V[inner] | is_replaced_P[arrays["features"][inner]]
        is_asked_V[left[inner]] = is_asked_below
        is_asked_V[right[inner]] = is_asked_below
        below = np.concatenate([left[inner], right[inner]])
        inner = below[left[below] >= 0]
    return is_asked_V


def _kernel(method: FittedMethod, samples: ComparedSamples) -> Predict:
    """Return the prediction of a kernel, whose products change with few features."""
    facts, arrays = method.facts, method.arrays
    center_P = arrays["center"]
    features = kernel_features(facts, arrays, samples.above, samples.lengths)
    own_MP = features(samples.counts).astype(center_P.dtype) - center_P
    is_linear = "weights" in arrays
    if is_linear:
        known_LP = arrays["weights"].T
        square_L = np.zeros(len(known_LP))
    else:
        known_LP, square_L = known_features(facts, arrays, samples)
    product_ML = (own_MP @ known_LP.T).astype(np.float64)
    sum_L = known_LP.sum(axis=1)
    square_M = np.square(own_MP).sum(axis=1, dtype=np.float64)
    sum_M = own_MP.sum(axis=1)

    def change(rows: ReplacedReads) -> tuple[NDArray[np.intp], Floats, Floats]:
        """Return the features that may differ, by how much they do, and what all others lose."""
        columns = arrays["columns"]
        if facts["pairs"] == "log-ratios":
            at_X = np.flatnonzero(np.isin(columns, rows.features))
        else:
            at_X = np.flatnonzero(samples.above[rows.features][:, columns].sum(axis=0))
        part = {**arrays, "columns": columns[at_X]}
        logs = kernel_features(
            {**facts, "pairs": "logs"} if facts["pairs"] == "log-ratios" else facts,
            part,
            samples.above,
            samples.lengths,
        )
        difference_RX = logs(rows.counts) - logs(samples.counts)[rows.origin_R]
        # The mean of all logarithms of a sample is taken off each.
        shift_R = np.zeros(len(difference_RX))
        if facts["pairs"] == "log-ratios":
            shift_R = difference_RX.sum(axis=1) / len(columns)
        return at_X, difference_RX, shift_R

    def predict(rows: ReplacedReads) -> Floats:
        at_X, difference_RX, shift_R = change(rows)
        product_RL = product_ML[rows.origin_R]
        product_RL += difference_RX @ known_LP[:, at_X].T
        product_RL -= np.outer(shift_R, sum_L)
        if is_linear:
            return finish_kernel(facts, arrays, product_RL)
        if facts["kernel"] == "linear":
            return finish_kernel(facts, arrays, product_RL / facts["scale"] @ arrays["duals"])
        own_RX = own_MP[np.ix_(rows.origin_R, at_X)]
        square_R = square_M[rows.origin_R] - 2 * shift_R * sum_M[rows.origin_R]
        square_R += (difference_RX * (2 * own_RX + difference_RX)).sum(axis=1)
        square_R -= len(center_P) * shift_R**2
        kernel_RL = np.exp((product_RL - (square_R[:, None] + square_L) / 2) / facts["scale"])
        return finish_kernel(facts, arrays, kernel_RL @ arrays["duals"])

    return predict
