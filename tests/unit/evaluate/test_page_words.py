"""Every sentence of the page: the numbers that make its words appear, and those that do not."""

import inspect

import pytest

from aam.evaluate.page import words

CASES = [
    (words.headline("regression", 9.45, "years"), "9.45 years", True),
    (words.headline("regression", 9.45), "9.45", True),
    (words.headline("ordinal", 0.591), "59.1 %", True),
    (words.how_well("regression", "age", 9.4, "years", "x"), "age is off by 9.40 years on", True),
    (words.how_well("ordinal", "age", 0.5, None, "x"), "is off by", False),
    (words.how_well("ordinal", "age", 0.5, None, "x"), "predicted right in 50.0 % of", True),
    (words.score_interval("regression", (1.0, 2.0)), "95 % interval 1.00 to 2.00", True),
    (words.score_interval("ordinal", (0.1, 0.2)), "95 % interval 10.0 % to 20.0 %", True),
    (words.how_well("ordinal", "age", 0.5, None, ""), "(", False),
    (words.no_interval(6, "groups"), "no interval, because 6 groups are too few.", True),
    (words.no_interval_for_this_score(), "no interval: it cannot be estimated", True),
    (words.beside_guessing("ordinal", "x", 1, 0.03, 0.2, 8), "could be chance (p = 0.03, c", True),
    (words.beside_guessing("ordinal", "x", 1, 0.03, 0.2, 8), "for the 8 tests", True),
    (words.beside_guessing("ordinal", "x", 1, 0.03, 0.03, 1), "corrected", False),
    (words.beside_guessing("ordinal", "x", 1, 0.03, 0.03, 1), "x; the predictions are bet", True),
    (words.beside_guessing("ordinal", "x", -1, 0.03, 0.03, 1), "predictions are worse (p", True),
    (words.beside_guessing("regression", "x", -1, 0.03, 0.03, 1), "off by x; the pred", True),
    (words.beside_guessing("ordinal", "x", 0, 0.03, 0.03, 1), "could be chance", True),
    (words.beside_guessing("ordinal", "x", 1, None, None, 8), "cannot be tested", True),
    (words.judged("regression", -1, 0.01), "better, p = 0.01", True),
    (words.judged("regression", 1, 0.01), "worse, p = 0.01", True),
    (words.judged("classification", 1, 0.01), "better, p = 0.01", True),
    (words.judged("classification", -1, 0.01), "worse, p = 0.01", True),
    (words.judged("classification", -1, 0.05), "could be chance, p = 0.05", True),
    (words.judged("classification", 0, 0.01), "could be chance", True),
    (words.judged("classification", -1, None), "no test is possible", True),
    (words.beside_best_baseline("regression", "SVM", 7, None, 2, 0.001), "Worse than", True),
    (words.beside_best_baseline("regression", "SVM", 7, None, -2, 0.001), "Worse than", False),
    (words.beside_best_baseline("ordinal", "SVM", 0.7, None, 0.1, 0.001), "Better than", True),
    (words.beside_best_baseline("ordinal", "SVM", 0.7, None, 0.1, 0.1), "Better than", False),
    (words.beside_best_baseline("ordinal", "SVM", 0.7, None, 0.1, 0.1), "be chance, p = 0.1", True),
    (words.beside_best_baseline("ordinal", "SVM", 0.7, None, 0.1, None), "cannot be tested", True),
    (words.why_it_works(1), "corrected", False),
    (words.why_it_works(3), "also when corrected for the 3 tests", True),
    (words.why_it_is_doubtful(0.03, 0.26, 8), "taken alone, but with 8 tests", True),
    (words.why_it_is_doubtful(None, None, 8), "no test is possible", True),
    (words.why_it_does_not_work("regression", 1, 0.01, 5), "Worse than guessing", True),
    (words.why_it_does_not_work("regression", 1, 0.2, 5), "Not better than guessing", True),
    (words.why_it_does_not_work("regression", 1, None, 5), "Not better than guessing", True),
    (words.why_it_does_not_work("regression", -1, 0.2, 2), "With 2 folds, the", True),
    (words.why_it_does_not_work("ordinal", -1, 0.01, 5), "Worse than guessing", True),
    (words.confounded(["run"], "age", exactly=True), "The column run tells age of every", True),
    (words.confounded(["a", "b"], "age", exactly=False), "a, b each tell age of nearly", True),
    (words.confounded(["a"], "age", exactly=True), "nearly", False),
    (words.worse_than_baseline("SVM"), "Worse than the best baseline, SVM", True),
    (words.groups_not_stated(), "set folds.groups: false", True),
    (words.few_groups(7, "host_id"), "Only 7 groups (values of host id)", True),
    (words.few_samples(30), "Only 30 samples", True),
    (words.off_coverage("AAM", 0.9, 0.8), "of AAM for 90 % cover 80.0 %", True),
    (
        words.useless_probabilities("AAM", {"log loss": (2, 1), "Brier score": (0.2, 0.1)}),
        "log loss 2.00 against 1.00, Brier score 0.200 against 0.100.",
        True,
    ),
    (words.useless_probabilities("AAM", {"log loss": (2, 1)}), "Brier", False),
    (words.weak_encoder("m", 0.5), "The encoder m predicts held-out distances", True),
    (words.many_dropped(3, 0.3), "3 samples, 30 %, have too few reads", True),
    (words.much_unseen("new", 0.4), "40 % of the reads in new", True),
    (words.seen_in_training("new", 2, 20), "2 of the 20 samples in new were in training", True),
    (words.groups_of_tests(None, None, independent=True), "every sample as independent", True),
    (words.groups_of_tests("host_id", 9, independent=True), "same host id, so tests", True),
    (words.groups_of_tests("host", 9, independent=False), "of one host stay together", True),
    (words.groups_of_tests("host", 9, independent=False), "(9 groups)", True),
    (words.mixture("MAE", 3, {"AAM": 0.0, "SVM": 1.0}, "AAM"), "(SVM 100 %, AAM 0 %)", True),
    (words.mixture("MAE", 3, {"kNN": 0.0, "SVM": 1.0}, "AAM"), "kNN", False),
    (words.without_model("regression", 4, -0.1, 0.4), "-0.1 (could be chance, p = 0.4)", True),
    (words.without_model("regression", 4, -0.1, 0.01), "-0.1 (better, p = 0.01)", True),
    (words.without_model("regression", 4, 0.1, 0.01), "+0.1 (worse, p = 0.01)", True),
    (words.not_nested("regression", "AAM", 4, -0.5), "4.00, better by 0.5, which is not", True),
    (words.not_nested("regression", "AAM", 4, 0.5), "4.00, no better.", True),
    (words.not_nested("ordinal", "AAM", 0.4, 0.05), "better by 0.05", True),
    (words.chosen_learner("regression", 4, {"SVM": 1}, 1, 0.01), "SVM in 1 fold)", True),
    (words.chosen_learner("regression", 4, {"SVM": 2}, 1, 0.01), "(worse, p = 0.01)", True),
    (words.chosen_learner("ordinal", 0.4, {"SVM": 2}, 1, 0.01), "(better, p = 0.01)", True),
    (words.model_alone("MAE", 4, 0.5), "AAM alone: MAE 4.00 ± 0.500.", True),
    (words.model_alone("accuracy", 0.4, None), "±", False),
    (words.part_of_the_labels(0.125), "trained on 12.5 % of the labels", True),
    (words.recipes_by_weight({"a": (0.2, 5), "b": (0.8, 4)}), "b 80 % (4.00 alone), a 20 %", True),
    (words.spread_of_draws(5, "MAE", 4, 0.2), "5 networks that differ in their initial", True),
    (words.spread_of_draws(5, "MAE", 4, 0.2), "MAE of 4.00 ± 0.200", True),
    (words.one_draw(), "one draw of initial weights", True),
    (words.test_samples("MAE", "AAM", 9, 4, {"SVM": 5}), "AAM on 9 held-out test samples", True),
    (words.test_samples("MAE", "AAM", 9, 4, {"SVM": 5}), "MAE 4.00 (SVM 5.00)", True),
    (words.test_samples("MAE", "AAM", 9, 4, {}), "(", False),
    (
        words.coverage_of_intervals("AAM", 0.9, 0.887, [0.8, 0.95], "4.00 years"),
        "90 % prediction intervals of AAM contain the observed value in 88.7 % of samples",
        True,
    ),
    (
        words.coverage_of_intervals("AAM", 0.9, 0.887, [0.8, 0.95], "4.00 years"),
        "(80.0 % to 95.0 % in a fold); their mean width is 4.00 years.",
        True,
    ),
    (
        words.coverage_of_sets("the super learner", 0.9, 0.887, [0.8], 2),
        "90 % prediction sets of the super learner contain the true class in 88.7 % of samples",
        True,
    ),
    (words.coverage_of_test(0.5), "In held-out test samples they do so in 50.0 %.", True),
    (words.no_prediction_intervals(0.9), "too few samples for 90 % prediction intervals", True),
    (
        words.calibration("AAM", (0.489, 0.631), 0.751, (0.311, 0.267)),
        "Calibration changes the Brier score of AAM from 0.489 to 0.631 (class frequencies alone: "
        "0.751) and the calibration error from 0.311 to 0.267.",
        True,
    ),
    (words.two_predicted_classes(), "likeliest has the highest calibrated", True),
    (words.most_important("city"), "The ASVs that matter most to the AAM model for city", True),
    (words.importances_are_of_the_model(0.16), "AAM has 16 % of the super learner's", True),
    (words.importances_are_of_the_model(None), "super learner", False),
    (words.no_importances(), "are not shown, because the red light", True),
    (words.importances_not_asked_for(), "the configuration says importance: false", True),
    (words.names_of_top_asvs(), "Names for the most important ASVs", True),
    (words.top_asvs_without_taxa(), "set the key taxonomy of the dataset", True),
    (words.transductive(), "may have seen every sample", True),
    (words.inductive(), "no model saw any of the samples", True),
    (words.encoder_distances(9, 0.91, 0.04), "of 9 samples", True),
    (words.encoder_nucleotides(0.8, 0.55), "80.0 % of the masked nucleotides", True),
    (words.encoder_knows_reads(0.987), "99 % of the reads lie near an ASV", True),
    (words.encoder_untrained(1600), "not trained further; it has 1,600 parameters", True),
    (words.encoder_training(9, 1.5, 512.0, 1600), "9 steps took 1.5 minutes (512 samples", True),
]


@pytest.mark.parametrize(("text", "part", "is_there"), CASES)
def test_a_sentence_says_what_its_numbers_make_true(text, part, is_there):
    assert (part in text) == is_there


def test_every_sentence_has_a_case():
    functions = dict(inspect.getmembers(words, inspect.isfunction))
    own = {name for name, value in functions.items() if value.__module__ == words.__name__}
    source = inspect.getsource(inspect.getmodule(test_every_sentence_has_a_case))
    assert own - {name for name in own if f"words.{name}(" in source} == set()
