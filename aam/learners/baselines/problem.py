"""What a baseline gets and what it gives back, and the splits on which its settings are chosen.

Shape suffixes: N samples, L landmarks, T samples to predict, F features, P prevalent, E branches,
C classes.
"""

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, GroupKFold

from aam.config.baselines import MOST_COMPARED
from aam.data.folds import OBSERVED
from aam.data.predictions import class_codes, class_order
from aam.util.errors import problem
from aam.util.seeds import generator, seed_of

logger = logging.getLogger(__name__)
NOWHERE = -2
"""Fold of a sample that is neither learned from nor predicted."""
LANDMARKS = 10_000
"""Number of landmarks."""
PSEUDOCOUNT = 0.5
"""What is added to every number of reads, so that each has a logarithm."""
PREVALENCE = 0.01
"""Least fraction of the training samples that a feature is in."""
RANGES = (1e-4, 1e3)
"""Least and largest range of a numeric target that methods take in the unit of the metadata."""
FREQUENT_SAMPLES = 10
"""Least number of training samples that a feature of slow methods is in."""
FREQUENT_PREVALENCE = 0.05
"""Fraction of the training samples that suffices if it is fewer than `FREQUENT_SAMPLES`."""

Prediction = tuple[NDArray[Any], NDArray[np.float64]]
"""Predicted values [T], and probabilities of all classes [T, C] (C = 0 for numbers)."""
Split = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions in the training samples: those to train on, those left out."""
RowSplit = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Rows to train on and rows to predict, both ascending."""


@dataclass(frozen=True)
class Problem:
    """The labelled samples of a task, N of them, and the fold to predict."""

    kind: str
    """regression, classification or ordinal."""
    target: NDArray[Any]
    """Numbers, or names of classes, [N]; `encode` puts codes in place of the names."""
    classes: Sequence[str]
    """Names of the classes, in the order of their probabilities; none in a regression."""
    fold: NDArray[np.int64]
    """Fold that each sample is held out in, [N]; -1: in none, for testing alone."""
    group: NDArray[np.str_]
    """Samples of one group never stand on both sides of a split, [N]; empty: of no group."""
    counts: scipy.sparse.csr_array
    """Rarefied reads, the mean of all views, or amounts that sum to 1, [N, F]."""
    distances: NDArray[np.float32]
    """Unweighted UniFrac, without a tree Bray-Curtis, the mean of all views, [N, N], or of all
    samples to landmarks, [N, L]; those to rows behind the last labelled one may be missing."""
    above: scipy.sparse.csr_array
    """1 where a branch of the tree lies above a feature, [F, E]; without a tree E is 0."""
    lengths: NDArray[np.float64]
    """Lengths of the branches, [E]."""
    seed: int
    """Seed of what a baseline draws."""
    held_out: int = -1
    """The fold to predict from the others."""
    bounds: tuple[float | None, float | None] = (None, None)
    """Least and largest number that is predicted."""
    asked: Collection[str] | None = None
    """Names of the baselines; None: those that are fitted by default."""
    unit: float = 1.0
    """What predicted numbers have to be multiplied by; `encode` sets it."""
    is_counted: bool = True
    """Whether `counts` are reads, not amounts."""
    landmarks: NDArray[np.intp] | None = None
    """Rows that linear methods and those on pairs of samples learn from, ascending; None: all."""

    @property
    def regression(self) -> bool:
        """Whether the target is a number."""
        return self.kind == "regression"

    @property
    def has_tree(self) -> bool:
        """Whether features have places in a tree."""
        return self.above.shape[1] > 0

    @property
    def pseudocount(self) -> float:
        """What is added before logarithms are taken: half a read, or its like among amounts.

        A sample's rarest feature mostly has one read. So the half of the least amount of a sample,
        in the median of the training samples, stands for half a read.
        """
        if self.is_counted:
            return PSEUDOCOUNT
        amounts = scipy.sparse.csr_array(self.counts[self.train])
        present_T = np.diff(amounts.indptr) > 0
        least_T = np.minimum.reduceat(amounts.data, amounts.indptr[:-1][present_T])
        return PSEUDOCOUNT * float(np.median(least_T))

    @property
    def train(self) -> NDArray[np.intp]:
        """Rows to train on."""
        return np.flatnonzero((self.fold != self.held_out) & (self.fold >= 0))

    @property
    def test(self) -> NDArray[np.intp]:
        """Rows to predict."""
        return np.flatnonzero(self.fold == self.held_out)

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of a matrix of pairs that are the rows to train on."""
        return self.train if self.landmarks is None else np.searchsorted(self.landmarks, self.train)

    @property
    def has_few_landmarks(self) -> bool:
        """Whether there are more labelled samples than landmarks: each fit takes minutes."""
        return self.landmarks is not None and len(self.landmarks) < int((self.fold >= 0).sum())

    @property
    def units(self) -> NDArray[np.str_]:
        """Group of each sample, or its own row where it has none, [N]."""
        return np.where(self.group == "", np.arange(len(self.group)).astype(str), self.group)

    def learn_from(self, train: NDArray[np.intp]) -> "Problem":
        """Return the task with these rows to train on, and all others nowhere.

        Parameters
        ----------
        train
            Rows of training folds.
        """
        fold = np.full_like(self.fold, NOWHERE)
        fold[train] = self.fold[train]
        return dataclasses.replace(self, fold=fold, held_out=NOWHERE)

    def decode(self, codes: NDArray[np.int64], share_TC: NDArray[np.float64]) -> "Prediction":
        """Return the prediction that probabilities of some classes make.

        Parameters
        ----------
        codes
            Codes of the columns, as `encode` gives them.
        share_TC
            Their probabilities; all other classes have 0.
        """
        names = np.asarray(class_order(self.classes))[codes]
        whole_TC = np.zeros((len(share_TC), len(self.classes)))
        whole_TC[:, class_codes(names, self.classes)] = share_TC
        return np.asarray(self.classes)[whole_TC.argmax(axis=1)], whole_TC

    def restrict_to_landmarks(self) -> "Problem":
        """Return the task without the training samples that are no landmarks."""
        if self.landmarks is None:
            return self
        # The held-out fold stays whole: landmarks limit what is learned from, not what is
        # predicted.
        fold = np.where(self.fold == self.held_out, self.fold, NOWHERE)
        fold[self.landmarks] = self.fold[self.landmarks]
        return dataclasses.replace(self, fold=fold)

    def encode(self) -> "Problem":
        """Return the task with a target as methods take it.

        Classes become codes, because libraries read meaning into names: scikit-learn takes a class
        called "1" for the number 1 where it weights classes. The codes have the order of
        `class_order`, whatever order an ordinal target has, since methods that draw depend on it.

        Numbers whose range is outside `RANGES` get a unit of their own. scikit-learn's trees take
        targets of less variance than 2e-16 for constant, and its elastic net stops after three
        steps where they are large: with a range of 10^4 it halves all differences, with 10^6 it
        predicts one number. The unit is a power of two, so that no digit changes.
        """
        if not self.regression:
            codes = class_codes(self.target, class_order(self.classes))
            return dataclasses.replace(self, target=codes)
        learned = self.target[self.fold >= 0]
        width = float(np.ptp(learned)) if len(learned) else 0.0
        least, largest = RANGES
        if width == 0 or least <= width <= largest:
            return self
        unit = 2.0 ** np.floor(np.log2(width))
        return dataclasses.replace(self, target=self.target / unit, unit=float(unit))

    def random_state(self, name: str) -> int:
        """Return the seed of a baseline in this fold, below 2^32 as scikit-learn wants it.

        Parameters
        ----------
        name
            Name of the baseline.
        """
        return seed_of(name, self.seed, self.held_out) % 2**32


def draw_landmarks(samples: int, seed: int) -> NDArray[np.intp] | None:
    """Return the landmarks among labelled samples, ascending; None where all are few enough.

    Parameters
    ----------
    samples
        Number of labelled samples.
    seed
        Seed of the draw.
    """
    if samples <= MOST_COMPARED:
        return None
    logger.info("linear methods and those on pairs learn from %d samples alone", LANDMARKS)
    return np.sort(generator("landmarks", seed).choice(samples, LANDMARKS, replace=False))


Predictor = Callable[[Problem], Prediction]
"""Predicts the held-out fold of a task that `Problem.encode` returned."""
JointPredictor = Callable[[Problem, Sequence[RowSplit]], list[Prediction]]
"""Predicts the rows of each split of such a task; its fits may serve several of them."""


def prevalent_reads(task: Problem) -> scipy.sparse.csr_array:
    """Return the reads of the features that are in 1 % of the training samples, [N, P].

    Where no feature is in as many, the most frequent ones are taken.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    chosen = _features_in(task, PREVALENCE * len(task.train))
    return task.counts[:, chosen].astype(np.float64)


def frequent_features(task: Problem) -> NDArray[np.intp]:
    """Return the features that are in ten training samples, or in 5 % of few, ascending.

    In a few hundred samples, 1 % are two or three. Most features are that rare: they take most of
    the time of trees and of an elastic net, and say little. With 1000 samples and more the features
    are those of `prevalent_reads`.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    samples = len(task.train)
    least = min(FREQUENT_SAMPLES, FREQUENT_PREVALENCE * samples)
    return _features_in(task, max(PREVALENCE * samples, least))


def frequent_reads(task: Problem) -> scipy.sparse.csr_array:
    """Return the reads of the features of `frequent_features`, [N, P].

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    return task.counts[:, frequent_features(task)].astype(np.float64)


def _features_in(task: Problem, least_samples: float) -> NDArray[np.intp]:
    """Return the features that are in so many training samples, ascending."""
    samples_F = (task.counts[task.train] > 0).sum(axis=0)
    return np.flatnonzero(samples_F >= min(least_samples, samples_F.max()))


def fit_predict(
    task: Problem, model: Any, features: NDArray[Any] | scipy.sparse.csr_array
) -> Prediction:
    """Fit a model to the training samples, and predict the held-out fold.

    Parameters
    ----------
    task
        The samples and the fold to predict, as `Problem.encode` returns them.
    model
        A regressor, or a classifier with probabilities, of scikit-learn.
    features
        A row per sample, [N, P].

    Returns
    -------
    tuple
        The `Prediction` of the held-out fold.
    """
    model.fit(features[task.train], task.target[task.train])
    return predict(task, model, features[task.test])


def predict(task: Problem, model: Any, features: Any) -> Prediction:
    """Return the prediction of a fitted model.

    Parameters
    ----------
    task
        The samples and the fold to predict; its kind and its classes matter alone.
    model
        A regressor, or classifier with probabilities, of scikit-learn, that was fitted to the
        target of `Problem.encode`.
    features
        A row per sample to predict, [T, P].

    Returns
    -------
    tuple
        Predicted numbers or names of classes, [T], and the probabilities of all classes, [T, C].
        Classes that the model was not trained on have probability 0; there are no columns for
        numbers.
    """
    if task.regression:
        return model.predict(features), np.zeros((features.shape[0], 0))
    # A model knows the codes of `encode` of the classes of its training samples alone.
    return task.decode(model.classes_, model.predict_proba(features))


def leave_parts_out(task: Problem, parts: int = 5) -> list[Split]:
    """Leave out parts of about the same size, each made of whole training folds.

    Where there is one training fold, the parts are made of groups. Where all its samples are of one
    group, as with two folds that are the groups themselves, they are made of samples: these flatter
    a setting a little, but otherwise nothing would be tuned.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    parts
        Number of parts, at most.

    Returns
    -------
    list of tuple
        Positions in `task.train`: those to train on, and those left out. Empty where there is one
        sample alone.
    """
    train = task.train
    alone = train.astype(str)
    unit = task.fold[train].astype(str)
    if len(np.unique(unit)) == 1:
        unit = np.where(task.group[train] == "", alone, task.group[train])
    if len(np.unique(unit)) == 1:
        unit = alone
    parts = min(parts, len(np.unique(unit)))
    if parts < 2:
        return []
    return list(GroupKFold(parts).split(train, groups=unit))


def leave_each_part_out(task: Problem) -> list[Split]:
    """Leave out every part in turn, as long as two classes remain.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    target = task.target[task.train]
    splits = leave_parts_out(task)
    return [split for split in splits if len(np.unique(target[split[0]])) > 1]


def leave_one_part_out(task: Problem) -> list[Split]:
    """Leave out about a fifth, such that the most classes remain; no split if only one would.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    """
    splits = leave_each_part_out(task)
    if task.regression or not splits:
        return splits[:1]
    target = task.target[task.train]
    classes = [len(np.unique(target[training])) for training, _ in splits]
    return [splits[classes.index(max(classes))]]


def search(
    task: Problem, model: BaseEstimator, grid: Mapping[str, Sequence[Any]], splits: Sequence[Split]
) -> BaseEstimator:
    """Return a model that chooses its settings by the splits.

    Parameters
    ----------
    task
        The samples and the fold to predict.
    model
        The model, not fitted; it is returned as it is where there are no splits.
    grid
        Candidates by setting; the first of equals is taken.
    splits
        Positions in the training samples.

    Returns
    -------
    sklearn.base.BaseEstimator
        Not fitted.
    """
    if not splits:
        return model
    scoring = "neg_mean_absolute_error" if task.regression else "balanced_accuracy"
    return GridSearchCV(model, dict(grid), scoring=scoring, cv=splits)


def problems_of_targets(
    fold_table: pd.DataFrame,
    *,
    kind: str,
    classes: Sequence[str] | None,
    **fields: Any,
) -> dict[str, Problem]:
    """Return what methods are asked for each target, by its name, empty where there is one.

    Parameters
    ----------
    fold_table
        What `aam.data.folds.read_folds` returns.
    kind
        Whether numbers or classes are predicted.
    classes
        Classes in their order. None: those that were observed.
    **fields
        All other fields of `Problem`.

    Raises
    ------
    InputError
        Most labels lie outside of the bounds.
    """
    is_regression = kind == "regression"
    for name, observed in _targets(fold_table).items():
        _require_within(name, observed, fields.get("bounds", (None, None)))
    return {
        name: Problem(
            kind=kind,
            target=observed.to_numpy(dtype=np.float64 if is_regression else np.str_),
            classes=[] if is_regression else classes or class_order(observed),
            fold=fold_table["fold"].to_numpy(),
            group=fold_table["group"].to_numpy(dtype=np.str_),
            **fields,
        )
        for name, observed in _targets(fold_table).items()
    }


def _require_within(
    target: str, observed: pd.Series, bounds: tuple[float | None, float | None]
) -> None:
    """Check that no more than half of the labels lie where nothing can be predicted."""
    low, high = bounds
    if low is None and high is None:
        return
    number = observed.astype("float64")
    is_outside = ~number.between(-np.inf if low is None else low, np.inf if high is None else high)
    if is_outside.mean() > 0.5:
        values = number[is_outside]
        raise problem(
            f"`tasks.<name>.bounds`{f' (target {target})' if target else ''}",
            f"{len(values)} of {len(observed)} labels outside ({values.min():g} to "
            f"{values.max():g})",
            "bounds within which most labels lie, since predictions are kept within them",
            "give the bounds in the unit of the labels, such as [0, 100] for percentages",
        )


def _targets(fold_table: pd.DataFrame) -> dict[str, pd.Series]:
    """Return the observed values of each target by its name, which is empty where there is one."""
    several = [name for name in map(str, fold_table) if name.startswith(OBSERVED)]
    if not several:
        return {"": fold_table["observed"]}
    return {column.removeprefix(OBSERVED): fold_table[column] for column in several}
