from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from aam.config import slices
from aam.config.tree import Config, load
from aam.data.samples import write_samples
from aam.data.table import FeatureTable, write_biom
from aam.data.tokens import write_tokens
from aam.evaluate.predictions import write_predictions
from aam.unifrac.store import write_distances, write_faith_pd

METRICS = ["unweighted", "faith_pd"]


@dataclass(frozen=True)
class Study:
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


def configuration() -> Config:
    model = {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1, "ffn_ratio": 2}
    age = {"dataset": "d", "column": "age", "kind": "regression", "folds": {"k": 2}}
    site = {"dataset": "d", "column": "site", "kind": "classification", "folds": {"k": 2}}
    frozen = {"finetuning": {"encoder": "frozen"}}
    scratch = {"finetuning": {"start": "scratch"}}
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
                "site": {**site, **frozen},
                "scratch": {**age, **scratch},
            },
        }
    )


@pytest.fixture(scope="session")
def study(tiny, tmp_path_factory) -> Study:
    """Write what the stages before training write."""
    folder = tmp_path_factory.mktemp("study")
    names = ("tokens", "samples", *METRICS, "table.biom", "sequences", "metadata")
    files = {name: folder / name for name in (*names, "age.tsv", "site.tsv", "scratch.tsv")}
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
    site = ["gut" if int(name) % 2 else "skin" for name in ids]
    pd.DataFrame({"sample_id": ids, "site": site}).to_parquet(files["metadata"])
    labelled = [name for name in ids if name not in ("002", "007")]
    for task in ("age", "site", "scratch"):
        observed = [site[ids.index(n)] if task == "site" else str(int(n) + 0.5) for n in labelled]
        folds = [int(name) // 2 % 2 for name in labelled]
        columns = {"sample-id": labelled, "fold": folds, "observed": observed, "group": ""}
        pd.DataFrame(columns).to_csv(files[f"{task}.tsv"], sep="\t", index=False)
        columns = {**columns, "baseline": "first", "predicted": observed[:1] * len(observed)}
        shares = {f"probability:{name}": 0.5 for name in ("gut", "skin") if task == "site"}
        files[f"{task}.baselines"] = folder / f"{task}.baselines.tsv"
        write_predictions(files[f"{task}.baselines"], pd.DataFrame({**columns, **shares}))
    return Study(configuration(), files, tiny)
