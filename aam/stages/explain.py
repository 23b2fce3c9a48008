"""The ASVs that the predictions of one task rest on."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.data.folds import CATEGORY, TEST, read_folds
from aam.data.predictions import read_results
from aam.data.samples import SampleStore
from aam.data.sequences import read_fasta, write_fasta
from aam.data.tokens import TokenStore
from aam.distributed.devices import Devices
from aam.evaluate.importance import MOST_IMPORTANT, TAXON, Importance
from aam.inference.attribution import (
    NO_ASVS,
    chosen_samples,
    explain_samples,
    explained_names,
)
from aam.inference.bundle import fold_models
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
    explained: int = 64,
    checked: int = 8,
    removed: int = 24,
    seed: int = 0,
    threads: int = 1,
    importance_out: Path,
    sequences_out: Path,
    check_out: Path,
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
    provenance
        Where the check comes from, which is written with it (`aam.util.provenance`).
    """
    store = SampleStore.open(samples)
    token_store = TokenStore.open(tokens)
    fold_table = read_folds(folds)
    place = {name: number for number, name in enumerate(store.sample_ids)}
    columns = [name for name in fold_table.columns if name.startswith(CATEGORY)]
    covariates = fold_table[columns].rename(columns=lambda name: name.removeprefix(CATEGORY))
    # The check compares differences between outputs, which bf16 would round away.
    devices = Devices("fp32", threads).exact()
    importance: Importance | None = None
    for fold in sorted(set(fold_table["fold"].tolist()) - {TEST}):
        predictors = fold_models(model, fold)
        if importance is None:
            names = explained_names(next(iter(predictors)).target)
            importance = Importance(len(token_store.lengths), names)
        chosen = chosen_samples(fold_table.index[fold_table["fold"] == fold], explained, seed)
        left_out = [
            _removed_asvs(store, name, place[name], removed, seed) if number < checked else NO_ASVS
            for number, name in enumerate(chosen)
        ]
        explanations = explain_samples(
            predictors,
            store,
            token_store,
            [place[name] for name in chosen],
            devices,
            categories=covariates.loc[chosen].to_dict("records"),
            removed=left_out,
            asvs=asvs,
        )
        for (asvs_A, explanation), removed_R in zip(explanations, left_out, strict=True):
            importance.add(asvs_A, **vars(explanation), removed_R=removed_R)
        logger.info("fold %d: %d samples explained", fold, len(chosen))
    assert importance is not None, "a task has folds"
    sequence_of = read_fasta(sequences)
    in_order = [sequence_of[name] for name in token_store.feature_ids]
    table = importance.table(token_store.feature_ids, in_order)
    if taxonomy is not None:
        taxa = read_results(taxonomy).set_index("feature-id")["taxon"]
        table.insert(1, TAXON, taxa.loc[table["feature-id"]].to_numpy())
    write_tsv(importance_out, table)
    top = table.head(MOST_IMPORTANT)
    write_fasta(sequences_out, dict(zip(top["feature-id"], top["sequence"], strict=True)))
    check = importance.check()
    logger.info(
        "rank correlation with the change when an ASV is removed: gradients %s, attention %s",
        *(check["gradients"], check["attention"]),
    )
    if check["gradients"] is not None and check["gradients"] < TRUSTED:
        logger.warning(
            "the importance of ASVs agrees poorly with what their removal changes (rank "
            "correlation %.2f): read it with care",
            check["gradients"],
        )
    write_json(check_out, {**check, "provenance": dict(provenance)})


def _removed_asvs(
    store: SampleStore, name: str, row: int, removed: int, seed: int
) -> NDArray[np.int64]:
    """Return the ASVs that are removed from a sample in turn, as places among its ASVs."""
    number = store.offsets[row + 1] - store.offsets[row]
    draw = generator("remove", seed, name)
    return np.sort(draw.choice(number, min(number, removed), replace=False))
