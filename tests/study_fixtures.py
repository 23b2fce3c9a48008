from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from clade_files import write_clades
from stage_calls import as_outputs

from aam.config import slices
from aam.config.configuration import Config, load
from aam.data.sequences import write_fasta
from aam.data.stores import TokenStore, write_samples, write_tokens
from aam.data.table import FeatureTable, write_biom
from aam.distances.store import write_distances, write_faith_pd
from aam.util.digests import provenance
from aam.util.run_options import RunOptions

METRICS = ["unweighted", "faith_pd"]
PRETRAINING = ("model", "scores", "history", "embeddings", "asvs", "pairs")
FINETUNING = ("model", "predictions", "history", "digests", "recipes", "nested")
EXPLAINED = ("importance", "sequences", "check", "clades")
TASKS = ("age", "site", "scratch", "ordered", "pair", "inductive", "kernel")
LEVELS = ["low", "mid", "high"]


@dataclass(frozen=True)
class TinyStudy:
    """Files and settings that the stages of training get, and the same data in memory."""

    config: Config
    files: dict[str, Path]
    tiny: object

    @property
    def pretraining_inputs(self) -> dict:
        distances = [self.files[name] for name in METRICS]
        return {name: self.files[name] for name in ("tokens", "samples")} | {"distances": distances}

    def task_inputs(self, task: str) -> dict:
        files = {name: self.files[name] for name in ("tokens", "samples")}
        return {**files, "table": self.files["raw.biom"], "folds": self.files[f"{task}.tsv"]}

    def name_clade(self, folder: Path, task: str) -> dict[str, Path]:
        """Return files that name the most frequent feature for each target of a task."""
        names = TokenStore.open(self.files["tokens"]).feature_ids
        samples_F = (self.tiny.store.view_matrix(0, len(names)) > 0).sum(axis=0)
        targets = self.config.tasks[task].columns
        targets = targets if len(targets) > 1 else [""]
        return write_clades(folder, names, [names[int(samples_F.argmax())]], targets)

    def pretrain_slice(self, **settings) -> dict:
        plain_settings = slices.pretrain(self.config, "d", "small").plain()
        return {**plain_settings, "pretraining": {**plain_settings["pretraining"], **settings}}

    def finetune_slice(self, task: str, **settings) -> dict:
        plain_settings = slices.finetune(self.config, "d", "small", task).plain()
        return {**plain_settings, "finetuning": {**plain_settings["finetuning"], **settings}}

    def pretrain(self, folder: Path, settings=None, inputs=None, **runtime) -> dict[str, Path]:
        from aam.config.settings.training import PretrainSettings
        from aam.stages.pretrain import pretrain_encoder
        from aam.tasks.pretrain.inputs import PretrainInputs

        outputs = {name: folder / name for name in PRETRAINING}
        plain_settings = self.pretrain_slice(**(settings or {}))
        given = inputs or self.pretraining_inputs
        pretrain_encoder(
            inputs=PretrainInputs.model_validate(given),
            settings=PretrainSettings.model_validate(plain_settings),
            runtime=RunOptions(work=folder / "work", **runtime),
            **as_outputs(outputs),
            provenance=provenance(plain_settings, given),
        )
        return outputs

    def finetune(
        self, folder: Path, task: str, settings=None, runtime=None, **models: Path
    ) -> dict[str, Path]:
        from aam.config.settings.finetuning import FinetuneSettings
        from aam.stages.finetune import finetune_task

        outputs = {name: folder / name for name in FINETUNING}
        plain_settings = self.finetune_slice(task, **(settings or {}))
        given = {**self.task_inputs(task), **models}
        finetune_task(
            **given,
            settings=FinetuneSettings.model_validate(plain_settings),
            runtime=RunOptions(work=folder / "work", **(runtime or {})),
            **as_outputs(outputs),
            provenance=provenance(plain_settings, given),
        )
        return outputs


def configuration() -> Config:
    model = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "ffn_ratio": 2}
    age = {"dataset": "d", "column": "age", "kind": "regression", "folds": {"k": 2}}
    ordered = {"kind": "ordinal", "column": "level", "classes": LEVELS, "condition": ["host"]}
    several = {"networks": 2, "class_weights": True}
    pair = {"column": ["age", "weight"], "transform_by": "host", "bounds": [0, None]}
    quantiles = {"loss": "quantile", "asv_dropout": 0.2, "recipe": "partial", "trained_layers": 1}
    tasks = {
        "age": {},
        "site": {"column": "site", "kind": "classification", "finetuning": {"recipe": "frozen"}},
        "scratch": {"finetuning": {"start": "scratch"}},
        "ordered": {**ordered, "finetuning": {**several, "epochs": 3, "learning_rate": 0.03}},
        "pair": {**pair, "finetuning": quantiles},
        "inductive": {"finetuning": {"inductive": True, "recipe": "frozen"}},
        "kernel": {"finetuning": {"recipe": "kernel"}},
    }
    return load(
        {
            "datasets": {"d": {"table": "table.biom", "metadata": "metadata.tsv"}},
            "rarefaction": {"depth": 60, "seed": 0},
            "tokens": {"max_length_bp": 20},
            "unifrac": {"metrics": METRICS},
            "models": {"small": model},
            "pretraining": {"epochs": 2, "batch_size": 6},
            # Bytes are compared: no run may choose otherwise than another.
            "optimization": {"precision": "bf16"},
            "finetuning": {"recipe": "full", "epochs": 2, "batch_size": 6},
            "tasks": {name: {**age, **task} for name, task in tasks.items()},
        }
    )


def folds_table(task: str, labelled: list[str], site: dict[str, str]) -> pd.DataFrame:
    """Return two folds; of some tasks samples are in none, those of the test set."""
    number = np.array(labelled, int)
    fold = number // 2 % 2
    if task in ("ordered", "pair", "inductive"):
        fold[number % 5 == 1] = -1
    observed = (number + 0.5).astype(str)
    if task == "site":
        observed = [site[name] for name in labelled]
    if task == "ordered":
        observed = np.array(LEVELS)[number * 3 // 20]
    table = pd.DataFrame({"sample-id": labelled, "fold": fold, "observed": observed, "group": ""})
    if task == "pair":
        table["observed:age"], table["observed:weight"] = observed, (500 - 10 * number).astype(str)
    if task in ("ordered", "pair"):
        table["category:host"] = np.where(number == 9, "", np.array(["a", "b"])[number % 2])
    return table


@pytest.fixture(scope="session")
def study(tiny, tmp_path_factory) -> TinyStudy:
    folder = tmp_path_factory.mktemp("study")
    names = (
        "tokens",
        "samples",
        *METRICS,
        "table.biom",
        "raw.biom",
        "sequences.fasta",
        *(f"{task}.tsv" for task in TASKS),
    )
    files = {name: folder / name for name in names}
    store, tokens, ids = tiny.store, tiny.tokens, tiny.store.sample_ids
    write_tokens(files["tokens"], tokens, {})
    write_samples(files["samples"], store, {})
    write_distances(files["unweighted"], ids, tiny.distances[0], {})
    diversity = (tiny.views[0].counts > 0).sum(axis=1).astype(float)
    write_faith_pd(files["faith_pd"], ids, diversity, {})
    by_sequence = [tiny.sequences[name] for name in tiny.table.feature_ids]
    table = FeatureTable(tiny.table.sample_ids, by_sequence, tiny.table.counts)
    write_biom(files["table.biom"], table, {})
    write_biom(files["raw.biom"], tiny.table, {})
    # Longer than what the models read.
    whole = {name: sequence + "GATTACA" for name, sequence in tiny.sequences.items()}
    write_fasta(files["sequences.fasta"], whole)
    site = {name: "gut" if int(name) % 2 else "skin" for name in ids}
    labelled = [name for name in ids if name not in ("002", "007")]
    for task in TASKS:
        folds = folds_table(task, labelled, site)
        folds.to_csv(files[f"{task}.tsv"], sep="\t", index=False)
    return TinyStudy(configuration(), files, tiny)


@pytest.fixture(scope="session")
def pretrained(study, tmp_path_factory) -> dict[str, Path]:
    return study.pretrain(tmp_path_factory.mktemp("pretrained"))
