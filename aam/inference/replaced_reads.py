"""Samples with the reads of similar ones in a named clade.

Shape suffixes: M samples, N samples that may stand in, F features, B nodes of the tree, R rows, P
rows with replaced reads, K samples that stand in, C classes (1 where a number is predicted).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack

from aam.data.predictions import CLADE_OF_TARGET, TARGET
from aam.evaluate.clade_tests import STAND_INS, Clades, squared_distances

DIGITS = 6
"""Digits of squared distances of log-reads by which samples are told apart."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AskedClade:
    """A clade that was named for a target, or several of them at once."""

    target: str
    """Name of the target; empty where there is one."""
    clade: str
    taxon: str
    features: NDArray[np.intp]
    """Numbers of its features among the known ones."""
    parts: tuple[NDArray[np.intp], ...] = ()
    """Features of each of several clades; none: it is one."""

    @classmethod
    def together(cls, clades: Sequence["AskedClade"]) -> "AskedClade":
        """Return all of some clades of a target as one, without a name.

        Parameters
        ----------
        clades
            The clades, none of which lies within another.
        """
        parts = tuple(clade.features for clade in clades)
        return cls(clades[0].target, "", "", np.unique(np.concatenate(parts)), parts)

    def nodes(self, known: Clades) -> list[int]:
        """Return the nodes whose reads tell of the clade: above it, itself, and below.

        Parameters
        ----------
        known
            The clades of a table with the features.
        """
        own = [known.find(features) for features in self.parts or (self.features,)]
        near = {above for node in own for above in known.above(node)}
        return sorted(near.union(*(range(node, known.end_B[node]) for node in own)))


def find_clades(
    table: pd.DataFrame, features: pd.DataFrame, feature_ids: Sequence[str]
) -> list[AskedClade]:
    """Return named clades with their features.

    Parameters
    ----------
    table
        A row per named clade, as `aam.stages.clades` writes it.
    features
        By feature ID the named clade that it lies in.
    feature_ids
        Known features.
    """
    named = []
    for _, row in table.iterrows():
        target = row[TARGET] if TARGET in table else ""
        clade_of = features[f"{CLADE_OF_TARGET}{target}" if target else "clade"]
        members = clade_of.index[clade_of == row["clade"]]
        numbers = pd.Index(feature_ids).get_indexer(members)
        assert len(numbers) > 0, "a named clade has features"
        assert (numbers >= 0).all(), "the features of a named clade are those of the table"
        taxon = row["taxon"] if isinstance(row["taxon"], str) else ""
        named.append(AskedClade(target, row["clade"], taxon, numbers))
    return named


def with_several_together(named: Sequence[AskedClade]) -> list[AskedClade]:
    """Return named clades, and behind them all of each target that has several as one.

    Parameters
    ----------
    named
        The clades.
    """
    asked = [*named]
    for target in dict.fromkeys(clade.target for clade in named):
        of_target = [clade for clade in named if clade.target == target]
        if len(of_target) > 1:
            asked.append(AskedClade.together(of_target))
    return asked


def replace_reads(
    known: Clades,
    named: Sequence[AskedClade],
    drawn: Sequence[csr_array],
    kept: Sequence[csr_array],
    is_left_out_MN: NDArray[np.bool_],
) -> list[csr_array]:
    """Return samples as they are, and with the reads of a clade of samples that are alike.

    Parameters
    ----------
    known
        The clades of the samples that stand in.
    named
        The clades that are asked for.
    drawn
        Reads of the samples by view, [M, F].
    kept
        Reads of the samples that stand in by view, [N, F].
    is_left_out_MN
        Which of the latter do not stand in for which samples.

    Returns
    -------
    list of scipy.sparse.csr_array
        By view the rows of the samples, then those with replaced reads, clade by clade: K
        (`STAND_INS`) of each sample, one after the other. A row that would have no reads keeps
        those of its sample.
    """
    others = known.of_draw(mean_reads(drawn))
    distance_MN = squared_distances(others.logs_NB, known.logs_NB)
    distance_MN[is_left_out_MN] = np.inf
    replaced = [[reads_MF] for reads_MF in drawn]
    # Where fewer may stand in, they do so several times: all samples of all folds have K rows.
    fewest = int((~is_left_out_MN).sum(axis=1).min(initial=STAND_INS))
    turn_K = np.arange(STAND_INS) % max(fewest, 1)
    for clade in named:
        own = clade.nodes(known)
        own_MN = squared_distances(others.logs_NB[:, own], known.logs_NB[:, own])
        # Of samples that are equally alike the first ones stand in, however sums were rounded.
        rest_MN = np.round(distance_MN - own_MN, DIGITS)
        stand_in_MK = np.argsort(rest_MN, axis=1, kind="stable")[:, turn_K]
        for parts, reads_MF, kept_NF in zip(replaced, drawn, kept, strict=True):
            parts.append(_replace(reads_MF, kept_NF, clade.features, stand_in_MK))
    return [csr_array(vstack(parts)) for parts in replaced]


def _replace(
    reads_MF: csr_array,
    kept_NF: csr_array,
    features: NDArray[np.intp],
    stand_in_MK: NDArray[np.intp],
) -> csr_array:
    """Return rows [MK, F] in which the reads of some features are those of other samples."""
    is_member_F = np.zeros(reads_MF.shape[1], reads_MF.dtype)
    is_member_F[features] = 1
    own_reads = reads_MF[np.repeat(np.arange(len(stand_in_MK)), stand_in_MK.shape[1])]
    given_reads = kept_NF[stand_in_MK.ravel()]
    reads = csr_array(
        own_reads @ diags_array(1 - is_member_F, dtype=None)
        + given_reads @ diags_array(is_member_F, dtype=None)
    )
    is_empty = reads.sum(axis=1) == 0
    if is_empty.any():
        reads = reads + diags_array(is_empty.astype(reads.dtype), dtype=None) @ own_reads
    return csr_array(reads)


def split_replaced(
    predicted_RC: Floats, samples: int, clades: int, number: int
) -> tuple[Floats, Floats]:
    """Return what is predicted for samples as they are, and without one of the clades.

    Parameters
    ----------
    predicted_RC
        Predictions of the rows of `replace_reads`.
    samples, clades
        How many there are of both.
    number
        Number of the clade.

    Returns
    -------
    tuple
        Predictions [M, C], and those with the reads of each stand-in [M, K, C].
    """
    replaced_PC = predicted_RC[samples:].reshape(clades, samples, -1, predicted_RC.shape[1])
    return predicted_RC[:samples], replaced_PC[number]


def mean_reads(views: Sequence[csr_array]) -> csr_array:
    """Return the mean reads of all views.

    Parameters
    ----------
    views
        Reads of the same samples and features by view.
    """
    return csr_array(sum(view / len(views) for view in views))
