"""The figure of people over time: who is shown, and what of them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from page_reports import classes, regression

from aam.evaluate.task_report import People, TaskReport
from aam.report.figures import trajectories

PEOPLE = 20
VISITS = 4


def with_times(report: TaskReport) -> TaskReport:
    people = People(
        column="host",
        time="seen",
        people=PEOPLE,
        single=0,
        samples=PEOPLE * VISITS,
        untimed=0,
        between=None,
        within=None,
        change=None,
    )
    target = report.targets[0].model_copy(update={"people": people})
    return report.model_copy(update={"targets": (target,)})


def study(times: str = "day {}", visits: int = VISITS) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return predictions of people, each worse than the one before, and their metadata."""
    rows = np.arange(PEOPLE * visits)
    ids = [f"s{row}" for row in rows]
    person = rows // visits
    predictions = pd.DataFrame(
        {"sample-id": ids, "fold": person % 3, "observed": rows % visits * 1.0}
    )
    predictions["predicted"] = predictions["observed"] + person
    time = [times.format(1 + row % visits) for row in rows]
    hosts = [f"h{number}" for number in person]
    metadata = pd.DataFrame({"sample_id": ids, "host": hosts, "seen": time}, dtype=object)
    return predictions, metadata


def as_classes(predictions: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return predictions of classes, of which each sample is that of its visit."""
    observed = [names[int(value) % len(names)] for value in predictions["observed"]]
    right = 1.0 - predictions["predicted"] / predictions["predicted"].max()
    shares = {
        f"probability:{name}": np.where(
            np.array(observed) == name, right, (1 - right) / (len(names) - 1)
        )
        for name in names
    }
    return predictions.assign(observed=observed, predicted=names[0], **shares)


def test_people_are_shown_from_the_best_predicted_to_the_worst(tmp_path: Path) -> None:
    predictions, metadata = study()
    trajectories.draw(with_times(regression()), predictions, metadata, tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert "6 of 20 people (host), from the best predicted to the worst" in drawn
    shown = [f"h{number} (n=4)" in drawn for number in range(PEOPLE)]
    assert np.flatnonzero(shown).tolist() == [0, 4, 8, 11, 15, 19]
    assert "day 3: observed 2, predicted 21" in drawn


@pytest.mark.parametrize(
    ("names", "facts"),
    [
        (["ill", "well"], ["probability of well", "day 2: well, probability of well"]),
        (["a", "b", "c"], ["probability of observed", "day 3: c, probability of observed"]),
    ],
)
def test_classes_have_a_probability_and_a_colour(names, facts, tmp_path: Path) -> None:
    predictions, metadata = study()
    table = as_classes(predictions, names)
    trajectories.draw(with_times(classes()), table, metadata, tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert [fact for fact in [*facts, *names, "chance"] if fact not in drawn] == []


def test_few_times_and_dates_are_drawn_and_people_without_times_are_not(tmp_path: Path) -> None:
    predictions, metadata = study("2014-02-{:02d}", visits=2)
    metadata.loc[metadata["host"] != "h3", "seen"] = None
    trajectories.draw(with_times(regression()), predictions, metadata, tmp_path / "one.svg")
    drawn = (tmp_path / "one.svg").read_text()
    assert "1 of 20 people (host), with several times" in drawn
    assert "2014-02-01: observed 0" in drawn
    metadata["seen"] = None
    trajectories.draw(with_times(regression()), predictions, metadata, tmp_path / "none.svg")
    assert "Nobody has two samples with a time." in (tmp_path / "none.svg").read_text()
