"""What is known of a sample without its ASVs, and how well each of it predicts a target.

A model that learns the plate of a sample scores well where the classes were sequenced on plates of
their own, and knows nothing of the classes: the plate is a rival explanation of its score. Rivals
are metadata columns on how samples were processed (technical ones) and on whom, where and when they
were taken from (circumstances), and numbers of each sample, such as its reads before rarefaction.

A rival predicts as methods do: every sample from the samples of the other folds that share its
level. A column whose levels are groups, or lie within them, then predicts nothing; nor does one
with nearly as many levels as samples, since most of its levels have no other sample.

Shape suffixes: N samples, L levels, K classes (1 where a number is predicted), U units, R rivals,
T levels of all rivals, B draws.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.bins import quantile_edges
from aam.data.cell_values import read_numbers
from aam.data.roles import circumstance, is_of_archive
from aam.data.study.columns import MOST_GROUPS, column_of, columns_of, technical_columns
from aam.util.seeds import generator

LEAST_SKILL = 0.8
"""Skill from which on a level says nearly exactly what the target is: 0 is that of guessing, 1 is
perfect."""
LEAST_SAMPLES = 10
"""Samples below which no rival is measured, as too many predict a few samples by chance."""
LEAST_IN_BIN = 10
"""Samples that each bin of a number has at least."""
BINS = 10
"""Most bins of a number, by its quantiles."""
PERMUTATIONS = 1999
"""Permutations of a test: the least p-value is 1 in 2000, which is below 0.05 corrected for up to
100 rivals."""
FEW_UNITS = 12
"""Units below which random signs of units make a test that hardly anything passes."""
BLOCK = 2_000_000
"""Units that are permuted at a time, all draws together."""
CHANCE = 0.05
"""p-value, corrected for all rivals of a task, from which on a rival predicts by chance."""

Number = Literal["reads", "richness"]
"""The reads of a sample before rarefaction, and its ASVs after it."""
Role = Literal["technical", "circumstance", "other"] | Number
"""What a rival is: a column on processing; one on whom, where or when; any other column, which may
be another name of the target or follow from it; a number of each sample."""
Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Levels:
    """What divides samples into levels: the values of a column, or bins of a number."""

    name: str
    """Name of the column, or of the number."""
    role: Role
    level_N: Codes
    """Level of each sample, from 0."""


@dataclass(frozen=True, eq=False)
class Observed:
    """The target of some samples, and how they were divided."""

    kind: str
    """regression, classification or ordinal."""
    value_NK: Floats
    """Numbers, [N, 1], or 1 in the column of each sample's class, [N, K]."""
    fold_N: Codes
    """Fold in which each sample is held out."""
    unit_N: Codes
    """Which samples belong together, from 0: by their group, or each alone."""

    @classmethod
    def from_values(
        cls, target: pd.Series, *, kind: str, fold: Codes, units: NDArray[Any]
    ) -> "Observed":
        """Return the target of samples by its values.

        Parameters
        ----------
        target
            Numbers, or names of classes, by sample ID.
        kind
            regression, classification or ordinal.
        fold
            Fold of each sample, int64 [N].
        units
            What says which samples belong together (`aam.data.folds.units_of`), [N].
        """
        if kind == "regression":
            value_NK = pd.to_numeric(target).to_numpy(np.float64)[:, None]
        else:
            class_N, names = pd.factorize(target)
            value_NK = np.eye(len(names))[class_N]
        return cls(
            kind=kind,
            value_NK=value_NK,
            fold_N=np.unique(fold, return_inverse=True)[1].astype(np.int64),
            unit_N=pd.factorize(np.asarray(units, object))[0].astype(np.int64),
        )

    @property
    def is_number(self) -> bool:
        """Whether a number is predicted."""
        return self.kind == "regression"


@dataclass(frozen=True)
class RivalScore:
    """How well a rival alone predicts a target."""

    name: str
    role: Role
    score: float
    """Headline score: balanced accuracy, or the mean of the folds' mean absolute errors."""
    guessing: float
    """The same without the rival: one in K classes, or by the median of the other folds."""
    skill: float
    """What it gains on guessing: 0 is that of guessing, 1 is perfect."""
    exactness: Literal["exactly", "nearly"] | None
    """Whether it is right for every sample, or nearly: a balanced accuracy of the skill
    `LEAST_SKILL`, an R2 of that."""
    p: float
    """p-value of no relation between target and levels, corrected for all rivals that were
    measured together (Bonferroni)."""

    @property
    def predicts(self) -> bool:
        """Whether it is better than guessing, and not by chance."""
        return self.skill > 0 and self.p < CHANCE


def list_rivals(
    metadata: pd.DataFrame,
    *,
    targets: Collection[str],
    numbers: Mapping[Number, pd.Series] = {},
) -> list[Levels]:
    """Return what may have been learned in the place of a target, whose role is not `other`.

    Left out are the targets, and circumstances of the kind of a target: the month of birth says the
    age, and is no other explanation of it.

    Parameters
    ----------
    metadata
        Text of the scored samples, missing values as None or NaN, which are a level, too.
    targets
        Columns that the task predicts.
    numbers
        Numbers of the samples by sample ID.
    """
    kinds = {circumstance(target) for target in targets}
    technical = {one.name for one in technical_columns(columns_of(metadata))}
    rivals = []
    for name in map(str, metadata.columns.difference([*targets], sort=False)):
        kind = circumstance(name)
        role: Role = "technical"
        if name not in technical:
            role = "circumstance"
            if kind is None or kind in kinds:
                continue
            # An archive's dates are when samples were taken; its other columns say nothing.
            if is_of_archive(name) and kind != "time":
                continue
        rivals.append(Levels(name, role, levels_of_column(metadata[name])))
    for name, values in numbers.items():
        bins_N = bins_of_number(values.loc[metadata.index].to_numpy(np.float64))
        rivals.append(Levels(name, name, bins_N))
    return [one for one in rivals if _can_predict(one)]


def list_others(metadata: pd.DataFrame, *, targets: Collection[str]) -> list[Levels]:
    """Return the columns that `list_rivals` leaves out, but for the targets.

    Parameters
    ----------
    metadata, targets
        See `list_rivals`.
    """
    rivals = {one.name for one in list_rivals(metadata, targets=targets)}
    technical = {one.name for one in technical_columns(columns_of(metadata))}
    names = map(str, metadata.columns.difference([*targets, *rivals], sort=False))
    others = [
        Levels(name, "other", levels_of_column(metadata[name]))
        for name in names
        if name not in technical
    ]
    return [one for one in others if _can_predict(one)]


def _can_predict(rival: Levels) -> bool:
    """Return whether levels have several samples, so that one of them may say what another is."""
    levels = len(np.unique(rival.level_N))
    return 1 < levels <= MOST_GROUPS * len(rival.level_N)


def levels_of_column(values: pd.Series) -> Codes:
    """Return the level of each sample, int64 [N]: a value, a bin of numbers, or that it is missing.

    Parameters
    ----------
    values
        A column of metadata.
    """
    if column_of(values).kind != "number":
        return pd.factorize(values, use_na_sentinel=False)[0].astype(np.int64)
    number_N = np.full(len(values), np.nan)
    is_given_N = values.notna().to_numpy()
    # Values that are no numbers are missing ones: a run refuses them in a target alone.
    number_N[is_given_N] = read_numbers(values[is_given_N].astype(object)).values
    return bins_of_number(number_N)


def bins_of_number(number_N: Floats) -> Codes:
    """Return the bin of each number, int64 [N], NaN in one of their own.

    Up to `BINS` different numbers are bins as they are. Others are divided by quantiles: into up to
    `BINS` of `LEAST_IN_BIN` samples or more, as far as ties allow. Numbers in one bin are alike,
    not equal, so a little of what they say stays within bins.

    Parameters
    ----------
    number_N
        Numbers, [N].
    """
    known = number_N[~np.isnan(number_N)]
    different = np.unique(known)
    edges = different[:-1]
    if len(different) > BINS:
        bins = min(BINS, max(2, len(known) // LEAST_IN_BIN))
        # Where most numbers are the largest one, all others are a bin.
        edges = np.unique(np.minimum(quantile_edges(known, bins), different[-2]))
    bin_N = np.searchsorted(edges, number_N)
    bin_N[np.isnan(number_N)] = len(edges) + 1
    return bin_N.astype(np.int64)


def measure_alone(observed: Observed, rivals: Sequence[Levels], *, seed: int) -> list[RivalScore]:
    """Return how well each rival alone predicts a target, in their order.

    The test asks whether levels and target are related at all, by permutations of units: see
    `_p_values`. p-values are corrected for the number of rivals.

    Parameters
    ----------
    observed
        The target of the samples.
    rivals
        Levels of the same samples.
    seed
        Seed of the permutations.

    Returns
    -------
    list of RivalScore
        None for fewer than `LEAST_SAMPLES` samples, or where the target does not vary.
    """
    varies = np.ptp(observed.value_NK, axis=0).any()
    if len(observed.fold_N) < LEAST_SAMPLES or not varies or not rivals:
        return []
    p_R = np.minimum(_p_values(observed, rivals, generator("confounders", seed)) * len(rivals), 1.0)
    return [_score_alone(observed, one, p=float(p)) for one, p in zip(rivals, p_R, strict=True)]


def _score_alone(observed: Observed, rival: Levels, *, p: float) -> RivalScore:
    """Return the held-out score of a rival alone."""
    nothing_N = np.zeros_like(rival.level_N)
    if observed.is_number:
        # In units of the largest number, squares of any numbers are finite.
        scale = float(np.abs(observed.value_NK).max()) or 1.0
        value_N = observed.value_NK[:, 0] / scale
        guess_N = predict_numbers(value_N, nothing_N, observed.fold_N)
        predicted_N = predict_numbers(value_N, rival.level_N, observed.fold_N)
        guessing = mean_over_folds(np.abs(value_N - guess_N), observed.fold_N)
        score = mean_over_folds(np.abs(value_N - predicted_N), observed.fold_N)
        skill = 1.0 - score / max(guessing, 1e-300)
        squares = float(((value_N - guess_N) ** 2).sum())
        fit = 1.0 - float(((value_N - predicted_N) ** 2).sum()) / max(squares, 1e-300)
        is_exact = bool(np.abs(value_N - predicted_N).max() <= 1e-9 * np.ptp(value_N))
        guessing *= scale
        score *= scale
    else:
        right_N = _chance_of_right(observed.value_NK, rival.level_N, observed.fold_N)
        guessing = 1.0 / observed.value_NK.shape[1]
        score = float((right_N @ observed.value_NK / observed.value_NK.sum(axis=0)).mean())
        skill = (score - guessing) / (1.0 - guessing)
        fit = skill
        is_exact = bool(right_N.min() == 1.0)
    exactness: Literal["exactly", "nearly"] | None = None
    if is_exact:
        exactness = "exactly"
    elif fit >= LEAST_SKILL:
        exactness = "nearly"
    return RivalScore(
        name=rival.name,
        role=rival.role,
        score=score,
        guessing=guessing,
        skill=skill,
        exactness=exactness,
        p=p,
    )


def predict_numbers(value_N: Floats, level_N: Codes, fold_N: Codes) -> Floats:
    """Return the median of the samples of each sample's level in the other folds, [N].

    Where they have none, it is the median of all samples of the other folds.

    Parameters
    ----------
    value_N, level_N, fold_N
        Number, level and fold of each sample.
    """
    predicted_N = np.empty_like(value_N)
    for fold in np.unique(fold_N):
        is_held_out_N = fold_N == fold
        known = pd.Series(value_N[~is_held_out_N])
        medians = known.groupby(level_N[~is_held_out_N]).median()
        found = medians.reindex(level_N[is_held_out_N]).to_numpy(np.float64)
        predicted_N[is_held_out_N] = np.where(np.isnan(found), known.median(), found)
    return predicted_N


def _chance_of_right(value_NK: Floats, level_N: Codes, fold_N: Codes) -> Floats:
    """Return how likely the class of each sample is guessed right from its level, [N].

    The guess is the class of which the largest share of the other folds lies in the level, so that
    classes count alike, however rare; among equal ones, any of them.
    """
    right_N = np.empty(len(level_N))
    for fold in np.unique(fold_N):
        is_held_out_N = fold_N == fold
        known_NK = value_NK * ~is_held_out_N[:, None]
        count_LK = sum_by(known_NK, level_N)
        share_LK = count_LK / np.maximum(known_NK.sum(axis=0), 1.0)
        is_best_LK = share_LK == share_LK.max(axis=1, keepdims=True)
        chance_LK = is_best_LK / is_best_LK.sum(axis=1, keepdims=True)
        right_NK = chance_LK[level_N[is_held_out_N]] * value_NK[is_held_out_N]
        right_N[is_held_out_N] = right_NK.sum(axis=1)
    return right_N


def mean_over_folds(value_N: Floats, fold_N: Codes) -> float:
    """Return the mean of the folds' means; folds are numbered from 0."""
    return float((np.bincount(fold_N, weights=value_N) / np.bincount(fold_N)).mean())


def rank_numbers(value_N: Floats) -> Floats:
    """Return ranks as a column, [N, 1]: with them a few far numbers decide nothing."""
    return np.asarray(pd.Series(value_N).rank(), np.float64)[:, None]


def sum_by(value_NK: Floats, code_N: Codes) -> Floats:
    """Return sums of rows by their codes, from 0: [C, K] for C codes."""
    return np.stack([np.bincount(code_N, weights=value_N) for value_N in value_NK.T], axis=1)


def _p_values(observed: Observed, rivals: Sequence[Levels], rng: np.random.Generator) -> Floats:
    """Return p-values of no relation between the levels of each rival and the target.

    Targets are drawn as they could be without a relation: the means of units change places, and the
    deviations of a unit's samples from its mean get a random sign, which all samples of the unit
    share (a wild bootstrap of clusters: Cameron, Gelbach & Miller 2008,
    doi:10.1162/rest.90.3.414). So samples that repeat a person are no evidence. Fewer than
    `FEW_UNITS` have too few signs for a test: there the deviations change places within a unit. The
    statistic of classes is that of a chi-squared test, that of numbers takes ranks (Kruskal &
    Wallis).

    Parameters
    ----------
    observed
        The target of the samples.
    rivals
        Levels of the same samples.
    rng
        Source of the draws.
    """
    value_NK = observed.value_NK
    if observed.is_number:
        value_NK = rank_numbers(value_NK[:, 0])
    elif value_NK.shape[1] == 2:
        # What is said of one of two classes is said of the other.
        value_NK = value_NK[:, :1]
    centred_NK = value_NK - value_NK.mean(axis=0)
    centred_NK = centred_NK / np.sqrt(np.maximum(value_NK.mean(axis=0), 1e-300))
    unit_N = observed.unit_N
    size_U = np.bincount(unit_N)
    mean_UK = sum_by(centred_NK, unit_N) / size_U[:, None]
    rest_NK = centred_NK - mean_UK[unit_N]
    # Where a unit has one value, nothing is left but rounding.
    rest_NK[np.abs(rest_NK) < 1e-9 * np.abs(centred_NK).max()] = 0.0
    levels = [int(rival.level_N.max()) + 1 for rival in rivals]
    first_R = np.cumsum([0, *levels[:-1]])
    # The levels of all rivals are the rows of one matrix: T of them.
    pairs = zip(rivals, first_R, strict=True)
    row_N = np.concatenate([rival.level_N + first for rival, first in pairs])
    column_N = np.tile(unit_N, len(rivals))
    shape = (sum(levels), len(size_U))
    count_TU = csr_array((np.ones(len(row_N)), (row_N, column_N)), shape=shape)
    rest_TU = []
    for rest_N in rest_NK.T:
        values_N = np.tile(rest_N, len(rivals))
        rest_TU.append(csr_array((values_N, (row_N, column_N)), shape=shape))
        rest_TU[-1].eliminate_zeros()
    place_N = np.tile(np.arange(len(unit_N)), len(rivals))
    level_TN = csr_array((np.ones(len(row_N)), (row_N, place_N)), shape=(sum(levels), len(unit_N)))
    size_T = np.maximum(count_TU.sum(axis=1), 1.0)
    block = max(1, BLOCK // max(len(size_U), len(unit_N) if len(size_U) < FEW_UNITS else 1))
    statistic_BR = []
    for start in range(0, 1 + PERMUTATIONS, block):
        draws = min(block, 1 + PERMUTATIONS - start)
        unit_BU = np.array([np.arange(len(size_U))] * draws, np.int32)
        unit_BU = rng.permuted(unit_BU, axis=1)
        sign_BU = rng.choice(np.array([-1.0, 1.0]), unit_BU.shape)
        place_BN = _places_within(unit_N, draws if len(size_U) < FEW_UNITS else 0, rng)
        if start == 0:
            # The first draw is the data themselves.
            place_BN[:1] = np.arange(len(unit_N))
            unit_BU[0] = np.arange(len(size_U))
            sign_BU[0] = 1.0
        total_TB = np.zeros((len(size_T), draws))
        for number, mean_U in enumerate(mean_UK.T):
            sum_TB = count_TU @ mean_U[unit_BU].T
            if len(size_U) < FEW_UNITS:
                sum_TB += level_TN @ rest_NK[place_BN, number].T
            else:
                sum_TB += rest_TU[number] @ sign_BU.T
            # Units differ in size, so that the mean of all samples changes with their places.
            mean_B = size_U @ mean_U[unit_BU].T / len(unit_N)
            total_TB += (sum_TB - size_T[:, None] * mean_B) ** 2 / size_T[:, None]
        statistic_BR.append(np.add.reduceat(total_TB, first_R, axis=0).T)
    every_BR = np.concatenate(statistic_BR)
    # Rounding must not decide where a draw is the data themselves.
    return np.asarray((every_BR >= every_BR[0] * (1 - 1e-9)).mean(axis=0), np.float64)


def _places_within(unit_N: Codes, draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return samples of the same unit to take each sample's place, [B, N]."""
    by_unit_N = np.argsort(unit_N, kind="stable")
    place_BN = np.empty((draws, len(unit_N)), np.intp)
    for draw in range(draws):
        place_BN[draw, by_unit_N] = np.lexsort((rng.random(len(unit_N)), unit_N))
    return place_BN
