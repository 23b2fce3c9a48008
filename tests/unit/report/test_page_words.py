"""Every sentence of the page: the numbers that make its words appear, and those that do not."""

import importlib
import inspect
import pkgutil

import pandas as pd
import pytest
from aam.report.page.sentences import (
    comparisons,
    encoders,
    importances,
    intervals,
    left_out,
    limits,
    networks,
    scores,
    training,
    verdicts,
)

from aam.report.page import sentences


def score_of(kind="regression", value=9.4, interval=(9.1, 9.8)):
    return scores.describe_score(
        kind, "age", value, unit="years", interval=interval, guess=0.5, decimals=1
    )


def against_guessing(kind="ordinal", difference=1.0, p=0.03, corrected=0.03, tests=1):
    return scores.compare_with_guessing(kind, difference, p=p, corrected=corrected, tests=tests)


def against_baseline(kind="ordinal", difference=0.1, p=0.001):
    return scores.compare_with_best_baseline(
        kind, "SVM", 0.7, unit="years", difference=difference, p=p, decimals=1
    )


def gain_of(kind="regression", unit="days"):
    return networks.describe_gain("the age", 90, kind, unit, without=0.75, with_networks=0.5)


def left_out_of(**columns):
    return "; ".join(left_out.describe_left_out(pd.DataFrame(columns)))


CASES = [
    (scores.format_headline("regression", 9.46, "years", decimals=1), "9.5 years", True),
    (scores.format_headline("ordinal", 0.591, "years", decimals=0), "59.1 %", True),
    (scores.format_headline("ordinal", 0.591, "years", decimals=0), "years", False),
    (
        score_of(),
        "age is off by 9.4 years on average (95 % interval 9.1 to 9.8); guessing: 0",
        True,
    ),
    (score_of(interval=None), "age is off by 9.4 years on average; guessing: 0.5.", True),
    (score_of("ordinal", 0.5, (0.1, 0.2)), "is off by", False),
    (
        score_of("ordinal", 0.5, (0.1, 0.2)),
        "age is predicted right in 50.0 % of the samples of a class",
        True,
    ),
    (score_of("ordinal", 0.5, (0.1, 0.2)), "(95 % interval 10.0 % to 20.0 %); guessing: 5", True),
    (score_of("ordinal", 0.5, None), "(", False),
    (scores.explain_missing_interval(6, "groups"), "interval, because 6 groups are too few.", True),
    (scores.explain_undefined_interval(), "no interval: it cannot be estimated", True),
    (against_guessing(corrected=0.2, tests=8), "guessing could be chance (p = 0.03; p = 0.2", True),
    (against_guessing(corrected=0.2, tests=8), "when corrected for the 8 tests of this", True),
    (against_guessing(tests=8), "(p = 0.03, also when corrected for the 8 tests of this", True),
    (against_guessing(), "corrected", False),
    (against_guessing(), "Better than guessing (p = 0.03).", True),
    (against_guessing(difference=-1.0), "Worse than guessing (p = 0.03).", True),
    (against_guessing("regression", -1.0), "Better than guessing", True),
    (against_guessing(difference=0.0), "could be chance", True),
    (against_guessing(p=None, corrected=None), "to guessing cannot be tested", True),
    (against_baseline("regression", 2.0), "Worse than the best baseline, SVM (0.7 years; p", True),
    (against_baseline("regression", -2.0), "Worse than", False),
    (against_baseline(), "Better than the best baseline, SVM (70.0 %; p = 0.001).", True),
    (against_baseline(p=0.1), "Better than", False),
    (against_baseline(p=0.1), "best baseline, SVM (70.0 %), could be chance (p = 0.1).", True),
    (against_baseline(p=None), "cannot be tested", True),
    (verdicts.explain_success(1), "corrected", False),
    (verdicts.explain_success(3), "also when corrected for the 3 tests", True),
    (verdicts.explain_doubt(0.03, 0.26, 8), "before correction for the 8 tests", True),
    (verdicts.explain_doubt(None, None, 8), "no test is possible", True),
    (verdicts.explain_failure("regression", 1, 0.01, 5), "Worse than guessing", True),
    (verdicts.explain_failure("regression", 1, 0.2, 5), "Not better than guessing", True),
    (verdicts.explain_failure("regression", 1, None, 5), "Not better than guessing", True),
    (verdicts.explain_failure("regression", -1, 0.2, 2), "With 2 folds, the", True),
    (verdicts.explain_failure("ordinal", -1, 0.01, 5), "Worse than guessing", True),
    (limits.warn_of_confounders(["run"], "age", exactly=True), "run predicts age exactly,", True),
    (
        limits.warn_of_confounders(["a", "b"], "age", exactly=False),
        "a, b each predict age nearly exactly, without any reads: models may have learned one of",
        True,
    ),
    (limits.warn_of_confounders(["a"], "age", exactly=True), "nearly", False),
    (limits.warn_of_better_baseline("SVM"), "Worse than the best baseline, SVM", True),
    (limits.warn_of_missing_groups(), "set folds.groups: false", True),
    (limits.warn_of_few_groups(7, "host_id"), "Only 7 groups (values of host id)", True),
    (limits.warn_of_few_samples(30), "Only 30 samples", True),
    (
        limits.warn_of_low_coverage("regression", "AAM", 0.9, 0.8),
        "90 % prediction intervals of AAM contain the observed value in only 80.0 % of samples: "
        "they are too narrow.",
        True,
    ),
    (
        limits.warn_of_low_coverage("ordinal", "AAM", 0.9, 0.8),
        "90 % prediction sets of AAM contain the true class in only 80.0 % of samples: they are "
        "too small.",
        True,
    ),
    (
        limits.warn_of_useless_probabilities("A", {"log loss": (2, 1), "Brier score": (2, 1)}),
        "log loss 2.00 against 1.00, Brier score 2.00 against 1.00.",
        True,
    ),
    (limits.warn_of_useless_probabilities("A", {"log loss": (2, 1)}), "Brier", False),
    (limits.warn_of_weak_encoder("AAM", 0.5), "The encoder of AAM predicts the distances", True),
    (limits.warn_of_dropped_samples(3, 0.3), "3 samples, 30 %, have too few reads", True),
    (limits.warn_of_unseen_reads("new", 0.4), "40 % of the reads in new", True),
    (limits.warn_of_unseen_reads("new", 0.4, 0.9), "although 90 % are of ASVs that it saw", True),
    (limits.warn_of_far_samples("new", ["a"], 3), "1 of the 3 samples in new ('a'): less", True),
    (limits.warn_of_known_samples("new", 2, 20), "2 of the 20 samples in new were in", True),
    (comparisons.describe_groups(None, None, independent=True), "sample as independent", True),
    (comparisons.describe_groups("host_id", 9, independent=True), "same host id, so tests", True),
    (comparisons.describe_groups("host", 9, independent=False), "of one host stay together", True),
    (comparisons.describe_groups("host", 9, independent=False), "(9 groups)", True),
    (comparisons.judge_difference("regression", -1, 0.01), "better, p = 0.01", True),
    (comparisons.judge_difference("regression", 1, 0.01), "worse, p = 0.01", True),
    (comparisons.judge_difference("classification", 1, 0.01), "better, p = 0.01", True),
    (comparisons.judge_difference("classification", -1, 0.01), "worse, p = 0.01", True),
    (comparisons.judge_difference("classification", -1, 0.05), "could be chance, p = 0.05", True),
    (comparisons.judge_difference("classification", 0, 0.01), "could be chance", True),
    (comparisons.judge_difference("classification", -1, None), "no test is possible", True),
    (
        comparisons.describe_super_learner("MAE", 3, {"AAM": 0.0, "SVM": 1.0}, "AAM"),
        "samples: SVM 100 %, AAM 0 %.",
        True,
    ),
    (
        comparisons.describe_super_learner("MAE", 3, {"kNN": 0.0, "SVM": 1.0}, "AAM"),
        "kNN",
        False,
    ),
    (
        comparisons.compare_without_model("regression", "AAM", 4, -0.1, 0.4),
        "-0.1 (could be chance, p = 0.4)",
        True,
    ),
    (
        comparisons.compare_without_model("regression", "AAM", 4, -0.1, 0.01),
        "-0.1 (better, p = 0.01)",
        True,
    ),
    (
        comparisons.compare_without_model("regression", "AAM", 4, 0.1, 0.01),
        "+0.1 (worse, p = 0.01)",
        True,
    ),
    (
        comparisons.compare_unnested_weights("regression", "AAM", 4, -0.5),
        "the score would be 4.00, better by 0.5, which is not real.",
        True,
    ),
    (comparisons.compare_unnested_weights("regression", "A", 4, 0.5), "4.00, no better.", True),
    (comparisons.compare_unnested_weights("ordinal", "A", 0.4, 0.05), "better by 0.05", True),
    (
        comparisons.compare_with_chosen_learner("regression", 4, {"SVM": 1}, 1, 0.01),
        "SVM in 1 fold)",
        True,
    ),
    (
        comparisons.compare_with_chosen_learner("regression", 4, {"SVM": 2}, 1, 0.01),
        "(worse, p = 0.01)",
        True,
    ),
    (
        comparisons.compare_with_chosen_learner("ordinal", 0.4, {"SVM": 2}, 1, 0.01),
        "(better, p = 0.01)",
        True,
    ),
    (comparisons.describe_model_alone("the SVM", "MAE", 4, 0.5), "The SVM alone: MAE 4.00 ±", True),
    (comparisons.describe_model_alone("AAM", "accuracy", 0.4, None), "±", False),
    (
        comparisons.describe_recipes("AAM", {"a": (0.2, 5), "b": (0.8, 4)}),
        "AAM mixes these recipes: b 80 % (4.00 alone), a 20 %",
        True,
    ),
    (
        comparisons.describe_test_samples("MAE", "AAM", 9, 4, {"SVM": 5}),
        "AAM on 9 held-out test samples: MAE 4.00 (SVM 5.00)",
        True,
    ),
    (comparisons.describe_test_samples("MAE", "AAM", 9, 4, {}), "(", False),
    (training.describe_share_of_labels("AAM", 0.125), "AAM was trained on 12.5 % of the la", True),
    (training.describe_transductive(), "may have seen every sample", True),
    (training.describe_inductive(None), "no model saw any of the samples", True),
    (training.describe_inductive("mouse"), "Whether mouse, from which the encoder", True),
    (training.describe_draws(5, "MAE", 4, 0.2), "5 networks that differ only in their init", True),
    (training.describe_draws(5, "MAE", 4, 0.2), "MAE of 4.00 ± 0.200", True),
    (training.describe_single_draw(), "one draw of initial weights", True),
    (
        intervals.describe_intervals("AAM", 0.9, 0.887, [0.8, 0.95], "4.00 years"),
        "90 % prediction intervals of AAM contain the observed value in 88.7 % of samples (80.0 % "
        "to 95.0 % in a fold); their mean width is 4.00 years.",
        True,
    ),
    (
        intervals.describe_sets("the super learner", 0.9, 0.887, [0.8], 2),
        "90 % prediction sets of the super learner contain the true class in 88.7 % of samples",
        True,
    ),
    (intervals.describe_coverage_of_test(0.5), "test samples they do so in 50.0 %.", True),
    (intervals.explain_missing_intervals(0.9), "too few samples for 90 % prediction", True),
    (
        intervals.describe_calibration("AAM", (0.489, 0.631), 0.751, (0.311, 0.267)),
        "Calibration changes the Brier score of AAM from 0.489 to 0.631 (class frequencies alone: "
        "0.751) and the calibration error from 0.311 to 0.267; both are better the lower",
        True,
    ),
    (intervals.explain_predicted_and_likeliest(), "likeliest has the highest calibrated", True),
    (
        importances.title_most_important("AAM", "city"),
        "The ASVs that matter most to the AAM model for city",
        True,
    ),
    (importances.describe_owner_of_importances("AAM", 0.16), "AAM has 16 % of the super", True),
    (importances.describe_owner_of_importances("AAM", None), "super learner", False),
    (importances.explain_importances_of_networks(), "computed for networks only", True),
    (importances.explain_hidden_importances(), "are not shown, because the red light", True),
    (importances.explain_importances_not_asked_for(), "says importance: false", True),
    (importances.title_names_of_top_asvs(), "Names for the most important ASVs", True),
    (importances.explain_commands_for_names(), "set the key taxonomy of the dataset", True),
    (
        encoders.describe_distances(9, 0.91, 0.04, is_trained=True),
        "9 samples that it was not",
        True,
    ),
    (encoders.describe_distances(9, 0.91, 0.04, is_trained=False), "trained", False),
    (encoders.describe_masked_nucleotides(0.8, 0.55), "80.0 % of the masked nucleotides", True),
    (encoders.describe_known_reads(0.987), "99 % of the reads lie near an ASV", True),
    (encoders.describe_untrained(1600), "used as it came. It has 1,600 parameters", True),
    (encoders.describe_training(9, 1.5, 512.0, 1600), "9 steps in 1.5 minutes (512 samples", True),
    (encoders.describe_training(9, 1.5, None, 1600), "per second", False),
    (networks.announce_networks(["AAM"], ["age"], 90), "AAM follows: its encoder is", True),
    (networks.announce_networks(["AAM"], ["age"], 90), "to age in about 1 min 30 s on two", True),
    (networks.announce_networks(["AAM"], ["age"], None), "about", False),
    (networks.announce_networks(["A", "B"], ["age"], 90), "A and B follow: their encoders", True),
    (networks.explain_no_networks(), "the configuration says models: {}", True),
    (networks.name_unanswered_tasks(["age", "site"]), "Tasks age, site have no baselines", True),
    (networks.name_unanswered_tasks(["age"]), "Task age has no baselines", True),
    (gain_of(), "The age (90 labelled samples): off by 0.750 days on average without net", True),
    (
        gain_of("classification", None),
        "over the classes, without networks, 50.0 % with them.",
        True,
    ),
    (gain_of("classification", None), "off by", False),
    (networks.introduce_gains(["A.", "B."], 1), "in studies of about this size: A. B.", True),
    (networks.introduce_gains(["A."], 1), "is from one division into folds", True),
    (networks.introduce_gains(["A."], 3), "is from 3 divisions or more into folds", True),
    (networks.explain_unmeasured_gain([30, 80]), "of about 30 or 80 labelled samples", True),
    (limits.warn_of_far_values([-9.0], ["s1"], 1, low=4, high=8), "-9 in sample s1 lies far", True),
    (limits.warn_of_far_values([9.0], ["s1"], 3, low=4, high=8), "s1 and 2 more lie far", True),
    (limits.warn_of_wide_range(["a", "b"], low=0.1, high=1e6), "those of samples a, b, de", True),
    (limits._list_samples(["x" * 90], 1), "x" * 41, False),
    (left_out.count_names(1, "sample"), "samples", False),
    (left_out.count_names(2, "sample"), "2 samples", True),
    (left_out.describe_long_branches(), "ASVs behind extremely long branches of the tree", True),
    (left_out_of(depth=[9]), "1 sample with fewer than 9 reads (the rarefaction depth)", True),
    (left_out_of(what=["feature"] * 2, why=["no reads"] * 2), "2 features with no reads", True),
    (
        left_out_of(what=["feature"] * 2, why=["same sequence as a", "same sequence as b"]),
        "2 features with the same sequence as another",
        True,
    ),
]


@pytest.mark.parametrize(("text", "part", "is_there"), CASES)
def test_a_sentence_says_what_its_numbers_make_true(text, part, is_there):
    assert (part in text) == is_there


@pytest.mark.parametrize("name", [one.name for one in pkgutil.iter_modules(sentences.__path__)])
def test_every_sentence_has_a_case(name):
    module = importlib.import_module(f"{sentences.__name__}.{name}")
    functions = inspect.getmembers(module, inspect.isfunction)
    functions_here = {name for name, value in functions if value.__module__ == module.__name__}
    source = inspect.getsource(inspect.getmodule(test_every_sentence_has_a_case))
    assert functions_here - {one for one in functions_here if f"{name}.{one}(" in source} == set()
