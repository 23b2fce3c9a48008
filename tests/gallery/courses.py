"""Studies of people who were sampled several times: how their files say when."""

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml
from gallery.case import Case, Outcome, Ran, Twist
from gallery.study import Study

VISITS = 4
MONTHS = "Jan Feb Mar Apr May Jun".split()


def visited(columns: Mapping[str, Callable[[int, int], str]]) -> Twist:
    """Return the twist that makes ten subjects of the samples, with a cell per subject and visit.

    Their groups and scores change from visit to visit.
    """

    def twist(study: Study, folder: Path) -> None:
        rows = range(len(study.rows))
        # An age that jumps from visit to visit is none.
        study.columns["score"] = study.columns.pop("age")
        study.columns["subject"] = [f"P{row // VISITS}" for row in rows]
        for name, cell in columns.items():
            study.columns[name] = [cell(row // VISITS, row % VISITS) for row in rows]

    return twist


def asks(
    column: str, *, time: str | None, forecast: bool = False, why: str = ""
) -> Callable[[Ran], None]:
    """Return the assertion of what is proposed to ask of a column over time, and what is said."""

    def then(ran: Ran) -> None:
        text = (ran.folder / "mine.yaml").read_text(encoding="utf-8")
        tasks = {task["column"]: task for task in yaml.safe_load(text)["tasks"].values()}
        assert tasks[column].get("time") == time, text
        assert tasks[column].get("forecast") == ("auto" if forecast else None), text
        assert why in text, text

    return then


CASES = (
    Case(
        name="cats on six days, by their numbers",
        report="MetaLonDA#12",
        twist=visited({"Day": lambda subject, visit: str(visit)}),
        runs=True,
        first=Outcome(passes=(r"between the 10 people", r"within a person", r"samples after day")),
        then=asks("group", time="Day", forecast=True),
    ),
    Case(
        name="months that are uneven, beside an age at inclusion",
        report="MicrobiomeStat#80",
        twist=visited(
            {
                "age_at_inclusion": lambda subject, visit: str(30 + subject),
                "month_n": lambda subject, visit: str(3 * visit + subject % 2),
            }
        ),
        then=asks(
            "group",
            time="month_n",
            forecast=True,
            why="`age_at_inclusion`: 0 of 10 `subject` with several samples have two times",
        ),
    ),
    Case(
        name="days since the first sample, of which some are missing",
        report="curatedMetagenomicData#299",
        twist=visited(
            {
                "days_from_first_collection": lambda subject, visit: (
                    "NA" if subject == 3 else str(visit * (20 + subject))
                ),
                "dose": lambda subject, visit: str((subject * 7 + visit * 3) % 11),
                "diet": lambda subject, visit: "abc"[(subject + visit) % 3],
            }
        ),
        settings={"tasks": {"group": {"covariates": ["dose", "diet"]}}},
        runs=True,
        first=Outcome(
            passes=(
                r"4 of 40 samples have no days from first collection",
                r"dose and diet alone",
                r"the forecast after .* the covariates alone",
            )
        ),
        then=asks("group", time="days_from_first_collection", forecast=True),
    ),
    Case(
        name="days, of which most are missing",
        report="curatedMetagenomicData#299",
        twist=visited({"day": lambda subject, visit: str(visit) if subject < 6 else "missing"}),
        then=asks("group", time=None, why="`day`: no value in 16 of 40 samples"),
    ),
    Case(
        name="dates with the year in front",
        report="biomehorizon#11",
        twist=visited(
            {"collection_date": lambda subject, visit: f"2014-{1 + visit:02d}-{3 + subject:02d}"}
        ),
        then=asks("group", time="collection_date", forecast=True),
    ),
    Case(
        name="dates whose months have names",
        report="mothur#70",
        twist=visited(
            {"collection_date": lambda subject, visit: f"{3 + subject:02d}-{MONTHS[visit]}-2014"}
        ),
        then=asks("group", time="collection_date", forecast=True),
    ),
    Case(
        name="dates with the month in front, as one of them shows",
        report="mothur#70",
        twist=visited(
            {"collection_date": lambda subject, visit: f"{1 + visit}-{17 + subject}-2015"}
        ),
        then=asks("group", time="collection_date", forecast=True),
    ),
    Case(
        name="dates of which nobody can say which number is the month",
        report="mothur#70",
        twist=visited(
            {"collection_date": lambda subject, visit: f"{1 + visit}-{2 + subject}-2015"}
        ),
        then=asks("group", time=None, why="'1-2-2015', '2-2-2015' and 38 more"),
    ),
    Case(
        name="the date of the last visit in all samples",
        report="connect#498",
        twist=visited({"visit_date": lambda subject, visit: f"2022-03-{1 + subject:02d}"}),
        then=asks("group", time=None, why="0 of 10 `subject` with several samples have two times"),
    ),
    Case(
        name="visits that are weeks in words, from a baseline",
        report="ANCOMBC#312",
        twist=visited(
            {
                "study_visit": lambda subject, visit: (
                    f"Week {(0, 4, 12, 24)[visit]}" if visit else "Baseline"
                )
            }
        ),
        runs=True,
        first=Outcome(passes=(r"within a person", r"samples after study visit week \d+")),
        then=asks("group", time="study_visit", forecast=True),
    ),
    Case(
        name="visits before and after a treatment",
        report="qiime#1040",
        twist=visited({"timepoint": lambda subject, visit: "pre" if visit < 2 else "post"}),
        then=asks("group", time=None, why="`timepoint`: 'pre', 'post' are no times"),
    ),
    Case(
        name="numbered visits, two of which fall into one year of age",
        report="PCNtoolkit#482",
        twist=visited(
            {
                "age_years": lambda subject, visit: str(40 + subject + visit // 2),
                "visit": lambda subject, visit: f"V{visit + 1}",
            }
        ),
        then=asks("group", time="visit", forecast=True),
    ),
    Case(
        name="an age that is what is to be predicted",
        report="march_madness_2015#50",
        twist=visited({"age_months": lambda subject, visit: str(subject + 3 * visit)}),
        columns="age_months,group",
        kinds={"age_months": "regression"},
        then=asks("age_months", time=None, why="`age_months` is a time itself"),
    ),
    Case(
        name="a diagnosis that nobody's samples differ in",
        report="ANCOMBC#259",
        twist=visited(
            {
                "training": lambda subject, visit: "ab"[subject % 2],
                "week": lambda subject, visit: str(4 * visit),
            }
        ),
        columns="training",
        then=asks("training", time="week", why="`training` changes within 0 of 10 `subject`"),
    ),
    Case(
        name="skins with several products at each time",
        report="DivNet#55",
        twist=visited(
            {
                "product": lambda subject, visit: "ABCD"[visit],
                "time": lambda subject, visit: str(visit // 4),
            }
        ),
        then=asks("group", time=None),
    ),
)
