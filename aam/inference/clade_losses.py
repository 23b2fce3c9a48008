"""How much worse held-out predictions are without the reads of a named clade.

The mixture of each fold predicts the samples that it has not seen as they are, and with the reads
of the clade of the training samples that are most alike outside of it, as
`aam.inference.replaced_reads` has them. Methods are fitted once more to each fold, with the seeds
of the cross-validation, and have its nested weights: what is said of samples as they are is what
the answer to the task has.

Shape suffixes: M held-out samples, N labelled ones, F features, K samples that stand in, C classes
(1 where a number is predicted).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.predictions import TARGET
from aam.evaluate.clade_loss import measure_loss
from aam.evaluate.clade_tests import STAND_INS, Clades
from aam.inference.clade_effects import ROWS_AT_ONCE, list_clades, predict_without
from aam.inference.replaced_reads import AskedClade, mean_reads, with_several_together
from aam.inference.with_baselines import SuperLearner, used_mixtures
from aam.learners.baselines.fit_arrays import fit_methods
from aam.learners.baselines.problem import Problem
from aam.learners.mixture import Mixture

COLUMNS = ("clade", "score", "loss", "low", "high")
"""Columns of the table; where there are several targets, `target` stands before them."""

Floats = NDArray[np.float64]


def measure_losses(
    super_learner: SuperLearner,
    tasks: Mapping[str, Problem],
    mixtures: Mapping[str, Mapping[int, Mixture]],
    units: pd.Series,
) -> pd.DataFrame:
    """Return by how much the score falls without each named clade.

    Parameters
    ----------
    super_learner
        The super learner that is kept for other tables, without networks.
    tasks
        Its labelled samples by target, with the methods to fit in `asked`.
    mixtures
        The mixture of each fold, by target: `MixedPredictions.mixtures`.
    units
        Which samples belong together, as `aam.data.folds.units_of` returns it.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`, a row per clade in the order in which they are named, and behind all one
        without a name for several of a target together: the headline score
        of held-out predictions as they are, by how much it is worse without the clade, as a mean
        over folds of numbers, and the 95 % interval of this loss over units, empty where these are
        too few for a test.
    """
    named = list_clades(super_learner)
    if not named:
        return pd.DataFrame(columns=[*COLUMNS])
    named = with_several_together(named)
    reads = super_learner.reads
    known = Clades.of_table(
        mean_reads([view.counts for view in reads.views]), reads.features, reads.tree
    )
    parts: list[list[tuple[Floats, Floats]]] = []
    rows = []
    for fold in sorted(next(iter(mixtures.values()))):
        refitted = _fit_without(super_learner, tasks, mixtures, fold)
        for some in _rows_of_fold(refitted, fold, len(named)):
            parts.append(_predict_some(refitted, known, named, fold, some))
            rows.append(some)
    order = np.concatenate(rows)
    table = pd.DataFrame(
        [
            _compare(super_learner, clade, order, [part[number] for part in parts], units)
            for number, clade in enumerate(named)
        ]
    )
    has_one = len(super_learner.settings["mixtures"]) == 1
    return table.drop(columns=TARGET) if has_one else table


def _fit_without(
    super_learner: SuperLearner,
    tasks: Mapping[str, Problem],
    mixtures: Mapping[str, Mapping[int, Mixture]],
    fold: int,
) -> SuperLearner:
    """Return what predicts a fold: methods and weights that know nothing of its labels."""
    plain = {target: of_folds[fold].plain() for target, of_folds in mixtures.items()}
    settings = {**super_learner.settings, "mixtures": plain}
    methods = {
        target: fit_methods(replace(tasks[target], asked=[*mixture.weights]), fold)
        for target, mixture in used_mixtures(settings).items()
    }
    return replace(super_learner, settings=settings, methods=methods)


def _rows_of_fold(
    super_learner: SuperLearner, fold: int, clades: int
) -> Iterator[NDArray[np.intp]]:
    """Yield the rows of a fold, as many as are predicted at a time."""
    assert super_learner.folds is not None, "a shared folder has no samples to hold out"
    rows = np.flatnonzero(super_learner.folds["fold"].to_numpy() == fold)
    at_once = max(ROWS_AT_ONCE // (1 + clades * STAND_INS), 1)
    for first in range(0, len(rows), at_once):
        yield rows[first : first + at_once]


def _predict_some(
    super_learner: SuperLearner,
    known: Clades,
    named: Sequence[AskedClade],
    fold: int,
    rows: NDArray[np.intp],
) -> list[tuple[Floats, Floats]]:
    """Return what is predicted for some samples of a fold, as they are and without each clade."""
    assert super_learner.folds is not None, "a shared folder has no samples to hold out"
    is_held_out_N = super_learner.folds["fold"].to_numpy() == fold
    drawn = [csr_array(view.counts[rows]) for view in super_learner.reads.views]
    is_left_out_MN = np.broadcast_to(is_held_out_N, (len(rows), len(is_held_out_N)))
    return predict_without(super_learner, known, named, drawn, is_left_out_MN)


def _compare(
    super_learner: SuperLearner,
    clade: AskedClade,
    rows: NDArray[np.intp],
    parts: Sequence[tuple[Floats, Floats]],
    units: pd.Series,
) -> dict[str, object]:
    """Return the row of a clade; `parts` are the predictions of the samples in some order."""
    assert super_learner.folds is not None, "a shared folder has no samples to hold out"
    folds = super_learner.folds.iloc[rows]
    table = pd.DataFrame(
        {
            "sample-id": folds.index,
            "fold": folds["fold"].to_numpy(),
            "observed": super_learner.labels(clade.target)[rows],
        }
    )
    value_NC = np.concatenate([value_MC for value_MC, _ in parts])
    replaced_NKC = np.concatenate([replaced_MKC for _, replaced_MKC in parts])
    settings = super_learner.settings
    loss = measure_loss(settings["kind"], settings["classes"], table, value_NC, replaced_NKC, units)
    return {TARGET: clade.target, "clade": clade.clade, **loss}
