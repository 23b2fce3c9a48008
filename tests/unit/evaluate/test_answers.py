"""The sentence that a result comes down to, and what limits the trust in it."""

from typing import Any

import pytest

from aam.evaluate.page.answers import answer, cautions, of_encoder, of_prediction, of_samples

ALONE = {"corrected_t_p": 0.01, "holm_p": 0.02}


def report(**changes: Any) -> dict[str, Any]:
    scores = {"median": {"mae_fold_mean": 9.0}, "random_forest": {"mae_fold_mean": 5.0}}
    return {
        "kind": "regression",
        "task": "age",
        "column": "host_age",
        "mae_fold_mean": 4.0,
        "baselines": scores,
        "comparisons": dict.fromkeys(scores, ALONE),
        "grouping": "host",
        "groups": 40,
        "n": 200,
        "intervals": {"coverage": 0.89, "level": 0.9},
        **changes,
    }


def test_an_answer_is_that_of_the_super_learner_and_of_the_column():
    mixed = {"mae_fold_mean": 3.5, "comparisons": {"random_forest": {"holm_p": 0.3}}}
    assert answer(report(super_learner=mixed)) == (
        "From these samples, host age is predicted to within 3.50 on average (guessing: 9.00); the "
        "best baseline, random forest, is off by 5.00; the difference could be chance, p = 0.3."
    )
    several = answer(report(column=["a", "host_age"], task="both, host_age"))
    assert several.startswith("From these samples, host age is")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        (
            {"mae_fold_mean": 9.5},
            ["stop: Not shown to be better than guessing the training median"],
        ),
        (
            {
                "comparisons": {
                    "median": {"corrected_t_p": 0.2, "holm_p": 0.2},
                    "random_forest": {"corrected_t_p": 0.4, "holm_p": 0.4},
                },
                "n": 30,
            },
            [
                "stop: Not shown to be better than guessing the training median (p = 0.2)",
                "care: Not shown to be better than the best baseline, random forest",
                "care: Only 30 samples",
            ],
        ),
        ({"grouping": None, "groups": None}, ["care: No column of groups is set"]),
        ({"grouping": "published", "groups": None}, []),
        ({"groups": 7}, ["care: Only 7 groups"]),
        ({"intervals": {"coverage": 0.8, "level": 0.9}}, ["care: Intervals for 90% cover 80%"]),
        ({"intervals": {"coverage": 0.99, "level": 0.9}}, []),
    ],
)
def test_what_limits_the_trust_is_said_the_worst_first(changes, said):
    found = [f"{one.light}: {one.text}" for one in cautions(report(**changes))]
    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


def test_data_and_encoders_are_told_where_they_are_weak():
    assert of_samples(1, 99) == of_encoder("m", {"unifrac_pearson": 0.9}) == []
    assert of_encoder("m", {}) == of_prediction("new", 0.1) == []
    assert of_samples(30, 70)[0].text.startswith("30 samples, 30%, have too few reads")
    assert "r 0.500 only" in of_encoder("m", {"unifrac_pearson": 0.5})[0].text
    assert of_prediction("new", 0.4)[0].text.startswith("40% of the reads in new")
