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
from stage_calls import as_outputs

from aam.config.settings.training import PretrainSettings
from aam.data.folds import TEST, read_folds
from aam.data.stores import places_of, write_samples
from aam.distances.store import write_distances, write_faith_pd
from aam.inference.asv_cache import module_digest
from aam.inference.embed import load_encoder
from aam.model.store import load_config
from aam.stages import pretrain_inductive
from aam.stages.pretrain_inductive import pretrain_fold_encoders
from aam.tasks.pretrain import run as run_of_pretraining
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.atomic import read_json
from aam.util.digests import provenance
from aam.util.run_options import RunOptions

UNLABELLED = "002"
"""A sample without a target, of a host in fold 0."""


def run(study, folder: Path, inputs: dict, **runtime) -> dict[str, Path]:
    outputs = {name: folder / name for name in ("encoders", "digests", "scores")}
    options = RunOptions(work=folder / "work", **runtime)
    settings = study.pretrain_slice(epochs=1)
    pretrain_fold_encoders(
        inputs=PretrainInputs.model_validate(inputs),
        members=inputs["members"],
        settings=PretrainSettings.model_validate(settings),
        runtime=options,
        **as_outputs(outputs),
        provenance=provenance(settings, inputs),
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


def rows_in(study, inputs, *folds: int) -> np.ndarray:
    """Return which samples of the store are in some folds, [N]."""
    members = read_folds(inputs["members"])["fold"]
    return np.isin(study.tiny.store.sample_ids, members.index[members.isin(folds)])


def test_there_is_an_encoder_per_fold_and_none_of_the_test_set(study, encoders, inputs):
    digests = read_json(encoders["digests"])
    assert list(digests) == ["fold0", "fold1"]
    assert sorted(path.name for path in encoders["encoders"].iterdir()) == ["fold0", "fold1"]
    assert digests["fold0"] != digests["fold1"]
    for name, digest in digests.items():
        directory = encoders["encoders"] / name
        assert module_digest(load_encoder(directory)) == digest
        assert load_config(directory)["kind"] == "pretrained"
    metrics = read_json(encoders["scores"])
    for fold in (0, 1):
        scores = metrics["folds"][f"fold{fold}"]
        seen = 20 - rows_in(study, inputs, fold, TEST).sum()
        assert scores["training_samples"] + scores["held_out_samples"] == seen
        assert scores["held_out_samples"] == max(2, round(0.2 * seen))
    assert not encoders["encoders"].parent.joinpath("work").exists()


def test_no_member_of_the_fold_or_of_the_test_set_has_a_part_in_an_encoder(
    study, encoders, inputs, tmp_path
):
    """These get other reads, distances and diversity."""
    before = read_json(encoders["digests"])
    is_changed_N = rows_in(study, inputs, 0, TEST)
    assert is_changed_N[study.tiny.store.sample_ids.index(UNLABELLED)]
    store, rng = study.tiny.store, np.random.default_rng(2)
    counts, distances = store.counts.copy(), study.tiny.distances[0].copy()
    places, _ = places_of(store.offsets, np.flatnonzero(is_changed_N))
    counts[places] += 40
    other = rng.uniform(size=distances.shape).astype(np.float32)
    distances = np.where(is_changed_N[:, None] | is_changed_N, (other + other.T) / 2, distances)
    np.fill_diagonal(distances, 0)
    diversity = (study.tiny.views[0].counts > 0).sum(axis=1) + 50.0 * is_changed_N
    files = {name: tmp_path / name for name in ("samples", "unweighted", "faith_pd")}
    write_samples(files["samples"], replace(store, counts=counts), {})
    write_distances(files["unweighted"], store.sample_ids, distances.astype(np.float32), {})
    write_faith_pd(files["faith_pd"], store.sample_ids, diversity.astype(float), {})
    pair = [files["unweighted"], files["faith_pd"]]
    changed = {**inputs, "samples": files["samples"], "distances": pair}
    after = read_json(run(study, tmp_path / "run", changed)["digests"])
    assert after["fold0"] == before["fold0"]
    assert after["fold1"] != before["fold1"], "it was pretrained on samples of fold 0"


def test_all_folds_have_the_batch_size_of_the_smallest(study, inputs, monkeypatch, tmp_path):
    asked = []

    def settle(settings, *_, without):
        asked.append(without)
        return settings.with_pretraining(batch_size=8)

    monkeypatch.setattr(pretrain_inductive, "settle_batch_size", settle)
    folder = run(study, tmp_path, inputs)["encoders"]
    (without,) = asked
    left_out = [rows_in(study, inputs, fold, TEST).sum() for fold in (0, 1)]
    assert len(without) == max(left_out)
    settings = [load_config(folder / f"fold{fold}")["settings"] for fold in (0, 1)]
    assert [each["pretraining"]["batch_size"] for each in settings] == [8, 8]


def test_a_finished_fold_is_not_pretrained_again(study, encoders, inputs, monkeypatch, tmp_path):
    """Killed in a cleanup, between a model and its facts, and before the second fold."""
    finished, given, train = tmp_path / "work" / "finished", [], run_of_pretraining.train
    written = run_of_pretraining.write_json

    def spy(settings, prepared, devices, checkpoints, runtime, name):
        given.append((name.split()[-1], runtime))
        return train(settings, prepared, devices, checkpoints, runtime, name)

    def killed(path, content):
        if path.stem == dies_at:
            raise KeyboardInterrupt
        written(path, content)

    monkeypatch.setattr(run_of_pretraining, "train", spy)
    shutil.copytree(encoders["encoders"] / "fold0", finished / "fold0")
    (finished / "fold0" / "model.safetensors").unlink()
    limit = {"deadline": time.time() + 1000.0, "log_dir": tmp_path / "work" / "notes"}
    with monkeypatch.context() as patched:
        patched.setattr(run_of_pretraining, "write_json", killed)
        for dies_at in ("fold0", "fold1"):
            with pytest.raises(KeyboardInterrupt):
                run(study, tmp_path, inputs, **limit)
            assert [path.name for path in tmp_path.iterdir()] == ["work"]
            assert (finished / dies_at).is_dir()
    outputs = run(study, tmp_path, inputs)
    names = [name for name, _ in given]
    assert names == ["fold0", "fold0", "fold1", "fold1"], "a model without facts is not finished"
    assert given[2][1].deadline == given[1][1].deadline, "the limit is that of the job"
    assert [runtime.log_dir.name for _, runtime in given[:3]] == names[:3]
    assert outputs["digests"].read_bytes() == encoders["digests"].read_bytes()
    for file in encoders["encoders"].rglob("*.*"):
        other = outputs["encoders"] / file.relative_to(encoders["encoders"])
        assert file.read_bytes() == other.read_bytes(), file
    assert not (tmp_path / "work").exists()


def test_finetuning_takes_the_encoder_of_each_fold(study, encoders, tmp_path):
    outputs = study.finetune(tmp_path, "inductive", model=encoders["encoders"])
    digests = read_json(encoders["digests"])
    for name, digest in digests.items():
        assert module_digest(load_encoder(outputs["model"] / name)) == digest
