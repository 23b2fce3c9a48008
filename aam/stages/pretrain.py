"""Pretraining: an encoder learns UniFrac distances and masked nucleotides."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aam.bench.roofline import arithmetic, matrix_product_rate
from aam.config.digest import code_digest
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Pretraining
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import embed_samples
from aam.model.build import plain
from aam.model.store import save_model
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.preparation import Prepared, prepare
from aam.train.checkpoint import Checkpoints
from aam.train.compilation import graphs_compiled
from aam.train.data.distances import FAITH_PD
from aam.train.distributed import launch
from aam.train.distributed.devices import Devices
from aam.train.distributed.world import World
from aam.train.early_stopping import EarlyStopping
from aam.train.flops import step_flops
from aam.train.history import write_history, write_table
from aam.train.loop import Validation, fit
from aam.train.options import step_options
from aam.train.progress import Progress
from aam.util.atomic import write_json
from aam.util.provenance import provenance, settings_digest

logger = logging.getLogger(__name__)
BATCHES_COUNTED = 16
"""Batches whose operations are counted for the utilisation."""


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Pretrain one encoder (see docs/architecture.md for the files).

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.pretrain`.
    inputs
        `tokens`, `samples`, and `distances`: metric by metric, within a metric view by view.
    outputs
        `model`, `metrics`, `history`, `embeddings`, `pairs`, and `asvs`: embeddings of all ASVs.
    runtime
        Means of the run; checkpoints lie in its `work` folder. Where several processes train the
        encoder together, this starts them, and each calls it again; the first of them writes.
    """
    if launch.is_needed(runtime):
        launch.together(__name__, cfg, inputs=inputs, outputs=outputs, runtime=runtime)
        return
    settings = Pretraining.model_validate(cfg["pretraining"])
    devices = devices_of(cfg, runtime)
    origin = devices.broadcast(provenance(cfg, inputs) if devices.rank == 0 else {})
    fingerprint = settings_digest({**origin, "code": code_digest(__name__)})
    checkpoints = Checkpoints(runtime.work, fingerprint, writes=devices.rank == 0)
    with devices.main_process_first():
        prepared = prepare(
            cfg,
            inputs,
            work=runtime.work,
            max_memory_gb=runtime.max_memory_gb,
            processes=devices.world.devices,
        )
    progress = train(cfg, prepared, devices, checkpoints, runtime, "pretraining")
    found = scores(prepared, progress, devices)
    if devices.rank > 0:
        return
    alone = devices.alone()
    _write_embeddings(prepared, alone.exact(), outputs, origin)
    _write_pairs(prepared, alone, settings.seed, outputs["pairs"], origin)
    write_history(outputs["history"], progress.history, origin)
    save(outputs["model"], prepared.model, cfg, origin, progress)
    write_json(outputs["metrics"], {**found, "provenance": dict(origin)})
    checkpoints.clear()


def devices_of(cfg: Mapping[str, Any], runtime: RunOptions) -> Devices:
    """Return where pretraining computes: in one process unless it was launched with others."""
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    precision = Pretraining.model_validate(cfg["pretraining"]).precision
    world = World(runtime.devices, runtime.nodes, runtime.strategy) if runtime.launched else World()
    return Devices(precision, runtime.threads, deterministic=options.deterministic, world=world)


def train(
    cfg: Mapping[str, Any],
    prepared: Prepared,
    devices: Devices,
    checkpoints: Checkpoints,
    runtime: RunOptions,
    name: str,
) -> Progress:
    """Train the model of `prepared`, called `name` in progress lines, by the settings of `cfg`."""
    settings = Pretraining.model_validate(cfg["pretraining"])
    logger.info(
        "%s: %d training samples, %d held out, %d ASVs, %d steps on %s",
        name,
        len(prepared.dataset.samples),
        prepared.is_held_out.sum(),
        len(prepared.tokens.lengths),
        len(prepared.dataset),
        devices.name,
    )
    return fit(
        prepared.model,
        prepared.dataset,
        settings,
        devices=devices,
        options=step_options(Optimization.model_validate(cfg["optimization"])),
        checkpoints=checkpoints,
        runtime=runtime,
        name=name,
        validation=Validation(
            score=lambda: prepared.validation.score(prepared.model, devices),
            times=settings.validations,
            watched=_watched(prepared.model),
            stopping=EarlyStopping(settings.early_stopping),
        ),
    )


def scores(prepared: Prepared, progress: Progress, devices: Devices) -> dict[str, Any]:
    """Return what a trained model reaches on the held-out samples, and what it took.

    Of processes that work together all have to call this; the first returns what it took, too.
    """
    model = prepared.model
    found: dict[str, Any] = dict(prepared.validation.score(model, devices))
    if devices.rank == 0:
        found.update(_facts(prepared, progress, devices))
    if (primary := _primary(model)) is not None:
        found["unifrac_pearson"] = found[f"{primary}_pearson"]
        found["unifrac_mae"] = found[f"{primary}_mae"]
    return found


def save(
    directory: Path,
    model: PretrainingModel,
    cfg: Mapping[str, Any],
    origin: Mapping[str, str],
    progress: Progress,
) -> None:
    """Write the directory of a pretrained model."""
    config = {
        "format": 1,
        "kind": "pretrained",
        "architecture": plain(model.encoder.shape),
        "distances": list(model.weights),
        "settings": dict(cfg),
        "optimization": progress.report["optimization"],
        "provenance": dict(origin),
    }
    save_model(directory, model, config)


def _primary(model: PretrainingModel) -> str | None:
    """Return the first distance that the model learns."""
    return next((metric for metric in model.weights if metric != FAITH_PD), None)


def _watched(model: PretrainingModel) -> str:
    return f"{_primary(model) or FAITH_PD}_pearson"


def _facts(prepared: Prepared, progress: Progress, devices: Devices) -> dict[str, Any]:
    """Return what a run took; rates are those of its last start, without validations."""
    rate = progress.summary.get("samples_per_s")
    return {
        "held_out_samples": int(prepared.is_held_out.sum()),
        "training_samples": len(prepared.dataset.samples),
        "steps": progress.step,
        "wall_s": progress.elapsed_s,
        "samples_per_s": rate,
        "loading_share": progress.summary.get("loading_share"),
        "peak_memory_mb": devices.peak_memory_mb(),
        "graphs_compiled": graphs_compiled(),
        "mapped_distances_mb": prepared.mapped_mb,
        **progress.report,
        "parameters": sum(parameter.numel() for parameter in prepared.model.parameters()),
        "model_flop_utilisation": _utilisation(prepared, rate, devices),
        "gpu_utilisation": progress.summary.get("gpu_utilisation_mean"),
        "gpu_power_w": progress.summary.get("gpu_power_w_mean"),
        "device": devices.name,
    }


def _utilisation(prepared: Prepared, rate: float | None, devices: Devices) -> float | None:
    """Return the FLOPs of training per second over those of the best matrix product here."""
    if rate is None:
        return None
    dataset = prepared.dataset
    some = [dataset[step] for step in range(min(BATCHES_COUNTED, dataset.steps_per_epoch))]
    flops = sum(step_flops(prepared.model.encoder.shape, batch) for batch in some)
    per_sample = flops / sum(batch.size for batch in some)
    with arithmetic(devices.precision) as dtype:
        most = devices.processes * matrix_product_rate(dtype, devices.device).median
        return rate * per_sample / most


def _write_embeddings(
    prepared: Prepared, devices: Devices, outputs: Files, origin: Mapping[str, str]
) -> None:
    """Embed every ASV once, then all samples from those."""
    encoder, store, tokens = prepared.model.encoder, prepared.store, prepared.tokens
    asv_UD = embed_asvs_cached(encoder, tokens, devices, None)
    digest = encoder_digest(encoder, devices.precision)
    AsvEmbeddings.write(outputs["asvs"], tokens, asv_UD, digest, origin)
    rows = np.arange(len(store.sample_ids))
    embedding_ND = embed_samples(encoder, store, tokens, rows, devices, asv_UD).numpy()
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
