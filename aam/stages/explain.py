"""The ASVs that the predictions of one task rest on."""

import logging

from aam.data.folds import CATEGORY, TEST, read_folds
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.data.vocabulary import untokenize
from aam.evaluate.importance import Importance
from aam.evaluate.predictions import read_results
from aam.inference.attribution import chosen_samples, explain_samples, explained_names
from aam.inference.bundle import fold_models
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.train.distributed.devices import Devices
from aam.util.atomic import write_json, write_tsv
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)
TRUSTED = 0.5
"""Rank correlation with removal below which attributions are warned of."""


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Explain samples of every fold by the models that never saw their labels.

    Of each fold at most `samples` are explained, `checked` of these by removing each ASV as well.
    """
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    folds = read_folds(inputs["folds"])
    place = {name: number for number, name in enumerate(store.sample_ids)}
    columns = [name for name in folds.columns if name.startswith(CATEGORY)]
    covariates = folds[columns].rename(columns=lambda name: name.removeprefix(CATEGORY))
    # The check compares differences between outputs, which bf16 would round away.
    devices = Devices("fp32", runtime.threads)
    importance: Importance | None = None
    for fold in sorted(set(folds["fold"].tolist()) - {TEST}):
        predictors = fold_models(inputs["model"], fold)
        if importance is None:
            names = explained_names(next(iter(predictors)).target)
            importance = Importance(len(tokens.lengths), names)
        chosen = chosen_samples(folds.index[folds["fold"] == fold], cfg["samples"], cfg["seed"])
        samples = [place[name] for name in chosen]
        known = covariates.loc[chosen].to_dict("records")
        explained = explain_samples(
            predictors, store, tokens, samples, devices, checked=cfg["checked"], categories=known
        )
        for asvs_A, explanation in explained:
            importance.add(asvs_A, **vars(explanation))
        logger.info("fold %d: %d samples explained", fold, len(chosen))
    assert importance is not None, "a task has folds"
    table = importance.table(tokens.feature_ids, untokenize(tokens.tokens, tokens.lengths))
    if "taxonomy" in inputs:
        taxa = read_results(inputs["taxonomy"]).set_index("feature-id")["taxon"]
        table.insert(1, "taxon", taxa.loc[table["feature-id"]].to_numpy())
    write_tsv(outputs["importance"], table)
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
