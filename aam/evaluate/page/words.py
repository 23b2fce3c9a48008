"""The sentences of the page: each is a function of numbers and names that returns a text.

What a report says, and which sentences a page needs, is decided elsewhere: the answers and lights
in `aam.evaluate.page.answers`, the details of a task in `aam.evaluate.page.details`.

`kind` is the kind of a task, `unit` that of its numbers or None, and a `difference` is the headline
score of the method that is named first minus that of the other one.
"""

from collections.abc import Mapping, Sequence

from aam.evaluate.labels import amount, p_value, percent, plain, quantity, score
from aam.evaluate.scores import HEADLINE, SCORES, is_better
from aam.util.log import duration

CHANCE = 0.05
"""p-value from which on a difference could be chance."""
LEAST_SHOWN = 0.01
"""Least weight of a method that is named."""

Interval = tuple[float, float]


def capitalized(text: str) -> str:
    """Return a text with a capital at its start; other letters stay as they are."""
    return text[:1].upper() + text[1:]


def headline(kind: str, value: float, unit: str | None = None) -> str:
    """Return a headline score: an error with its unit, or a balanced accuracy in percent."""
    return amount(value, unit) if kind == "regression" else percent(value, 1)


def how_well(kind: str, what: str, value: float, unit: str | None, within: str) -> str:
    """Say how well something is predicted; `within` is the interval in words, or empty."""
    shown = headline(kind, value, unit)
    brackets = f" ({within})" if within else ""
    if kind == "regression":
        return f"{what} is off by {shown} on average{brackets}."
    return (
        f"{what} is predicted right in {shown} of samples, with every class counting alike"
        f"{brackets}."
    )


def score_interval(kind: str, interval: Interval) -> str:
    """Return the interval of a headline score."""
    low, high = interval
    return f"95 % interval {headline(kind, low)} to {headline(kind, high)}"


def no_interval(units: int, what: str) -> str:
    """Say that units are too few for an interval; `what` they are: groups, for instance."""
    return f"There is no interval, because {units} {what} are too few."


def no_interval_for_this_score() -> str:
    """Say that units are enough, but that a score has no interval all the same.

    A perfect score has none, nor one that a single group decides.
    """
    return "There is no interval: it cannot be estimated for this score."


def beside_guessing(
    kind: str,
    guess: str,
    difference: float,
    p: float | None,
    corrected: float | None,
    tests: int,
) -> str:
    """Say what guessing reaches, and whether the difference to it could be chance.

    `corrected` is the p-value that is corrected for all tests of the page.
    """
    opening = f"Guessing is off by {guess}" if kind == "regression" else f"Guessing reaches {guess}"
    if p is None or corrected is None:
        return f"{opening}; the difference cannot be tested with these folds."
    values = p_value(p)
    if tests > 1:
        values += f", corrected for the {tests} tests of this page {p_value(corrected)}"
    if corrected >= CHANCE or difference == 0:
        return f"{opening}; the difference could be chance ({values})."
    word = "better" if is_better(kind, difference) else "worse"
    return f"{opening}; the predictions are {word} ({values})."


def judged(kind: str, difference: float, p: float | None) -> str:
    """Say in which direction a difference points, or that it could be chance."""
    if p is None:
        return "no test is possible with these folds"
    if p >= CHANCE or difference == 0:
        return f"could be chance, {p_value(p)}"
    return f"{'better' if is_better(kind, difference) else 'worse'}, {p_value(p)}"


def beside_best_baseline(
    kind: str, label: str, other: float, unit: str | None, difference: float, p: float | None
) -> str:
    """Say how a method does against the best baseline, whose score is `other`."""
    shown = headline(kind, other, unit)
    baseline = f"the best baseline, {label} ({shown})"
    if p is None:
        return f"The difference to {baseline}, cannot be tested with these folds."
    if p >= CHANCE or difference == 0:
        return f"The difference to {baseline}, could be chance, {p_value(p)}."
    word = "Better" if is_better(kind, difference) else "Worse"
    return f"{word} than {baseline}, {p_value(p)}."


def why_it_works(tests: int) -> str:
    """Say what a verdict rests on that is good."""
    corrected = f", also when corrected for the {tests} tests of this page" if tests > 1 else ""
    return f"Better than guessing{corrected}."


def why_it_is_doubtful(p: float | None, corrected: float | None, tests: int) -> str:
    """Say what a verdict rests on that is neither good nor bad."""
    if p is None or corrected is None:
        return "Better than guessing, but no test is possible with these folds."
    return (
        f"Better than guessing taken alone, but with {tests} tests on "
        "this page one may look so by chance."
    )


def why_it_does_not_work(kind: str, difference: float, p: float | None, folds: int) -> str:
    """Say what a verdict rests on that is bad."""
    if is_better(kind, difference):
        return f"With {folds} folds, the difference to guessing could be chance."
    if p is not None and p < CHANCE and difference != 0:
        return "Worse than guessing."
    return "Not better than guessing."


def confounded(columns: Sequence[str], what: str, *, exactly: bool) -> str:
    """Say that other columns of the metadata tell what is predicted."""
    names = ", ".join(columns)
    verb = "tells" if len(columns) == 1 else "each tell"
    noun = "column" if len(columns) == 1 else "columns"
    how = "of every sample" if exactly else "of nearly every sample"
    other = "that column" if len(columns) == 1 else "one of those"
    return (
        f"The {noun} {names} {verb} {what} {how}: models may have learned {other} instead, and no "
        "score can show the difference."
    )


def worse_than_baseline(label: str) -> str:
    """Say that a simpler method is significantly better."""
    return f"Worse than the best baseline, {label}: use that one."


def groups_not_stated() -> str:
    """Say that nothing is known of samples that belong together."""
    return (
        "No column of groups is set (folds.groups): where one person or site gave several samples, "
        "the scores are too good. If every sample is from another one, set folds.groups: false."
    )


def few_groups(groups: int, column: str) -> str:
    """Say that the scores rest on few groups."""
    return f"Only {groups} groups (values of {plain(column)}): others may give other scores."


def few_samples(n: int) -> str:
    """Say that the scores rest on few samples."""
    return f"Only {n} samples: others may give other scores."


def off_coverage(owner: str, level: float, coverage: float) -> str:
    """Say that intervals are too narrow."""
    return (
        f"Prediction intervals of {owner} for {percent(level)} cover {percent(coverage, 1)} of the "
        "samples: they are too narrow."
    )


def useless_probabilities(owner: str, losses: Mapping[str, tuple[float, float]]) -> str:
    """Say that probabilities tell less than how frequent classes are.

    `losses` has by the name of a loss its value for calibrated probabilities, and for the class
    frequencies.
    """
    shown = ", ".join(
        f"{name} {score(value)} against {score(constant)}"
        for name, (value, constant) in losses.items()
    )
    return (
        f"Calibrated probabilities of {owner} are worse than how frequent the classes are: {shown}."
    )


def weak_encoder(name: str, r: float) -> str:
    """Say that an encoder learned little."""
    return f"The encoder {name} predicts held-out distances with a correlation of {score(r)} only."


def many_dropped(dropped: int, share: float) -> str:
    """Say how many samples rarefaction lost."""
    return f"{dropped} samples, {percent(share)}, have too few reads for the rarefaction depth."


def much_unseen(table: str, share: float) -> str:
    """Say how much of another table is new to the models."""
    return f"{percent(share)} of the reads in {table} are of ASVs that training never saw."


def seen_in_training(table: str, seen: int, n: int) -> str:
    """Say that samples of another table are no new ones."""
    return (
        f"{seen} of the {n} samples in {table} were in training, by their ID or their reads: what "
        "is predicted for them says nothing of new samples. They are marked in the table."
    )


def groups_of_tests(column: str | None, groups: int | None, *, independent: bool) -> str:
    """Say which samples belong together for the tests and intervals of a task."""
    if column is None:
        return "Tests and intervals take every sample as independent of all others."
    if independent:
        return (
            f"No two samples have the same {plain(column)}, so tests and intervals take them as "
            "independent."
        )
    return (
        f"Samples of one {plain(column)} stay together in the folds ({groups} groups). Tests do "
        "not treat them as independent."
    )


def mixture(label: str, value: float, weights: Mapping[str, float], always: str) -> str:
    """Say what the super learner reaches, and the weights of its methods by their labels.

    Methods of less than one percent are left out, but not the one named `always`.
    """
    by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    parts = [
        f"{name} {percent(weight)}"
        for name, weight in by_weight
        if weight >= LEAST_SHOWN or name == always
    ]
    return f"The super learner mixes all methods ({', '.join(parts)}): {label} {score(value)}."


def without_model(kind: str, model: str, value: float, difference: float, p: float | None) -> str:
    """Say what the super learner reaches without the model, and what the model adds."""
    return (
        f"Without {model} it reaches {score(value)}. The score with {model} minus that without it, "
        f"mean of the folds: {difference:+.3g} ({judged(kind, difference, p)})."
    )


def not_nested(kind: str, owner: str, value: float, difference: float) -> str:
    """Say what a score would be whose weights had seen the fold, and how it would flatter."""
    flatters = is_better(kind, difference)
    effect = f"better by {abs(difference):.3g}, which is not real" if flatters else "no better"
    return (
        f"The weights of {owner} for a fold rest on no model that saw the fold. If they did, the "
        f"score would be {score(value)}, {effect}."
    )


def chosen_learner(
    kind: str, value: float, learners: Mapping[str, int], difference: float, p: float | None
) -> str:
    """Say what the single learner reaches that inner cross-validation chooses.

    `learners` has how many folds chose each, by their labels.
    """
    by_number = sorted(learners.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(
        f"{name} in {folds} {'fold' if folds == 1 else 'folds'}" for name, folds in by_number
    )
    return (
        f"The one method that cross-validation inside of the training folds chooses ({names}) "
        f"reaches {score(value)}. Super learner minus this one, mean of the folds: "
        f"{difference:+.3g} ({judged(kind, difference, p)})."
    )


def model_alone(model: str, label: str, value: float, spread: float | None) -> str:
    """Say what the model reaches without the baselines, with the deviation over folds."""
    shown = score(value) if spread is None else f"{score(value)} ± {score(spread)}"
    return f"{capitalized(model)} alone: {label} {shown}."


def part_of_the_labels(share: float) -> str:
    """Say that the model learned from fewer labels than the baselines."""
    return f"AAM was trained on {100 * share:g} % of the labels; the baselines on all."


def recipes_by_weight(recipes: Mapping[str, tuple[float, float]]) -> str:
    """Say of which recipes the model is mixed: the weight of each, and its score alone."""
    by_weight = sorted(recipes.items(), key=lambda item: (-item[1][0], item[0]))
    parts = ", ".join(
        f"{name} {percent(weight)} ({score(alone)} alone)" for name, (weight, alone) in by_weight
    )
    return f"AAM mixes these recipes: {parts}."


def spread_of_draws(models: int, label: str, mean: float, sd: float) -> str:
    """Say how much the initial weights of networks change the score."""
    return (
        f"{models} networks that differ in their initial weights alone have a {label} of "
        f"{score(mean)} ± {score(sd)} (mean and standard deviation)."
    )


def one_draw() -> str:
    """Say that the influence of initial weights is not known."""
    return "Networks had one draw of initial weights: other draws may give other scores."


def test_samples(label: str, owner: str, n: int, value: float, others: Mapping[str, float]) -> str:
    """Say what a method reaches on samples that no fold has, beside other methods."""
    shown = ", ".join(f"{name} {score(other)}" for name, other in others.items())
    beside = f" ({shown})" if shown else ""
    return f"{owner} on {n} held-out test samples: {label} {score(value)}{beside}."


def coverage_of_intervals(
    owner: str, level: float, coverage: float, by_fold: Sequence[float], width: str
) -> str:
    """Say how often prediction intervals hold what was observed."""
    return (
        f"{percent(level)} prediction intervals of {owner} contain the observed value in "
        f"{percent(coverage, 1)} of samples ({percent(min(by_fold), 1)} to "
        f"{percent(max(by_fold), 1)} in a fold); their mean width is {width}."
    )


def coverage_of_sets(
    owner: str, level: float, coverage: float, by_fold: Sequence[float], size: float
) -> str:
    """Say how often prediction sets hold the true class."""
    return (
        f"{percent(level)} prediction sets of {owner} contain the true class in "
        f"{percent(coverage, 1)} of samples ({percent(min(by_fold), 1)} to "
        f"{percent(max(by_fold), 1)} in a fold); they have {score(size)} classes on average."
    )


def coverage_of_test(coverage: float) -> str:
    """Say how often intervals or sets hold the truth of samples that no fold has."""
    return f"In held-out test samples they do so in {percent(coverage, 1)}."


def no_prediction_intervals(level: float) -> str:
    """Say that there are no prediction intervals."""
    return f"There are too few samples for {percent(level)} prediction intervals."


def calibration(
    owner: str,
    brier: Sequence[float],
    constant: float,
    errors: Sequence[float],
) -> str:
    """Say what calibration does to the probabilities of classes.

    Parameters
    ----------
    owner
        Whose probabilities they are.
    brier
        Brier score before and after calibration.
    constant
        Brier score of the class frequencies alone.
    errors
        Calibration error before and after calibration.
    """
    return (
        f"Calibration changes the Brier score of {owner} from {score(brier[0])} to "
        f"{score(brier[1])} (class frequencies alone: {score(constant)}) and the calibration error "
        f"from {score(errors[0])} to {score(errors[1])}."
    )


def two_predicted_classes() -> str:
    """Say how the two columns of predicted classes differ."""
    return (
        "In the table, predicted is chosen with all classes counting alike; likeliest has the "
        "highest calibrated probability. They can differ where classes differ in frequency, or "
        "where calibration rests on few samples."
    )


def most_important(what: str) -> str:
    """Return the title of the ASVs that a model's predictions rest on."""
    return f"The ASVs that matter most to the AAM model for {what}"


def importances_are_of_the_model(weight: float | None) -> str:
    """Say whose importances are shown; `weight` is that of AAM in the super learner, if any."""
    if weight is None:
        return "Importances of ASVs are those of AAM."
    return (
        f"Importances of ASVs are AAM's alone; AAM has {percent(weight)} of the super learner's "
        "weight."
    )


def importances_are_of_networks() -> str:
    """Say why an answer without networks has no importances."""
    return "Which ASVs matter most is computed for networks alone."


def no_importances() -> str:
    """Say why the page shows no importances."""
    return (
        "The ASVs that matter most are not shown, because the red light says not to use these "
        "predictions."
    )


def importances_not_asked_for() -> str:
    """Say that no importances were computed."""
    return (
        "Which ASVs the predictions rest on was not computed, because the configuration says "
        "importance: false."
    )


def names_of_top_asvs() -> str:
    """Return the title of the commands that name the most important ASVs."""
    return "Names for the most important ASVs"


def top_asvs_without_taxa() -> str:
    """Say how the most important ASVs of a study without a taxonomy get names."""
    return (
        "This study has no taxonomy. In QIIME 2 these commands name the most important ASVs; "
        "classifier.qza is one that was trained for the region of your primers. For names on this "
        "page, set the key taxonomy of the dataset to the result and run again."
    )


def transductive() -> str:
    """Say that the encoder may have seen the samples that are predicted."""
    return "Transductive: the encoder may have seen every sample, though no label."


def inductive() -> str:
    """Say that nothing saw the samples that are predicted."""
    return "Inductive: no model saw any of the samples that it predicts."


def encoder_distances(held_out: int, r: float, error: float) -> str:
    """Say how well embeddings agree with true distances."""
    return (
        f"Distances between its embeddings of {held_out} samples that it was not trained on agree "
        f"with their UniFrac distance: Pearson r {score(r)}, mean absolute error {score(error)}."
    )


def encoder_nucleotides(accuracy: float, constant: float) -> str:
    """Say how well an encoder fills in masked nucleotides."""
    return (
        f"It names {percent(accuracy, 1)} of the masked nucleotides; always guessing the most "
        f"frequent base of each position names {percent(constant, 1)}."
    )


def encoder_knows_reads(share: float) -> str:
    """Say how much of a study is near what an encoder started from."""
    return f"{percent(share)} of the reads lie near an ASV that the model it started from had seen."


def encoder_untrained(parameters: int) -> str:
    """Say that an encoder was not trained."""
    return f"It was not trained further; it has {parameters:,} parameters."


def encoder_training(
    steps: int, minutes: float, samples_per_s: float | None, parameters: int
) -> str:
    """Say what the training of an encoder took."""
    return (
        f"{steps} steps took {quantity(minutes)} minutes ({quantity(samples_per_s)} samples per "
        f"second) for {parameters:,} parameters."
    )


def networks_are_coming(models: Sequence[str], tasks: Sequence[str], seconds: float | None) -> str:
    """Say what a page of first answers lacks, and how long the rest takes."""
    noun = "encoder" if len(models) == 1 else "encoders"
    time = "" if seconds is None else f", about {duration(seconds)} more on two cores like these"
    return (
        "These answers are by the methods that take seconds. AAM's networks follow: pretraining of "
        f"the {noun} {', '.join(models)}, and fine-tuning to {', '.join(tasks)}{time}. Their "
        "page, report.html, has these answers with AAM among the methods."
    )


def networks_not_asked_for() -> str:
    """Say why a page is without networks, and how they are asked for."""
    return (
        "No network is trained, because the configuration asks for none (models: {}). With "
        "models: {base: {}} an encoder is pretrained and fine-tuned to each task, which takes "
        "minutes to hours; what is here is not made again."
    )


def no_first_answer(tasks: Sequence[str]) -> str:
    """Say which tasks have no answer without networks."""
    noun = "Task" if len(tasks) == 1 else "Tasks"
    verb = "has" if len(tasks) == 1 else "have"
    return f"{noun} {', '.join(tasks)} {verb} no baselines: networks alone answer there."


def networks_added(gains: Sequence[tuple[str, int, str, int, float, float]]) -> str:
    """Say what networks added to the super learner in studies of a size.

    `gains` have what was predicted, the number of labelled samples, the kind of task, the draws of
    folds, and the headline score without and with networks.
    """
    parts = [
        f"{what} ({labels} samples, {draws} {'draw' if draws == 1 else 'draws'} of folds): "
        f"{SCORES[HEADLINE[kind]]} {score(without)} without, {score(with_networks)} with"
        for what, labels, kind, draws, without, with_networks in gains
    ]
    return (
        "What networks added to the super learner in studies of about this size: "
        f"{'; '.join(parts)}."
    )


def networks_not_measured(sizes: Sequence[int]) -> str:
    """Say that nobody knows what networks add to tasks of so many labelled samples."""
    return (
        f"Nobody has measured yet what networks add with about {' or '.join(map(str, sizes))} "
        "labelled samples."
    )
