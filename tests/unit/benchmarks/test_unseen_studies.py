"""The benchmark of unseen studies: what is left out, what is compared, and that it ends."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import unseen_studies as module
from benchmarks.unseen_studies import compare_corrections, main, simulate, starred


def test_a_correction_by_the_reads_of_the_new_study_brings_the_shared_signal_back():
    task, batch_N, _ = simulate("signal", 0, size=16, features=30, batch_effect=2.0, signal=2.0)
    table = compare_corrections(task, batch_N, starred(["centring"], plain=True), ["ridge"])
    gain = table.set_index(["learner", "correction"])["gain"]
    assert gain["ridge", "centring*"] > 0.05
    assert gain["ridge", "centring"] < gain["ridge", "centring*"]
    assert (gain["ridge", "none"], gain["mixed", "none"]) == (0, 0)
    # The weights are fitted to nested predictions of studies, and find the one that carries over.
    assert gain["mixed", "all"] > 0.05


def test_whole_batches_are_left_out_also_where_they_are_many():
    rng = np.random.default_rng(0)
    batch_N = rng.permutation(np.repeat(np.arange(20), 5)).astype(str)
    counts = rng.poisson(3.0, size=(100, 8))
    target_N = rng.normal(size=100)
    task, _ = module.make_task("regression", target_N, counts, batch_N)
    assert task.fold.max() + 1 == module.FOLDS
    assert all(len(set(task.fold[batch_N == name])) == 1 for name in np.unique(batch_N))


def test_the_table_of_simulated_studies_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(
        module, "CORRECTIONS", {name: module.CORRECTIONS[name] for name in ("none", "centring")}
    )
    main(["simulate", "--draws", "1", "--scenario", "no signal"])
    printed = capsys.readouterr().out
    assert "no signal: 1 draws" in printed
    assert "centring*" in printed


def test_a_task_of_a_study_has_its_labels_and_batches():
    path = module.Path("../shared/data")
    if not path.exists():
        pytest.skip("no ../shared/data")
    task, batch_N = module.read_task("room by town", path)
    assert set(batch_N) == {"Che", "Iqu", "Man", "Pue"}
    assert task.classes == ["bath", "bedr", "kitc", "livi"]


@pytest.mark.parametrize("unequal", [False, True])
def test_planted_batches_differ_by_factors_and_their_labels_as_asked(unequal):
    rng = np.random.default_rng(1)
    counts = rng.poisson(20.0, size=(160, 10))
    target_N = np.repeat(["a", "b"], 80)
    task, _ = module.make_task("classification", target_N, counts, np.tile(["x", "y"], 80))
    planted, batch_N = module.plant(task, "test", effect=1.0, unequal=unequal)
    is_a = pd.Series(target_N == "a").groupby(batch_N).mean()
    assert (is_a.std() > 0.2) == unequal
    means = pd.DataFrame(planted.counts.toarray()).groupby(batch_N).mean()
    spread = np.log(means).std().mean()
    assert 0.5 < spread < 1.5
    even, _ = module.plant(task, "test", effect=0.0, unequal=unequal)
    means = pd.DataFrame(even.counts.toarray()).groupby(batch_N).mean()
    assert np.log(means).std().mean() < 0.1


def test_own_studies_are_read_from_a_table_and_its_metadata(tmp_path, monkeypatch, capsys):
    task, batch_N, _ = simulate("signal", 0, size=8, features=12)
    samples = [f"s{row}" for row in range(len(batch_N))]
    counts = pd.DataFrame(task.counts.toarray().T, columns=samples)
    counts.index = pd.Index([f"f{row}" for row in range(len(counts))], name="feature-id")
    counts.to_csv(tmp_path / "table.tsv", sep="\t")
    metadata = pd.DataFrame({"disease": task.target, "hospital": batch_N}, index=samples)
    metadata.loc["s0", "disease"] = ""
    metadata.to_csv(tmp_path / "metadata.tsv", sep="\t", index_label="sample-id")
    monkeypatch.setattr(module, "ALWAYS", ["centring"])
    monkeypatch.setattr(module, "TREES", 5)
    paths = [str(tmp_path / name) for name in ("table.tsv", "metadata.tsv")]
    main(["own", *paths, "disease", "hospital", "classification"])
    assert f"disease: {len(batch_N) - 1} samples, 8 batches" in capsys.readouterr().out
