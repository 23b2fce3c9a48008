import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from unifrac_cases import random_tree

from aam.batches.dataset import Subsampling
from aam.config.sections.training import Pretraining
from aam.data.trees import write_newick
from aam.distances.in_batch import BatchDistances
from aam.distances.store import write_distances, write_faith_pd
from aam.inference.embed import load_encoder
from aam.model.store import load_config
from aam.tasks.pretrain import preparation
from aam.train.loop import TimeIsUp
from aam.util.atomic import read_json, write_json
from aam.util.digests import write_manifest
from aam.util.errors import InputError

BYTES = ("pairs", "embeddings", "asvs", "model/model.safetensors", "model/config.json")


def differing(one: dict[str, Path], other: dict[str, Path], names=BYTES) -> list[str]:
    """Return which outputs of two runs have other bytes."""
    here, there = (outputs["model"].parent for outputs in (one, other))
    return [name for name in names if (here / name).read_bytes() != (there / name).read_bytes()]


def test_pretraining_reports_what_the_contract_names(pretrained, study):
    metrics = read_json(pretrained["scores"])
    names = {
        *("unifrac_pearson", "unifrac_mae", "nucleotide_accuracy", "nucleotide_baseline_accuracy"),
        *("faith_pd_pearson", "parameters", "peak_memory_mb"),
    }
    assert names <= set(metrics)
    assert metrics["unifrac_pearson"] == metrics["unweighted_pearson"]
    assert metrics["steps"] == 2 * 3
    assert (metrics["training_samples"], metrics["held_out_samples"]) == (16, 4)
    assert metrics["samples_per_s"] >= 2 * 16 / metrics["wall_s"] > 0, "validations do not count"
    assert 0 < metrics["model_flop_utilisation"] < 1
    assert 0 < metrics["loading_share"] < 1
    assert min(metrics[f"{name}_step_memory_mb"] for name in ("estimated", "measured")) > 0
    assert metrics["gpu_utilisation"] is None
    assert set(json.loads(metrics["provenance"]["aam.inputs"])) == set(study.pretraining_inputs)
    config = load_config(pretrained["model"])
    assert config["kind"] == "pretrained"
    assert config["architecture"]["max_length_bp"] == 20
    assert config["distances"] == ["unweighted", "faith_pd"]
    assert not (pretrained["model"].parent / "work").exists()


def test_a_model_of_another_version_is_one_message(pretrained, tmp_path):
    folder = shutil.copytree(pretrained["model"], tmp_path / "model")
    config = read_json(folder / "config.json")
    config["architecture"]["gone"] = 4
    write_json(folder / "config.json", config)
    write_manifest(folder)
    with pytest.raises(InputError, match="Architecture gone .*; expected a model of this version"):
        load_encoder(folder)


def test_pretraining_writes_the_tables_of_the_contract(pretrained, study):
    schemas = {
        name: pq.read_schema(pretrained[name]) for name in ("history", "pairs", "embeddings")
    }
    assert all(b"aam.settings" in schema.metadata for schema in schemas.values())
    types = {name: [str(field.type) for field in schema] for name, schema in schemas.items()}
    assert schemas["history"].names == ["step", "epoch", "split", "name", "value"]
    assert types["history"] == ["int64", "double", "string", "string", "double"]
    assert schemas["pairs"].names == ["metric", "observed", "predicted"]
    assert types["pairs"] == ["string", "float", "float"]
    embeddings = pq.read_table(pretrained["embeddings"])
    assert embeddings.column("sample_id").to_pylist() == study.tiny.store.sample_ids
    assert embeddings.schema.field("embedding").type.list_size == 16
    assert embeddings.column("split").to_pylist().count("held-out") == 4
    pairs = pd.read_parquet(pretrained["pairs"])
    assert pairs["metric"].tolist() == ["unweighted"] * 6
    error = (pairs["observed"] - pairs["predicted"]).abs().mean()
    assert error == pytest.approx(read_json(pretrained["scores"])["unifrac_mae"], abs=1e-5)


def test_as_many_pairs_are_kept_for_the_figures_as_are_asked_for(study, pretrained, tmp_path):
    outputs = study.pretrain(tmp_path, settings={"plotted_pairs": 4})
    assert len(pd.read_parquet(outputs["pairs"])) == 4
    scores = read_json(outputs["scores"])["unifrac_mae"]
    assert scores == read_json(pretrained["scores"])["unifrac_mae"]


def test_the_time_limit_ends_pretraining_with_nothing_declared_written(study, pretrained, tmp_path):
    for _ in range(6 - 1):
        with pytest.raises(TimeIsUp):
            study.pretrain(tmp_path, deadline=time.time())
        assert [path.name for path in tmp_path.iterdir()] == ["work"]
    outputs = study.pretrain(tmp_path, deadline=time.time())
    assert not differing(outputs, pretrained)


def whole(start: dict) -> list[str]:
    return [name for name in start["files"] if name.startswith("step-")]


def test_a_run_killed_again_and_again_ends_with_the_same_bytes(study, pretrained, tmp_path):
    """While a checkpoint is written beside training, at any time, and in an output."""
    rng, steps = np.random.default_rng(11), 2 * 3
    any_time = [
        {"kind": "at any time", "step": step, "delay_s": rng.uniform(0, 0.03)} for step in (2, 4, 5)
    ]
    moments = [{"kind": "in a write", "step": 2}, *any_time, {"kind": "in an output"}]
    spec = {"settings": study.pretrain_slice(), "inputs": study.pretraining_inputs, "steps": steps}
    spec |= {"folder": tmp_path, "moments": moments}
    (tmp_path / "specification.json").write_text(json.dumps(spec, default=str))
    script = Path(__file__).with_name("killed_pretraining.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "specification.json")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert [start["signal"] for start in found] == [signal.SIGKILL] * len(moments)
    assert whole(found[0]) == ["step-000000001.pt"]
    assert [name for name in found[0]["files"] if name.startswith(".partial-")]
    for moment, start in zip(any_time, found[1:-1], strict=True):
        # The write after the step before the last one may have been in flight.
        assert whole(start)[-1] >= f"step-{moment['step'] - 1:09d}.pt"
    assert whole(found[-1]) == [f"step-{step:09d}.pt" for step in (steps - 1, steps)]
    assert not any((tmp_path / name).exists() for name in ("model", "scores"))
    resumed = study.pretrain(tmp_path)
    assert not differing(resumed, pretrained)
    curves = [pd.read_parquet(outputs["history"]) for outputs in (resumed, pretrained)]
    # What is of the machine differs.
    learned = [curve[curve["split"] != "system"].reset_index(drop=True) for curve in curves]
    pd.testing.assert_frame_equal(*learned)
    assert not (tmp_path / "work").exists()


def test_targets_of_the_batch_teach_what_stored_ones_do(study, tmp_path, monkeypatch):
    # In bf16 the rounding of one CPU makes more of Faith's PD being scaled by other samples.
    monkeypatch.setattr("aam.distributed.devices.has_fast_bf16", lambda: False)
    store, names = study.tiny.store, study.tiny.tokens.feature_ids
    path, *files = (tmp_path / name for name in ("tree.nwk", "unweighted.parquet", "pd.parquet"))
    tree = random_tree(names, np.random.default_rng(0))
    write_newick(path, tree)
    exact = BatchDistances.from_tree(["unweighted", "faith_pd"], path, names, 0.5)
    whole = exact(store.view_matrix(0, len(names)))
    write_distances(files[0], store.sample_ids, whole["unweighted"], {})
    write_faith_pd(files[1], store.sample_ids, whole["faith_pd"][:, 0], {})
    found = {}
    for targets, given in (("stored", {"distances": files}), ("batch", {"tree": path})):
        inputs = {name: study.files[name] for name in ("tokens", "samples")} | given
        settings = {"targets": targets, "optimizer": "adamw"}
        found[targets] = read_json(study.pretrain(tmp_path / targets, settings, inputs)["scores"])
    for name in ("unweighted_pearson", "unweighted_mae", "faith_pd_pearson"):
        assert found["batch"][name] == pytest.approx(found["stored"][name], abs=2e-3)
    for node in tree.traverse():
        node.length = 0.0
    write_newick(path, tree)
    with pytest.raises(InputError, match="tree.nwk: got branches of length 0 only"):
        study.pretrain(tmp_path / "again", settings, inputs)


def test_a_training_with_subsampled_rows_is_cut_and_goes_on_to_the_same_bytes(
    study, tmp_path, monkeypatch
):
    monkeypatch.setattr(Pretraining, "least_reads", 5)
    store, names = study.tiny.store, study.tiny.tokens.feature_ids
    write_newick(tmp_path / "tree.nwk", random_tree(names, np.random.default_rng(0)))
    inputs = {**study.pretraining_inputs, "tree": tmp_path / "tree.nwk"}
    reads, steps = [], set()
    draw = Subsampling.draw

    def noting(self, *arguments):
        drawn = draw(self, *arguments)
        reads.append(drawn.counts.sum() / len(drawn.sample_ids))
        steps.add(arguments[-1])
        return drawn

    monkeypatch.setattr(Subsampling, "draw", noting)
    settings = {"subsampled": 0.5}
    once = study.pretrain(tmp_path / "once", settings, inputs)
    assert steps == {0, 1, 2}, "half of six"
    assert max(reads) < store.counts.sum() / len(store.row_view) / 2
    for _ in range(6 - 1):
        with pytest.raises(TimeIsUp):
            study.pretrain(tmp_path / "cut", settings, inputs, deadline=time.time())
    cut = study.pretrain(tmp_path / "cut", settings, inputs, deadline=time.time())
    assert not differing(cut, once)


@pytest.mark.parametrize(("most", "subsampled"), [(0.3, False), (0.99, True)])
def test_rows_have_fewer_reads_by_default_where_that_leaves_out_asvs(
    most, subsampled, study, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(Pretraining, "least_reads", 5)
    monkeypatch.setattr(Pretraining, "most_asvs_left", most)
    names = study.tiny.tokens.feature_ids
    write_newick(tmp_path / "tree.nwk", random_tree(names, np.random.default_rng(0)))
    inputs = {**study.pretraining_inputs, "tree": tmp_path / "tree.nwk"}
    steps = set()
    draw = Subsampling.draw
    monkeypatch.setattr(Subsampling, "draw", lambda self, *a: steps.add(a[-1]) or draw(self, *a))
    with caplog.at_level("INFO"):
        study.pretrain(tmp_path, {}, inputs)
    assert steps == (set(range(5)) if subsampled else set()), "four fifths of six, or none"
    assert ("rows have all of their reads" in caplog.text) is not subsampled


def test_distances_without_room_end_the_stage(study, tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "DISTANCES_FRACTION", 0.0)
    with pytest.raises(InputError, match=r"Hint: set pretraining.targets: batch"):
        study.pretrain(tmp_path)
    assert not (tmp_path / "work").exists()


def test_a_limit_of_memory_is_kept_by_all_processes_together():
    left_mb = 2.0**10
    held_gb = preparation.held_mb(torch.device("cpu")) / 2**10
    one, four = (preparation.room(held_gb + left_mb / 2**10, number) for number in (1, 4))
    assert one == pytest.approx(4 * four, rel=0.1)
    assert one < left_mb * 2**20
    assert preparation.room(held_gb / 2, 1) == 0
