"""The importance of ASVs, as a table that QIIME 2 reads as feature metadata.

Shape suffixes: U ASVs, A ASVs of one sample, R removed ones of these, C explained outputs.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TAXON = "taxon"
"""Column of names, where the study has a taxonomy."""
TOP_ASVS = "importance.fasta"
"""File next to the table, with the sequences of the most important ASVs."""
MOST_IMPORTANT = 30
"""ASVs of a figure, and of that file."""
DIRECTION = "direction"
"""Column of the signed attributions; with several outputs `direction:<name>` each."""


class Importance:
    """What the explanations of many samples say of each of U ASVs, for C named outputs."""

    def __init__(self, asvs: int, names: Sequence[str]) -> None:
        self.names = names
        self.explained = 0
        self.samples_U = np.zeros(asvs, np.int64)
        self.attention_U = np.zeros(asvs)
        self.size_U = np.zeros(asvs)
        self.signed_UC = np.zeros((asvs, len(names)))
        self.gaps: list[float] = []
        self.changes: list[float] = []
        self.by_gradients: list[float] = []
        self.by_attention: list[float] = []

    def add(
        self,
        asvs_A: NDArray[np.integer],
        *,
        attention_A: NDArray[np.float64],
        gradients_AC: NDArray[np.float64],
        change_C: NDArray[np.float64],
        removed_R: NDArray[np.integer],
        removed_RC: NDArray[np.float64],
    ) -> None:
        """Count a sample in.

        Parameters
        ----------
        asvs_A
            Rows of its ASVs.
        attention_A, gradients_AC, change_C, removed_RC
            Fields of `aam.inference.attribution.Explanation`.
        removed_R
            ASVs that were removed in turn, as positions in `asvs_A`. Without any the sample is not
            checked.
        """
        self.explained += 1
        self.samples_U[asvs_A] += 1
        self.attention_U[asvs_A] += attention_A
        self.size_U[asvs_A] += np.abs(gradients_AC).mean(axis=1)
        self.signed_UC[asvs_A] += gradients_AC
        gap_C = gradients_AC.sum(axis=0) - change_C
        self.gaps += np.abs(gap_C).tolist()
        self.changes += np.abs(change_C).tolist()
        if len(removed_R) > 0:
            pairs = zip(gradients_AC[removed_R].T, removed_RC.T, strict=True)
            self.by_gradients += [_spearman(attributed, true) for attributed, true in pairs]
            size_R = np.abs(removed_RC).mean(axis=1)
            self.by_attention.append(_spearman(attention_A[removed_R], size_R))

    def table(self, feature_ids: Sequence[str], sequences: Sequence[str]) -> pd.DataFrame:
        """Return one row per ASV of the explained samples, the most important first.

        Parameters
        ----------
        feature_ids, sequences
            ID and sequence of each of the U ASVs.

        Returns
        -------
        pandas.DataFrame
            `feature-id`, `sequence`, `importance` (mean size of the attribution, 0 where the ASV is
            absent), the columns of `direction` and `attention` (means over the samples that
            have it), `prevalence` and `samples`.
        """
        rows = np.flatnonzero(self.samples_U).tolist()
        samples = self.samples_U[rows]
        signed_UC = self.signed_UC[rows] / samples[:, None]
        names = [DIRECTION]
        if len(self.names) > 1:
            names = [f"{DIRECTION}:{name}" for name in self.names]
        directions = dict(zip(names, signed_UC.T, strict=True))
        columns = {
            "feature-id": [feature_ids[row] for row in rows],
            "sequence": [sequences[row] for row in rows],
            "importance": self.size_U[rows] / self.explained,
            **directions,
            "attention": self.attention_U[rows] / samples,
            "prevalence": samples / self.explained,
            "samples": samples,
        }
        by = ["importance", "feature-id"]
        return pd.DataFrame(columns).sort_values(by, ascending=[False, True], ignore_index=True)

    def check(self) -> dict[str, Any]:
        """Return how far the attributions can be trusted.

        Returns
        -------
        dict
            `outputs`, `samples` (explained), `checked` (samples whose ASVs were removed in turn),
            `completeness`, and the mean rank correlations within a checked sample, over the removed
            ASVs: `gradients` with the change when an ASV is removed, `attention` with the size of
            this change.
        """
        return {
            "outputs": list(self.names),
            "samples": self.explained,
            "checked": len(self.by_attention),
            "completeness": {
                "change_median": float(np.median(self.changes)),
                "gap_median": float(np.median(self.gaps)),
                "gap_max": max(self.gaps),
            },
            "gradients": _mean(self.by_gradients),
            "attention": _mean(self.by_attention),
        }


def direction_columns(importance: pd.DataFrame) -> list[str]:
    """Return the columns of the signed attributions.

    Parameters
    ----------
    importance
        What `Importance.table` returns.
    """
    names = map(str, importance.columns)
    return [name for name in names if name == DIRECTION or name.startswith(f"{DIRECTION}:")]


def _spearman(attributed_R: NDArray[np.float64], true_R: NDArray[np.float64]) -> float:
    """Return the rank correlation, NaN where either is constant or not a number throughout."""
    if not (np.ptp(attributed_R) > 0 and np.ptp(true_R) > 0):
        return float("nan")
    # SciPy's function costs every explanation most of a second of imports.
    return float(pd.Series(attributed_R).rank().corr(pd.Series(true_R).rank()))


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of the values that are not NaN, None where there are none."""
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else None
