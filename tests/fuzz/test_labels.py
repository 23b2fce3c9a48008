"""Odd names of samples, columns and classes: refused in one message, or kept in every file."""

from pathlib import Path

import pytest

from benchmarks import label_draws
from benchmarks.label_draws import Study, count_draws, draw_study, explain, run_draw

DRAWS = 10
"""`python -m benchmarks.fuzz --labels 2000` tries more."""
SAMPLES = 30


def study_of(words: list[str], kind: str = "classification") -> Study:
    """Return a study with some classes, and groups of the same names."""
    return Study(
        ids=[f"{i:03d}" for i in range(SAMPLES + 4)],
        metadata={
            "probability:x": [words[i % len(words)] for i in range(SAMPLES)],
            "host": [f"{words[i % len(words)]}{i // 3}" for i in range(SAMPLES)],
            "observed": [words[i // 2 % len(words)] for i in range(SAMPLES)],
        },
        groups="host",
        report_by="observed",
        kind=kind,
        methods=["extra_trees"],
        figures=True,
        biom=False,
    )


@pytest.mark.filterwarnings("ignore")
def test_draws_are_refused_or_answered(tmp_path: Path) -> None:
    outcomes = dict(count_draws(DRAWS, tmp_path))
    failed = [
        explain(seed, outcome)
        for seed, outcome in outcomes.items()
        if outcome.what not in label_draws.GOOD
    ]
    assert not failed, "\n\n".join(failed)
    assert sum(outcome.what == "answered" for outcome in outcomes.values()) > DRAWS / 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["0", "1"], "classification"),
        (["1", "2", "10"], "ordinal"),
        (["a|b", "a", "\\"], "classification"),
        (["_a", "#222222", ' id="x"'.strip()], "classification"),
        (["<b>", "&amp;", "$x$"], "classification"),
    ],
    ids=str,
)
def test_classes_are_answered_whatever_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], kind: str
) -> None:
    study = study_of(words, kind)
    monkeypatch.setattr(label_draws, "draw_study", lambda _seed: study)
    outcome = run_draw(0, tmp_path)
    assert outcome.what == "answered", outcome.text


def test_a_seed_is_a_study() -> None:
    assert draw_study(7) == draw_study(7)
    assert draw_study(7) != draw_study(8)
