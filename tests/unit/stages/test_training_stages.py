import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from aam.inference.asv_cache import module_digest
from aam.inference.bundle import ModelBundle
from aam.inference.ensemble import predict_table
from aam.model.store import load_config
from aam.runtime.run_options import RunOptions
from aam.stages import finetune
from aam.tasks.finetune.setup import FinetuneSetup
from aam.train.loop import TimeIsUp
from aam.util.atomic import read_json
from aam.util.errors import InputError

PRETRAINING = ("model", "metrics", "history", "embeddings", "asvs", "pairs")


@pytest.fixture(scope="module")
def finetuned(study, pretrained, tmp_path_factory) -> dict[str, dict[str, Path]]:
    return {
        task: study.finetune(
            tmp_path_factory.mktemp(task),
            task,
            model=None if task == "scratch" else pretrained["model"],
        )
        for task in ("age", "site", "scratch")
    }


def learned(history: Path) -> pd.DataFrame:
    """Return a history without what depends on the machine."""
    table = pd.read_parquet(history)
    return table[table["split"] != "system"].reset_index(drop=True)


def columns_of(path: Path) -> dict[str, str]:
    return {field.name: str(field.type) for field in pq.read_schema(path)}


def test_pretraining_reports_what_the_contract_names(pretrained, study):
    metrics = read_json(pretrained["metrics"])
    names = {
        *("unifrac_pearson", "unifrac_mae", "nucleotide_accuracy", "nucleotide_baseline_accuracy"),
        *("steps", "wall_s", "samples_per_s", "peak_memory_mb", "parameters"),
        *("model_flop_utilisation", "faith_pd_pearson", "provenance"),
    }
    assert names <= set(metrics)
    assert metrics["unifrac_pearson"] == metrics["unweighted_pearson"]
    assert metrics["steps"] == 2 * 3
    assert (metrics["training_samples"], metrics["held_out_samples"]) == (16, 4)
    assert metrics["wall_s"] > 0
    assert metrics["samples_per_s"] >= 2 * 16 / metrics["wall_s"], "validations do not count"
    assert 0 < metrics["model_flop_utilisation"] < 1
    assert 0 < metrics["loading_share"] < 1
    assert metrics["estimated_step_memory_mb"] > 0
    assert metrics["measured_step_memory_mb"] > 0
    assert metrics["gpu_utilisation"] is None
    assert set(json.loads(metrics["provenance"]["aam.inputs"])) == set(study.pretraining_inputs)


def test_pretraining_writes_the_tables_of_the_contract(pretrained, study):
    ids = study.tiny.store.sample_ids
    assert columns_of(pretrained["history"]) == {
        "step": "int64",
        "epoch": "double",
        "split": "string",
        "name": "string",
        "value": "double",
    }
    assert columns_of(pretrained["pairs"]) == {
        "metric": "string",
        "observed": "float",
        "predicted": "float",
    }
    embeddings = pq.read_table(pretrained["embeddings"])
    assert embeddings.column("sample_id").to_pylist() == ids
    assert embeddings.schema.field("embedding").type.list_size == 16
    assert embeddings.column("split").to_pylist().count("held-out") == 4
    pairs = pd.read_parquet(pretrained["pairs"])
    assert pairs["metric"].tolist() == ["unweighted"] * 6
    metrics = read_json(pretrained["metrics"])
    error = (pairs["observed"] - pairs["predicted"]).abs().mean()
    assert error == pytest.approx(metrics["unifrac_mae"], abs=1e-5)
    for name in ("history", "pairs", "embeddings"):
        assert b"aam.settings" in pq.read_schema(pretrained[name]).metadata
    config = load_config(pretrained["model"])
    assert config["kind"] == "pretrained"
    assert config["architecture"]["max_length_bp"] == 20
    assert config["distances"] == ["unweighted", "faith_pd"]
    assert not (pretrained["model"].parent / "work").exists()


def test_the_time_limit_ends_pretraining_with_nothing_declared_written(study, pretrained, tmp_path):
    for _ in range(6 - 1):
        with pytest.raises(TimeIsUp):
            study.pretrain(tmp_path, deadline=time.time())
        assert [path.name for path in tmp_path.iterdir()] == ["work"]
    outputs = study.pretrain(tmp_path, deadline=time.time())
    weights = "model.safetensors"
    expected = (pretrained["model"] / weights).read_bytes()
    assert (outputs["model"] / weights).read_bytes() == expected


def killed(spec: dict, folder: Path) -> list[dict]:
    """Start pretraining once per moment of `spec`; each start is killed before its end."""
    asked = folder / "specification.json"
    asked.write_text(json.dumps({**spec, "work": str(folder / "work")}))
    script = Path(__file__).with_name("killed_pretraining.py")
    done = subprocess.run(
        [sys.executable, str(script), str(asked)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def whole(start: dict) -> list[str]:
    return [name for name in start["files"] if name.startswith("step-")]


def test_a_run_killed_again_and_again_ends_with_the_same_bytes(study, pretrained, tmp_path):
    """While a checkpoint is written beside training, at any time, and in an output."""
    rng = np.random.default_rng(11)
    steps = 2 * 3
    any_time = [
        {"kind": "at any time", "step": step, "delay_s": rng.uniform(0, 0.03)}
        for step in (2, 3, 4, 5)
    ]
    moments = [{"kind": "in a write", "step": 2}, *any_time, {"kind": "in an output"}]
    inputs = {
        name: [str(p) for p in value] if isinstance(value, list) else str(value)
        for name, value in study.pretraining_inputs.items()
    }
    outputs = {name: str(tmp_path / name) for name in PRETRAINING}
    spec = {"cfg": study.pretrain_slice(), "inputs": inputs, "outputs": outputs, "steps": steps}
    found = killed({**spec, "moments": moments}, tmp_path)
    assert [start["signal"] for start in found] == [signal.SIGKILL] * len(moments)
    assert whole(found[0]) == ["step-000000001.pt"]
    assert [name for name in found[0]["files"] if name.startswith(".partial-")]
    for moment, start in zip(any_time, found[1:-1], strict=True):
        # The write after the step before the last one may have been in flight.
        assert whole(start)[-1] >= f"step-{moment['step'] - 1:09d}.pt"
    assert whole(found[-1]) == [f"step-{step:09d}.pt" for step in (steps - 1, steps)]
    assert not any(Path(outputs[name]).exists() for name in ("model", "metrics"))
    resumed = study.pretrain(tmp_path)
    pd.testing.assert_frame_equal(learned(resumed["history"]), learned(pretrained["history"]))
    for name in ("pairs", "embeddings", "asvs", "model/model.safetensors", "model/config.json"):
        expected = (pretrained["model"].parent / name).read_bytes()
        assert (resumed["model"].parent / name).read_bytes() == expected, name
    assert not (tmp_path / "work").exists()


def test_finetuning_reports_what_the_contract_names(finetuned, study):
    age, site = (read_json(finetuned[task]["metrics"]) for task in ("age", "site"))
    assert {"mae_fold_mean", "mae_fold_sd", "mae_pooled", "r2_pooled"} <= set(age)
    assert {"accuracy", "balanced_accuracy", "macro_f1", "roc_auc"} <= set(site)
    assert set(age["mae_by"]["site"]) == {"gut", "skin"}
    assert set(age["baselines"]["first"]) >= {"mae_fold_mean", "mae_by"}
    assert site["baselines"]["first"]["balanced_accuracy"] == 0.5
    assert (age["task"], age["model"], age["kind"]) == ("age", "small", "regression")
    assert (age["encoder"], site["encoder"]) == ("full", "frozen")
    assert read_json(finetuned["scratch"]["metrics"])["start"] == "scratch"
    assert columns_of(finetuned["age"]["history"])["fold"] == "int64"
    history = pd.read_parquet(finetuned["age"]["history"])
    assert set(history["fold"]) == {0, 1}


def test_every_labelled_sample_is_predicted_once(finetuned, study):
    for task in ("age", "site", "scratch"):
        kinds = {"sample-id": str}
        folds = pd.read_csv(study.files[f"{task}.tsv"], sep="\t", dtype=kinds)
        table = pd.read_csv(finetuned[task]["predictions"], sep="\t", dtype=kinds)
        for column in ("sample-id", "fold", "observed"):
            assert table[column].tolist() == folds[column].tolist()
        assert table["predicted"].notna().all()
    classes = pd.read_csv(finetuned["site"]["predictions"], sep="\t")
    shares = classes[["probability:gut", "probability:skin"]]
    assert (shares.sum(axis=1) - 1).abs().max() < 1e-5
    assert classes["predicted"].tolist() == [
        "gut" if gut > skin else "skin" for gut, skin in shares.to_numpy()
    ]


def test_the_starts_are_what_they_are_called(finetuned, pretrained):
    """A frozen encoder is the pretrained one; the folds of a fine-tuned one go apart."""

    def encoder(path: Path) -> dict[str, np.ndarray]:
        state = load_file(path / "model.safetensors")
        return {name: value for name, value in state.items() if name.startswith("encoder.")}

    start = encoder(pretrained["model"])
    for task, stays in (("site", True), ("age", False), ("scratch", False)):
        folds = [encoder(finetuned[task]["model"] / f"fold{fold}") for fold in range(2)]
        for fold in folds:
            assert set(fold) == set(start)
            assert all(np.array_equal(fold[n], start[n]) for n in start) == stays, task
    assert not any(finetuned[task]["model"].parent.joinpath("work").exists() for task in finetuned)


def test_the_models_of_a_fold_start_from_weights_of_their_own(study, tmp_path):
    """Without training; the first of each fold has those that a single model has."""
    cfg, inputs = study.finetune_slice("scratch"), study.task_inputs("scratch")
    makers = []
    for models in (1, 2):
        cfg["finetuning"]["models"] = models
        setup = FinetuneSetup.open(cfg, inputs, RunOptions(work=tmp_path / "work"), "code")
        makers.append(setup.make_encoder)
    alone, make = makers
    digests = {(fold, n): module_digest(make(fold, n)) for fold in (0, 1) for n in (0, 1)}
    assert digests[0, 0] == digests[1, 0] == module_digest(alone(0, 0))
    assert digests[0, 1] != digests[0, 0]
    assert digests[0, 1] == module_digest(make(0, 1)), "a resumed run starts from the same"


def test_digests_stand_for_what_predicting_takes(finetuned, study, pretrained, tmp_path):
    known = read_json(finetuned["age"]["digests"])
    assert list(known["models"]) == ["fold0", "fold1"]
    assert set(known["files"]) == {"asvs.txt", "cross_validation.tsv", "reference.safetensors"}
    cfg = study.finetune_slice("age")
    cfg["rarefaction"]["views"] = 2
    outputs = {name: tmp_path / name for name in ("model", "predictions", "history", "digests")}
    inputs = {**study.task_inputs("age"), "model": pretrained["model"]}
    context = RunOptions(work=tmp_path / "work")
    finetune.run(cfg, inputs=inputs, outputs=outputs, runtime=context)
    found = read_json(outputs["digests"])
    assert outputs["predictions"].read_bytes() == finetuned["age"]["predictions"].read_bytes()
    assert found["models"] == known["models"]
    assert found["files"] == known["files"]
    assert found["settings"] != known["settings"], "another table is to be drawn twice"


def test_a_missing_pretrained_model_is_one_message(study, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty.*no config\.json"):
        study.finetune(tmp_path, "age", model=tmp_path / "empty")
    assert not (tmp_path / "predictions").exists()


@pytest.mark.parametrize("task", ["age", "site"])
def test_the_model_of_a_fold_predicts_its_samples_again_from_the_table(finetuned, study, task):
    known = pd.read_csv(
        finetuned[task]["predictions"], sep="\t", dtype={"sample-id": str}, index_col="sample-id"
    )
    bundle = ModelBundle.load(finetuned[task]["model"])
    for fold, predictor in enumerate(bundle.predictors):
        one = replace(bundle, predictors=[predictor])
        found = predict_table(one, study.tiny.table, study.tiny.sequences)
        expected = known[known["fold"] == fold]
        assert not found["unseen_asvs"].any()
        column = "predicted" if task == "age" else "probability:gut"
        np.testing.assert_allclose(
            found.loc[expected.index, column].astype(float), expected[column], rtol=1e-5
        )
