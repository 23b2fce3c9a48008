"""Pretraining: an encoder learns UniFrac distances and masked nucleotides."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aam.config.digest import code_digest
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.model.build import plain
from aam.model.store import save_model
from aam.stages.entry import Files, RunContext
from aam.train.checkpoint import Checkpoints
from aam.train.devices import Devices
from aam.train.inference import embed_samples
from aam.train.loop import Pace, Progress, fit
from aam.train.matrices import FAITH_PD
from aam.train.options import step_options
from aam.train.preparation import Prepared, prepare
from aam.train.records import deadline, write_history, write_table
from aam.util.atomic import write_json
from aam.util.provenance import provenance, settings_digest

logger = logging.getLogger(__name__)


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Pretrain one encoder (see docs/architecture.md for the files).

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.pretrain`.
    inputs
        `tokens`, `samples`, and `distances`: metric by metric, within a metric view by view.
    outputs
        `model`, `metrics`, `history`, `embeddings`, `pairs`.
    runtime
        Means of the run; checkpoints lie in its `work` folder.
    """
    settings = Pretraining.model_validate(cfg["pretraining"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    origin = provenance(cfg, inputs)
    devices = Devices(settings.precision, runtime.threads)
    prepared = prepare(cfg, inputs)
    model = prepared.model
    fingerprint = settings_digest({**origin, "code": code_digest(__name__)})
    checkpoints = Checkpoints(runtime.work, fingerprint)
    logger.info(
        "%d training samples, %d held out, %d ASVs, %d steps on %s",
        len(prepared.feed.samples),
        prepared.is_held_out.sum(),
        len(prepared.tokens.lengths),
        len(prepared.feed),
        devices.name,
    )
    progress = fit(
        model,
        prepared.feed,
        settings,
        devices=devices,
        fused=options.fused_optimizer,
        checkpoints=checkpoints,
        pace=Pace(
            name="pretraining",
            workers=runtime.workers,
            log_every_s=runtime.log_every_s,
            checkpoint_every_s=runtime.checkpoint_every_s,
            deadline=deadline(runtime.time_limit_s),
        ),
        validate=lambda: prepared.validation.score(model, devices),
    )
    _write(cfg, prepared, progress, devices, settings, outputs, origin)
    checkpoints.clear()


def _write(
    cfg: Mapping[str, Any],
    prepared: Prepared,
    progress: Progress,
    devices: Devices,
    settings: Pretraining,
    outputs: Files,
    origin: Mapping[str, str],
) -> None:
    model, store = prepared.model, prepared.store
    scores = prepared.validation.score(model, devices)
    primary = next((metric for metric in model.weights if metric != FAITH_PD), None)
    if primary is not None:
        scores["unifrac_pearson"] = scores[f"{primary}_pearson"]
        scores["unifrac_mae"] = scores[f"{primary}_mae"]
    samples_seen = progress.step / prepared.feed.steps_per_epoch * len(prepared.feed.samples)
    metrics = {
        **scores,
        "held_out_samples": int(prepared.is_held_out.sum()),
        "training_samples": len(prepared.feed.samples),
        "steps": progress.step,
        "wall_s": progress.elapsed_s,
        "samples_per_s": samples_seen / progress.elapsed_s,
        "peak_memory_mb": devices.peak_memory_mb(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "model_flop_utilisation": None,
        "device": devices.name,
        "provenance": dict(origin),
    }
    rows = np.arange(len(store.sample_ids))
    embedding_ND = embed_samples(model.encoder, store, prepared.tokens, rows, devices).numpy()
    split = np.where(prepared.is_held_out, "held-out", "training")
    flat = pa.array(embedding_ND.reshape(-1), pa.float32())
    write_table(
        outputs["embeddings"],
        {
            "sample_id": pa.array(store.sample_ids, pa.string()),
            "split": pa.array(split.tolist(), pa.string()),
            "embedding": pa.FixedSizeListArray.from_arrays(flat, embedding_ND.shape[1]),
        },
        origin,
    )
    _write_pairs(prepared, devices, settings.seed, outputs["pairs"], origin)
    write_history(outputs["history"], progress.history, origin)
    save_model(
        outputs["model"],
        model,
        {
            "format": 1,
            "kind": "pretrained",
            "architecture": plain(model.encoder.shape),
            "distances": list(model.weights),
            "settings": dict(cfg),
            "provenance": dict(origin),
        },
    )
    write_json(outputs["metrics"], metrics)


def _write_pairs(
    prepared: Prepared, devices: Devices, seed: int, path: Path, origin: Mapping[str, str]
) -> None:
    recorded = prepared.validation.recorded_pairs(prepared.model, devices, seed)
    names = [metric for metric, (true, _) in recorded.items() for _ in range(len(true))]
    empty = (np.empty(0, np.float32), np.empty(0, np.float32))
    true, predicted = (
        np.concatenate([pair[side] for pair in [empty, *recorded.values()]]) for side in (0, 1)
    )
    write_table(
        path,
        {
            "metric": pa.array(names, pa.string()),
            "observed": pa.array(true, pa.float32()),
            "predicted": pa.array(predicted, pa.float32()),
        },
        origin,
    )
