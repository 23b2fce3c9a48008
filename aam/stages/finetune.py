"""Fine-tuning: a task's folds, each predicted by a model that never saw its labels."""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import torch

from aam.config.digest import code_digest
from aam.config.sections.execution import Optimization
from aam.config.sections.finetuning import Finetuning
from aam.data.folds import CATEGORY, OBSERVED, read_folds
from aam.data.samples import SampleStore
from aam.data.target import QUANTILES
from aam.data.tokens import TokenStore
from aam.data.vocabulary import untokenize
from aam.evaluate.predictions import PROBABILITY, QUANTILE, TARGET, write_predictions
from aam.inference.outputs import Outputs
from aam.inference.reference import write_reference
from aam.model.build import architecture, build_encoder
from aam.model.encoder import Encoder
from aam.model.store import CROSS_VALIDATION, REFERENCE, SEEN_ASVS, load_config, load_part
from aam.nn.attention import AttentionBackend
from aam.runtime.entry import Files
from aam.runtime.run_options import RunOptions
from aam.tasks.finetune.cross_validation import CrossValidation
from aam.tasks.finetune.parallel import in_processes, processes, threads_of_a_model
from aam.tasks.finetune.setup import FinetuneSetup, Labelled, TargetColumns
from aam.train.distributed.devices import Devices
from aam.train.history import write_history
from aam.train.options import step_options
from aam.util.atomic import atomic_path, write_json, write_text
from aam.util.provenance import file_digest, provenance, settings_digest
from aam.util.seeds import seed_of


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Fine-tune and cross-validate one task (see docs/architecture.md for the files).

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.finetune`.
    inputs
        `folds`, `tokens`, `samples`; `model` unless the start is from scratch: a pretrained model,
        or a directory of one per fold where the evaluation is inductive; `asvs`, the ASV embeddings
        of pretraining, where the ASV level is not trained.
    outputs
        `model` (a directory with the models of all folds), `predictions`, `history`; `digests`, a
        JSON of what identifies the content of `model`.
    runtime
        Means of the run; checkpoints and finished models lie in its `work` folder.
    """
    assert runtime.work is not None, "fine-tuning needs a work folder"
    validation, about = _set_up(cfg, inputs, runtime)
    several = processes(validation.setup.settings, len(validation.models()), runtime.threads)
    if several > 1:
        in_processes(partial(_train, cfg, inputs), validation.models(), several, runtime)
    finished = validation.run(about)
    setup, folds = validation.setup, read_folds(inputs["folds"])
    table = prediction_table(setup, finished.outputs, folds)
    write_predictions(outputs["predictions"], table)
    numbers = [("fold", pa.int64()), ("model", pa.int64())]
    write_history(outputs["history"], finished.history, about["provenance"], extra=numbers)
    _write_models(outputs["model"], finished.models, setup.tokens, finished.reference_ND, table)
    write_json(outputs["digests"], _digests(outputs["model"], finished.digests, about))
    shutil.rmtree(runtime.work, ignore_errors=True)


def _set_up(
    cfg: Mapping[str, Any], inputs: Files, runtime: RunOptions
) -> tuple[CrossValidation, dict[str, Any]]:
    """Return the models to train, and what is written about each."""
    assert runtime.work is not None
    settings = Finetuning.model_validate(cfg["finetuning"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    origin = provenance(cfg, inputs)
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    threads = threads_of_a_model(runtime.threads)
    setup = FinetuneSetup(
        store=store,
        tokens=tokens,
        labelled=_labelled(read_folds(inputs["folds"]), store, cfg["columns"]),
        task=_target(cfg),
        settings=settings,
        make_encoder=_encoder_maker(cfg, settings, inputs, tokens, options.attention),
        devices=Devices(settings.precision, threads, deterministic=options.deterministic),
        options=options,
        runtime=runtime,
        work=runtime.work,
        fingerprint=settings_digest({**origin, "code": code_digest(__name__)}),
    )
    about = {
        "names": cfg["names"],
        "rarefaction": cfg["rarefaction"],
        "settings": dict(cfg),
        "provenance": dict(origin),
    }
    return CrossValidation(setup, inputs.get("asvs")), about


def _train(
    cfg: Mapping[str, Any],
    inputs: Files,
    models: list[tuple[int, int]],
    runtime: RunOptions,
) -> None:
    """Train some of the models, in a process of their own."""
    validation, about = _set_up(cfg, inputs, runtime)
    validation.train(models, about)


def _labelled(folds: pd.DataFrame, store: SampleStore, columns: list[str]) -> Labelled:
    place = {name: number for number, name in enumerate(store.sample_ids)}
    observed = ["observed"] if len(columns) == 1 else [OBSERVED + name for name in columns]
    told = [name for name in folds.columns if name.startswith(CATEGORY)]
    return Labelled(
        samples=np.array([place[name] for name in folds.index], np.int64),
        observed_LC=folds[observed].to_numpy(object),
        fold=folds["fold"].to_numpy(np.int64),
        units=folds["group"].where(folds["group"] != "", folds.index.to_series()).tolist(),
        categories={name.removeprefix(CATEGORY): folds[name].to_numpy(object) for name in told},
    )


def _target(cfg: Mapping[str, Any]) -> TargetColumns:
    low, high = cfg["bounds"]
    return TargetColumns(
        kind=cfg["kind"],
        columns=tuple(cfg["columns"]),
        classes=None if cfg["classes"] is None else tuple(cfg["classes"]),
        transform=cfg["transform"],
        transform_by=cfg["transform_by"],
        bounds=(low, high),
        condition=tuple(cfg["condition"]),
    )


def prediction_table(setup: FinetuneSetup, outputs: Outputs, folds: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of `predictions.tsv`, samples in the order of the folds file."""
    base = folds.reset_index()[["sample-id", "fold"]]
    task, point_LC = setup.task, outputs.point_NC
    if task.kind != "regression":
        classes = np.array(task.classes or sorted(set(setup.labelled.observed_LC[:, 0])))
        shares = {PROBABILITY + str(name): point_LC[:, i] for i, name in enumerate(classes)}
        predicted = classes[point_LC.argmax(axis=1)]
        return base.assign(observed=folds["observed"].tolist(), predicted=predicted, **shares)
    parts = []
    for place, column in enumerate(task.columns):
        part = base.assign(
            observed=setup.labelled.observed_LC[:, place], predicted=point_LC[:, place]
        )
        if outputs.quantile_NCQ is not None:
            value_LQ = outputs.quantile_NCQ[:, place]
            part = part.assign(
                **{f"{QUANTILE}{q:g}": value_LQ[:, i] for i, q in enumerate(QUANTILES)}
            )
        if len(task.columns) > 1:
            part.insert(1, TARGET, column)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _encoder_maker(
    cfg: Mapping[str, Any],
    settings: Finetuning,
    inputs: Files,
    tokens: TokenStore,
    backend: AttentionBackend,
) -> Callable[[int, int], Encoder]:
    """Return what makes a new encoder for a fold and a model's number in it.

    It has the pretrained weights, or weights of the seed and the number.
    """
    if settings.start == "scratch":
        shape = architecture(cfg["model"], tokens.tokens.shape[1])

        def from_scratch(fold: int, number: int) -> Encoder:
            further = (number,) if number else ()
            seed = seed_of("scratch", settings.seed, *further)
            return build_encoder(shape, seed=seed, backend=backend)

        return from_scratch

    def pretrained(fold: int, number: int) -> Encoder:
        directory: Path = inputs["model"] / f"fold{fold}" if settings.inductive else inputs["model"]
        plain = dict(load_config(directory)["architecture"])
        shape = architecture(plain, plain.pop("max_length_bp"))
        encoder = build_encoder(shape, seed=0, backend=backend)
        load_part(directory, encoder, "encoder")
        return encoder

    return pretrained


def _write_models(
    directory: Path,
    models: Mapping[str, Path],
    tokens: TokenStore,
    reference_ND: torch.Tensor,
    predictions: pd.DataFrame,
) -> None:
    """Write the models and what predicting another table takes beside them."""
    with atomic_path(directory) as partial:
        partial.mkdir()
        for name, source in models.items():
            shutil.copytree(source, partial / name)
        sequences = untokenize(tokens.tokens, tokens.lengths)
        write_text(partial / SEEN_ASVS, "".join(f"{sequence}\n" for sequence in sorted(sequences)))
        write_reference(partial / REFERENCE, reference_ND.numpy())
        write_predictions(partial / CROSS_VALIDATION, predictions)


def _digests(
    directory: Path, models: Mapping[str, str], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what stands for the model directory: no fact that leaves predictions as they are."""
    shared = (SEEN_ASVS, REFERENCE, CROSS_VALIDATION)
    return {
        "models": dict(models),
        "files": {name: file_digest(directory / name) for name in shared},
        "settings": about["provenance"]["aam.settings"],
    }
