"""The ASVs that the predictions of one task rest on."""

import logging

import numpy as np
from numpy.typing import NDArray

from aam.data.folds import CATEGORY, TEST, read_folds
from aam.data.samples import SampleStore
from aam.data.sequences import read_fasta, write_fasta
from aam.data.tokens import TokenStore
from aam.evaluate.importance import MOST_IMPORTANT, TAXON, Importance
from aam.evaluate.predictions import read_results
from aam.inference.attribution import (
    NO_ASVS,
    chosen_samples,
    explain_samples,
    explained_names,
)
from aam.inference.bundle import fold_models
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.train.distributed.devices import Devices
from aam.util.atomic import write_json, write_tsv
from aam.util.provenance import provenance
from aam.util.seeds import generator

logger = logging.getLogger(__name__)
TRUSTED = 0.5
"""Rank correlation with removal below which attributions are warned of."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Explain samples of every fold by the models that never saw their labels.

    Of each fold at most `samples` are explained. From `checked` of these `removed` ASVs are removed
    in turn, too.
    """
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    folds = read_folds(inputs["folds"])
    place = {name: number for number, name in enumerate(store.sample_ids)}
    columns = [name for name in folds.columns if name.startswith(CATEGORY)]
    covariates = folds[columns].rename(columns=lambda name: name.removeprefix(CATEGORY))
    # The check compares differences between outputs, which bf16 would round away.
    devices = Devices("fp32", runtime.threads).exact()
    importance: Importance | None = None
    for fold in sorted(set(folds["fold"].tolist()) - {TEST}):
        predictors = fold_models(inputs["model"], fold)
        if importance is None:
            names = explained_names(next(iter(predictors)).target)
            importance = Importance(len(tokens.lengths), names)
        chosen = chosen_samples(folds.index[folds["fold"] == fold], cfg["samples"], cfg["seed"])
        removed = [
            _removed_asvs(cfg, store, name, place[name]) if number < cfg["checked"] else NO_ASVS
            for number, name in enumerate(chosen)
        ]
        explained = explain_samples(
            predictors,
            store,
            tokens,
            [place[name] for name in chosen],
            devices,
            categories=covariates.loc[chosen].to_dict("records"),
            removed=removed,
            asvs=inputs.get("asvs"),
        )
        for (asvs_A, explanation), removed_R in zip(explained, removed, strict=True):
            importance.add(asvs_A, **vars(explanation), removed_R=removed_R)
        logger.info("fold %d: %d samples explained", fold, len(chosen))
    assert importance is not None, "a task has folds"
    sequences = read_fasta(inputs["sequences"])
    table = importance.table(tokens.feature_ids, [sequences[name] for name in tokens.feature_ids])
    if "taxonomy" in inputs:
        taxa = read_results(inputs["taxonomy"]).set_index("feature-id")["taxon"]
        table.insert(1, TAXON, taxa.loc[table["feature-id"]].to_numpy())
    write_tsv(outputs["importance"], table)
    top = table.head(MOST_IMPORTANT)
    write_fasta(outputs["sequences"], dict(zip(top["feature-id"], top["sequence"], strict=True)))
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
    write_json(outputs["check"], {**check, "provenance": provenance(cfg, inputs)})


def _removed_asvs(cfg: Cfg, store: SampleStore, name: str, row: int) -> NDArray[np.int64]:
    """Return the ASVs that are removed from a sample in turn, as places among its ASVs."""
    number = store.offsets[row + 1] - store.offsets[row]
    draw = generator("remove", cfg["seed"], name)
    return np.sort(draw.choice(number, min(number, cfg["removed"]), replace=False))
