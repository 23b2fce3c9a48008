"""Which clades the predictions of a task rest on, with a known rate of false ones.

A machine learns the label from the log-reads of all clades, on the training folds of the task. A
clade is asked what its reads say beyond the rest: in a held-out sample they are replaced by those
of samples that are alike outside of the clade, one after the other. With the label y, the
prediction f and the mean m of the predictions with replaced reads,

    (y - m) (f - m)

is positive on average if what the clade adds to the prediction points to the label. If the label
depends on nothing of the clade, given the rest, it is 0 on average. That holds if either m is right
or the other samples stand well for the clade's reads given the rest (the projected covariance
measure of Lundborg, Kim, Shah & Samworth 2024, doi:10.1214/24-AOS2447; the generalised one of Shah
& Peters 2020, doi:10.1214/19-AOS1857). Sums over the samples of a unit make a t-test, so that many
samples of few persons count as few.

Tests begin at the root and go on below what has passed, so that a few dozen ask thousands of
features. The finest clades that pass are named. Then all clades are tested again,
with what the other named ones say taken out of both factors, since what is related to a named clade
would pass, too; so until the names stay the same, in `PASSES` passes at most.

Shape suffixes: N samples, T training samples, F features, B nodes of the tree in preorder, R axes,
K samples that stand in, C columns of the label, V nodes below and above a clade, U units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.sparse import csr_array

from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

if TYPE_CHECKING:
    # What explains predictions needs no scikit-learn.
    from aam.learners.baselines.problem import Problem

ROOT = 0
"""Number of the root."""
NOMINAL = 0.05
"""Tests that would pass by chance, per named clade, by the level of the tests.

It is less than the one in ten that may be false, because the tests are not exact: chosen on
half-synthetic studies of mackerels and houses (docs/explanation/importance.md)."""
LOOSEST = 0.05
"""Largest level of a test."""
STAND_INS = 5
"""Samples whose reads of a clade stand for those of a sample."""
PASSES = 3
"""Times that all is tested, each time given what was named before."""
LEAST_PREVALENCE = 0.05
"""Fraction of the samples that a feature must be in to be a tip."""
LEAST_TESTED = 0.1
"""Fraction of the samples that a clade must be in to be tested."""
MOST_SAMPLES = 2000
"""Samples that are looked at, in whole units."""
READS = 2000.0
"""Reads of a sample, by which logarithms are taken: log(1 + READS share)."""
HALF_READ = 5e-4
"""Share that is added before the logarithm of what the named clades say."""
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidate penalties of the machine, in units of the mean eigenvalue of its kernel."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Clades:
    """The clades of a table, as far as they are frequent enough, in preorder.

    Attributes
    ----------
    parent_B
        Parent of each node; -1 for the root.
    end_B
        Number behind the last node below each.
    length_B
        Length of the branch above each.
    share_NB
        Share of each sample's reads below each.
    tip_B
        Number of the feature at a tip; -1 for others.
    """

    parent_B: NDArray[np.intp]
    end_B: NDArray[np.intp]
    length_B: Floats
    share_NB: Floats
    tip_B: NDArray[np.intp]

    @classmethod
    def of_table(
        cls, counts: csr_array, feature_ids: Sequence[str], tree: TreeNode | None
    ) -> "Clades":
        """Return the clades of a table.

        Parameters
        ----------
        counts
            Reads or amounts [N, F].
        feature_ids
            IDs of the features.
        tree
            A tree with the features at its tips; None: each feature is a clade below the root.
        """
        samples, features = counts.shape
        present_F = np.bincount(counts.indices[counts.data > 0], minlength=features)
        # Of all features the matrix would take gigabytes.
        frequent = np.flatnonzero(present_F >= LEAST_PREVALENCE * samples)
        number = {feature_ids[feature]: at for at, feature in enumerate(frequent.tolist())}
        nodes = _star(number) if tree is None else _frequent_nodes(tree, number)
        parent_B = np.array([parent for parent, _, _ in nodes], np.intp)
        tip_B = np.array([tip for _, _, tip in nodes], np.intp)
        tip_B = np.where(tip_B >= 0, frequent[tip_B], -1) if len(frequent) else tip_B
        end_B = np.arange(1, len(nodes) + 1)
        for node in range(len(nodes) - 1, ROOT, -1):
            end_B[parent_B[node]] = max(end_B[parent_B[node]], end_B[node])
        return cls(
            parent_B=parent_B,
            end_B=end_B,
            length_B=np.array([length for _, length, _ in nodes]),
            share_NB=_share_below(counts, parent_B, tip_B),
            tip_B=tip_B,
        )

    def of_draw(self, counts: csr_array) -> "Clades":
        """Return the same clades with other reads of the samples.

        Parameters
        ----------
        counts
            Reads or amounts [N, F].
        """
        return replace(self, share_NB=_share_below(counts, self.parent_B, self.tip_B))

    @cached_property
    def children(self) -> list[list[int]]:
        """Children of each node that are in enough samples to be tested."""
        children: list[list[int]] = [[] for _ in self.parent_B]
        is_tested_B = (self.share_NB > 0).mean(axis=0) >= LEAST_TESTED
        for node in range(ROOT + 1, len(self.parent_B)):
            if is_tested_B[node]:
                children[self.parent_B[node]].append(node)
        return children

    def above(self, node: int) -> list[int]:
        """Return the nodes above one, the nearest first."""
        nodes = []
        while node != ROOT:
            node = int(self.parent_B[node])
            nodes.append(node)
        return nodes

    def overlap(self, one: int, other: int) -> bool:
        """Return whether one of two clades is within the other."""
        return one <= other < self.end_B[one] or other <= one < self.end_B[other]

    def features(self, node: int) -> NDArray[np.intp]:
        """Return the numbers of the frequent features of a clade."""
        tips = self.tip_B[node : self.end_B[node]]
        return tips[tips >= 0]

    def find(self, features: NDArray[np.intp]) -> int:
        """Return the smallest clade that has some features, as far as they are frequent enough.

        Parameters
        ----------
        features
            Numbers of the features.
        """
        tips = np.flatnonzero(np.isin(self.tip_B, features) & (self.tip_B >= 0))
        if not len(tips):
            return ROOT
        holds_B = (np.arange(len(self.end_B)) <= tips[0]) & (self.end_B > tips[-1])
        return int(np.flatnonzero(holds_B)[-1])

    @cached_property
    def logs_NB(self) -> Floats:
        """log(1 + READS share) below each node, times the root of the branch's length."""
        return np.log1p(READS * self.share_NB) * self.root_B

    @cached_property
    def root_B(self) -> Floats:
        """Roots of the lengths of the branches."""
        return np.sqrt(np.maximum(self.length_B, 1e-4))


@dataclass(frozen=True)
class NamedClade:
    """A clade that the label depends on."""

    node: int
    """Number in `Clades`."""
    p: float
    """Of the last test, given the others that are named."""
    effect: float
    """Fraction of the label's variance that held-out predictions lose without its reads."""
    folds: int
    """Folds in which they lose something."""


@dataclass(frozen=True, eq=False)
class _Machine:
    """Ridge regressions on log-reads of clades, one per fold, in which the fold had no part."""

    weight_BC: Sequence[Floats]
    fold_N: NDArray[np.intp]
    """Number of the regression that predicts each sample."""
    predicted_NC: Floats

    @classmethod
    def fit(cls, features_NB: Floats, label_NC: Floats, fold_N: NDArray[np.intp]) -> "_Machine":
        """Fit the regressions; generalized cross-validation chooses each penalty."""
        weights = []
        predicted_NC = np.empty_like(label_NC)
        for fold in range(int(fold_N.max()) + 1):
            is_test_N = fold_N == fold
            train_TB = features_NB[~is_test_N]
            center_B = train_TB.mean(axis=0)
            mean_C = label_NC[~is_test_N].mean(axis=0)
            centered_TB = train_TB - center_B
            centered_TC = label_NC[~is_test_N] - mean_C
            value_R, vector_TR = _decompose(centered_TB)
            scale = float(value_R.sum()) / len(centered_TB) or 1.0
            errors = [
                _generalized_error(value_R, vector_TR, centered_TC, scale * candidate)
                for candidate in PENALTIES
            ]
            penalty = scale * PENALTIES[int(np.argmin(errors))]
            turned_RC = vector_TR.T @ centered_TC
            weight_BC = centered_TB.T @ (vector_TR @ (turned_RC / (value_R + penalty)[:, None]))
            weights.append(weight_BC)
            predicted_NC[is_test_N] = mean_C + (features_NB[is_test_N] - center_B) @ weight_BC
        return cls(weights, fold_N, predicted_NC)

    def change(self, change_NV: Floats, columns: NDArray[np.intp]) -> Floats:
        """Return by how much predictions change with some features, [N, C]."""
        result_NC = np.empty_like(self.predicted_NC)
        for fold, weight_BC in enumerate(self.weight_BC):
            is_test_N = self.fold_N == fold
            result_NC[is_test_N] = change_NV[is_test_N] @ weight_BC[columns]
        return result_NC


def _decompose(features_TB: Floats) -> tuple[Floats, Floats]:
    """Return the positive eigenvalues of the products of rows, and their vectors [T, R]."""
    samples, columns = features_TB.shape
    if samples <= columns:
        value_R, vector_TR = np.linalg.eigh(features_TB @ features_TB.T)
    else:
        value_R, vector_BR = np.linalg.eigh(features_TB.T @ features_TB)
        vector_TR = features_TB @ vector_BR / np.sqrt(np.maximum(value_R, 1e-300))
    is_positive_R = value_R > 1e-9 * max(float(value_R[-1]), 1e-300)
    return value_R[is_positive_R], vector_TR[:, is_positive_R]


def _generalized_error(
    value_R: Floats, vector_TR: Floats, label_TC: Floats, penalty: float
) -> float:
    """Return the error of generalized cross-validation (Golub, Heath & Wahba 1979)."""
    taken_R = value_R / (value_R + penalty)
    left_TC = label_TC - vector_TR @ (taken_R[:, None] * (vector_TR.T @ label_TC))
    return float((left_TC**2).sum() / (1 - taken_R.sum() / len(label_TC)) ** 2)


@dataclass(eq=False)
class CladeTests:
    """The tests of a task's clades.

    Attributes
    ----------
    clades
        Of the samples that are labelled.
    label_NC
        Numbers, or 1 in the column of the class, [N, C].
    fold_N
        Fold of each sample, from 0.
    unit_N
        Number of the unit of each sample.
    """

    clades: Clades
    label_NC: Floats
    fold_N: NDArray[np.intp]
    unit_N: NDArray[np.intp]
    without: dict[int, Floats] = field(default_factory=dict)
    """Predictions without what each clade says, as far as they were asked for."""

    @classmethod
    def of_task(cls, task: "Problem", rows: NDArray[np.intp], clades: Clades) -> "CladeTests":
        """Return the tests of a task.

        Parameters
        ----------
        task
            The labelled samples.
        rows
            Those that are looked at (`choose_rows`).
        clades
            Of these rows.
        """
        units = np.unique(task.units[rows], return_inverse=True)[1]
        target = task.target[rows]
        if task.regression:
            label_NC = np.asarray(target, np.float64)[:, None]
        else:
            label_NC = (target[:, None] == np.asarray(task.classes)).astype(np.float64)
        folds = np.unique(task.fold[rows], return_inverse=True)[1]
        return cls(clades, label_NC, folds, units)

    @cached_property
    def machine(self) -> _Machine:
        """What predicts from all clades."""
        return _Machine.fit(self.clades.logs_NB, self.label_NC, self.fold_N)

    @cached_property
    def distance_NN(self) -> Floats:
        """Squared distances of the samples by all clades; infinite within a unit."""
        distance_NN = squared_distances(self.clades.logs_NB, self.clades.logs_NB)
        distance_NN[self.unit_N[:, None] == self.unit_N] = np.inf
        return distance_NN

    def predict_without(self, node: int) -> Floats:
        """Return the mean of the predictions with reads of a clade that other samples have.

        Parameters
        ----------
        node
            The clade; of the root nothing is left but the mean of the training folds.
        """
        if node in self.without:
            return self.without[node]
        if node == ROOT:
            found = np.empty_like(self.label_NC)
            for fold in range(int(self.fold_N.max()) + 1):
                found[self.fold_N == fold] = self.label_NC[self.fold_N != fold].mean(axis=0)
        else:
            found = self._mean_with_stand_ins(node)
        self.without[node] = found
        return found

    def find_stand_ins(self, columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the samples of other units that are most alike outside of some nodes, [N, K]."""
        beyond_NV = self.clades.logs_NB[:, columns]
        rest_NN = self.distance_NN - squared_distances(beyond_NV, beyond_NV)
        others = min(STAND_INS, int(np.isfinite(rest_NN).sum(axis=1).min()))
        return np.argpartition(rest_NN, max(others - 1, 0), axis=1)[:, :others]

    def _mean_with_stand_ins(self, node: int) -> Floats:
        clades = self.clades
        below = np.arange(node, clades.end_B[node])
        above = np.array(clades.above(node))
        columns = np.concatenate([below, above])
        stand_in_NK = self.find_stand_ins(columns)
        share_N = clades.share_NB[:, node]
        total_NC = np.zeros_like(self.label_NC)
        for stand_in_N in stand_in_NK.T:
            gained_N = clades.share_NB[stand_in_N, node] - share_N
            share_NV = np.concatenate(
                [
                    clades.share_NB[np.ix_(stand_in_N, below)],
                    np.maximum(clades.share_NB[:, above] + gained_N[:, None], 0),
                ],
                axis=1,
            )
            change_NV = np.log1p(READS * share_NV) * clades.root_B[columns]
            change_NV -= clades.logs_NB[:, columns]
            total_NC += self.machine.change(change_NV, columns)
        return self.machine.predicted_NC + total_NC / max(stand_in_NK.shape[1], 1)

    def test(self, node: int, named: Sequence[int] = ()) -> float:
        """Return the p-value of a clade, given others that are named.

        Parameters
        ----------
        node
            The clade.
        named
            Clades that are conditioned on; those within this one, or around it, are not.
        """
        without_NC = self.predict_without(node)
        predicted_NC = self.machine.predicted_NC
        if node == ROOT:
            return p_of_addition(self.label_NC, predicted_NC, without_NC, [], self.unit_N)
        known = [np.ones(len(without_NC)), *without_NC.T, *self.describe_others(node, named)]
        return p_of_addition(self.label_NC, predicted_NC, without_NC, known, self.unit_N)

    def describe_others(self, node: int, named: Sequence[int]) -> list[Floats]:
        """Return the log-shares of other clades, and in which samples they are.

        Parameters
        ----------
        node
            The clade that is asked.
        named
            Other clades; those within it, or around it, are left out.
        """
        known: list[Floats] = []
        for other in named:
            if not self.clades.overlap(node, other):
                share_N = self.clades.share_NB[:, other]
                known += [np.log(share_N + HALF_READ), (share_N > 0).astype(np.float64)]
        return known

    def of_draw(self, counts: csr_array) -> "CladeTests":
        """Return the tests of the same clades with other reads of the samples.

        Parameters
        ----------
        counts
            Reads or amounts [N, F].
        """
        return CladeTests(self.clades.of_draw(counts), self.label_NC, self.fold_N, self.unit_N)

    def explore(self, named: Sequence[int]) -> dict[int, float]:
        """Return the p-values of all clades below which `LOOSEST` leads."""
        found = {ROOT: self.test(ROOT)}
        front = [ROOT] if found[ROOT] <= LOOSEST else []
        while front:
            for child in self.clades.children[front.pop()]:
                found[child] = self.test(child, named)
                if found[child] <= LOOSEST:
                    front.append(child)
        return found

    def name(self) -> list[NamedClade]:
        """Return the finest clades that pass, those of least p first; none where the root fails.

        Samples of one fold alone have nothing to be predicted from, and name none.
        """
        if len(np.unique(self.fold_N)) < 2:
            return []
        named: list[int] = []
        p_of: Mapping[int, float] = {}
        for _ in range(PASSES):
            p_of = self.explore(named)
            found = choose_level(self.clades, p_of)
            if set(found) == set(named):
                break
            named = found
        return sorted((self._describe(node, p_of[node]) for node in named), key=lambda one: one.p)

    def _describe(self, node: int, p: float) -> NamedClade:
        without_NC = self.predict_without(node)
        lost_N = ((self.label_NC - without_NC) ** 2).sum(axis=1)
        lost_N -= ((self.label_NC - self.machine.predicted_NC) ** 2).sum(axis=1)
        variance = ((self.label_NC - self.label_NC.mean(axis=0)) ** 2).sum()
        by_fold = np.bincount(self.fold_N, lost_N)
        return NamedClade(node, p, float(lost_N.sum() / variance), int((by_fold > 0).sum()))


def choose_rows(task: "Problem") -> NDArray[np.intp]:
    """Return the samples of a task that are looked at: of its folds, and at most `MOST_SAMPLES`.

    Units are taken whole, except for the last, and for those of more than half of the samples that
    are looked at: the rest of these comes after all other units.

    Parameters
    ----------
    task
        The labelled samples.
    """
    rows = np.flatnonzero(task.fold >= 0)
    if len(rows) <= MOST_SAMPLES:
        return rows
    unit_N = np.unique(task.units[rows], return_inverse=True)[1]
    place_of_unit = generator(task.seed, "clade_tests").permutation(unit_N.max() + 1)
    number_in_unit_N = pd.Series(unit_N).groupby(unit_N).cumcount().to_numpy()
    is_rest_N = number_in_unit_N >= MOST_SAMPLES // 2
    order = np.lexsort((place_of_unit[unit_N], is_rest_N))
    return np.sort(rows[order[:MOST_SAMPLES]])


def choose_level(clades: Clades, p_of: Mapping[int, float]) -> list[int]:
    """Return the finest clades that pass at the loosest level with few enough false ones.

    At a level, as many tests would pass by chance as there are tests in the walk from the root,
    times the level. That may be `NOMINAL` of the clades that are named, or of one.

    Parameters
    ----------
    clades
        The clades.
    p_of
        p-values of those that were reached.
    """
    best: list[int] = []
    if p_of[ROOT] > LOOSEST:
        return best
    for level in sorted({p for node, p in p_of.items() if node != ROOT}):
        finest, tests = _walk(clades, p_of, level)
        if level * tests <= NOMINAL * max(len(finest), 1):
            best = finest
    return best


def _walk(clades: Clades, p_of: Mapping[int, float], level: float) -> tuple[list[int], int]:
    """Return the finest clades that pass at a level, and how many tests lead to them."""
    finest = []
    tests = 0
    front = [ROOT]
    while front:
        node = front.pop()
        asked = [child for child in clades.children[node] if child in p_of]
        passed = [child for child in asked if p_of[child] <= level]
        tests += len(asked)
        front += passed
        if not passed and node != ROOT:
            finest.append(node)
    return finest, tests


def _share_below(counts: csr_array, parent_B: NDArray[np.intp], tip_B: NDArray[np.intp]) -> Floats:
    """Return the share of each sample's reads below each node."""
    reads_N = np.maximum(counts.sum(axis=1), 1e-300)
    share_NB = np.zeros((counts.shape[0], len(parent_B)))
    is_tip_B = tip_B >= 0
    share_NB[:, is_tip_B] = counts[:, tip_B[is_tip_B]].toarray() / reads_N[:, None]
    for node in range(len(parent_B) - 1, ROOT, -1):
        share_NB[:, parent_B[node]] += share_NB[:, node]
    return share_NB


def p_of_addition(
    label_NC: Floats,
    predicted_NC: Floats,
    without_NC: Floats,
    known: Sequence[Floats],
    unit_N: NDArray[np.intp],
) -> float:
    """Return the p-value of what predictions owe to a clade: (y - m)(f - m) is 0 on average.

    Parameters
    ----------
    label_NC
        Labels y: numbers, or 1 in the column of the class.
    predicted_NC
        Held-out predictions f.
    without_NC
        Predictions m without what the clade says.
    known
        What is taken out of both differences by least squares, each [N]; empty: nothing.
    unit_N
        Number of the unit of each sample.
    """
    left_NC = label_NC - without_NC
    added_NC = predicted_NC - without_NC
    if known:
        basis = np.linalg.svd(np.stack(known, axis=1), full_matrices=False)
        basis_NR = basis[0][:, basis[1] > 1e-9 * basis[1][0]]
        left_NC = left_NC - basis_NR @ (basis_NR.T @ left_NC)
        added_NC = added_NC - basis_NR @ (basis_NR.T @ added_NC)
    sum_U = np.bincount(unit_N, (left_NC * added_NC).sum(axis=1))
    return _p_of_units(sum_U.astype(np.float64))


def _p_of_units(sum_U: Floats) -> float:
    """Return the one-sided p-value of a t-test that sums of units are 0 on average."""
    square = float((sum_U**2).sum())
    units = len(sum_U)
    if square <= 0 or units < 3:
        return 1.0
    ratio = float(sum_U.sum()) / np.sqrt(square)
    t = ratio * np.sqrt((units - 1) / max(units - ratio**2, 1e-12))
    return float(stats.t.sf(t, units - 1))


def squared_distances(features_MB: Floats, features_NB: Floats) -> Floats:
    """Return the squared distances [M, N] of two sets of rows.

    Parameters
    ----------
    features_MB, features_NB
        The rows.
    """
    # Around their mean the squares are small, so that little is lost when they are subtracted.
    center_B = features_NB.mean(axis=0)
    one_MB = features_MB - center_B
    other_NB = features_NB - center_B
    square_M = (one_MB**2).sum(axis=1)
    square_N = (other_NB**2).sum(axis=1)
    return np.asarray(square_M[:, None] + square_N - 2 * one_MB @ other_NB.T)


def _star(number: Mapping[str, int]) -> list[tuple[int, float, int]]:
    """Return a root with all features below it: parent, length and feature of each node."""
    return [(-1, 0.0, -1), *((ROOT, 1.0, feature) for feature in number.values())]


def _frequent_nodes(tree: TreeNode, number: Mapping[str, int]) -> list[tuple[int, float, int]]:
    """Return parent, length and feature of the nodes that lead to frequent features, in preorder.

    Of nodes with a single child the child is taken, with the lengths of both.
    """
    tips_below: dict[int, int] = {}
    for node in tree.postorder():
        below = sum(tips_below[id(child)] for child in node.children)
        tips_below[id(node)] = below + (node.is_tip() and node.name in number)
    nodes: list[tuple[int, float, int]] = [(-1, 0.0, -1)]
    stack = [(child, ROOT, 0.0) for child in reversed(tree.children)]
    while stack:
        node, parent, before = stack.pop()
        if not tips_below[id(node)]:
            continue
        length = before + (node.length or 0.0)
        frequent = [child for child in node.children if tips_below[id(child)]]
        if len(frequent) == 1:
            stack.append((frequent[0], parent, length))
            continue
        feature = number[node.name] if node.is_tip() else -1
        nodes.append((parent, length, feature))
        stack += [(child, len(nodes) - 1, 0.0) for child in reversed(frequent)]
    return nodes
