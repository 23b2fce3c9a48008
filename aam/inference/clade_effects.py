"""Which of the named clades moved the prediction of each sample, and by how much.

In a sample the reads of a clade are replaced by those of the training samples that are most alike
outside of the clade, as in `aam.evaluate.clade_tests`. The effect of the clade is the prediction
less the mean of the predictions with replaced reads, all by the mixture that predicts.

Shape suffixes: M samples to explain, N training samples, F features, K training samples that stand
in, C classes (1 where a number is predicted).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.predictions import TARGET
from aam.evaluate.clade_tests import STAND_INS, Clades
from aam.inference.replaced_reads import (
    AskedClade,
    find_clades,
    mean_reads,
    replace_reads,
    split_replaced,
)
from aam.inference.with_baselines import SuperLearner

COLUMNS = ("sample-id", "predicted", "clade", "taxon", "effect", "share", "share_alike")
"""Columns of the table; where there are several targets, `target` stands before `predicted`."""
ROWS_AT_ONCE = 20_000
"""Rows with replaced reads that are predicted at a time, for which methods are fitted once."""
ALIKE = 0.1
"""Fraction of the training samples, those of the nearest labels, that a number is compared with."""

Floats = NDArray[np.float64]


def explain_by_clades(
    super_learner: SuperLearner, drawn: Sequence[csr_array], sample_ids: Sequence[str]
) -> pd.DataFrame:
    """Return by how much each named clade moved the prediction of each sample.

    Parameters
    ----------
    super_learner
        What predicts, without networks.
    drawn
        Reads of the samples by view, as `KeptReads.draw` returns them.
    sample_ids
        Their IDs.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`: a row per sample and clade, those of a sample by the size of the effect.
        `predicted` is the number, or the most probable class; `effect` is in the unit of the
        number, or is that on the probability of this class before it is calibrated; `share` is the
        clade's share of the sample's reads, and `share_alike` its median share in the training
        samples of this class, or in the tenth of them whose label is nearest. Empty where no clade
        was named.
    """
    named = list_clades(super_learner)
    if not named:
        return pd.DataFrame(columns=[*COLUMNS])
    reads = super_learner.reads
    known = Clades.of_table(
        mean_reads([view.counts for view in reads.views]), reads.features, reads.tree
    )
    at_once = max(ROWS_AT_ONCE // (len(named) * STAND_INS), 1)
    parts = []
    for first in range(0, len(sample_ids), at_once):
        chunk = slice(first, first + at_once)
        some = [csr_array(reads_MF[chunk]) for reads_MF in drawn]
        parts.append(_explain(super_learner, known, named, some, sample_ids[chunk]))
    return pd.concat(parts, ignore_index=True)


def list_clades(super_learner: SuperLearner) -> list[AskedClade]:
    """Return the clades that were named for the targets; none where nobody looked.

    Parameters
    ----------
    super_learner
        What predicts, with these clades.
    """
    if super_learner.clades is None:
        return []
    table, features = super_learner.clades
    return find_clades(table, features, super_learner.reads.features)


def _explain(
    super_learner: SuperLearner,
    known: Clades,
    named: Sequence[AskedClade],
    drawn: Sequence[csr_array],
    sample_ids: Sequence[str],
) -> pd.DataFrame:
    """Return the rows of some samples; `known` are the clades of the training samples."""
    others = known.of_draw(mean_reads(drawn))
    # A sample that was in training does not stand in for itself.
    kept_ids = super_learner.reads.views[0].sample_ids
    is_same_MN = np.array(sample_ids, object)[:, None] == np.array(kept_ids, object)
    predicted = predict_without(super_learner, known, named, drawn, is_same_MN)
    samples = len(sample_ids)
    tables = []
    for clade, (value_MC, replaced_MKC) in zip(named, predicted, strict=True):
        effect_MC = value_MC - replaced_MKC.mean(axis=1)
        column_M = value_MC.argmax(axis=1)
        node = known.find(clade.features)
        guess_M, alike_M = _compare(super_learner, clade.target, value_MC, known.share_NB[:, node])
        table = pd.DataFrame({"sample-id": [*sample_ids], TARGET: clade.target})
        tables.append(
            table.assign(
                predicted=guess_M,
                clade=clade.clade,
                taxon=clade.taxon,
                effect=effect_MC[np.arange(samples), column_M],
                share=others.share_NB[:, node],
                share_alike=alike_M,
            )
        )
    joined = pd.concat(tables, ignore_index=True)
    order = {name: position for position, name in enumerate(sample_ids)}
    joined["order"] = joined["sample-id"].map(order)
    joined["size"] = -joined["effect"].abs()
    joined = joined.sort_values(["order", TARGET, "size"], kind="stable", ignore_index=True)
    has_one = len(super_learner.settings["mixtures"]) == 1
    return joined.drop(columns=["order", "size", *([TARGET] if has_one else [])])


def predict_without(
    super_learner: SuperLearner,
    known: Clades,
    named: Sequence[AskedClade],
    drawn: Sequence[csr_array],
    is_left_out_MN: NDArray[np.bool_],
) -> list[tuple[Floats, Floats]]:
    """Predict samples as they are, and with the reads of a clade of samples that are alike.

    Parameters
    ----------
    super_learner
        What predicts, without networks.
    known
        The clades of its kept samples.
    named
        The clades that are asked for.
    drawn
        Reads of the samples by view, as `KeptReads.draw` returns them.
    is_left_out_MN
        Which kept samples do not stand in for which samples.

    Returns
    -------
    list of tuple
        For each clade numbers [M, 1] or probabilities [M, C] of its target, and those with the
        reads of each stand-in [M, K, C].
    """
    kept = [csr_array(view.counts) for view in super_learner.reads.views]
    rows = replace_reads(known, named, drawn, kept, is_left_out_MN)
    predicted = super_learner.predict_reads(rows, 1)
    return [
        split_replaced(predicted[clade.target], drawn[0].shape[0], len(named), number)
        for number, clade in enumerate(named)
    ]


def _compare(
    super_learner: SuperLearner, target: str, value_MC: Floats, share_N: Floats
) -> tuple[NDArray[np.object_], Floats]:
    """Return what is predicted, and the median share of a clade in training samples like that."""
    classes = super_learner.settings["classes"]
    label_N = super_learner.labels(target)
    if classes:
        guess_M = np.asarray(classes, object)[value_MC.argmax(axis=1)]
        median = {name: float(np.median(share_N[label_N == name])) for name in set(label_N)}
        return guess_M, np.array([median.get(name, np.nan) for name in guess_M])
    alike = max(round(ALIKE * len(label_N)), 1)
    far_MN = np.abs(value_MC - label_N)
    nearest_MA = np.argsort(far_MN, axis=1, kind="stable")[:, :alike]
    return value_MC[:, 0].astype(object), np.median(share_N[nearest_MA], axis=1)
