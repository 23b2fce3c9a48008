import numpy as np
import pandas as pd
import pytest
from problems import predictions_of
from task_reports import changed, comparison, method_of, target_of, task_of

from aam.evaluate.scores import SUPER_LEARNER
from aam.evaluate.task_report import (
    Chosen,
    Guessing,
    Mixing,
    TaskReport,
    Unnested,
    WithoutNetworks,
)
from aam.util.log import WORK_WORDS
from benchmarks.leaderboard import (
    CHOSEN,
    critical_difference,
    draw,
    labels,
    main,
    mean_of_draws,
    page,
    ranked,
    scores,
)


def test_labels_are_read_from_the_names_of_samples():
    names = ["11721.s10.1.digesta", "11721.echo5ul.200nl.s8.8.skin", "11721.SDsw.1.2018.26"]
    metadata = pd.DataFrame({"original_id": names, "environment": ["fish", "fish", "water"]})
    metadata["host_subject"] = ["a", "b", None]
    found = labels("mackerel", metadata.set_index(pd.Index(["x", "y", "z"])))
    assert found["site"].tolist() == ["digesta", "skin", ""]
    assert found["day"].tolist() == ["10", "8", ""]
    assert found["host"].tolist() == ["a", "b", "z"]
    houses = pd.DataFrame({"original_id": ["10333.Iqu.1200.bath"], "environment": ["built"]})
    houses["host_subject"] = None
    assert labels("westernization", houses).iloc[0].tolist()[1:4] == ["Iqu", "bath", "2"]


def report(task: str, kind: str, own: float, other: float, nothing: float) -> TaskReport:
    name = "mae_fold_mean" if kind == "regression" else "balanced_accuracy"
    table = predictions_of(np.arange(50.0), np.arange(50.0) + 1, np.arange(50) % 5)
    if kind == "classification":
        shares = np.full((50, 2), 0.5)
        table = predictions_of(["a", "b"] * 25, "a", np.arange(50) % 5, shares, "ab")
    against = comparison(-1.0, 0.5)
    mixing = Mixing(
        weights={},
        temperatures={},
        unnested=Unnested(score=own, difference=0.0),
        chosen=Chosen(score=other, learners={}, comparison=against),
        without_networks=WithoutNetworks(score=other, comparison=against),
    )
    mixed = method_of(
        kind,
        table,
        SUPER_LEARNER,
        "super learner",
        mixing=mixing,
        guessing=Guessing(score=nothing, difference=0.0, interval=(own - 1, own + 1)),
    )
    worse = 1.2 * other if kind == "regression" else 0.9 * other
    constant = "median" if kind == "regression" else "majority"
    methods = [changed(mixed, **{name: own})]
    for learner, role, score in (
        ("base", "network", own),
        (constant, "baseline", nothing),
        ("elastic_net", "baseline", other),
        ("random_forest", "baseline", worse),
    ):
        methods.append(changed(method_of(kind, table, learner, role), **{name: score}))
    target = target_of(table, methods, "label")
    coverage = target.coverage.model_copy(update={"coverage": 0.9})
    return task_of(kind, task, target.model_copy(update={"coverage": coverage}))


@pytest.fixture
def results(tmp_path):
    """Two repeats of a number in one study, classes in another."""
    for dataset, made in (
        ("ecam", report("days_0", "regression", 60, 90, 120)),
        ("ecam", report("days_1", "regression", 80, 50, 100)),
        ("mackerel", report("site", "classification", 0.7, 0.6, 0.5)),
    ):
        path = tmp_path / dataset / "answers" / made.task / "base/scores.json"
        made.write(path)
    return tmp_path


def test_repeats_are_averaged_in_units_of_the_constant(results):
    table = mean_of_draws(scores(results)).set_index(["task", "learner"])
    assert table.loc[("ecam, days", "AAM"), "error"] == pytest.approx((60 / 120 + 80 / 100) / 2)
    assert table.loc[("ecam, days", "AAM"), "score"] == 70
    net = ("mackerel, site", "elastic net on CLR")
    assert table.loc[net, "error"] == pytest.approx(0.4 / 0.5)
    learners, rank_TL, _ = ranked(scores(results).query("dataset == 'mackerel'"))
    ranks = dict(zip(learners, rank_TL[0], strict=True))
    assert ranks["AAM"] == ranks["super learner"] == 1.5
    assert ranks["elastic net on CLR"] == ranks[CHOSEN] == 4
    assert not any("not nested" in name for name in ranks)


def test_draws_that_were_run_elsewhere_stay_in_the_table(results, tmp_path):
    table = tmp_path / "scores.tsv"
    main(["scores", str(results), str(table)])
    path = results / "ecam/answers/days_1/base/scores.json"
    report("days_1", "regression", 70, 50, 100).write(path)
    (results / "ecam/answers/days_0/base/scores.json").unlink()
    main(["scores", str(results), str(table)])
    main(["report", str(table), str(tmp_path / "page.md"), str(tmp_path / "ranks.png")])
    found = pd.read_csv(table, sep="\t").query("task == 'ecam, days' and learner == 'AAM'")
    assert dict(zip(found["draw"], found["score"], strict=True)) == {0: 60, 1: 70}
    assert "65.000" in (tmp_path / "page.md").read_text()


def test_what_networks_add_stands_beside_what_they_cost(results, tmp_path, capsys):
    log = results / "ecam/logs/finetune/base/days_0.log"
    log.parent.mkdir(parents=True)
    work = WORK_WORDS % (0.0, 1.0, 100.0, 90.0, 100, 200)
    log.write_text(f"12:00:00 INFO aam.util.log: {work}\n")
    main(["networks", str(results), str(tmp_path / "networks.tsv")])
    out = capsys.readouterr().out
    days = "| ecam, days (50) | nan | 108.000 | 90.000 | 60.000 (59.000 to 61.000) | 60.000 |"
    assert f"{days} -1.000, p = 0.5 | ; ; 1.5 |" in out
    assert "| mackerel, site (50) | nan | 0.540 | 0.600 | 0.700 " in out
    written = pd.read_csv(tmp_path / "networks.tsv", sep="\t")
    assert written.query("task == 'ecam, days'")["with"].tolist() == [60, 80]


def test_the_page_keeps_the_halves_apart_and_the_figure_is_drawn(results, tmp_path):
    table = mean_of_draws(scores(results))
    text = page(table)
    assert text.index("## Development") < text.index("## Quoted") < text.index("## Scores")
    assert "first on 1 of 1 tasks, +0.0 % of the score behind the best" in text
    assert "0.0 % at most. It is -16.7 % behind the single learner that is chosen" in text
    assert "AAM alone is ahead of the random forest on 1 of 1." in text
    assert "cover 90.0 to 90.0 %" in text
    row = "| ecam, days (50) | 70.000 (69.000 to 71.000) | 70.000 | 70.000 | 70.000 | 70.000 |"
    assert row in text
    draw(table, tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 5000


def test_the_critical_difference_is_the_published_one():
    """Demšar 2006, table 5: q is 2.728 for five classifiers."""
    assert critical_difference(5, 30) == pytest.approx(2.728 * np.sqrt(5 * 6 / 180), abs=2e-3)
