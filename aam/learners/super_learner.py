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

FORMAT = 2
"""Number of the format of the directories that are written and read."""
SETTINGS = "super_learner.json"
"""File of such a directory, which `aam.inference.with_baselines` reads: its settings."""
FOLDS = "folds.tsv"
"""File of the task's folds."""
TREE = "tree.nwk"
"""File of the study's tree."""
SEQUENCES = "sequences.fasta"
"""File of the study's ASVs."""
MODEL = "model"
"""Folder of the fine-tuned models, where there are any."""
WITHOUT = "without"
"""Column of nested predictions: the block of folds that their models have not seen."""

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
    mixture
        The mixture fitted to the predictions for all folds, for samples of other tables.
    """

    predictions: pd.DataFrame
    unnested: pd.DataFrame
    chosen: pd.DataFrame
    names: Mapping[int, str]
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
    classes = class_names(first)
    sample_ids = pd.Index(first["sample-id"])
    fold_N = first["fold"].to_numpy()
    unit_N = groups.loc[sample_ids].to_numpy()
    observed_N = first["observed"].to_numpy(np.str_) if classes else numbers(first["observed"])
    values = {}
    for name, learner in learners.items():
        table = learner.predictions.set_index("sample-id").loc[sample_ids]
        assert (table["fold"].to_numpy() == fold_N).all(), "predictions of other folds"
        values[name] = _values(table, classes)

    is_known_N = fold_N != TEST
    mixed_NC = np.empty_like(values[next(iter(values))])
    unnested_NC = np.empty_like(mixed_NC)
    chosen_NC = np.empty_like(mixed_NC)
    names: dict[int, str] = {}
    mixture = _fit(values, observed_N, classes, unit_N, is_known_N)
    is_test_N = fold_N == TEST
    best = _best_learner(values, observed_N, classes, is_known_N)
    mixed_NC[is_test_N] = mixture.apply(_rows(values, is_test_N))
    unnested_NC[is_test_N] = mixed_NC[is_test_N]
    chosen_NC[is_test_N] = values[best][is_test_N]
    blocks = blocks_of_folds(fold_N)
    mixture_of_block: dict[int, Mixture] = {}
    best_of_block: dict[int, str] = {}
    for block in set(blocks.values()):
        nested, is_nested_N = _nested_values(learners, block, sample_ids, classes)
        mixture_of_block[block] = _fit(nested, observed_N, classes, unit_N, is_nested_N)
        best_of_block[block] = _best_learner(nested, observed_N, classes, is_nested_N)
    for fold, block in blocks.items():
        is_fold_N = fold_N == fold
        mixed_NC[is_fold_N] = mixture_of_block[block].apply(_rows(values, is_fold_N))
        names[fold] = best_of_block[block]
        chosen_NC[is_fold_N] = values[names[fold]][is_fold_N]
        reused = _fit(values, observed_N, classes, unit_N, is_known_N & ~is_fold_N)
        unnested_NC[is_fold_N] = reused.apply(_rows(values, is_fold_N))
    return MixedPredictions(
        predictions=_with_values(first, mixed_NC, classes),
        unnested=_with_values(first, unnested_NC, classes),
        chosen=_with_values(first, chosen_NC, classes),
        names=names,
        mixture=mixture,
    )


def learners_by_target(
    predictions: pd.DataFrame, nested: pd.DataFrame
) -> dict[str, dict[str, Learner]]:
    """Return what each baseline predicts, by target ("" where there is one) and name.

    Parameters
    ----------
    predictions, nested
        Contents of `predictions.tsv` and `nested.parquet` of the stage `baselines`. A method
        without nested predictions, a constant, is left out.
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


def _rows(values: Mapping[str, Floats], is_row_N: NDArray[np.bool_]) -> dict[str, Floats]:
    return {name: value_NC[is_row_N] for name, value_NC in values.items()}


def _nested_values(
    learners: Mapping[str, Learner], block: int, sample_ids: pd.Index, classes: list[str]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Return the nested predictions for a block, and the samples that all learners have them of.

    Learners that take long predict fewer samples than the others.
    """
    values = {}
    is_nested_N = np.ones(len(sample_ids), np.bool_)
    # A learner that could not be fitted without a block has neither rows nor columns of classes.
    columns = [PROBABILITY + name for name in classes] or ["predicted"]
    for name, learner in learners.items():
        table = learner.nested[learner.nested[WITHOUT] == block].set_index("sample-id")
        is_nested_N &= sample_ids.isin(table.index)
        values[name] = _values(table.reindex(index=sample_ids, columns=columns), classes)
    return values, is_nested_N


def _fit(
    values: Mapping[str, Floats],
    observed_N: NDArray[Any],
    classes: Sequence[str],
    unit_N: NDArray[Any],
    is_row_N: NDArray[np.bool_],
) -> Mixture:
    """Return the mixture that is fitted to some of the samples.

    Parameters
    ----------
    values
        Predicted numbers or probabilities of all samples, [N, C] by method.
    observed_N
        Numbers, or names of classes.
    classes
        Names of the classes; none where numbers are predicted.
    unit_N
        Group of each sample.
    is_row_N
        Which samples it is fitted to.
    """
    return Mixture.fit(_rows(values, is_row_N), observed_N[is_row_N], classes, unit_N[is_row_N])


def _best_learner(
    values: Mapping[str, Floats],
    observed_N: NDArray[Any],
    classes: Sequence[str],
    is_row_N: NDArray[np.bool_],
) -> str:
    """Return the learner of least absolute error, or of the best balanced accuracy; the first tie.

    Without any row it is the first.
    """
    names = list(values)
    if not is_row_N.any():
        return names[0]
    truth = observed_N[is_row_N]
    losses = []
    for value_NC in values.values():
        if classes:
            guess = np.array(classes)[value_NC[is_row_N].argmax(axis=1)]
            losses.append(-mean_recall(truth, guess))
        else:
            losses.append(float(np.abs(truth - value_NC[is_row_N, 0]).mean()))
    return names[int(np.argmin(losses))]


def _with_values(table: pd.DataFrame, value_NC: Floats, classes: Sequence[str]) -> pd.DataFrame:
    """Return predictions with other numbers or probabilities, and nothing that belongs to them."""
    others = [name for name in table if str(name).startswith((QUANTILE, UNNESTED, DRAW))]
    result = table.drop(columns=others)
    if classes:
        result[[PROBABILITY + name for name in classes]] = value_NC
        result["predicted"] = np.array(classes)[value_NC.argmax(axis=1)]
    else:
        result["predicted"] = value_NC[:, 0]
    return result
