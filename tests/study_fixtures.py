from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from aam.config import slices
from aam.config.configuration import Config, load
from aam.data.samples import write_samples
from aam.data.table import FeatureTable, write_biom
from aam.data.tokens import write_tokens
from aam.evaluate.predictions import write_predictions
from aam.runtime.run_options import RunOptions
from aam.unifrac.store import write_distances, write_faith_pd

METRICS = ["unweighted", "faith_pd"]
PRETRAINING = ("model", "metrics", "history", "embeddings", "asvs", "pairs")
FINETUNING = ("model", "predictions", "history", "digests")
TASKS = ("age", "site", "scratch", "ordered", "pair", "inductive")
LEVELS = ["low", "mid", "high"]


@dataclass(frozen=True)
class TinyStudy:
    """Files and settings that the stages of training get."""

    config: Config
    files: dict[str, Path]
    tiny: object
    """The same data in memory."""

    @property
    def pretraining_inputs(self) -> dict:
        distances = [self.files[name] for name in METRICS]
        return {
            "tokens": self.files["tokens"],
            "samples": self.files["samples"],
            "distances": distances,
        }

    def task_inputs(self, task: str) -> dict:
        return {
            "tokens": self.files["tokens"],
            "samples": self.files["samples"],
            "folds": self.files[f"{task}.tsv"],
        }

    def pretrain_slice(self) -> dict:
        return slices.pretrain(self.config, "d", "small")

    def score_inputs(self, task: str, predictions: Path) -> dict:
        return {
            "predictions": predictions,
            "baselines": self.files[f"{task}.baselines"],
            "folds": self.files[f"{task}.tsv"],
            "metadata": self.files["metadata"],
        }

    def score_slice(self, task: str) -> dict:
        return slices.score(self.config, "d", "small", task)

    def finetune_slice(self, task: str) -> dict:
        return slices.finetune(self.config, "d", "small", task)

    def pretrain(self, folder: Path, **runtime) -> dict[str, Path]:
        """Run pretraining and return its outputs."""
        from aam.stages import pretrain

        outputs = {name: folder / name for name in PRETRAINING}
        pretrain.run(
            self.pretrain_slice(),
            inputs=self.pretraining_inputs,
            outputs=outputs,
            runtime=RunOptions(work=folder / "work", **runtime),
        )
        return outputs

    def finetune(self, folder: Path, task: str, **model: Path | None) -> dict[str, Path]:
        """Run fine-tuning from `model`, and score it; return the outputs of both."""
        from aam.stages import finetune, score

        outputs = {name: folder / name for name in FINETUNING}
        finetune.run(
            self.finetune_slice(task),
            inputs={**self.task_inputs(task), **{k: v for k, v in model.items() if v is not None}},
            outputs=outputs,
            runtime=RunOptions(work=folder / "work"),
        )
        scores = {"metrics": folder / "metrics", "intervals": folder / "intervals.tsv"}
        score.run(
            self.score_slice(task),
            inputs=self.score_inputs(task, outputs["predictions"]),
            outputs=scores,
            runtime=RunOptions(),
        )
        return {**outputs, **scores}


def configuration() -> Config:
    model = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "ffn_ratio": 2}
    age = {"dataset": "d", "column": "age", "kind": "regression", "folds": {"k": 2}}
    site = {"dataset": "d", "column": "site", "kind": "classification", "folds": {"k": 2}}
    ordered = {"kind": "ordinal", "column": "level", "classes": LEVELS, "condition": ["host"]}
    pair = {"column": ["age", "weight"], "transform_by": "host", "bounds": [0, None]}
    return load(
        {
            "datasets": {"d": {"table": "table.biom", "metadata": "metadata.tsv"}},
            "rarefaction": {"depth": 60, "seed": 0},
            "tokens": {"max_length_bp": 20},
            "unifrac": {"metrics": METRICS},
            "models": {"small": model},
            "pretraining": {"epochs": 2, "batch_size": 6},
            "finetuning": {"epochs": 2, "batch_size": 6},
            "tasks": {
                "age": {**age, "report_by": ["site"]},
                "site": {**site, "finetuning": {"encoder": "frozen"}},
                "scratch": {**age, "finetuning": {"start": "scratch"}},
                "ordered": {
                    **age,
                    **ordered,
                    "finetuning": {
                        **{"fusion": "attention", "models": 2, "class_weights": True},
                        **{"epochs": 6, "learning_rate": 0.03},
                    },
                },
                "pair": {
                    **age,
                    **pair,
                    "finetuning": {
                        **{"loss": "quantile", "asv_dropout": 0.2},
                        **{"encoder": "partial", "trained_layers": 1},
                    },
                },
                "inductive": {**age, "finetuning": {"inductive": True, "encoder": "frozen"}},
            },
        }
    )


def observed_of(task: str, name: str, site: str) -> str:
    """Return the value of a sample in the first column of a task."""
    if task == "site":
        return site
    return LEVELS[int(name) * 3 // 20] if task == "ordered" else str(int(name) + 0.5)


def folds_table(task: str, labelled: list[str], site: dict[str, str]) -> pd.DataFrame:
    """Return two folds; of the tasks `ordered` and `pair` some samples are in none."""
    fold = [int(name) // 2 % 2 for name in labelled]
    if task in ("ordered", "pair", "inductive"):
        fold = [
            -1 if int(name) % 5 == 1 else number
            for name, number in zip(labelled, fold, strict=True)
        ]
    observed = [observed_of(task, name, site[name]) for name in labelled]
    table = pd.DataFrame({"sample-id": labelled, "fold": fold, "observed": observed, "group": ""})
    if task == "pair":
        weight = [str(500 - 10 * int(name)) for name in labelled]
        table = table.assign(**{"observed:age": observed, "observed:weight": weight})
    if task in ("ordered", "pair"):
        host = ["" if int(name) == 9 else "ab"[int(name) % 2] for name in labelled]
        table["category:host"] = host
    return table


def baselines_table(task: str, folds: pd.DataFrame) -> pd.DataFrame:
    """Return a baseline that says of every sample what the first one is."""
    columns = folds[["sample-id", "fold", "observed"]].assign(baseline="first")
    columns["predicted"] = columns["observed"].iloc[0]
    classes = {"site": ["gut", "skin"], "ordered": LEVELS}.get(task, [])
    columns = columns.assign(**{f"probability:{name}": 1 / len(classes) for name in classes})
    if task != "pair":
        return columns
    weight = columns.assign(observed=folds["observed:weight"], predicted="400", target="weight")
    return pd.concat([columns.assign(target="age"), weight])


@pytest.fixture(scope="session")
def study(tiny, tmp_path_factory) -> TinyStudy:
    """Write what the stages before training write."""
    folder = tmp_path_factory.mktemp("study")
    names = ("tokens", "samples", *METRICS, "table.biom", "sequences", "metadata")
    files = {name: folder / name for name in names}
    store, tokens, ids = tiny.store, tiny.tokens, tiny.store.sample_ids
    write_tokens(files["tokens"], tokens.feature_ids, tokens.tokens, tokens.lengths, {})
    write_samples(files["samples"], store, {})
    write_distances(files["unweighted"], ids, tiny.distances[0], {})
    diversity = (tiny.views[0].counts > 0).sum(axis=1).astype(float)
    write_faith_pd(files["faith_pd"], ids, diversity, {})
    by_sequence = [tiny.sequences[name] for name in tiny.table.feature_ids]
    write_biom(
        files["table.biom"], FeatureTable(tiny.table.sample_ids, by_sequence, tiny.table.counts), {}
    )
    site = {name: "gut" if int(name) % 2 else "skin" for name in ids}
    pd.DataFrame({"sample_id": ids, "site": site.values()}).to_parquet(files["metadata"])
    labelled = [name for name in ids if name not in ("002", "007")]
    for task in TASKS:
        files[f"{task}.tsv"] = folder / f"{task}.tsv"
        files[f"{task}.baselines"] = folder / f"{task}.baselines.tsv"
        folds = folds_table(task, labelled, site)
        folds.to_csv(files[f"{task}.tsv"], sep="\t", index=False)
        write_predictions(files[f"{task}.baselines"], baselines_table(task, folds))
    return TinyStudy(configuration(), files, tiny)


@pytest.fixture(scope="session")
def pretrained(study, tmp_path_factory) -> dict[str, Path]:
    """Return the outputs of pretraining."""
    return study.pretrain(tmp_path_factory.mktemp("pretrained"))
