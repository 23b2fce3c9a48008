"""What pretraining writes: scores, time and memory of the run, the model, embeddings and pairs.

Shape suffixes: N samples, U ASVs, D width, P pairs.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import Devices
from aam.distributed.inference_device import InferenceDevice
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import embed_samples
from aam.model.flops import step_flops
from aam.model.store import KNOWN_ASVS, save_model
from aam.tasks.pretrain.preparation import Prepared
from aam.tasks.pretrain.starts import known_asvs
from aam.train.compilation import graphs_compiled
from aam.train.memory.meter import peak_mb
from aam.train.monitoring.roofline import peak_flops
from aam.train.progress import Progress
from aam.util.parquet import write_table

BATCHES_COUNTED = 16
"""Batches whose operations are counted for the utilisation."""

GPU_PEAKS = ("gpu_utilisation_peak", "gpu_memory_mb_peak", "gpu_power_w_peak")
"""What the driver of an accelerator is asked for; without one they are left out."""


def scores(prepared: Prepared, progress: Progress, devices: Devices) -> dict[str, Any]:
    """Return what a trained model reaches on the held-out samples, and what it took.

    Parameters
    ----------
    prepared
        The trained model with its data.
    progress
        History of the run.
    devices
        Where it was trained. Several processes all have to call this.

    Returns
    -------
    dict
        Scores by name. The first process also returns what the run took.
    """
    report: dict[str, Any] = dict(prepared.validation.score(prepared.model, devices))
    if devices.rank == 0:
        report.update(_facts(prepared, progress, devices))
    primary = prepared.model.primary
    if primary is not None:
        report["unifrac_pearson"] = report[f"{primary}_pearson"]
        report["unifrac_mae"] = report[f"{primary}_mae"]
    return report


def _facts(prepared: Prepared, progress: Progress, devices: Devices) -> dict[str, Any]:
    """Return time, memory and size of a run.

    Rates are those since its last start, without the time of validations.
    """
    rate = progress.summary.get("samples_per_s")
    return {
        **_near_known_reads(prepared),
        "held_out_samples": int(prepared.is_held_out.sum()),
        "training_samples": len(prepared.dataset.samples),
        "batch_size": prepared.dataset.batch_size,
        "steps": progress.step,
        "wall_s": progress.elapsed_s,
        "samples_per_s": rate,
        "loading_share": progress.summary.get("loading_share"),
        "peak_memory_mb": peak_mb(devices.device),
        "graphs_compiled": graphs_compiled(),
        **progress.facts,
        "parameters": sum(parameter.numel() for parameter in prepared.model.parameters()),
        "model_flop_utilisation": _utilisation(prepared, rate, devices),
        "gpu_utilisation": progress.summary.get("gpu_utilisation"),
        "gpu_power_w": progress.summary.get("gpu_power_w"),
        **{name: progress.summary[name] for name in GPU_PEAKS if name in progress.summary},
        "device": devices.name,
    }


def _near_known_reads(prepared: Prepared) -> dict[str, float]:
    """Return the fraction of the reads near ASVs that the start knows, where it has any."""
    if prepared.start is None or prepared.start.known_asvs is None:
        return {}
    familiar, *_ = prepared.start.known_asvs.familiarity(prepared.store, prepared.dataset.tokens)
    return {"near_known_reads": familiar}


def _utilisation(prepared: Prepared, rate: float | None, devices: Devices) -> float | None:
    """Return the FLOPs of training per second over those that are possible here."""
    if rate is None:
        return None
    dataset = prepared.dataset
    number = min(BATCHES_COUNTED, len(dataset))
    # Steps are spread evenly over the run: its first batches may have fewer reads than the last.
    steps = np.linspace(0, len(dataset), number, endpoint=False).astype(int)
    batches = [dataset[step] for step in steps.tolist()]
    flops = sum(step_flops(prepared.model.encoder.shape, batch) for batch in batches)
    flops_per_sample = flops / sum(batch.size for batch in batches)
    possible_flops = devices.processes * peak_flops(devices.precision, devices.device)
    return rate * flops_per_sample / possible_flops


def save(
    directory: Path,
    prepared: Prepared,
    settings: PretrainSettings,
    origin: Mapping[str, str],
    progress: Progress,
) -> None:
    """Write the directory of a pretrained model.

    Parameters
    ----------
    directory
        Folder to write.
    prepared
        The trained model with its data.
    settings
        What the model was built from, and how it was trained.
    origin
        Provenance that is written with the model.
    progress
        History of the run.
    """
    config = {
        "format": 2,
        "kind": "pretrained",
        "architecture": asdict(prepared.model.encoder.shape),
        "distances": list(prepared.model.weights),
        "settings": settings.plain(),
        "optimization": progress.facts["optimization"],
        "provenance": dict(origin),
    }
    others = {}
    if not prepared.tokens.are_lineages:
        # An encoder of lineages knows by its words what it learned from.
        learned_from = known_asvs(prepared.dataset, prepared.start, trained=progress.step > 0)
        others[KNOWN_ASVS] = learned_from.write
    save_model(directory, prepared.model, config, others)


def write_embeddings(
    prepared: Prepared,
    devices: InferenceDevice,
    samples: Path,
    asvs: Path,
    origin: Mapping[str, str],
) -> None:
    """Embed every ASV once, then all samples from those, and write both.

    Parameters
    ----------
    prepared
        The trained model with its data.
    devices
        Where the embeddings are computed.
    samples, asvs
        Files of the embeddings of samples (Parquet) and ASVs (safetensors).
    origin
        Provenance that is written with them.
    """
    encoder = prepared.model.encoder
    store = prepared.store
    tokens = prepared.tokens
    asv_UD = embed_asvs_cached(encoder, tokens, devices, None)
    digest = encoder_digest(encoder, devices.precision)
    # The keys in the file are those of the sequences that the encoder read, cut to its length.
    AsvEmbeddings.write(asvs, prepared.dataset.tokens, asv_UD, digest, origin)
    rows = np.arange(len(store.sample_ids))
    embedding_ND = embed_samples(encoder, store, tokens, rows, devices, asv_UD).numpy()
    split = np.where(prepared.is_held_out, "held-out", "training")
    flat = pa.array(embedding_ND.reshape(-1), pa.float32())
    columns = {
        "sample_id": pa.array(store.sample_ids, pa.string()),
        "split": pa.array(split.tolist(), pa.string()),
        "embedding": pa.FixedSizeListArray.from_arrays(flat, embedding_ND.shape[1]),
    }
    write_table(samples, columns, origin)


def write_pairs(
    prepared: Prepared, devices: Devices, seed: int, path: Path, origin: Mapping[str, str]
) -> None:
    """Write true and predicted distances of some pairs of held-out samples, for the figures.

    Parameters
    ----------
    prepared
        The trained model with its data, after its validation.
    devices
        Where the distances are computed.
    seed
        Seed of the choice of pairs.
    path
        File to write (Parquet).
    origin
        Provenance that is written with them.
    """
    recorded = prepared.validation.recorded_pairs(prepared.model, devices, seed)
    names: list[str] = []
    for metric, pairs_2P in recorded.items():
        names += [metric] * pairs_2P.shape[1]
    # The empty array serves a model that learns no distance.
    nothing_2P = np.empty((2, 0), np.float32)
    true, predicted = np.concatenate([nothing_2P, *recorded.values()], axis=1)
    columns = {
        "metric": pa.array(names, pa.string()),
        "observed": pa.array(true, pa.float32()),
        "predicted": pa.array(predicted, pa.float32()),
    }
    write_table(path, columns, origin)
