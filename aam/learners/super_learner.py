"""The mixture of several methods, scored by weights that rest on no model that saw the fold.

A super learner (van der Laan, Polley & Hubbard 2007, doi:10.2202/1544-6115.1309) weights methods
by their cross-validated predictions. Were the weights of a fold fitted to the predictions for the
other folds by the models of those folds, then these models would have seen the labels of the fold,
and the score of the mixture would be flattered. So the weights of a fold are fitted to nested
predictions: those of models that were fitted without the fold and without the samples that they
predict.

Shape suffixes: N samples, C classes (1 where a number is predicted).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.folds import TEST
from aam.data.nested_folds import blocks_of_folds
from aam.data.predictions import (
    DRAW,
    PROBABILITY,
    QUANTILE,
    UNNESTED,
    by_baseline,
    class_names,
    class_probabilities,
    mean_recall,
    numbers,
)
from aam.learners.mixture import Mixture

WITHOUT = "without"
"""Column of nested predictions: the block of folds that their models have not seen."""
NO_NESTED = pd.DataFrame({"sample-id": [], WITHOUT: [], "predicted": []})
"""Nested predictions where nothing is mixed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Learner:
    """What one method predicts.

    Attributes
    ----------
    predictions
        Table of cross-validated predictions: `sample-id`, `fold`, `observed`, `predicted` and
        probabilities; rows of fold -1 are predicted by models of all folds.
    nested
        Table of nested predictions: `sample-id`, `without` (a block of
        `aam.data.nested_folds.blocks_of_folds`), `predicted` and probabilities.
    """

    predictions: pd.DataFrame
    nested: pd.DataFrame


@dataclass(frozen=True, eq=False)
class MixedPredictions:
    """What a super learner predicts.

    Attributes
    ----------
    predictions
        The rows of the first learner with the mixed `predicted` and probabilities. Weights of a
        fold are fitted to nested predictions, those of fold -1 to the predictions for all folds.
    unnested
        The same with weights of a fold that are fitted to the predictions for the other folds,
        whose models have seen the fold. Its score is flattered.
    chosen
        The same by the single learner that has the best nested predictions for the fold.
    names
        Name of this learner by fold.
    mixtures
        The mixture of each fold, by which its samples in `predictions` are mixed.
    mixture
        The mixture fitted to the predictions for all folds, for samples of other tables.
    """

    predictions: pd.DataFrame
    unnested: pd.DataFrame
    chosen: pd.DataFrame
    names: Mapping[int, str]
    mixtures: Mapping[int, Mixture]
    mixture: Mixture


def super_learner(learners: Mapping[str, Learner], groups: pd.Series) -> MixedPredictions:
    """Mix several learners, and choose one of them, fold by fold.

    Parameters
    ----------
    learners
        By name, of the same samples and folds; the order of the rows does not matter.
    groups
        Group of each sample, or its ID where it has none, by sample ID, as
        `aam.data.folds.units_of` returns it.

    Returns
    -------
    MixedPredictions
        In the order of the rows of the first learner.
    """
    first = next(iter(learners.values())).predictions
    samples = _Samples.read(first, groups)
    values = {
        name: _values(samples.sort(learner.predictions), samples.classes)
        for name, learner in learners.items()
    }
    is_test_N = samples.fold_N == TEST
    blocks = blocks_of_folds(samples.fold_N)
    choice_of_all = samples.choose(values, ~is_test_N)
    choice_of_block = {
        block: samples.choose(*_nested_values(learners, block, samples))
        for block in set(blocks.values())
    }

    mixed_NC = np.empty_like(values[next(iter(values))])
    unnested_NC = np.empty_like(mixed_NC)
    chosen_NC = np.empty_like(mixed_NC)
    mixed_NC[is_test_N] = choice_of_all.mixture.apply(_select_rows(values, is_test_N))
    unnested_NC[is_test_N] = mixed_NC[is_test_N]
    chosen_NC[is_test_N] = values[choice_of_all.best][is_test_N]
    for fold, block in blocks.items():
        is_in_fold_N = samples.fold_N == fold
        fold_values = _select_rows(values, is_in_fold_N)
        choice = choice_of_block[block]
        mixed_NC[is_in_fold_N] = choice.mixture.apply(fold_values)
        chosen_NC[is_in_fold_N] = fold_values[choice.best]
        reused = samples.fit(values, ~is_test_N & ~is_in_fold_N)
        unnested_NC[is_in_fold_N] = reused.apply(fold_values)
    return MixedPredictions(
        predictions=_replace_values(first, mixed_NC, samples.classes),
        unnested=_replace_values(first, unnested_NC, samples.classes),
        chosen=_replace_values(first, chosen_NC, samples.classes),
        names={fold: choice_of_block[block].best for fold, block in blocks.items()},
        mixtures={fold: choice_of_block[block].mixture for fold, block in blocks.items()},
        mixture=choice_of_all.mixture,
    )


def mix_to_one(learners: Mapping[str, Learner], groups: pd.Series) -> Learner:
    """Return the mixture of several learners as one that can be mixed with others.

    Parameters
    ----------
    learners, groups
        See `super_learner`. A learner that is alone is returned as it is.

    Returns
    -------
    Learner
        Its nested predictions for a block have the weights that are fitted to the nested
        predictions for this block: neither has seen the block.
    """
    first = next(iter(learners.values()))
    if len(learners) == 1:
        return first
    samples = _Samples.read(first.predictions, groups)
    parts = []
    for block in sorted(set(blocks_of_folds(samples.fold_N).values())):
        values, is_nested_N = _nested_values(learners, block, samples)
        mixture = samples.fit(values, is_nested_N)
        mixed_NC = mixture.apply(_select_rows(values, is_nested_N))
        part = pd.DataFrame({"sample-id": samples.sample_ids[is_nested_N], WITHOUT: block})
        parts.append(_replace_values(part, mixed_NC, samples.classes))
    predictions = super_learner(learners, groups).predictions
    return Learner(predictions, pd.concat(parts, ignore_index=True))


@dataclass(frozen=True, eq=False)
class _Choice:
    """The mixture and the best single learner, fitted to some predictions."""

    mixture: Mixture
    best: str


@dataclass(frozen=True, eq=False)
class _Samples:
    """The samples that learners are mixed for, in the order of the first learner's rows.

    Attributes
    ----------
    sample_ids
        Their IDs.
    fold_N, unit_N
        The fold and the group of each.
    observed_N
        Numbers, or names of classes.
    classes
        Names of the classes; none where numbers are predicted.
    """

    sample_ids: pd.Index
    fold_N: NDArray[np.int64]
    unit_N: NDArray[Any]
    observed_N: NDArray[Any]
    classes: list[str]

    @classmethod
    def read(cls, predictions: pd.DataFrame, groups: pd.Series) -> "_Samples":
        """Return the samples of a table of predictions; `groups` is that of `super_learner`."""
        classes = class_names(predictions)
        observed = predictions["observed"]
        return cls(
            sample_ids=pd.Index(predictions["sample-id"]),
            fold_N=predictions["fold"].to_numpy(),
            unit_N=groups.loc[predictions["sample-id"]].to_numpy(),
            observed_N=observed.to_numpy(np.str_) if classes else numbers(observed),
            classes=classes,
        )

    def sort(self, predictions: pd.DataFrame) -> pd.DataFrame:
        """Return the predictions of another learner with its rows in the order of the samples."""
        table = predictions.set_index("sample-id").loc[self.sample_ids]
        assert (table["fold"].to_numpy() == self.fold_N).all(), "predictions of other folds"
        return table

    def choose(self, values: Mapping[str, Floats], is_row_N: NDArray[np.bool_]) -> _Choice:
        """Return the mixture and the best single learner by the predictions for some samples.

        Parameters
        ----------
        values
            Predicted numbers or probabilities of all samples, [N, C] by learner.
        is_row_N
            Which samples count.
        """
        return _Choice(self.fit(values, is_row_N), self._find_best(values, is_row_N))

    def fit(self, values: Mapping[str, Floats], is_row_N: NDArray[np.bool_]) -> Mixture:
        """Return the mixture that is fitted to the predictions for some of the samples."""
        return Mixture.fit(
            _select_rows(values, is_row_N),
            self.observed_N[is_row_N],
            self.classes,
            self.unit_N[is_row_N],
        )

    def _find_best(self, values: Mapping[str, Floats], is_row_N: NDArray[np.bool_]) -> str:
        """Return the learner of least absolute error, or of the best balanced accuracy.

        It is the first of equals, and the first of all where there is no sample.
        """
        names = list(values)
        if not is_row_N.any():
            return names[0]
        truth_N = self.observed_N[is_row_N]
        losses = []
        for value_NC in _select_rows(values, is_row_N).values():
            if self.classes:
                guess_N = np.array(self.classes)[value_NC.argmax(axis=1)]
                losses.append(-mean_recall(truth_N, guess_N))
            else:
                losses.append(float(np.abs(truth_N - value_NC[:, 0]).mean()))
        return names[int(np.argmin(losses))]


def learners_by_target(
    predictions: pd.DataFrame, nested: pd.DataFrame
) -> dict[str, dict[str, Learner]]:
    """Return what each baseline predicts, by target ("" where there is one) and name.

    Parameters
    ----------
    predictions, nested
        Contents of `by_baseline.tsv` and `nested.parquet` of the stage `baselines`. A method
        without nested predictions, a constant, is left out.

    Returns
    -------
    dict
        Learners by name, by target.
    """
    learners: dict[str, dict[str, Learner]] = {}
    nested_parts = by_baseline(nested)
    for name, parts in by_baseline(predictions).items():
        for target, part in parts.items():
            if name in nested_parts:
                learner = Learner(part, nested_parts[name][target])
                learners.setdefault(target, {})[name] = learner
    return learners


def _values(table: pd.DataFrame, classes: list[str]) -> Floats:
    """Return the predicted numbers, or probabilities, [N, C]."""
    if classes:
        return class_probabilities(table, classes)
    return numbers(table["predicted"])[:, None]


def _select_rows(values: Mapping[str, Floats], is_row_N: NDArray[np.bool_]) -> dict[str, Floats]:
    return {name: value_NC[is_row_N] for name, value_NC in values.items()}


def _nested_values(
    learners: Mapping[str, Learner], block: int, samples: _Samples
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return the nested predictions for a block, and which samples have those of all learners.

    Learners that take long predict fewer samples than the others.
    """
    values = {}
    is_nested_N = np.ones(len(samples.sample_ids), np.bool_)
    # A learner that could not be fitted without a block has neither rows nor columns of classes.
    columns = [PROBABILITY + name for name in samples.classes] or ["predicted"]
    for name, learner in learners.items():
        table = learner.nested[learner.nested[WITHOUT] == block].set_index("sample-id")
        is_nested_N &= samples.sample_ids.isin(table.index)
        whole = table.reindex(index=samples.sample_ids, columns=columns)
        values[name] = _values(whole, samples.classes)
    return values, is_nested_N


def _replace_values(table: pd.DataFrame, value_NC: Floats, classes: Sequence[str]) -> pd.DataFrame:
    """Return predictions with other numbers or probabilities, and nothing that belongs to them."""
    others = [name for name in table if str(name).startswith((QUANTILE, UNNESTED, DRAW))]
    result = table.drop(columns=others)
    if classes:
        result[[PROBABILITY + name for name in classes]] = value_NC
        result["predicted"] = np.array(classes)[value_NC.argmax(axis=1)]
    else:
        result["predicted"] = value_NC[:, 0]
    return result
