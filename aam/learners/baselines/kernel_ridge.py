"""Kernel ridge regression, which for classes is a least-squares support vector machine.

A fit is one solution of linear equations. So settings can be tried on all parts of the training
samples, and the fits of a nested cross-validation share them: a part that is left out of one is the
fold that is left out of another.

With the kernel K of the training samples, their targets y, their weights w and the penalty, the
predictions are k(x) a + b, where

    (K + penalty diag(1 / w)) a + b = y  and  sum(a) = 0.

Classes are targets of 1 and -1, one column each, and all classes have the same weight. Saunders,
Gammerman & Vovk (1998), Ridge regression learning algorithm in dual variables, ICML; Suykens &
Vandewalle (1999), Least squares support vector machine classifiers, doi:10.1023/A:1018628609742.

Shape suffixes: N samples, L samples that pairs are taken with (all, or landmarks), T training
samples, R rows to predict, P features, C columns of the target: classes, or 1 for numbers, S
penalties.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve
from scipy.sparse import csr_array
from scipy.special import log_softmax, softmax
from sklearn.utils.extmath import randomized_svd

from aam.learners.baselines.linear_and_nearest import centred_log_ratios, clade_logs
from aam.learners.baselines.problem import (
    Prediction,
    Problem,
    RowSplit,
    leave_each_part_out,
    prevalent_reads,
)
from aam.learners.temperature import fit_logit_temperature
from aam.util.seeds import generator

PENALTIES = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""Candidate penalties, the strongest first: of equals it is taken."""
UNTUNED = 4
"""Position of the penalty where no part can be left out."""
NUGGET = 1e-5
"""What is added to the diagonal, since distances are kept in 32 bits."""
TUNED_SAMPLES = 2500
"""Labelled samples that settings are tried on, at most."""
MOST_AXES = 2000
"""Features of landmarks beyond which their leading axes stand for them."""
SKETCHED_SAMPLES = 4000
"""Landmarks that decide the axes, at most."""
ROWS_AT_ONCE = 1024
"""Rows of pairs, and of features of landmarks, that are made at a time."""

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureProducts:
    """FeatureProducts of the features of samples."""

    pairs: Callable[[Rows, Rows], Floats]
    """FeatureProducts [R, T] of rows with training samples."""
    square_N: Floats
    """Square lengths of the features."""
    center_P: NDArray[np.floating]
    """What is subtracted from features first."""
    axes_PD: NDArray[np.float32] | None = None
    """Axes that features are projected on; None: they are taken as they are."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of pairs of samples, whose scale the training samples decide."""

    pairs: Callable[[Rows, Rows], Floats]
    """FeatureProducts or distances [R, T] of rows with training samples."""
    measure: Callable[[Floats], float]
    """Scale of the pairs of the training samples [T, T]."""
    value: Callable[[Floats, Rows, Rows, float], Floats]
    """Kernel [R, T] of pairs, given the rows, the training samples and the scale."""
    products: FeatureProducts | None = None
    """What the pairs are of; None: distances."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """A fit: the kernel of a row with training samples, times `dual_TC`, and `intercept_C`."""

    kernel: int
    """Number of the kernel among the candidates."""
    train: Rows
    scale: float
    temperature: float
    """What decision values of classes are divided by."""
    dual_TC: Floats
    intercept_C: Floats
    is_missing_C: NDArray[np.bool_]
    """Classes without training samples."""


def kernel_clr(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict with a linear or a Gaussian kernel of centred log-ratios.

    Parameters
    ----------
    task
        The labelled samples, as `Problem.encode` returns them.
    splits
        Rows to train on and rows to predict.

    Returns
    -------
    list of tuple
        The `Prediction` of each split.
    """
    return ridge_clr(task)(splits)


def ridge_clr(task: Problem) -> "KernelRidge":
    """Return the fits of `kernel_clr`.

    Parameters
    ----------
    task
        The labelled samples.
    """
    labelled = task.learn_from(np.flatnonzero(task.fold >= 0))
    log_ratios = partial(centred_log_ratios, added=labelled.pseudocount)
    return KernelRidge(task, _feature_kernels(task, prevalent_reads(labelled), log_ratios))


def kernel_clades(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict with a linear or a Gaussian kernel of the log-reads of the clades of the tree.

    Parameters and results are those of `kernel_clr`.
    """
    return ridge_clades(task)(splits)


def ridge_clades(task: Problem) -> "KernelRidge":
    """Return the fits of `kernel_clades`; for the parameter see `ridge_clr`."""
    labelled = task.learn_from(np.flatnonzero(task.fold >= 0))
    return KernelRidge(task, _feature_kernels(task, task.counts, clade_logs(labelled)))


def kernel_distances(task: Problem, splits: Sequence[RowSplit]) -> list[Prediction]:
    """Predict with exp(-d / s), where s is the median distance of the training pairs.

    The distance d is unweighted UniFrac, or without a tree Bray-Curtis. With its square, the kernel
    would not be positive semidefinite. Parameters and results are those of `kernel_clr`.
    """
    return ridge_distances(task)(splits)


def ridge_distances(task: Problem) -> "KernelRidge":
    """Return the fits of `kernel_distances`; for the parameter see `ridge_clr`."""
    return KernelRidge(task, [_laplacian(task)])


def predict_with_kernels(
    task: Problem, splits: Sequence[RowSplit], kernels: Sequence[Kernel]
) -> list[Prediction]:
    """Predict with the kernel and the penalty that suit parts of the training samples best.

    Parameters
    ----------
    task, splits
        See `kernel_clr`.
    kernels
        Candidates; the first of equals is taken.

    Returns
    -------
    list of tuple
        The `Prediction` of each split.
    """
    return KernelRidge(task, kernels)(splits)


def _laplacian(task: Problem) -> Kernel:
    """Return the kernel exp(-d / s) of the distances of a task."""

    def distances(rows: Rows, train: Rows) -> Floats:
        columns = train if task.landmarks is None else np.searchsorted(task.landmarks, train)
        return task.distances[np.ix_(rows, columns)].astype(np.float64)

    def median(distances_TT: Floats) -> float:
        pairs = distances_TT[np.triu_indices(len(distances_TT), 1)]
        if not len(pairs):
            return 1.0
        # The median is 0 where most samples are copies, and the mean where all are.
        return float(np.median(pairs) or pairs.mean() or 1.0)

    def value(distances_RT: Floats, rows: Rows, train: Rows, scale: float) -> Floats:
        return np.exp(distances_RT / -scale)

    return Kernel(distances, median, value)


def _feature_kernels(
    task: Problem, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> list[Kernel]:
    """Return a linear and a Gaussian kernel of features of the reads.

    Features are scaled as a whole, so that those that vary more count more: the mean square of the
    distance of two training samples is then 2. The intercept stands for their centre.

    Parameters
    ----------
    task
        The samples.
    reads_NF
        Reads of all samples.
    features
        Makes features, [N, P], of reads.
    """
    products = (
        _all_products(np.flatnonzero(task.fold >= 0), reads_NF, features)
        if task.landmarks is None
        else _landmark_products(task.landmarks, reads_NF, features)
    )

    def variance(product_TT: Floats) -> float:
        variance = float(np.diag(product_TT).mean() - product_TT.mean())
        # Samples that are all alike differ by rounding alone.
        return variance if variance > 1e-9 else 1.0

    def linear(product_RT: Floats, rows: Rows, train: Rows, scale: float) -> Floats:
        return product_RT / scale

    def gaussian(product_RT: Floats, rows: Rows, train: Rows, scale: float) -> Floats:
        square_N = products.square_N
        squares_RT = (square_N[rows][:, None] + square_N[train]) / 2
        return np.exp((product_RT - squares_RT) / scale)

    return [Kernel(products.pairs, variance, value, products) for value in (linear, gaussian)]


def _all_products(
    labelled: Rows, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> FeatureProducts:
    """Return the products of the features of rows and labelled ones."""
    labelled_LP = features(reads_NF[labelled])
    # Kernels do not depend on the origin, and numbers near it are rounded less.
    center_P = labelled_LP.mean(axis=0)
    labelled_LP -= center_P
    samples = reads_NF.shape[0]
    product_NL = np.empty((samples, len(labelled)))
    product_NL[labelled] = labelled_LP @ labelled_LP.T
    square_N = np.empty(samples)
    square_N[labelled] = np.diag(product_NL[labelled])
    # Rows to predict may be many more than those with labels.
    for rows in _blocks(np.setdiff1d(np.arange(samples), labelled)):
        features_RP = features(reads_NF[rows]) - center_P
        product_NL[rows] = features_RP @ labelled_LP.T
        square_N[rows] = np.square(features_RP).sum(axis=1)
    column_N = np.full(samples, -1)
    column_N[labelled] = np.arange(len(labelled))

    def pairs(rows: Rows, others: Rows) -> Floats:
        return product_NL[np.ix_(rows, column_N[others])]

    return FeatureProducts(pairs, square_N, center_P)


def _landmark_products(
    landmarks: Rows, reads_NF: csr_array, features: Callable[[csr_array], Floats]
) -> FeatureProducts:
    """Return what `_all_products` returns, with products of rows and landmarks, in fp32.

    Neither the features nor the pairs of all samples would fit into memory: some rows are made at a
    time. More than `MOST_AXES` features are projected on the leading axes of some landmarks
    (randomized singular value decomposition: Halko, Martinsson & Tropp 2011,
    doi:10.1137/090771806), so that products are those within their span; square lengths stay those
    of all features.
    """

    def narrow(rows: Rows) -> NDArray[np.float32]:
        return features(reads_NF[rows]).astype(np.float32)

    sketched = landmarks[np.linspace(0, len(landmarks) - 1, SKETCHED_SAMPLES).astype(np.intp)]
    features_SP = np.concatenate([narrow(rows) for rows in _blocks(np.unique(sketched))])
    center_P = features_SP.mean(axis=0, dtype=np.float64).astype(np.float32)
    features_SP -= center_P
    axes_PD = None
    if features_SP.shape[1] > MOST_AXES:
        _, _, axes_DP = randomized_svd(features_SP, MOST_AXES, n_iter=1, random_state=0)
        axes_PD = axes_DP.T
    del features_SP
    square_N = np.empty(reads_NF.shape[0])
    parts = []
    for rows in _blocks(np.arange(reads_NF.shape[0])):
        features_RP = narrow(rows) - center_P
        square_N[rows] = np.square(features_RP).sum(axis=1, dtype=np.float64)
        parts.append(features_RP if axes_PD is None else features_RP @ axes_PD)
    axes_ND = np.concatenate(parts)

    def products(rows: Rows, others: Rows) -> Floats:
        return (axes_ND[rows] @ axes_ND[others].T).astype(np.float64)

    return FeatureProducts(products, square_N, center_P, axes_PD)


def _blocks(rows: Rows) -> list[Rows]:
    """Return rows in blocks of `ROWS_AT_ONCE`."""
    return [rows[first : first + ROWS_AT_ONCE] for first in range(0, len(rows), ROWS_AT_ONCE)]


@dataclass(frozen=True, eq=False)
class _Setting:
    """A kernel and a penalty, and what decision values are divided by."""

    kernel: int
    penalty: int
    temperature: float


@dataclass(eq=False)
class KernelRidge:
    """The fits of a task, which share what was tried on parts of the training samples."""

    task: Problem
    kernels: Sequence[Kernel]
    target_NC: Floats = field(init=False)
    """Numbers, or 1 and -1."""
    code_N: NDArray[np.int64] = field(init=False)
    """Codes of the classes; of numbers all are 0."""
    tuned: Rows = field(init=False)
    """Labelled rows that settings are tried on."""
    tried: dict[bytes, list[Floats]] = field(init=False, default_factory=dict)
    """What `_try` returns, by the rows that were trained on."""

    def __post_init__(self) -> None:
        task = self.task
        if task.regression:
            self.target_NC = task.target.astype(np.float64)[:, None]
            self.code_N = np.zeros(len(task.target), np.int64)
        else:
            self.code_N = task.target
            self.target_NC = 2.0 * np.eye(len(task.classes))[self.code_N] - 1.0
        labelled = np.flatnonzero(task.fold >= 0)
        if task.landmarks is not None:
            labelled = np.intersect1d(labelled, task.landmarks)
        if len(labelled) > TUNED_SAMPLES:
            draw = generator("kernel ridge", task.seed)
            labelled = np.sort(draw.choice(labelled, TUNED_SAMPLES, replace=False))
        self.tuned = labelled

    def __call__(self, splits: Sequence[RowSplit]) -> list[Prediction]:
        """Return the prediction of each split."""
        return [self._predict(train, rows) for train, rows in splits]

    def _predict(self, train: Rows, rows: Rows) -> Prediction:
        task = self.task
        train = self._learned(train)
        setting = self._choose(train)
        kernel = self.kernels[setting.kernel]
        penalties = PENALTIES[setting.penalty : setting.penalty + 1]
        value_RC = self._fit(kernel, train, rows, penalties)[0]
        if task.regression:
            return value_RC[:, 0], np.zeros((len(rows), 0))
        # A class without training samples is never predicted.
        value_RC[:, np.bincount(self.code_N[train], minlength=value_RC.shape[1]) == 0] = -np.inf
        share_RC = softmax(value_RC / setting.temperature, axis=1)
        return task.decode(np.arange(len(task.classes)), share_RC)

    def solve(self, train: Rows) -> Expansion:
        """Return the fit to some rows.

        Parameters
        ----------
        train
            The training rows; where there are landmarks, these alone are learned from.
        """
        train = self._learned(train)
        setting = self._choose(train)
        penalties = PENALTIES[setting.penalty : setting.penalty + 1]
        scale, solved = self._solve(self.kernels[setting.kernel], train, penalties)
        dual_TC, intercept_C = solved[0]
        seen_C = np.bincount(self.code_N[train], minlength=dual_TC.shape[1])
        return Expansion(
            kernel=setting.kernel,
            train=train,
            scale=scale,
            temperature=setting.temperature,
            dual_TC=dual_TC,
            intercept_C=intercept_C,
            is_missing_C=seen_C == 0,
        )

    def _learned(self, train: Rows) -> Rows:
        """Return the rows that are learned from: landmarks alone, where there are some."""
        landmarks = self.task.landmarks
        return train if landmarks is None else np.intersect1d(train, landmarks)

    def _choose(self, train: Rows) -> _Setting:
        """Return the setting with the least loss on parts of the training samples.

        The loss of numbers is the absolute error, that of classes the log loss at the best
        temperature, with the same weight for all classes.
        """
        task = self.task
        part = task.learn_from(np.intersect1d(train, self.tuned))
        splits = leave_each_part_out(part)
        position_N = np.full(len(task.fold), -1)
        position_N[self.tuned] = np.arange(len(self.tuned))
        tuned = part.train
        left_out = [tuned[left] for _, left in splits]
        rows = np.concatenate(left_out) if splits else tuned[:0]
        best = (np.inf, _Setting(0, UNTUNED, 1.0))
        for number in range(len(self.kernels)) if splits else ():
            tried = [self._try(tuned[inner])[number] for inner, _ in splits]
            value_SRC = np.concatenate(
                [
                    value_SNC[:, position_N[left]]
                    for value_SNC, left in zip(tried, left_out, strict=True)
                ],
                axis=1,
            )
            for penalty, value_RC in enumerate(value_SRC):
                loss, temperature = self._loss(value_RC, rows)
                if loss < best[0]:
                    best = (loss, _Setting(number, penalty, temperature))
        return best[1]

    def _loss(self, value_RC: Floats, rows: Rows) -> tuple[float, float]:
        """Return the loss of left-out values, and the temperature, 1 for numbers."""
        if self.task.regression:
            return float(np.abs(value_RC[:, 0] - self.target_NC[rows, 0]).mean()), 1.0
        code_R = self.code_N[rows]
        weight_R = 1.0 / np.bincount(code_R)[code_R]
        temperature = fit_logit_temperature(value_RC, code_R, weight_N=weight_R)
        log_share_RC = log_softmax(value_RC / temperature, axis=1)
        log_share_R = log_share_RC[np.arange(len(rows)), code_R]
        return -float(np.average(log_share_R, weights=weight_R)), temperature

    def _try(self, train: Rows) -> list[Floats]:
        """Return what each kernel and penalty say of the tuned rows, [S, N, C] by kernel.

        Rows that were trained on have 0.
        """
        key = train.tobytes()
        if key not in self.tried:
            is_new = ~np.isin(self.tuned, train)
            values = []
            for kernel in self.kernels:
                value_SNC = np.zeros((len(PENALTIES), len(self.tuned), self.target_NC.shape[1]))
                value_SNC[:, is_new] = self._fit(kernel, train, self.tuned[is_new], PENALTIES)
                values.append(value_SNC)
            self.tried[key] = values
        return self.tried[key]

    def _fit(self, kernel: Kernel, train: Rows, rows: Rows, penalties: Sequence[float]) -> Floats:
        """Return what a fit with each of some penalties says of rows, [S, R, C]."""
        scale, solved = self._solve(kernel, train, penalties)
        value_SRC = np.empty((len(penalties), len(rows), self.target_NC.shape[1]))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[first : first + ROWS_AT_ONCE]
            kernel_RT = kernel.value(kernel.pairs(part, train), part, train, scale)
            for values_RC, (dual_TC, intercept_C) in zip(value_SRC, solved, strict=True):
                values_RC[first : first + ROWS_AT_ONCE] = kernel_RT @ dual_TC + intercept_C
        return value_SRC

    def _solve(
        self, kernel: Kernel, train: Rows, penalties: Sequence[float]
    ) -> tuple[float, list[tuple[Floats, Floats]]]:
        """Return the scale of a kernel, and what `solve_ridge` returns for each penalty."""
        pairs_TT = kernel.pairs(train, train)
        scale = kernel.measure(pairs_TT)
        kernel_TT = kernel.value(pairs_TT, train, train, scale)
        del pairs_TT
        weight_T = np.ones(len(train))
        if not self.task.regression:
            samples_C = np.bincount(self.code_N[train], minlength=self.target_NC.shape[1])
            weight_T = (1.0 / np.maximum(samples_C, 1))[self.code_N[train]]
            weight_T /= weight_T.mean()
        return scale, [
            solve_ridge(kernel_TT, self.target_NC[train], weight_T, penalty)
            for penalty in penalties
        ]


def solve_ridge(
    kernel_TT: Floats, target_TC: Floats, weight_T: Floats, penalty: float
) -> tuple[Floats, Floats]:
    """Solve the equations of the module.

    Parameters
    ----------
    kernel_TT
        Kernel of the training samples.
    target_TC
        Their targets.
    weight_T
        Their weights, all positive.
    penalty
        Penalty on the squared norm of the function, for weights of 1.

    Returns
    -------
    tuple
        a [T, C] and b [C].
    """
    system_TT = kernel_TT.copy()
    # In place, since the matrices of a large study take half a gigabyte each.
    np.einsum("tt->t", system_TT)[:] += penalty / weight_T + NUGGET
    # Numbers far from 0 are rounded less if they are solved as differences.
    origin_C = target_TC.mean(axis=0)
    right = np.column_stack([target_TC - origin_C, np.ones(len(target_TC))])
    try:
        solved = cho_solve(cho_factor(system_TT, lower=True, check_finite=False), right)
    except np.linalg.LinAlgError:
        # Not every kernel of distances is positive semidefinite.
        solved = solve(system_TT, right, assume_a="symmetric")
    dual_TC, ones_T = solved[:, :-1], solved[:, -1]
    intercept_C = dual_TC.sum(axis=0) / ones_T.sum()
    return dual_TC - np.outer(ones_T, intercept_C), intercept_C + origin_C
