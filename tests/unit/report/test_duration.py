"""How long a run takes, from shapes, and what would make it faster."""

import numpy as np
import pytest
import yaml
from scipy.sparse import csr_array

from aam.config.configuration import load
from aam.config.slices import describe
from aam.data.table import FeatureTable
from aam.report import duration

SAMPLES = 60


def equal_table() -> FeatureTable:
    """Return samples of 2001 reads each, of two ASVs."""
    counts = np.array([[2000, 1]] * SAMPLES)
    return FeatureTable([f"s{i}" for i in range(SAMPLES)], ["a", "b"], csr_array(counts))


def timed(samples=SAMPLES, folds=5, **changes):
    """Return a task's configuration, its work, and the parts of its run by kind, in seconds."""
    task = {"dataset": "d", "column": "age", "kind": "regression", "folds": {"k": 5}}
    sections = {"datasets": {"d": {"table": "t"}}, "tasks": {"age": task}, **changes}
    plan = describe(load(sections), "d")
    work = duration.Work.from_table(plan, equal_table(), longest_bp=100)
    parts = duration.expected_parts(plan, work, {"age": (samples, folds)})
    seconds = [part.seconds for part in parts]
    assert seconds == sorted(seconds, reverse=True)
    seconds_by_kind = {part.kind: part.seconds - duration.START for part in parts}
    return plan, work, seconds_by_kind


def test_the_time_that_trainings_take_follows_their_work(monkeypatch):
    speed = 1.0
    monkeypatch.setattr(duration, "core_speed", lambda: speed)

    def seconds(kind, *counts, **changes):
        return timed(*counts, **changes)[2][kind]

    ten, twenty, thirty = (seconds("pretraining", pretraining={"epochs": e}) for e in (10, 20, 30))
    assert twenty - ten == pytest.approx(thirty - twenty)
    assert twenty - ten > 0
    whole, subsampled = (
        seconds("pretraining", pretraining={"epochs": 10, "subsampled": part}) for part in (0, 0.5)
    )
    # The rare ASV is in half as many rows, and half of them are subsampled.
    assert whole / 2 < subsampled < whole
    # By default none is: a batch has both ASVs all the same.
    assert ten == whole
    once, thrice = (
        seconds("fine-tuning", finetuning={"recipe": "full", "networks": n}) for n in (1, 3)
    )
    # Five folds of one model or of three, and five nested fits.
    assert thrice == pytest.approx(2 * once)
    # The budget is for five folds of 500 samples at most.
    auto = {"finetuning": {"budget_minutes": 2}}
    assert seconds("fine-tuning", **auto) == pytest.approx(120)
    assert seconds("fine-tuning", 2000, 10, **auto) == pytest.approx(2 * 2 * 120)
    once = duration.BASELINES * 1000 + duration.BASELINE_PAIRS * 1000**2
    assert seconds("baselines", 1000, 10) == pytest.approx(2 * once)
    speed = 2.0
    assert seconds("pretraining", pretraining={"epochs": 10}) == pytest.approx(ten / 2)


def test_encoders_of_the_folds_are_pretrained_too(monkeypatch):
    monkeypatch.setattr(duration, "core_speed", lambda: 1.0)
    plan, work, _ = timed(finetuning={"recipe": "frozen", "inductive": True})
    parts = duration.expected_parts(plan, work, {"age": (SAMPLES, 5)})
    per_fold, common = (part.seconds for part in parts if part.kind == "pretraining")
    assert per_fold == pytest.approx(5 * common)


def test_from_scratch_nothing_limits_the_time_of_fine_tuning(monkeypatch):
    monkeypatch.setattr(duration, "core_speed", lambda: 1.0)
    whole = {"recipe": "full", "epochs": 100}
    scratch = {"start": "scratch", "epochs": 100, "networks": 2, "budget_minutes": 1}
    full_s, scratch_s = (
        timed(finetuning=settings)[2]["fine-tuning"]
        for settings in ({**whole, "networks": 2}, scratch)
    )
    assert scratch_s == pytest.approx(full_s)


def test_explaining_takes_as_long_as_the_samples_that_are_explained(monkeypatch):
    monkeypatch.setattr(duration, "core_speed", lambda: 1.0)
    few, many, most = (timed(n)[2]["explaining"] for n in (30, 60, 10_000))
    assert many == pytest.approx(2 * few)
    assert most < 10 * many, "no more than some of each fold"
    kernel = timed(60, finetuning={"recipe": "kernel"})[2]["explaining"]
    assert kernel == pytest.approx(many / 2)


def test_what_would_be_faster_is_named_where_it_is_possible(monkeypatch):
    monkeypatch.setattr(duration, "core_speed", lambda: 1.0)
    shorter, kernel = "pretraining: {epochs: 12}", "finetuning: {recipe: kernel}"
    plan, work, parts = timed()
    lines, changed = duration.propose_faster(plan, work)
    assert lines == [shorter, kernel]
    # They can be laid over the configuration, and lead to what was timed.
    followed, work, faster_parts = timed(**yaml.safe_load("\n".join(lines)))
    assert followed == changed
    assert duration.propose_faster(followed, work)[0] == []
    assert sum(faster_parts.values()) < sum(parts.values()) / 2
    for settings in ({"loss": "quantile"}, {"start": "scratch"}, {"recipe": "full"}):
        plan, work, _ = timed(finetuning=settings, pretraining={"epochs": 30})
        assert duration.propose_faster(plan, work)[0] == [], settings


@pytest.mark.parametrize(
    ("seconds", "faster_s", "is_worth_it"), [(600, 120, True), (600, 500, False), (40, 15, False)]
)
def test_a_change_that_saves_little_is_not_named(seconds, faster_s, is_worth_it):
    assert duration.is_worth_it(seconds, faster_s) == is_worth_it
