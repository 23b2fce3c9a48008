"""Pretraining for inductive evaluation: an encoder per fold that never saw the fold's samples."""

import shutil
from dataclasses import replace

import numpy as np

from aam.bench.roofline import peak_flops
from aam.config.digest import code_digest
from aam.data.folds import TEST, read_folds
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.tasks.pretrain.inductive import fold_encoder
from aam.tasks.pretrain.run import devices_of
from aam.util.atomic import atomic_path, write_json
from aam.util.provenance import provenance, settings_digest


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Pretrain one encoder per fold of a task, which sees no member of its fold or the test set."""
    assert runtime.work is not None, "a work folder is needed"
    origin = provenance(cfg, inputs)
    fingerprint = settings_digest({**origin, "code": code_digest(__name__)})
    members = read_folds(inputs["members"])["fold"]
    facts, finished = {}, runtime.work / "finished"
    devices = devices_of(cfg, runtime)
    for fold in np.unique(members[members != TEST]).tolist():
        name = f"fold{fold}"
        unseen = set(members.index[members.isin([fold, TEST])])
        log_dir = None if runtime.log_dir is None else runtime.log_dir / name
        own, known_by = replace(runtime, log_dir=log_dir), f"{fingerprint}-{name}"
        facts[name] = fold_encoder(
            cfg, inputs, unseen, finished / name, known_by, own, origin, peak_flops, devices
        )
    with atomic_path(outputs["encoders"]) as partial:
        partial.mkdir()
        for name in facts:
            shutil.copytree(finished / name, partial / name)
    write_json(outputs["digests"], {name: known["digest"] for name, known in facts.items()})
    metrics = {name: known["scores"] for name, known in facts.items()}
    write_json(outputs["metrics"], {"folds": metrics, "provenance": dict(origin)})
    shutil.rmtree(runtime.work, ignore_errors=True)
