"""The ASVs that the predictions of one task rest on."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.folds import CATEGORY, TEST, read_folds
from aam.data.predictions import read_results
from aam.data.sequences import read_fasta, write_fasta
from aam.data.stores import SampleStore, TokenStore
from aam.data.target import Target
from aam.data.trees import read_tree
from aam.distributed.inference_device import InferenceDevice
from aam.evaluate.clade_tests import Clades, choose_rows
from aam.evaluate.importance import MOST_IMPORTANT, TAXON, Importance
from aam.inference.attribution import (
    NO_ASVS,
    choose_samples,
    explain_samples,
    explained_names,
)
from aam.inference.bundle import ModelBundle, fold_models
from aam.inference.network_clades import COLUMNS, NetworkClades
from aam.inference.replaced_reads import AskedClade, find_clades
from aam.learners.baselines.problem import Problem, problems_of_targets
from aam.model.predictor import Predictor
from aam.util.atomic import write_json, write_tsv
from aam.util.seeds import generator

logger = logging.getLogger(__name__)
TRUSTED = 0.5
"""Rank correlation with removal below which attributions are warned of."""


def explain_task(
    *,
    model: Path,
    folds: Path,
    tokens: Path,
    samples: Path,
    sequences: Path,
    taxonomy: Path | None = None,
    asvs: Path | None = None,
    tree: Path | None = None,
    clades: Path,
    clade_features: Path,
    explained: int = 64,
    checked: int = 8,
    removed: int = 24,
    seed: int = 0,
    threads: int = 1,
    importance_out: Path,
    sequences_out: Path,
    check_out: Path,
    clades_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Explain samples of every fold by the models that never saw their labels.

    Parameters
    ----------
    model
        Folder of the fine-tuned models of a task.
    folds
        TSV file of the folds of the task.
    tokens, samples
        Arrow files of tokens and samples.
    sequences
        FASTA file with the sequence of every ASV.
    taxonomy
        TSV file of the imported taxonomy, where there is one.
    asvs
        File of ASV embeddings, for an encoder that pretraining left as it is.
    tree
        Newick file with a tip for every feature; None: features are clades by themselves.
    clades, clade_features
        TSV files of the clades that were named for the task, and of the features that lie in them.
    explained
        Most samples of a fold that are explained.
    checked
        Samples of a fold among these from which ASVs are also removed in turn.
    removed
        Most ASVs that are removed from each.
    seed
        Seed of the choice.
    threads
        Cores to use.
    importance_out
        TSV file to write, with a row per ASV.
    sequences_out
        FASTA file to write: the most important ASVs.
    check_out
        JSON file to write: how well importance agrees with what the removal of an ASV changes.
    clades_out
        TSV file to write, a row per named clade: what the networks lose without it, as
        `aam.inference.network_clades.NetworkClades.test` returns it.
    provenance
        Where the check comes from, which is written with it (`aam.util.digests`).

    Raises
    ------
    InputError
        The folder of models, or the file of ASV embeddings, cannot be read, or is of another
        version.
    """
    study = _Study.open(samples, tokens, folds)
    choice = _SampleChoice(explained=explained, checked=checked, removed=removed, seed=seed)
    # The check compares differences between outputs, which bf16 would round away.
    devices = InferenceDevice.claim(threads)
    importance: Importance | None = None
    for fold in study.folds():
        predictors = fold_models(model, fold)
        if importance is None:
            names = explained_names(next(iter(predictors)).target)
            importance = Importance(len(study.tokens.lengths), names)
        _add_fold(importance, fold, predictors, study, choice, devices, asvs)
    assert importance is not None, "a task has folds"
    table = _importance_table(importance, study.tokens.feature_ids, sequences, taxonomy)
    write_tsv(importance_out, table)
    top = table.head(MOST_IMPORTANT)
    shown = top["sequence"] if "sequence" in top else ()
    write_fasta(sequences_out, dict(zip(top["feature-id"], shown, strict=bool(len(shown)))))
    check = importance.check()
    _log_check(check)
    write_json(check_out, {**check, "provenance": dict(provenance)})
    features = read_results(clade_features).set_index("feature-id")
    named = find_clades(read_results(clades), features, study.tokens.feature_ids)
    write_tsv(clades_out, _test_clades(named, model, study, choice, devices, tree, asvs))


@dataclass(frozen=True)
class _SampleChoice:
    """Which samples of a fold are explained, and which ASVs are removed from them."""

    explained: int
    checked: int
    removed: int
    seed: int


@dataclass(frozen=True, eq=False)
class _Study:
    """The samples, with the fold and the covariates of the labelled ones, by sample ID."""

    store: SampleStore
    tokens: TokenStore
    table: pd.DataFrame
    """What `aam.data.folds.read_folds` returns."""
    covariates: pd.DataFrame

    @classmethod
    def open(cls, samples: Path, tokens: Path, folds: Path) -> "_Study":
        """Read the files of the stage."""
        table = read_folds(folds)
        names = {
            name: name.removeprefix(CATEGORY) for name in table.columns if name.startswith(CATEGORY)
        }
        return cls(
            store=SampleStore.open(samples),
            tokens=TokenStore.open(tokens),
            table=table,
            covariates=table[[*names]].rename(columns=names),
        )

    @property
    def fold(self) -> pd.Series:
        """Fold of each labelled sample."""
        return self.table["fold"]

    def folds(self) -> list[int]:
        """Return the numbers of the folds, without the held-out test set."""
        return sorted(set(self.fold.tolist()) - {TEST})

    def problems(self, names: pd.Index, target: Target, seed: int) -> dict[str, Problem]:
        """Return labelled samples with the reads of view 0, by the name of the target."""
        features = len(self.tokens.feature_ids)
        rows = np.array([self.row_by_id[name] for name in names])
        return problems_of_targets(
            self.table.loc[names],
            kind=target.kind,
            classes=target.classes,
            counts=self.store.counts_of(rows, features),
            distances=np.zeros((0, 0), np.float32),
            above=csr_array((features, 0)),
            lengths=np.zeros(0),
            seed=seed,
        )

    @cached_property
    def row_by_id(self) -> dict[str, int]:
        """Rows of the samples in the store."""
        return {name: row for row, name in enumerate(self.store.sample_ids)}


def _test_clades(
    named: Sequence[AskedClade],
    model: Path,
    study: "_Study",
    choice: _SampleChoice,
    devices: InferenceDevice,
    tree: Path | None,
    asvs: Path | None,
) -> pd.DataFrame:
    """Return what the networks lose without each named clade, by some samples of every fold.

    Of many samples those are looked at, and stand in for each other, by which clades are named.
    """
    if not named:
        return pd.DataFrame(columns=[*COLUMNS])
    bundle = ModelBundle.load(model)
    names = study.fold.index[study.fold != TEST]
    tasks = study.problems(names, bundle.target, choice.seed)
    looked_at = choose_rows(next(iter(tasks.values())))
    if len(looked_at) < len(names):
        names = names[looked_at]
        tasks = study.problems(names, bundle.target, choice.seed)
    feature_ids = study.tokens.feature_ids
    known_tree = None if tree is None else read_tree(tree, feature_ids)
    reads = next(iter(tasks.values())).counts
    networks = NetworkClades(
        bundle=bundle,
        tasks=tasks,
        covariates=study.covariates.loc[names],
        known=Clades.of_table(reads, feature_ids, known_tree),
        tokens=study.tokens,
        devices=devices,
        asvs=asvs,
    )
    chosen = {}
    for fold in sorted(set(study.fold[names])):
        some = choose_samples(names[study.fold[names] == fold], choice.explained, choice.seed)
        chosen[fold] = names.get_indexer(pd.Index(some))
    return networks.test(named, chosen)


def _add_fold(
    importance: Importance,
    fold: int,
    predictors: Mapping[Predictor, float],
    study: _Study,
    choice: _SampleChoice,
    devices: InferenceDevice,
    asvs: Path | None,
) -> None:
    """Add the explanations of some samples of a fold to the importance of the ASVs.

    Parameters
    ----------
    importance
        What the explanations are added to.
    fold
        Number of the fold.
    predictors
        The models that never saw the labels of the fold, with their weights.
    study
        The samples.
    choice
        How many of the samples are explained, and how many ASVs are removed.
    devices
        Where the models run.
    asvs
        File of ASV embeddings, or None.
    """
    names = choose_samples(study.fold.index[study.fold == fold], choice.explained, choice.seed)
    rows = [study.row_by_id[name] for name in names]
    removed = []
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        is_checked = number < choice.checked
        removed.append(_removed_asvs(study.store, name, row, choice) if is_checked else NO_ASVS)
    explanations = explain_samples(
        predictors,
        study.store,
        study.tokens,
        rows,
        devices,
        categories=study.covariates.loc[names].to_dict("records"),
        removed=removed,
        asvs=asvs,
    )
    for (asvs_A, explanation), removed_R in zip(explanations, removed, strict=True):
        importance.add(asvs_A, **vars(explanation), removed_R=removed_R)
    logger.info("fold %d: %d samples explained", fold, len(names))


def _removed_asvs(
    store: SampleStore, name: str, row: int, choice: _SampleChoice
) -> NDArray[np.int64]:
    """Return the ASVs that are removed from a sample in turn, as positions among its ASVs."""
    number = store.offsets[row + 1] - store.offsets[row]
    draw = generator("remove", choice.seed, name)
    return np.sort(draw.choice(number, min(number, choice.removed), replace=False))


def _importance_table(
    importance: Importance, feature_ids: Sequence[str], sequences: Path, taxonomy: Path | None
) -> pd.DataFrame:
    """Return a row per ASV, with its sequence and, where it is known, its taxon."""
    sequence_of = read_fasta(sequences)
    table = importance.table(feature_ids, [sequence_of.get(name, "") for name in feature_ids])
    if not sequence_of:
        del table["sequence"]
    if taxonomy is not None:
        taxa = read_results(taxonomy).set_index("feature-id")["taxon"]
        table.insert(1, TAXON, taxa.loc[table["feature-id"]].to_numpy())
    return table


def _log_check(check: Mapping[str, Any]) -> None:
    """Log how well importance agrees with removal, and warn where it does not."""
    logger.info(
        "rank correlation with the change when an ASV is removed: gradients %s, attention %s",
        check["gradients"],
        check["attention"],
    )
    if check["gradients"] is not None and check["gradients"] < TRUSTED:
        logger.warning(
            "the importance of ASVs agrees poorly with what their removal changes (rank "
            "correlation %.2f): read it with care",
            check["gradients"],
        )
