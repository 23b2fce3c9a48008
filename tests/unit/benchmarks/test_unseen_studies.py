"""The benchmark of unseen studies: what is left out, what is compared, and that it ends."""

import numpy as np
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
