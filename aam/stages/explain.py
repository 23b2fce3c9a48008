"""The ASVs that the predictions of one task rest on."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aam.data.folds import CATEGORY, read_folds
from aam.data.samples import SampleStore
from aam.data.tokens import TokenStore
from aam.data.vocabulary import untokenize
from aam.evaluate.importance import Importance, write_importance
from aam.inference.attribution import explain_samples, explained_names
from aam.model.predictor import Predictor, load_predictor
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.train.distributed.devices import Devices
from aam.util.atomic import write_json
from aam.util.errors import problem
from aam.util.provenance import provenance
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)
TRUSTED = 0.5
"""Rank correlation with removal below which attributions are warned of."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Explain samples of every fold by the models that never saw their labels.

    Parameters
    ----------
    cfg
        `samples` of each fold that are explained at most, how many of these are `checked` by
        removing their ASVs one by one, and the `seed` of their choice.
    inputs
        `model` (the directory that fine-tuning wrote), `folds` (TSV), `tokens`, `samples`.
    outputs
        `importance` (TSV, see `Importance.table`) and `check` (JSON, see `Importance.check`).
    runtime
        Threads.

    Raises
    ------
    InputError
        If a fold has no model.
    """
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    folds = read_folds(inputs["folds"])
    place = {name: number for number, name in enumerate(store.sample_ids)}
    told = [name for name in folds.columns if name.startswith(CATEGORY)]
    # The check compares differences between outputs, which bf16 would round away.
    devices = Devices("fp32", runtime.threads)
    importance: Importance | None = None
    for fold in sorted(set(folds["fold"].tolist()) - {-1}):
        predictors = _models(inputs["model"], fold)
        if importance is None:
            names = explained_names(predictors[0].target)
            importance = Importance(len(tokens.lengths), names)
        held_out = folds.index[folds["fold"] == fold]
        chosen = sorted(held_out, key=lambda name: (seed_of("explain", cfg["seed"], name), name))
        chosen = chosen[: cfg["samples"]]
        categories = [
            {name.removeprefix(CATEGORY): str(folds.loc[sample, name]) for name in told}
            for sample in chosen
        ]
        explained = explain_samples(
            predictors,
            store,
            tokens,
            [place[name] for name in chosen],
            devices,
            checked=cfg["checked"],
            categories=categories,
        )
        for asvs_A, explanation in explained:
            importance.add(asvs_A, **vars(explanation))
        logger.info("fold %d: %d samples explained", fold, len(chosen))
    assert importance is not None, "a task has folds"
    sequences = untokenize(tokens.tokens, tokens.lengths)
    write_importance(outputs["importance"], importance.table(tokens.feature_ids, sequences))
    check = importance.check()
    _say(check)
    write_json(outputs["check"], {**check, "provenance": provenance(cfg, inputs)})


def _models(directory: Path, fold: int) -> list[Predictor]:
    folders = [directory / f"fold{fold}", *sorted(directory.glob(f"fold{fold}-*"))]
    if not folders[0].is_dir():
        hint = "fine-tune again: the folds have changed since"
        raise problem(directory, f"no folder fold{fold}", "a model of every fold", hint)
    return [load_predictor(folder)[0] for folder in folders]


def _say(check: Mapping[str, Any]) -> None:
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
