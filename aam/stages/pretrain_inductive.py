"""Pretraining for inductive evaluation: an encoder per fold that never saw the fold's samples."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from aam.config.digest import code_digest
from aam.config.settings.training import PretrainSettings
from aam.data.folds import TEST, folder_of_fold, read_folds
from aam.tasks.pretrain.batch_size import settle_batch_size
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.run import pretrain_without, pretraining_devices
from aam.train.checkpoint import Checkpoints
from aam.util.atomic import atomic_path, write_json
from aam.util.digests import settings_digest
from aam.util.run_options import RunOptions


def pretrain_fold_encoders(
    *,
    inputs: PretrainInputs,
    members: Path,
    settings: PretrainSettings,
    runtime: RunOptions,
    encoders_out: Path,
    digests_out: Path,
    scores_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Pretrain one encoder per fold of a task, which sees no member of its fold or the test set.

    Parameters
    ----------
    inputs
        Files that are read: tokens, samples, and distances or a tree.
    members
        TSV file of the members of the folds, as `aam.stages.folds` writes it.
    settings
        Architecture, training and optimization.
    runtime
        Threads, memory, devices; the folder of checkpoints, which is needed. They change no
        result.
    encoders_out
        Folder to write, with a folder per fold.
    digests_out
        JSON file to write: what identifies the weights of each.
    scores_out
        JSON file to write, with scores on held-out samples by fold.
    provenance
        Metadata of what is written (`aam.util.digests`). Checkpoints of another one are not
        used.

    Raises
    ------
    InputError
        There are too few samples, the memory has no room, or files do not fit together.
    """
    assert runtime.work is not None, "a work folder is needed"
    fingerprint = settings_digest({**provenance, "code": code_digest(__name__)})
    fold_of = read_folds(members)["fold"]
    finished = runtime.work / "finished"
    devices = pretraining_devices(settings.optimization, runtime)
    unseen = {
        fold: set(fold_of.index[fold_of.isin([fold, TEST])])
        for fold in np.unique(fold_of[fold_of != TEST]).tolist()
    }
    # All folds have the batch size of the one with the fewest training samples.
    largest = max(unseen.values(), key=len)
    common = Checkpoints(runtime.work / "common", fingerprint)
    settings = settle_batch_size(settings, inputs, devices, common, runtime, without=largest)
    facts: dict[str, dict[str, Any]] = {}
    for fold, samples in unseen.items():
        name = folder_of_fold(fold)
        log_dir = None if runtime.log_dir is None else runtime.log_dir / name
        facts[name] = pretrain_without(
            samples,
            settings,
            inputs,
            directory=finished / name,
            fingerprint=f"{fingerprint}-{name}",
            devices=devices,
            runtime=replace(runtime, log_dir=log_dir),
            origin=provenance,
        )
    _copy_encoders(finished, facts, encoders_out)
    write_json(digests_out, {name: each["digest"] for name, each in facts.items()})
    scores = {name: each["scores"] for name, each in facts.items()}
    write_json(scores_out, {"folds": scores, "provenance": dict(provenance)})
    shutil.rmtree(runtime.work, ignore_errors=True)


def _copy_encoders(source: Path, names: Iterable[str], directory: Path) -> None:
    """Write the folder of all encoders, atomically."""
    with atomic_path(directory) as partial:
        partial.mkdir()
        for name in names:
            shutil.copytree(source / name, partial / name)
