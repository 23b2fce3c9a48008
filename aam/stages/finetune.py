"""Fine-tuning: a task's folds, each predicted by a model that never saw its labels."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aam.config.digest import code_digest
from aam.config.sections.execution import Optimization
from aam.config.sections.training import Finetuning
from aam.data.samples import SampleStore
from aam.data.splits import read_folds
from aam.data.tokens import TokenStore
from aam.data.vocabulary import untokenize
from aam.evaluate.predictions import PROBABILITY, write_predictions
from aam.model.build import architecture, build_encoder
from aam.model.encoder import Encoder
from aam.model.store import SEEN_ASVS, load_config, load_part
from aam.nn.attention import AttentionBackend
from aam.stages.entry import Files, RunContext
from aam.stages.pace import pace
from aam.train.crossvalidation import CrossValidation, Labelled
from aam.train.devices import Devices
from aam.train.options import step_options
from aam.train.records import write_history
from aam.util.atomic import atomic_path, write_text
from aam.util.provenance import provenance, settings_digest
from aam.util.seeds import seed_of


def run(cfg: Mapping[str, Any], *, inputs: Files, outputs: Files, runtime: RunContext) -> None:
    """Fine-tune and cross-validate one task (see docs/architecture.md for the files).

    Parameters
    ----------
    cfg
        Slice `aam.config.slices.finetune`.
    inputs
        `folds`, `tokens`, `samples`; `model` unless the start is from scratch; `asvs`, the ASV
        embeddings of pretraining, where the encoder stays frozen.
    outputs
        `model` (a directory with one model per fold), `predictions`, `history`.
    runtime
        Means of the run; checkpoints and finished folds lie in its `work` folder.
    """
    assert runtime.work is not None, "fine-tuning needs a work folder"
    settings = Finetuning.model_validate(cfg["finetuning"])
    options = step_options(Optimization.model_validate(cfg["optimization"]))
    origin = provenance(cfg, inputs)
    store, tokens = SampleStore.open(inputs["samples"]), TokenStore.open(inputs["tokens"])
    folds = read_folds(inputs["folds"])
    place = {name: number for number, name in enumerate(store.sample_ids)}
    labelled = Labelled(
        samples=np.array([place[name] for name in folds.index], np.int64),
        observed=folds["observed"].tolist(),
        fold=folds["fold"].to_numpy(np.int64),
    )
    validation = CrossValidation(
        store=store,
        tokens=tokens,
        labelled=labelled,
        kind=cfg["kind"],
        column=cfg["column"],
        settings=settings,
        make_encoder=_encoder_maker(cfg, settings, inputs, tokens, options.attention),
        devices=Devices(settings.precision, runtime.threads, deterministic=options.deterministic),
        options=options,
        pace=pace(runtime, "fine-tuning"),
        work=runtime.work,
        asvs=inputs.get("asvs"),
        fingerprint=settings_digest({**origin, "code": code_digest(__name__)}),
    )
    about = {
        "names": cfg["names"],
        "rarefaction": cfg["rarefaction"],
        "settings": dict(cfg),
        "provenance": dict(origin),
    }
    outputs_LC, history, models = validation.run(about)
    table = prediction_table(validation, outputs_LC, folds)
    write_predictions(outputs["predictions"], table)
    write_history(outputs["history"], history, origin, extra=[("fold", pa.int64())])
    _write_models(outputs["model"], models, tokens)
    shutil.rmtree(runtime.work)


def prediction_table(
    validation: CrossValidation, outputs_LC: NDArray[np.float64], folds: pd.DataFrame
) -> pd.DataFrame:
    """Return the columns of `predictions.tsv`, samples in the order of the folds file."""
    table = folds.reset_index()[["sample-id", "fold", "observed"]]
    if validation.kind == "regression":
        return table.assign(predicted=outputs_LC[:, 0])
    classes = np.array(sorted(set(validation.labelled.observed)))
    table = table.assign(predicted=classes[outputs_LC.argmax(axis=1)])
    return table.assign(**{PROBABILITY + name: outputs_LC[:, i] for i, name in enumerate(classes)})


def _encoder_maker(
    cfg: Mapping[str, Any],
    settings: Finetuning,
    inputs: Files,
    tokens: TokenStore,
    backend: AttentionBackend,
) -> Callable[[], Encoder]:
    """Return what makes a new encoder per fold: pretrained weights, or weights of the seed."""
    if settings.start == "scratch":
        shape = architecture(cfg["model"], tokens.tokens.shape[1])
        return lambda: build_encoder(shape, seed=seed_of("scratch", settings.seed), backend=backend)
    directory: Path = inputs["model"]
    plain = dict(load_config(directory)["architecture"])
    shape = architecture(plain, plain.pop("max_length_bp"))

    def pretrained() -> Encoder:
        encoder = build_encoder(shape, seed=0, backend=backend)
        load_part(directory, encoder, "encoder")
        return encoder

    return pretrained


def _write_models(directory: Path, models: Mapping[int, Path], tokens: TokenStore) -> None:
    with atomic_path(directory) as partial:
        partial.mkdir()
        for fold, source in models.items():
            shutil.copytree(source, partial / f"fold{fold}")
        sequences = untokenize(tokens.tokens, tokens.lengths)
        write_text(partial / SEEN_ASVS, "".join(f"{sequence}\n" for sequence in sorted(sequences)))
