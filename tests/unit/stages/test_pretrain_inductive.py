"""An encoder per fold: what it must not have seen, and a run that goes on.

Shape suffixes: N samples.
"""

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.data.folds import TEST, read_folds, read_members
from aam.data.samples import places_of, write_samples
from aam.inference.asv_cache import module_digest
from aam.inference.embed import load_encoder
from aam.model.store import load_config
from aam.runtime.run_options import RunOptions
from aam.stages import pretrain_inductive
from aam.tasks.pretrain import inductive
from aam.unifrac.store import write_distances, write_faith_pd
from aam.util.atomic import read_json

OUTPUTS = ("encoders", "digests", "metrics")
UNLABELLED = "002"
"""A sample without a target, of a host in fold 0."""


def run(study, folder: Path, inputs: dict, **runtime) -> dict[str, Path]:
    outputs = {name: folder / name for name in OUTPUTS}
    pretrain_inductive.run(
        study.pretrain_slice(),
        inputs=inputs,
        outputs=outputs,
        runtime=RunOptions(work=folder / "work", **runtime),
    )
    return outputs


@pytest.fixture(scope="module")
def inputs(study, tmp_path_factory) -> dict:
    path = tmp_path_factory.mktemp("members") / "members.tsv"
    fold = read_folds(study.files["inductive.tsv"])["fold"]
    assert UNLABELLED not in fold.index
    pd.concat([fold, pd.Series({UNLABELLED: 0})]).to_csv(
        path, sep="\t", index_label="sample-id", header=["fold"]
    )
    return {**study.pretraining_inputs, "members": path}


@pytest.fixture(scope="module")
def encoders(study, inputs, tmp_path_factory) -> dict[str, Path]:
    return run(study, tmp_path_factory.mktemp("inductive"), inputs)


def rows_in(study, inputs, fold: int) -> np.ndarray:
    """Return which samples of the store are in a fold, [N]."""
    members = read_members(inputs["members"])
    chosen = set(members.index[members == fold])
    return np.array([name in chosen for name in study.tiny.store.sample_ids])


def changed_inputs(study, inputs, is_changed_N, folder: Path) -> dict:
    """Give some samples other reads, distances and diversity."""
    store, ids, rng = study.tiny.store, study.tiny.store.sample_ids, np.random.default_rng(2)
    counts = store.counts.copy()
    places, _ = places_of(store.offsets, np.flatnonzero(is_changed_N))
    counts[places] += 40
    distances = study.tiny.distances[0].copy()
    either = is_changed_N[:, None] | is_changed_N
    other = rng.uniform(size=distances.shape).astype(np.float32)
    distances = np.where(either, (other + other.T) / 2, distances)
    np.fill_diagonal(distances, 0)
    diversity = (study.tiny.views[0].counts > 0).sum(axis=1) + 50.0 * is_changed_N
    names = ("samples", "unweighted", "faith_pd")
    files = {name: folder / name for name in names}
    write_samples(files["samples"], replace(store, counts=counts), {})
    write_distances(files["unweighted"], ids, distances.astype(np.float32), {})
    write_faith_pd(files["faith_pd"], ids, diversity.astype(float), {})
    return {
        "tokens": inputs["tokens"],
        "samples": files["samples"],
        "distances": [files["unweighted"], files["faith_pd"]],
        "members": inputs["members"],
    }


def test_there_is_an_encoder_per_fold_and_none_of_the_test_set(study, encoders, inputs):
    digests = read_json(encoders["digests"])
    assert list(digests) == ["fold0", "fold1"]
    assert sorted(path.name for path in encoders["encoders"].iterdir()) == ["fold0", "fold1"]
    assert digests["fold0"] != digests["fold1"]
    for name, digest in digests.items():
        directory = encoders["encoders"] / name
        assert module_digest(load_encoder(directory)) == digest
        assert load_config(directory)["kind"] == "pretrained"
    metrics = read_json(encoders["metrics"])
    unseen = {fold: rows_in(study, inputs, fold).sum() for fold in (0, 1, TEST)}
    for fold in (0, 1):
        scores = metrics["folds"][f"fold{fold}"]
        seen = 20 - unseen[fold] - unseen[TEST]
        assert scores["training_samples"] + scores["held_out_samples"] == seen
        assert scores["held_out_samples"] == max(2, round(0.2 * seen))
    assert not encoders["encoders"].parent.joinpath("work").exists()


def test_no_member_of_the_fold_or_of_the_test_set_has_a_part_in_an_encoder(
    study, encoders, inputs, tmp_path
):
    before = read_json(encoders["digests"])
    is_changed_N = rows_in(study, inputs, 0) | rows_in(study, inputs, TEST)
    assert is_changed_N[study.tiny.store.sample_ids.index(UNLABELLED)]
    changed = changed_inputs(study, inputs, is_changed_N, tmp_path)
    after = read_json(run(study, tmp_path / "run", changed)["digests"])
    assert after["fold0"] == before["fold0"]
    assert after["fold1"] != before["fold1"], "it was pretrained on samples of fold 0"


def test_a_finished_fold_is_not_pretrained_again(study, encoders, inputs, monkeypatch, tmp_path):
    names, given, train = [], [], inductive.train

    def failing(cfg, prepared, devices, checkpoints, runtime, name):
        names.append(name)
        given.append(runtime)
        if len(names) == 2:
            raise KeyboardInterrupt
        return train(cfg, prepared, devices, checkpoints, runtime, name)

    monkeypatch.setattr(inductive, "train", failing)
    with pytest.raises(KeyboardInterrupt):
        run(
            study,
            tmp_path,
            inputs,
            deadline=time.time() + 1000.0,
            log_dir=tmp_path / "work" / "notes",
        )
    assert [path.name for path in tmp_path.iterdir()] == ["work"]
    outputs = run(study, tmp_path, inputs)
    assert [name.split()[-1] for name in names] == ["fold0", "fold1", "fold1"]
    assert given[1].deadline == given[0].deadline, "the limit is that of the job"
    assert [runtime.log_dir.name for runtime in given[:2]] == ["fold0", "fold1"]
    assert outputs["digests"].read_bytes() == encoders["digests"].read_bytes()
    for name in ("fold0", "fold1"):
        here, there = (found["encoders"] / name for found in (outputs, encoders))
        for file in ("model.safetensors", "config.json"):
            assert (here / file).read_bytes() == (there / file).read_bytes(), file


def test_an_encoder_that_is_not_whole_is_pretrained_again(
    study, encoders, inputs, monkeypatch, tmp_path
):
    """A cleanup is killed half way; a run of other settings between its model and its facts."""
    finished, names, train = tmp_path / "work" / "finished", [], inductive.train
    for name in ("fold0", "fold1"):
        shutil.copytree(encoders["encoders"] / name, finished / name)
    written = inductive.write_json

    def spy(*args):
        names.append(args[-1].split()[-1])
        return train(*args)

    def killed(path, content):
        if path.parent == finished:
            raise KeyboardInterrupt
        written(path, content)

    monkeypatch.setattr(inductive, "train", spy)
    (finished / "fold0" / "model.safetensors").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(inductive, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            run(study, tmp_path, inputs)
    assert (finished / "fold0").is_dir()
    outputs = run(study, tmp_path, inputs)
    assert names == ["fold0", "fold0", "fold1"], "a model without its facts is not finished"
    assert outputs["digests"].read_bytes() == encoders["digests"].read_bytes()
    assert not (tmp_path / "work").exists()


def test_finetuning_takes_the_encoder_of_each_fold(study, encoders, tmp_path):
    outputs = study.finetune(tmp_path, "inductive", model=encoders["encoders"])
    digests = read_json(encoders["digests"])
    for name, digest in digests.items():
        assert module_digest(load_encoder(outputs["model"] / name)) == digest
    metrics = read_json(outputs["metrics"])
    assert metrics["evaluation"] == "inductive"
    assert metrics["test"]["n"] == 4
