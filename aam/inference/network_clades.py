"""What networks owe to the named clades: held-out samples with the reads of similar ones.

The networks of each fold predict samples whose labels they have not seen as they are, and with the
reads of a clade of those training samples that are most alike outside of it, as
`aam.inference.replaced_reads` has them. The test is that of `aam.evaluate.clade_tests`, with the
networks in the place of the ridge.

Shape suffixes: N labelled samples, M some of them, F features, R rows with replaced reads, K
samples that stand in, C classes (1 where a number is predicted).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.augmentation import Augmentation, build_store
from aam.data.predictions import TARGET
from aam.data.stores import TokenStore
from aam.data.table import FeatureTable
from aam.distributed.inference_device import InferenceDevice
from aam.evaluate.clade_loss import measure_loss
from aam.evaluate.clade_tests import Clades, CladeTests, p_of_addition
from aam.inference.bundle import ModelBundle
from aam.inference.ensemble import predict_store
from aam.inference.replaced_reads import (
    AskedClade,
    replace_reads,
    split_replaced,
    with_several_together,
)
from aam.learners.baselines.problem import Problem

COLUMNS = ("clade", "samples", "score", "loss", "low", "high", "p")
"""Columns of the table; where there are several targets, `target` stands before them."""
NOTHING = Augmentation(asv_dropout=0, cutmix=0, seed=0)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkClades:
    """The networks of a task, and what they are asked.

    Attributes
    ----------
    bundle
        The networks of all folds.
    tasks
        The N labelled samples by target, with their reads as `tokens` name the features.
    covariates
        Categories of these samples, text.
    known
        The clades of these samples.
    tokens
        The features.
    devices
        Where the networks run.
    asvs
        File of ASV embeddings, which is read for those encoders that made it.
    """

    bundle: ModelBundle
    tasks: Mapping[str, Problem]
    covariates: pd.DataFrame
    known: Clades
    tokens: TokenStore
    devices: InferenceDevice
    asvs: Path | None = None

    def test(
        self, named: Sequence[AskedClade], chosen: Mapping[int, NDArray[np.intp]]
    ) -> pd.DataFrame:
        """Return what the networks lose without each named clade, and whether it is by chance.

        Parameters
        ----------
        named
            The clades.
        chosen
            Numbers of the samples that are asked, by fold.

        Returns
        -------
        pandas.DataFrame
            Columns `COLUMNS`, a row per clade, and behind all one without a name for several of a
            target together: how many samples were asked, the headline score of their held-out
            predictions, by how much it is worse without the clade, the 95 % interval of this loss
            over units, and the p-value given the other named clades of the target; that of several
            together is not tested.
        """
        if not named:
            return pd.DataFrame(columns=[*COLUMNS])
        asked = with_several_together(named)
        parts = [self._predict(asked, rows, fold) for fold, rows in chosen.items()]
        order = np.concatenate([*chosen.values()])
        table = pd.DataFrame(
            [
                self._judge(clade, named, order, [part[number] for part in parts])
                for number, clade in enumerate(asked)
            ]
        )
        return table.drop(columns=TARGET) if len(self.tasks) == 1 else table

    def _predict(
        self, named: Sequence[AskedClade], rows: NDArray[np.intp], fold: int
    ) -> list[tuple[Floats, Floats]]:
        """Return what the networks of a fold predict without each clade: see `split_replaced`."""
        task = next(iter(self.tasks.values()))
        reads_NF = csr_array(task.counts)
        is_held_out_N = (task.fold == fold) | np.isin(task.units, task.units[rows])
        is_left_out_MN = np.broadcast_to(is_held_out_N, (len(rows), len(is_held_out_N)))
        asked = [csr_array(reads_NF[rows])]
        reads_RF = replace_reads(self.known, named, asked, [reads_NF], is_left_out_MN)[0]
        reads_RF.eliminate_zeros()
        reads_RF.sort_indices()
        names = [str(number) for number in range(reads_RF.shape[0])]
        table = FeatureTable(names, self.tokens.feature_ids, reads_RF)
        store = build_store(self.tokens.feature_ids, [table], NOTHING)
        # The samples come first, then K rows of each, one after the other, clade by clade.
        stand_ins = (len(names) - len(rows)) // (len(rows) * len(named))
        sample_R = np.concatenate([rows, np.tile(np.repeat(rows, stand_ins), len(named))])
        bundle = self.bundle.of_fold(fold)
        predicted = predict_store(
            bundle,
            store,
            self.tokens,
            self.devices,
            self.asvs,
            self.covariates.iloc[sample_R].set_axis(names),
        )
        answers = []
        for number, clade in enumerate(named):
            value_RC = predicted
            if not bundle.target.classes and clade.target:
                value_RC = predicted[:, [bundle.target.columns.index(clade.target)]]
            answers.append(split_replaced(value_RC, len(rows), len(named), number))
        return answers

    def _judge(
        self,
        clade: AskedClade,
        named: Sequence[AskedClade],
        rows: NDArray[np.intp],
        parts: Sequence[tuple[Floats, Floats]],
    ) -> dict[str, object]:
        """Return the row of a clade; `parts` are the predictions of the samples in some order."""
        task = self.tasks[clade.target]
        tests = CladeTests.of_task(task, np.arange(len(task.target)), self.known)
        value_MC = np.concatenate([value for value, _ in parts])
        replaced_MKC = np.concatenate([replaced for _, replaced in parts])
        p = np.nan
        if not clade.parts:
            others = [other.features for other in named if other.target == clade.target]
            nodes = [self.known.find(features) for features in others]
            node = self.known.find(clade.features)
            about_others = [value_N[rows] for value_N in tests.describe_others(node, nodes)]
            without_MC = replaced_MKC.mean(axis=1)
            known = [np.ones(len(rows)), *without_MC.T, *about_others]
            p = p_of_addition(tests.label_NC[rows], value_MC, without_MC, known, tests.unit_N[rows])
        ids = self.covariates.index[rows]
        table = pd.DataFrame(
            {"sample-id": ids, "fold": task.fold[rows], "observed": task.target[rows]}
        )
        units = pd.Series(task.units[rows], ids)
        loss = measure_loss(task.kind, task.classes, table, value_MC, replaced_MKC, units)
        about = {TARGET: clade.target, "clade": clade.clade, "samples": len(rows)}
        return {**about, **loss, "p": p}
