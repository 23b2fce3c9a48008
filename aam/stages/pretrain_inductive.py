"""Pretraining for inductive evaluation: an encoder per fold that never saw the fold's samples."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from aam.bench.roofline import peak_flops
from aam.config.digest import code_digest
from aam.data.folds import TEST, read_folds
from aam.runtime.run_options import RunOptions
from aam.tasks.pretrain.inductive import fold_encoder
from aam.tasks.pretrain.run import devices_of
from aam.tasks.pretrain.settings import PretrainSettings
from aam.util.atomic import atomic_path, write_json
from aam.util.provenance import settings_digest


def pretrain_fold_encoders(
    *,
    tokens: Path,
    samples: Path,
    members: Path,
    distances: Sequence[Path] | None = None,
    tree: Path | None = None,
    metadata: Path | None = None,
    sequences: Path | None = None,
    start: Sequence[Path] | None = None,
    settings: PretrainSettings,
    runtime: RunOptions,
    encoders_out: Path,
    digests_out: Path,
    metrics_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Pretrain one encoder per fold of a task, which sees no member of its fold or the test set.

    Parameters
    ----------
    tokens, samples
        Arrow files of tokens and samples.
    members
        TSV file of the members of the folds, as `aam.stages.folds` writes it.
    distances
        Parquet files of the distances to learn: metric by metric, in the order of the settings,
        and within a metric view by view. None: they are computed in the batch.
    tree
        Newick file with a tip for every ASV, for distances that are computed in the batch.
    metadata
        Parquet file of the imported metadata, which names the study of each sample.
    sequences
        FASTA file with the whole sequences, for a start from another model.
    start
        Files of the model that training starts from: `config.json` and `model.safetensors` of its
        folder, or the folder and the file that stands for it.
    settings
        Architecture, training and optimization.
    runtime
        Threads, memory, devices; the folder of checkpoints, which is needed. They change no
        result.
    encoders_out
        Folder to write, with a folder per fold.
    digests_out
        JSON file to write: what identifies the weights of each.
    metrics_out
        JSON file to write, with scores on held-out samples by fold.
    provenance
        Metadata of what is written (`aam.util.provenance`). Checkpoints of another one are not
        used.

    Raises
    ------
    InputError
        There are too few samples, the memory has no room, or files do not fit together.
    """
    assert runtime.work is not None, "a work folder is needed"
    cfg = settings.plain()
    inputs = {
        "tokens": tokens,
        "samples": samples,
        "distances": distances,
        "tree": tree,
        "metadata": metadata,
        "sequences": sequences,
        "start": start,
    }
    given = {name: value for name, value in inputs.items() if value is not None}
    fingerprint = settings_digest({**provenance, "code": code_digest(__name__)})
    fold_of = read_folds(members)["fold"]
    facts = {}
    finished = runtime.work / "finished"
    devices = devices_of(cfg, runtime)
    for fold in np.unique(fold_of[fold_of != TEST]).tolist():
        name = f"fold{fold}"
        unseen = set(fold_of.index[fold_of.isin([fold, TEST])])
        log_dir = None if runtime.log_dir is None else runtime.log_dir / name
        facts[name] = fold_encoder(
            cfg,
            given,
            unseen,
            finished / name,
            f"{fingerprint}-{name}",
            replace(runtime, log_dir=log_dir),
            provenance,
            peak_flops,
            devices,
        )
    with atomic_path(encoders_out) as partial:
        partial.mkdir()
        for name in facts:
            shutil.copytree(finished / name, partial / name)
    write_json(digests_out, {name: known["digest"] for name, known in facts.items()})
    metrics = {name: known["scores"] for name, known in facts.items()}
    write_json(metrics_out, {"folds": metrics, "provenance": dict(provenance)})
    shutil.rmtree(runtime.work, ignore_errors=True)
