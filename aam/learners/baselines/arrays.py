"""Fitted baselines as plain arrays: what is stored of a method, and how it predicts.

NumPy and SciPy predict, so that what was kept says the same in every version of scikit-learn.
`aam.learners.baselines.fit_arrays` makes these methods.

Trees look at features alone, and so does the elastic net: their arrays hold neither IDs nor reads
of samples. The median of leaves needs the different labels of training, and how many samples of
each a leaf has. Kernels and neighbours compare with training samples, whose reads and distances
they are given.

Shape suffixes: R rows to predict, N training samples, L those of a method, F features, P features
of a method, E branches, V nodes of all trees, T trees, C classes, or 1 for numbers, K neighbours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, softmax

Floats = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]
NODES_AT_ONCE = 1_000_000
"""Rows times trees that are followed at a time."""
ROWS_AT_ONCE = 1024
"""Rows of features and of pairs that are made at a time."""
HALF_EDGE = 1e-9
"""Weight by which a sum may miss the half of it: more than rounding, and less than any label has.
"""


@dataclass(frozen=True, eq=False)
class ComparedSamples:
    """The rows to predict and the training samples, as the methods take them."""

    counts: csr_array
    """Reads, or amounts, [R, F]."""
    above: csr_array
    """1 where a branch lies above a feature, [F, E]."""
    lengths: Floats
    """Lengths of the branches, [E]."""
    kept: csr_array
    """Reads of the training samples, [N, F]; empty where no method asks for them."""
    distances: NDArray[np.float32]
    """Distances of rows to training samples, [R, N]; empty where no method asks for them."""


@dataclass(frozen=True, eq=False)
class FittedMethod:
    """A baseline that was fitted to all labelled samples."""

    facts: Mapping[str, Any]
    """`form`, a key of `FORMS`, and the numbers that it takes; of numbers `unit` and `bounds`."""
    arrays: Arrays
    """Its arrays by name."""

    @property
    def needs_samples(self) -> bool:
        """Whether it predicts from reads or distances of training samples."""
        return "rows" in self.arrays

    @property
    def needs_reads(self) -> bool:
        """Whether it predicts from reads of training samples."""
        return self.needs_samples and not self.needs_distances

    @property
    def needs_distances(self) -> bool:
        """Whether it predicts from distances to training samples."""
        return self.needs_samples and self.facts.get("pairs", "distances") == "distances"

    def predict(self, samples: ComparedSamples) -> Floats:
        """Return numbers [R, 1], or the probabilities of the classes [R, C].

        Parameters
        ----------
        samples
            The rows, and what they are compared with.
        """
        value_RC = FORMS[self.facts["form"]](self.facts, self.arrays, samples)
        if "unit" not in self.facts:
            return value_RC
        return np.clip(value_RC * self.facts["unit"], *self.facts["bounds"])


def _constant(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    return np.tile(arrays["values"].astype(np.float64), (samples.counts.shape[0], 1))


def _mean_of_trees(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return the mean of what all trees say, with equal weights."""

    def mean(leaf_RT: NDArray[np.intp]) -> Floats:
        return arrays["values"][leaf_RT].mean(axis=1)

    return _over_leaves(arrays, samples.counts, mean, np.float32)


def _median_of_leaves(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return the median of the labels that share leaves with each row."""
    pointer = arrays["label_offsets"]
    labels = arrays["labels"]
    weight_VL = csr_array(
        (arrays["label_weights"], arrays["label_numbers"], pointer),
        shape=(len(pointer) - 1, len(labels)),
    )

    def median(leaf_RT: NDArray[np.intp]) -> Floats:
        rows, trees = leaf_RT.shape
        ones = np.ones(leaf_RT.size)
        offsets = np.arange(rows + 1) * trees
        chosen_RV = csr_array((ones, leaf_RT.ravel(), offsets), shape=(rows, weight_VL.shape[0]))
        total_RL = np.cumsum((chosen_RV @ weight_VL).toarray(), axis=1)
        half_R = total_RL[:, -1:] / 2
        number_R = (total_RL < half_R - HALF_EDGE).sum(axis=1)
        # A row whose leaves are all without labels gets the median of training.
        number_R[total_RL[:, -1] == 0] = facts["middle"]
        return labels[number_R][:, None]

    return _over_leaves(arrays, samples.counts, median, np.float32)


def _sum_of_trees(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return the sum of boosted trees: numbers, or what a logistic function makes of it."""
    start_C = arrays["start"]
    columns = len(start_C)

    def total(leaf_RT: NDArray[np.intp]) -> Floats:
        # Trees of a round stand side by side, one for each column.
        value_RT = arrays["values"][leaf_RT][:, :, 0]
        return value_RT.reshape(len(leaf_RT), -1, columns).sum(axis=1) + start_C

    raw_RC = _over_leaves(arrays, samples.counts, total, np.float64)
    if "codes" not in arrays:
        return raw_RC
    share_RC = _logistic(raw_RC)
    return _whole(share_RC, arrays["codes"], facts["classes"])


def _over_leaves(
    arrays: Arrays,
    counts: csr_array,
    combine: Callable[[NDArray[np.intp]], Floats],
    kind: type[np.floating[Any]],
) -> Floats:
    """Return what a function makes of the leaves [R, T] that rows end in, some rows at a time."""
    roots = arrays["roots"]
    columns = arrays["columns"]
    at_once = max(NODES_AT_ONCE // len(roots), 1)
    parts = []
    for first in range(0, counts.shape[0], at_once):
        # Trees were grown from numbers of this kind, and a threshold lies between two of them.
        reads_RP = counts[first : first + at_once][:, columns].toarray().astype(kind)
        parts.append(combine(_leaves(arrays, reads_RP)))
    return np.concatenate(parts)


def _leaves(arrays: Arrays, reads_RP: NDArray[Any]) -> NDArray[np.intp]:
    """Return the node in which each row ends, of every tree."""
    features, thresholds = arrays["features"], arrays["thresholds"]
    left, right = arrays["left"], arrays["right"]
    rows = len(reads_RP)
    node_RT = np.tile(arrays["roots"].astype(np.intp), rows)
    row_A = np.repeat(np.arange(rows), len(arrays["roots"]))
    active = np.flatnonzero(left[node_RT] >= 0)
    while len(active):
        node_A = node_RT[active]
        is_left = reads_RP[row_A[active], features[node_A]] <= thresholds[node_A]
        following = np.where(is_left, left[node_A], right[node_A])
        node_RT[active] = following
        active = active[left[following] >= 0]
    return node_RT.reshape(rows, -1)


def _linear(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return what a linear function of centred log-ratios says."""
    parts = []
    for first in range(0, samples.counts.shape[0], ROWS_AT_ONCE):
        reads_RP = samples.counts[first : first + ROWS_AT_ONCE][:, arrays["columns"]]
        scaled = (log_ratios(reads_RP, facts["added"]) - arrays["mean"]) / arrays["scale"]
        parts.append(scaled @ arrays["coefficients"].T + arrays["intercept"])
    raw_RC = np.concatenate(parts)
    if "codes" not in arrays:
        return raw_RC
    return _whole(_logistic(raw_RC), arrays["codes"], facts["classes"])


def _kernel(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return what a kernel expansion over training samples says, or the weights of features."""
    kernel: Callable[[slice], NDArray[np.floating[Any]]]
    if facts["pairs"] == "distances":
        kernel = _distance_kernel(facts, arrays, samples)
    elif "weights" in arrays:
        kernel = _centred_features(facts, arrays, samples)
    else:
        kernel = _feature_kernel(facts, arrays, samples)
    weights = arrays["weights"] if "weights" in arrays else arrays["duals"]
    parts = [
        kernel(slice(first, first + ROWS_AT_ONCE)) @ weights + arrays["intercept"]
        for first in range(0, samples.counts.shape[0], ROWS_AT_ONCE)
    ]
    value_RC = np.concatenate(parts)
    if "temperature" not in facts:
        return value_RC
    value_RC[:, arrays["is_missing"]] = -np.inf
    share_RC = softmax(value_RC / facts["temperature"], axis=1)
    return _whole(share_RC, arrays["codes"], facts["classes"])


def _distance_kernel(
    facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples
) -> Callable[[slice], Floats]:
    """Return a function that makes the kernel [R, L] of some rows, exp(-d / s)."""

    def kernel(chunk: slice) -> Floats:
        distance_RL = samples.distances[chunk][:, arrays["rows"]].astype(np.float64)
        return np.exp(distance_RL / -facts["scale"])

    return kernel


def _centred_features(
    facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples
) -> Callable[[slice], NDArray[np.floating[Any]]]:
    """Return a function that makes the features [R, P] of some rows."""
    features = kernel_features(facts, arrays, samples.above, samples.lengths)
    center_P = arrays["center"]
    return lambda chunk: features(samples.counts[chunk]).astype(center_P.dtype) - center_P


def _feature_kernel(
    facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples
) -> Callable[[slice], Floats]:
    """Return a function that makes the kernel [R, L] of products of features of some rows."""
    centred = _centred_features(facts, arrays, samples)
    features = kernel_features(facts, arrays, samples.above, samples.lengths)
    center_P = arrays["center"]
    parts = []
    squares = []
    for first in range(0, len(arrays["rows"]), ROWS_AT_ONCE):
        rows = arrays["rows"][first : first + ROWS_AT_ONCE]
        part_LP = features(csr_array(samples.kept[rows])).astype(center_P.dtype) - center_P
        squares.append(np.square(part_LP).sum(axis=1, dtype=np.float64))
        parts.append(part_LP @ arrays["axes"] if "axes" in arrays else part_LP)
    known_LP = np.concatenate(parts)
    square_L = np.concatenate(squares)

    def kernel(chunk: slice) -> Floats:
        part_RP = centred(chunk)
        square_R = np.square(part_RP).sum(axis=1, dtype=np.float64)
        if "axes" in arrays:
            part_RP = part_RP @ arrays["axes"]
        product_RL = (part_RP @ known_LP.T).astype(np.float64)
        if facts["kernel"] == "linear":
            return product_RL / facts["scale"]
        return np.exp((product_RL - (square_R[:, None] + square_L) / 2) / facts["scale"])

    return kernel


def kernel_features(
    facts: Mapping[str, Any], arrays: Arrays, above: csr_array, lengths: Floats
) -> Callable[[csr_array], Floats]:
    """Return the function that makes the features of a kernel from reads.

    Parameters
    ----------
    facts, arrays
        Those of the method.
    above, lengths
        The tree, as `ComparedSamples` has it.
    """
    columns = arrays["columns"]
    if facts["pairs"] == "log-ratios":
        return lambda counts: log_ratios(counts[:, columns], facts["added"])
    above_FE = above[:, columns]
    root_E = np.sqrt(lengths[columns])
    return lambda counts: np.log((counts @ above_FE).toarray() + facts["added"]) * root_E


def _neighbours(facts: Mapping[str, Any], arrays: Arrays, samples: ComparedSamples) -> Floats:
    """Return the mean of the nearest training samples, weighted by the inverse of the distance."""
    distance_RL = samples.distances[:, arrays["rows"]]
    nearest_RK = np.argpartition(distance_RL, facts["neighbours"] - 1, axis=1)
    nearest_RK = nearest_RK[:, : facts["neighbours"]]
    distance_RK = np.take_along_axis(distance_RL, nearest_RK, axis=1)
    order_RK = np.argsort(distance_RK, axis=1)
    nearest_RK = np.take_along_axis(nearest_RK, order_RK, axis=1)
    distance_RK = np.take_along_axis(distance_RK, order_RK, axis=1)
    with np.errstate(divide="ignore"):
        weight_RK = 1.0 / distance_RK
    # Copies of a sample decide alone.
    is_same_RK = np.isinf(weight_RK)
    has_same_R = is_same_RK.any(axis=1)
    weight_RK[has_same_R] = is_same_RK[has_same_R]
    target_RKC = arrays["targets"][nearest_RK]
    value_RC = (target_RKC * weight_RK[:, :, None]).sum(axis=1)
    if "unit" in facts:
        return value_RC / weight_RK.sum(axis=1, keepdims=True)
    return value_RC / value_RC.sum(axis=1, keepdims=True)


def log_ratios(reads_NP: csr_array, added: float) -> Floats:
    """Return centred log-ratios, as `linear_and_nearest.centred_log_ratios` does.

    Parameters
    ----------
    reads_NP
        Reads.
    added
        What is added to each.
    """
    logs_NP = np.log(reads_NP.toarray() + added)
    return logs_NP - logs_NP.mean(axis=1, keepdims=True)


def _logistic(raw_RC: Floats) -> Floats:
    """Return probabilities of decision values: one for the second of two classes, or one each."""
    if raw_RC.shape[1] == 1:
        share_R = expit(raw_RC[:, 0])
        return np.stack([1 - share_R, share_R], axis=1)
    return softmax(raw_RC, axis=1)


def _whole(share_RC: Floats, codes: NDArray[np.intp], classes: int) -> Floats:
    """Return probabilities of all classes, of which `codes` have the columns that are given."""
    whole_RC = np.zeros((len(share_RC), classes))
    whole_RC[:, codes] = share_RC
    return whole_RC


FORMS: Mapping[str, Callable[[Mapping[str, Any], Arrays, ComparedSamples], Floats]] = {
    "constant": _constant,
    "mean of trees": _mean_of_trees,
    "median of leaves": _median_of_leaves,
    "sum of trees": _sum_of_trees,
    "linear": _linear,
    "kernel": _kernel,
    "neighbours": _neighbours,
}
"""What predicts, by the form of a method."""


def write_methods(methods: Mapping[str, FittedMethod]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts of methods, as JSON has them, and their arrays, by name.

    Parameters
    ----------
    methods
        By a name without a slash.
    """
    facts = {name: dict(method.facts) for name, method in methods.items()}
    arrays = {
        f"{name}/{key}": np.ascontiguousarray(array)
        for name, method in methods.items()
        for key, array in method.arrays.items()
    }
    return facts, arrays


def read_methods(facts: Mapping[str, Any], arrays: Arrays) -> dict[str, FittedMethod]:
    """Return the methods that `write_methods` took apart.

    Parameters
    ----------
    facts, arrays
        What it returned.
    """
    methods = {}
    for name, own in facts.items():
        keys = [key for key in arrays if key.rpartition("/")[0] == name]
        methods[name] = FittedMethod(own, {key.rpartition("/")[2]: arrays[key] for key in keys})
    return methods
