"""What the page says below the answers: of a task, and of what was left out."""

from collections import Counter
from collections.abc import Iterable, Iterator

import pandas as pd

from aam.data.nouns import OF_ASVS, Nouns
from aam.data.sequences import SAME_SEQUENCE
from aam.evaluate.scores import is_better
from aam.evaluate.task_report import (
    CalibratedScores,
    Comparison,
    MethodReport,
    Mixing,
    NetworkTraining,
    SampleScores,
    Structure,
    TargetReport,
    Unnested,
)
from aam.report.labels import (
    SCORES,
    capitalize,
    format_amount,
    format_p_value,
    format_percent,
    format_score,
    row_label,
    to_words,
)
from aam.report.page.answers import Answer, is_stopped, name_difference
from aam.report.page.cautions import open_coverage

KERNEL = "kernel"
"""The recipe in which no network is trained."""
LEAST_SHOWN = 0.01
"""Least weight in the super learner of a method that is named."""
HIDDEN_IMPORTANCES = (
    "The ASVs that matter most are not shown, because the red light says not to use these "
    "predictions."
)
"""In the place of the most important ASVs of a task with a red light."""


def task_sentences(answer: Answer, *, is_explained: bool = True) -> Iterator[str]:
    """Yield how methods do on a target, alone and mixed, and how sure they are.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    is_explained
        Whether the configuration asks which ASVs the predictions rest on.
    """
    yield _describe_groups(answer.target.structure)
    mixture = answer.target.super_learner
    if mixture is not None and mixture.mixing is not None:
        yield from _describe_mixture(answer, answer.score(mixture), mixture.mixing)
    networks = answer.target.networks
    if networks is not None or mixture is None:
        yield _describe_method_alone(answer)
    if networks is not None and networks.training is not None:
        yield from _describe_training(answer, networks.training)
    if answer.best.test is not None:
        yield _describe_test_samples(answer, answer.best.test)
    yield from _describe_intervals(answer)
    if answer.best.calibrated is not None:
        yield from _describe_probabilities(answer, answer.best.calibrated)
    if answer.target.networks is not None:
        yield _describe_importances(answer, answer.target.networks, is_explained=is_explained)


def left_out_sentences(
    tables: Iterable[pd.DataFrame], *, drops_long_branches: bool, nouns: Nouns = OF_ASVS
) -> Iterator[str]:
    """Yield which samples and features were left out before anything was computed, and why.

    Parameters
    ----------
    tables
        The tables that importing writes, with the columns `what` and `why`, and those of
        rarefaction, with the column `depth`.
    drops_long_branches
        Whether features behind long branches of the tree were left out.
    nouns
        What the features are called.
    """
    if drops_long_branches:
        yield (
            f"{nouns.many} behind extremely long branches of the tree (rarefaction: "
            "{long_branches: drop})"
        )
    for table in tables:
        if "why" not in table:
            for depth, count in sorted(Counter(table["depth"]).items()):
                samples = _count_names(count, "sample")
                yield f"{samples} with fewer than {depth} reads (the rarefaction depth)"
            continue
        # Features of one sequence are counted together, whichever they are.
        reasons = [
            "the same sequence as another" if why.startswith(SAME_SEQUENCE) else why
            for why in table["why"]
        ]
        kinds = Counter(zip(table["what"], reasons, strict=True))
        for (what, why), count in sorted(kinds.items()):
            yield f"{_count_names(count, what)} with {why}"


def trains_networks(target: TargetReport) -> bool:
    """Return whether any network was trained for a target: a kernel head is fitted at once.

    Parameters
    ----------
    target
        The report of it.
    """
    if target.networks is None or target.networks.training is None:
        return False
    return any(recipe != KERNEL for recipe in target.networks.training.recipes)


def _count_names(number: int, name: str) -> str:
    """Return a number and what it counts: `1 sample`, `2 samples`."""
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _describe_groups(structure: Structure) -> str:
    """Say which samples belong together for the tests and intervals of a task."""
    if structure.column is None:
        return "Tests and intervals take every sample as independent of all others."
    column = to_words(structure.column)
    if structure.independent:
        return (
            f"No two samples have the same {column}, so tests and intervals take them as "
            "independent."
        )
    return (
        f"Samples of one {column} stay together in the folds ({structure.groups} groups). Tests do "
        "not treat them as independent."
    )


def _describe_mixture(answer: Answer, score: float, mixing: Mixing) -> Iterator[str]:
    """Yield what all methods mixed reach, what networks add, and what a single method does."""
    label = SCORES[answer.report.headline]
    yield (
        f"The super learner, a weighted mean of all methods: {label} {format_score(score)}. Its "
        f"weights for new samples: {_list_weights(answer, mixing)}."
    )
    without = mixing.without_networks
    if without is not None:
        yield (
            f"Without {answer.networks} the super learner reaches {format_score(without.score)}. "
            f"The score with {answer.networks} minus that without: "
            f"{_describe_difference(answer.kind, without.comparison)}."
        )
    yield _compare_unnested_weights(answer.kind, "the super learner", mixing.unnested)
    labels = Counter(_label_learner(answer, name) for name in mixing.chosen.learners.values())
    by_number = sorted(labels.items(), key=lambda item: (-item[1], item[0]))
    names = ", ".join(f"{label} in {_count_names(n, 'fold')}" for label, n in by_number)
    yield (
        "The one method that cross-validation within the training folds would choose "
        f"({names}) reaches {format_score(mixing.chosen.score)}. Super learner minus this method: "
        f"{_describe_difference(answer.kind, mixing.chosen.comparison)}."
    )


def _list_weights(answer: Answer, mixing: Mixing) -> str:
    """Return the weights of the methods for new samples, the largest first.

    Those of less than one percent are left out, but for that of networks. The predictions that are
    scored have other weights in each fold.
    """
    weights = {_label_learner(answer, name): weight for name, weight in mixing.weights.items()}
    by_weight = sorted(weights.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        f"{label} {format_percent(weight)}"
        for label, weight in by_weight
        if weight >= LEAST_SHOWN or label == answer.networks
    )


def _label_learner(answer: Answer, name: str) -> str:
    """Return what lists call a method that the super learner mixes."""
    networks = answer.target.networks
    if networks is not None and name == networks.name:
        return answer.networks
    return row_label(name, "baseline")


def _describe_difference(kind: str, comparison: Comparison) -> str:
    """Return a difference of headline scores, and in which direction it points, if in any."""
    difference = comparison.difference
    p = comparison.p
    if p is None:
        return f"{difference:+.3g} (no test is possible)"
    word = name_difference(kind, difference, p) or "could be chance"
    return f"{difference:+.3g} ({word}, {format_p_value(p)})"


def _compare_unnested_weights(kind: str, owner: str, unnested: Unnested) -> str:
    """Say what a score would be whose weights had seen the fold; `owner` has these weights."""
    effect = "no better"
    if is_better(kind, unnested.difference):
        effect = f"better by {abs(unnested.difference):.3g}, which is not real"
    return (
        f"The weights of {owner} for a fold rest only on models that never saw the fold. With "
        f"models that saw it the score would be {format_score(unnested.score)}, {effect}."
    )


def _describe_method_alone(answer: Answer) -> str:
    """Say what networks reach without the baselines, or the only method does."""
    method = answer.target.networks or answer.best
    name = answer.networks if method.role == "network" else answer.owner
    score = f"{SCORES[answer.report.headline]} {format_score(answer.score(method))}"
    if answer.kind != "regression":
        return f"{capitalize(name)} alone: {score}."
    spread = format_score(method.scores["mae_fold_sd"])
    return f"{capitalize(name)} alone: {score} ± {spread} (standard deviation over the folds)."


def _describe_training(answer: Answer, training: NetworkTraining) -> Iterator[str]:
    """Yield how networks were trained, and what they may have seen of what they predict."""
    model = answer.networks
    if training.labels < 1:
        share = f"{100 * training.labels:g} %"
        yield f"{model} was trained on {share} of the labels; the baselines on all."
    if training.evaluation != "inductive":
        yield "Transductive: the encoder may have seen every sample, though no label."
    elif training.start_directory is None:
        yield "Inductive: no model saw any of the samples that it predicts."
    else:
        yield (
            "Inductive within this study: no model was trained here on any of the samples that it "
            f"predicts. Whether {training.start_directory}, from which the encoder started, has "
            "seen them is not known."
        )
    if len(training.recipes) > 1:
        by_weight = sorted(training.recipes.items(), key=lambda item: (-item[1].weight, item[0]))
        parts = ", ".join(
            f"{name} {format_percent(recipe.weight)} ({format_score(recipe.score)} alone)"
            for name, recipe in by_weight
        )
        yield f"{model} mixes these recipes: {parts}."
    if training.unnested is not None:
        yield _compare_unnested_weights(answer.kind, f"{model}'s recipes", training.unnested)
    draws = training.draws
    if draws is not None:
        yield (
            f"{draws.networks} networks that differ only in their initial weights have a "
            f"{SCORES[answer.report.headline]} of {format_score(draws.mean)} ± "
            f"{format_score(draws.sd)} (mean and standard deviation)."
        )
    elif trains_networks(answer.target):
        yield (
            "Networks were trained from one draw of initial weights: other draws may give other "
            "scores."
        )


def _describe_test_samples(answer: Answer, test: SampleScores) -> str:
    """Say what the leading method and the baselines reach on samples that no fold has."""
    name = answer.report.headline
    shown = ", ".join(
        f"{answer.label(method)} {format_score(method.test.scores[name])}"
        for method in sorted(answer.target.baselines, key=lambda method: method.name)
        if method.test is not None and method is not answer.best
    )
    label = "MAE" if name == "mae_fold_mean" else SCORES[name]
    brackets = f" ({shown})" if shown else ""
    tested = answer.best.test_guessing
    against = ""
    if tested is not None:
        low, high = tested.interval or (None, None)
        ends = "" if low is None else f"95 % interval {format_score(low)} to {format_score(high)}, "
        against = f" ({ends}guessing: {format_score(tested.score)}, {format_p_value(tested.p)})"
    return (
        f"{capitalize(answer.owner)} on {test.n} held-out test samples: {label} "
        f"{format_score(test.scores[name])}{against}{brackets}."
    )


def _describe_intervals(answer: Answer) -> Iterator[str]:
    """Yield what the intervals or sets of the leading method hold."""
    coverage = answer.target.coverage
    if coverage.size is None:
        level = format_percent(coverage.level)
        where = " in some folds" if coverage.by_fold else ""
        yield f"There are too few samples for {level} prediction intervals{where}."
        return
    size = f"they have {format_score(coverage.size)} classes on average"
    if answer.kind == "regression":
        size = f"their mean width is {format_amount(coverage.size, answer.unit)}"
    by_fold = coverage.by_fold.values()
    yield (
        f"{open_coverage(answer)} in {format_percent(coverage.coverage, 1)} of samples "
        f"({format_percent(min(by_fold), 1)} to {format_percent(max(by_fold), 1)} in a fold); "
        f"{size}."
    )
    if coverage.test is not None:
        share = format_percent(coverage.test.coverage, 1)
        yield f"In held-out test samples they do so in {share}."


def _describe_probabilities(answer: Answer, calibrated: CalibratedScores) -> Iterator[str]:
    """Yield what the probabilities of the leading method are worth."""
    scores = answer.best.scores
    yield (
        f"Calibration changes the Brier score of {answer.owner} from "
        f"{format_score(scores['brier'])} to {format_score(calibrated.brier)} (class frequencies "
        f"alone: {format_score(calibrated.constant_brier)}) and the calibration error from "
        f"{format_score(scores['ece'])} to {format_score(calibrated.ece)}; both are better the "
        "lower they are."
    )
    yield (
        "In the table, predicted is chosen with all classes counting alike; likeliest has the "
        "highest calibrated probability. They can differ where classes differ in frequency, or "
        "where calibration rests on few samples."
    )


def _describe_importances(answer: Answer, networks: MethodReport, *, is_explained: bool) -> str:
    """Say whose importances the page shows, or why it shows none."""
    if not is_explained:
        return (
            "Which ASVs the predictions rest on was not computed, because the configuration says "
            "importance: false."
        )
    if is_stopped(answer.kind, answer.target):
        return HIDDEN_IMPORTANCES
    if answer.best.mixing is None:
        return f"Importances of ASVs are those of {answer.networks}."
    weight = format_percent(answer.best.mixing.weights[networks.name])
    return (
        f"Importances of ASVs are those of {answer.networks} alone; {answer.networks} has {weight} "
        "of the super learner's weight."
    )
