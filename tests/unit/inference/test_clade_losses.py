"""How much worse held-out predictions are without the reads of a clade."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted_clades import FEATURES, FOLDS, NOISE, SAMPLES, SIGNAL, TREE, plant
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.data.trees import find_branches, parse_newick
from aam.inference import clade_losses
from aam.inference.clade_losses import COLUMNS, measure_losses
from aam.inference.kept_reads import KeptReads
from aam.inference.with_baselines import SuperLearner
from aam.learners.mixture import Mixture
from aam.stages.super_learner import task_of


@pytest.fixture(scope="module", params=["regression", "classification"])
def learned(request):
    """Return a super learner of labels that one of two named clades makes, with its tasks."""
    counts, label, classes = plant(request.param, noise=0.1)
    names = [f"k{number}" for number in range(SAMPLES)]
    facts = {"fold": np.arange(SAMPLES) % FOLDS, "group": "", "observed": label}
    folds = pd.DataFrame(facts, names)
    above, lengths = find_branches(parse_newick(TREE), FEATURES)
    view = FeatureTable(names, FEATURES, csr_array(counts))
    rarefaction = {"depth": 500, "views": 1, "seed": 0}
    reads = KeptReads([view], above, lengths, parse_newick(TREE), {}, rarefaction)
    mixture = Mixture.equal(["kernel_clades", "kernel_unifrac", "extra_trees"])
    settings = {
        "kind": request.param,
        "classes": classes,
        "bounds": [None, None],
        "seed": 0,
        "model": None,
        "mixtures": {"": mixture.plain()},
    }
    task = task_of(settings, folds, reads, [csr_array((0, len(FEATURES)))], "")
    table = pd.DataFrame({"clade": ["signal", "noise"], "taxon": ""})
    clades = ["signal"] * len(SIGNAL) + ["noise"] * len(NOISE)
    members = [FEATURES[number] for number in SIGNAL + NOISE]
    features = pd.DataFrame({"clade": clades}, members)
    super_learner = SuperLearner(
        settings, folds, reads, None, {}, np.arange(SAMPLES), (table, features)
    )
    return super_learner, {"": task}, {"": dict.fromkeys(range(FOLDS), mixture)}


def measure(super_learner, tasks, mixtures, group=None):
    names = super_learner.folds.index
    units = pd.Series(names if group is None else group, names)
    return measure_losses(super_learner, tasks, mixtures, units).set_index("clade")


def test_what_the_label_is_made_of_is_lost_and_what_it_is_not_is_not(learned):
    losses = measure(*learned)
    assert losses.loc["signal", "low"] > 0
    assert losses.loc["signal", "loss"] > 0.2
    assert losses.loc["noise", "low"] < 0
    assert abs(losses.loc["noise", "loss"]) < 0.1 * losses.loc["signal", "loss"]


def test_two_clades_that_say_the_same_are_missed_together_alone(learned):
    """Each stands for the other, as the clades of most studies do."""
    super_learner, tasks, mixtures = learned
    view = super_learner.reads.views[0]
    counts = view.counts.toarray()
    counts[:, [4, 5]] = counts[:, [2, 3]]
    twice = replace(view, counts=csr_array(counts))
    reads = replace(super_learner.reads, views=[twice])
    both = replace(super_learner, reads=reads)
    task = replace(tasks[""], counts=csr_array(counts, dtype=float))
    losses = measure(both, {"": task}, mixtures)
    assert losses.index.tolist() == ["signal", "noise", ""]
    assert losses.loc["", "loss"] > 2 * losses.loc[["signal", "noise"], "loss"].max()


def test_no_sample_of_the_fold_stands_in_and_no_label_of_it_is_known(learned, monkeypatch):
    super_learner, tasks, mixtures = learned
    asked = []

    def note(refitted, known, named, drawn, is_left_out_MN):
        asked.append((refitted, is_left_out_MN))
        return predict_without(refitted, known, named, drawn, is_left_out_MN)

    predict_without = clade_losses.predict_without
    monkeypatch.setattr(clade_losses, "predict_without", note)
    measure(super_learner, tasks, mixtures)
    fold = super_learner.folds["fold"].to_numpy()
    assert len(asked) == FOLDS
    for number, (refitted, is_left_out_MN) in enumerate(asked):
        assert (is_left_out_MN == (fold == number)).all()
        rows = refitted.methods[""]["kernel_unifrac"].arrays["rows"]
        assert not (fold[rows] == number).any()


def test_chunks_of_samples_change_nothing_and_whole_units_widen_the_interval(learned, monkeypatch):
    whole = measure(*learned)
    monkeypatch.setattr(clade_losses, "ROWS_AT_ONCE", 60)
    pd.testing.assert_frame_equal(measure(*learned), whole, rtol=1e-9)
    alike = [f"g{number // 6}" for number in range(SAMPLES)]
    grouped = measure(*learned, alike)
    assert grouped["loss"].tolist() == pytest.approx(whole["loss"].tolist())
    few = measure(*learned, [f"g{number % 3}" for number in range(SAMPLES)])
    assert few["low"].isna().all()
    assert few["loss"].tolist() == pytest.approx(whole["loss"].tolist())


def test_without_named_clades_there_is_an_empty_table(learned):
    super_learner, tasks, mixtures = learned
    nothing = replace(super_learner, clades=None)
    found = measure_losses(nothing, tasks, mixtures, pd.Series(dtype=str))
    assert found.columns.tolist() == [*COLUMNS]
    assert found.empty
