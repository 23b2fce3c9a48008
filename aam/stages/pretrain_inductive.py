"""Pretraining for inductive evaluation: an encoder per fold that never saw the fold's samples."""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aam.config.digest import code_digest
from aam.data.folds import TEST, read_members
from aam.inference.asv_cache import module_digest
from aam.model.store import is_whole, load_config
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.stages.pretrain import devices_of, save, scores, train
from aam.tasks.pretrain.preparation import prepare
from aam.train.checkpoint import Checkpoints
from aam.util.atomic import atomic_path, read_json, write_json
from aam.util.provenance import provenance, settings_digest

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Pretrain one encoder per fold of a task.

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.pretrain`.
    inputs
        As `aam.stages.pretrain.run`, and `members` (of `aam.stages.folds`): an encoder sees no
        member of its fold, labelled or not, and none of the test set.
    outputs
        `encoders`, a directory with a model `fold<k>` each; `digests`, a JSON of what identifies
        their weights; `metrics`, a JSON of their scores.
    runtime
        Means of the run; checkpoints and finished folds lie in its `work` folder.
    """
    assert runtime.work is not None, "a work folder is needed"
    origin = provenance(cfg, inputs)
    fingerprint = settings_digest({**origin, "code": code_digest(__name__)})
    members = read_members(inputs["members"])
    metrics, digests = {}, {}
    numbers = [int(fold) for fold in np.unique(members) if fold != TEST]
    for fold in numbers:
        name = f"fold{fold}"
        unseen = set(members.index[members.isin([fold, TEST])])
        directory = runtime.work / "finished" / name
        log_dir = None if runtime.log_dir is None else runtime.log_dir / name
        own = replace(runtime, log_dir=log_dir)
        facts = _pretrained(cfg, inputs, unseen, directory, f"{fingerprint}-{name}", own, origin)
        metrics[name], digests[name] = facts["scores"], facts["digest"]
    with atomic_path(outputs["encoders"]) as partial:
        partial.mkdir()
        for fold in numbers:
            source = runtime.work / "finished" / f"fold{fold}"
            shutil.copytree(source, partial / f"fold{fold}")
    write_json(outputs["digests"], digests)
    write_json(outputs["metrics"], {"folds": metrics, "provenance": dict(origin)})
    shutil.rmtree(runtime.work, ignore_errors=True)


def _pretrained(
    cfg: Mapping[str, Any],
    inputs: Files,
    unseen: set[str],
    directory: Path,
    fingerprint: str,
    runtime: RunOptions,
    origin: Mapping[str, str],
) -> dict[str, Any]:
    """Return the scores and the digest of a fold's encoder, trained unless it was before."""
    facts = directory.with_suffix(".json")
    if is_whole(directory) and facts.is_file():
        known: dict[str, Any] = read_json(facts)
        if known["fingerprint"] == fingerprint and load_config(directory)["kind"] == "pretrained":
            logger.info("%s was finished before", directory.name)
            return known
    assert runtime.work is not None
    work = runtime.work / directory.name
    checkpoints, devices = Checkpoints(work, fingerprint), devices_of(cfg, runtime)
    prepared = prepare(cfg, inputs, unseen, work=work, max_memory_gb=runtime.max_memory_gb)
    name = f"pretraining without {directory.name}"
    progress = train(cfg, prepared, devices, checkpoints, runtime, name)
    known = {
        "fingerprint": fingerprint,
        "scores": scores(prepared, progress, devices),
        "digest": module_digest(prepared.model.encoder),
    }
    # Facts of an earlier run must not stand beside the model of this one.
    facts.unlink(missing_ok=True)
    save(directory, prepared.model, cfg, origin, progress)
    write_json(facts, known)
    checkpoints.clear()
    return known
