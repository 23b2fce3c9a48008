"""The lights of a page: what limits the trust in a task, an encoder, or a prediction."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from aam.config.questions import STUDIES
from aam.data.nouns import Nouns
from aam.data.predictions import FEW_NEAR, NEAR_READS
from aam.data.table import ASV_READS, TableFacts
from aam.evaluate.scores import is_better
from aam.evaluate.task_report import CalibratedScores, FarValues, OtherGroups, Rival, WithinLevels
from aam.report.labels import (
    format_amount,
    format_p_value,
    format_percent,
    format_score,
    shorten,
    to_words,
)
from aam.report.page.answers import (
    CHANCE,
    Answer,
    Outcome,
    mention_correction,
    misses_ranks,
    name_difference,
)
from aam.report.page.encoders import EncoderReport
from aam.util.errors import first_names

Light = Literal["stop", "caution", "good"]
LIGHTS: Mapping[Outcome, Light] = {
    "works": "good",
    "works, weakly": "caution",
    "doubtful": "caution",
    "does not work": "stop",
}
"""The light of each verdict."""

FEW_SAMPLES = 50
"""Samples below which another draw would change the scores much."""
FEW_GROUPS = 20
"""Groups of samples below which another draw would change the scores much."""
OFF_COVERAGE = 0.05
"""How far the coverage of intervals may lie below their level without a caution."""
WEAK_ENCODER = 0.8
"""Correlation of held-out distances below which an encoder has learned little."""
MOST_RIVALS = 3
"""Rivals that sentences name with their figures; the table of rivals has all."""
UNSEEN_READS = 0.2
"""Mean share of reads of ASVs never seen in training, from which on a prediction is doubtful."""


@dataclass(frozen=True)
class Caution:
    """A light with its sentence; `stop`: do not use the result, `caution`: know this, `good`."""

    light: Light
    text: str


def list_cautions(answer: Answer) -> list[Caution]:
    """Return the lights of a task: red ones, that of the verdict, and the cautions.

    A difference to the best baseline that could be chance is part of the answer and no caution: it
    says nothing against a task that is predicted better than by guessing.

    Parameters
    ----------
    answer
        One of `aam.report.page.answers.list_answers`.
    """
    stops = [Caution("stop", text) for text in _name_stops(answer)]
    light = LIGHTS[answer.verdict.outcome]
    # Green next to red would be read as permission.
    shown = [] if stops and light == "good" else [Caution(light, _explain(answer))]
    limits = [Caution("caution", text) for text in _name_limits(answer)]
    lights = [*stops, *shown, *limits]
    red = [caution for caution in lights if caution.light == "stop"]
    return red + [caution for caution in lights if caution.light != "stop"]


def list_encoder_cautions(model: str, report: EncoderReport) -> list[Caution]:
    """Return what limits the trust in an encoder.

    Parameters
    ----------
    model
        What sentences call its model.
    report
        What its pretraining wrote.
    """
    correlation = report.unifrac_pearson
    if correlation is None or correlation >= WEAK_ENCODER:
        return []
    text = (
        f"The encoder of {model} predicts the distances of held-out samples with a correlation of "
        f"only {format_score(correlation)}."
    )
    return [Caution("caution", text)]


def list_prediction_cautions(
    table: str,
    unseen: float,
    seen: int,
    n: int,
    few: Sequence[str] = (),
    near: float | None = None,
    facts: TableFacts = ASV_READS,
) -> list[Caution]:
    """Return what limits the trust in predictions for another table, the red light first.

    Parameters
    ----------
    table
        What the page calls the table.
    unseen
        Mean share of the reads that are of ASVs never seen in training.
    seen
        Number of samples that were in training.
    n
        Number of samples.
    few
        IDs of the samples of which few reads are near an ASV of training.
    near
        Mean share of the reads that are of an ASV of training or near one; None: it is not known.
    facts
        What the table of training holds: without sequences a feature is known by its ID alone.
    """
    lights = []
    if not facts.has_sequences:
        lights += _list_cautions_on_names(table, unseen, n, few, Nouns.of_table(facts))
        few = ()
        unseen = 0.0
    if few:
        text = (
            f"Do not use what is predicted for {len(few)} of the {n} samples in {table} "
            f"({first_names(few)}): less than {format_percent(FEW_NEAR)} of their reads are of "
            f"ASVs of training or near one (column {NEAR_READS}), so that the predictions rest on "
            "little. They are of another strand, region or kind of samples: the log of the "
            "prediction says which of these is likely."
        )
        lights.append(Caution("stop", text))
    if seen:
        text = (
            f"{seen} of the {n} samples in {table} were in training, by their ID or their reads: "
            "what is predicted for them says nothing about new samples. They are marked in the "
            "table."
        )
        lights.append(Caution("caution", text))
    if unseen >= UNSEEN_READS:
        although = ""
        if near is not None:
            although = f", although {format_percent(near)} are of ASVs that it saw or near one"
        text = (
            f"{format_percent(unseen)} of the reads in {table} are of ASVs that training never "
            f"saw{although}: predictions may be worse than the scores on this page."
        )
        lights.append(Caution("caution", text))
    return lights


def _list_cautions_on_names(
    table: str, unseen: float, n: int, few: Sequence[str], nouns: Nouns
) -> list[Caution]:
    """Return what limits the trust in predictions where features are known by their IDs alone."""
    lights = []
    if few:
        text = (
            f"Do not use what is predicted for {len(few)} of the {n} samples in {table} "
            f"({first_names(few)}): less than {format_percent(FEW_NEAR)} of their {nouns.value} "
            f"are of {nouns.many} of training (column {NEAR_READS}), so that the predictions rest "
            "on little."
        )
        lights.append(Caution("stop", text))
    if unseen >= UNSEEN_READS:
        text = (
            f"{format_percent(unseen)} of the {nouns.value} in {table} are of {nouns.many} that "
            "training never saw: predictions may be worse than the scores on this page."
        )
        lights.append(Caution("caution", text))
    return lights


def _explain(answer: Answer) -> str:
    """Say what a verdict rests on."""
    verdict = answer.verdict
    better = "Better than guessing"
    guessing = answer.best.guessing
    if verdict.outcome == "works":
        also = f", also {mention_correction(verdict.tests)}" if verdict.tests > 1 else ""
        return f"{better}{also}."
    if verdict.outcome == "works, weakly":
        share = format_percent(answer.skill)
        return f"{better}, but by little: {share} of the way to perfect predictions."
    if verdict.outcome == "doubtful":
        if verdict.p is None or verdict.corrected_p is None:
            return f"{better}, but {answer.units} are too few, or too unequal, for a test."
        if guessing.ranks is not None and misses_ranks(guessing):
            return (
                f"{better} in telling classes apart, but they are missed by "
                f"{format_score(guessing.ranks.score)} steps on average, where a constant class "
                f"misses them by {format_score(guessing.ranks.constant)}."
            )
        return (
            f"{better} before correction for the {verdict.tests} tests of this page, but not after "
            "it."
        )
    difference = guessing.difference
    if is_better(answer.kind, difference):
        return f"With {answer.units}, the difference to guessing could be chance."
    if name_difference(answer.kind, difference, verdict.p) == "worse":
        return "Worse than guessing."
    return "Not better than guessing."


def _name_stops(answer: Answer) -> Iterator[str]:
    """Say why a score shows nothing: samples of one unit in several folds, or other explanations.

    Rivals that predict exactly come first; those that leave nothing to compare are named together.
    """
    for leak in answer.target.leaks:
        yield _describe_leak(answer, leak)
    confounders = answer.target.confounders
    for exactness, how in (("exactly", "exactly"), ("nearly", "nearly exactly")):
        names = []
        for rival in confounders:
            if rival.exactness == exactness:
                names.append(rival.name if rival.role != "reads" else _name_rival(rival))
        several = len(names) > 1
        if names:
            start = f"{', '.join(names)} each predict" if several else f"{names[0]} predicts"
            one = "one of those" if several else "that"
            yield (
                f"{start} {answer.what} {how}, with nothing else known: models may have learned "
                f"{one} instead, and no score can show the difference."
            )
    others = [rival for rival in confounders if rival.exactness is None]
    for rival in others[:MOST_RIVALS]:
        assert rival.within is not None, "only then it is known that nothing is left"
        yield (
            f"{_describe_rival(answer, rival)} Within its values {answer.owner} "
            f"{_describe_within(answer, rival.within)}: that is no better than guessing "
            f"({format_p_value(rival.within.p)}), so models may have learned nothing else."
        )
    yield from _count_more(others)


def _name_partial_rivals(answer: Answer) -> Iterator[str]:
    """Say which rivals explain a part of a score."""
    partial = [rival for rival in answer.target.rivals if rival.left == "less"]
    for rival in partial[:MOST_RIVALS]:
        described = _describe_rival(answer, rival)
        within = rival.within
        if within is None:
            yield f"{described} Its values leave nothing that {answer.owner} could be asked for."
            continue
        sure = "better than guessing" if within.p < CHANCE else "which could be guessing"
        yield (
            f"{described} Within its values {answer.owner} {_describe_within(answer, within)}, "
            f"{sure} ({format_p_value(within.p)})."
        )
    yield from _count_more(partial)


def _count_more(rivals: Sequence[Rival]) -> Iterator[str]:
    """Say how many rivals have no sentence of their own."""
    more = rivals[MOST_RIVALS:]
    if more:
        names = first_names([_name_rival(rival) for rival in more])
        yield f"The same holds for {names}: see the table of rivals."


def _name_rival(rival: Rival) -> str:
    if rival.role == "reads":
        return "the number of reads"
    return "the richness" if rival.role == "richness" else rival.name


def _describe_rival(answer: Answer, rival: Rival) -> str:
    """Say what a rival alone reaches."""
    score = _format_error_or_share(answer, rival.score)
    verb = "is off by" if answer.kind == "regression" else "is right in"
    guess = _format_error_or_share(answer, rival.guessing)
    subject = _name_rival(rival)
    subject = subject[0].upper() + subject[1:] if rival.role in ("reads", "richness") else subject
    before = " before rarefaction" if rival.role == "reads" else ""
    whole = _format_error_or_share(answer, answer.score(answer.best))
    return (
        f"{subject}{before} alone says a part of {answer.what}: it {verb} {score} (guessing: "
        f"{guess}; {answer.owner}: {whole})."
    )


def _describe_within(answer: Answer, within: WithinLevels) -> str:
    """Say what the leading method reaches among samples that are alike in a rival."""
    verb = "is off by" if answer.kind == "regression" else "is right in"
    score = _format_error_or_share(answer, within.score)
    guess = _format_error_or_share(answer, within.guessing)
    return f"{verb} {score} (guessing: {guess})"


def _describe_leak(answer: Answer, leak: OtherGroups) -> str:
    """Say what a method loses where samples of one unit are kept together."""
    verb = "are off by" if answer.kind == "regression" else "are right in"
    return (
        f"With {leak.column} as groups ({leak.groups}) nearest neighbours {verb} "
        f"{_format_error_or_share(answer, leak.score)}, with the folds of this page "
        f"{_format_error_or_share(answer, leak.with_own_folds)}: samples of one {leak.column} lie "
        f"in several folds, and methods may recognize it. Set folds: {{groups: {leak.column}}} and "
        "run again."
    )


def _format_error_or_share(answer: Answer, value: float) -> str:
    if answer.kind != "regression":
        return format_percent(value, 1)
    return format_amount(value, answer.unit)


def _name_limits(answer: Answer) -> Iterator[str]:
    """Say what limits the trust in a score, whatever the verdict is."""
    yield from _name_unseen_studies(answer)
    yield from _name_partial_rivals(answer)
    baseline = answer.best_baseline
    if baseline is not None:
        comparison = answer.best.comparisons[baseline.name]
        if name_difference(answer.kind, comparison.difference, comparison.holm_p) == "worse":
            yield f"Worse than the best baseline, {answer.label(baseline)}: use that one."
    if answer.target.far_values is not None:
        yield _describe_range(answer.target.far_values)
    yield from _name_small_samples(answer)
    coverage = answer.target.coverage
    if coverage.coverage < coverage.level - OFF_COVERAGE:
        size = "narrow" if answer.kind == "regression" else "small"
        yield (
            f"{open_coverage(answer)} in only {format_percent(coverage.coverage, 1)} of samples: "
            f"they are too {size}."
        )
    if answer.best.calibrated is not None:
        yield from _name_useless_probabilities(answer, answer.best.calibrated)


def _name_unseen_studies(answer: Answer) -> Iterator[str]:
    """Say where a score holds for the studies at hand alone, as far as can be told."""
    further = answer.further.get(STUDIES)
    if further is None:
        return
    outcome = further.verdict.outcome
    if outcome == "works, weakly":
        yield (
            "In a study never seen, predictions are better than guessing, but by little: "
            f"{format_percent(further.asked_skill)} of the way to perfect ones."
        )
    elif further.verdict.p is not None and outcome != "works":
        yield (
            "In a study never seen, predictions are not shown to be better than guessing: they may "
            "not hold outside of these studies."
        )


def open_coverage(answer: Answer) -> str:
    """Return how a sentence begins on what the intervals or sets of the leading method contain."""
    is_number = answer.kind == "regression"
    what = "intervals" if is_number else "sets"
    truth = "observed value" if is_number else "true class"
    level = format_percent(answer.target.coverage.level)
    return f"{level} prediction {what} of {answer.owner} contain the {truth}"


def _describe_range(far: FarValues) -> str:
    """Say which numbers lie far from all others, or over so many powers of ten, as to decide."""
    low = f"{far.low:.5g}"
    high = f"{far.high:.5g}"
    if not far.values:
        largest = _list_samples(far.samples, len(far.samples))
        return (
            f"Values lie between {low} and {high}: the largest, such as those of {largest}, decide "
            "errors, R² and intervals alone. If small values count as much, predict a column of "
            "their logarithms; networks can also learn them with transform: log_zscore."
        )
    shown = " and ".join(f"{value:.10g}" for value in far.values)
    lies = "lies" if far.count == 1 else "lie"
    cells = "the cell" if far.count == 1 else "the cells"
    samples = _list_samples(far.samples, far.count)
    return (
        f"{shown} in {samples} {lies} far from all other values, which are between {low} and "
        f"{high}: errors, R² and intervals rest on it. If it is a slip or stands for a missing "
        f"value, correct or empty {cells}, and run again."
    )


def _list_samples(samples: Sequence[str], count: int) -> str:
    """Return the names of some samples, and how many more there are."""
    names = ", ".join(shorten(name, 40) for name in samples)
    more = f" and {count - len(samples)} more" if count > len(samples) else ""
    return f"sample{'s' if count > 1 else ''} {names}{more}"


def _name_small_samples(answer: Answer) -> Iterator[str]:
    """Say where the groups of samples are not known, and where groups or samples are few."""
    structure = answer.target.structure
    if not structure.stated:
        yield (
            "No column of groups is set (folds.groups): where one person or site gave several "
            "samples, the scores are too good. If every sample is from another one, set "
            "folds.groups: false."
        )
    groups = None if structure.independent else structure.groups
    if groups is not None and groups < FEW_GROUPS:
        yield (
            f"Only {groups} groups (values of {to_words(structure.column or '')}): with other "
            "groups the score could be clearly different."
        )
    elif answer.best.n < FEW_SAMPLES:
        yield (
            f"Only {answer.best.n} samples: with other samples the score could be clearly "
            "different."
        )


def _name_useless_probabilities(answer: Answer, calibrated: CalibratedScores) -> Iterator[str]:
    """Say which losses of calibrated probabilities exceed those of the class frequencies."""
    losses = {
        "Brier score": (calibrated.brier, calibrated.constant_brier),
        "log loss": (calibrated.log_loss, calibrated.constant_log_loss),
    }
    shown = []
    for name, (value, constant) in losses.items():
        # Where they differ by rounding alone, the probabilities are the frequencies.
        if value > constant and format_score(value) != format_score(constant):
            shown.append(f"{name} {format_score(value)} against {format_score(constant)}")
    if shown:
        yield (
            f"Calibrated probabilities of {answer.owner} are worse than the frequencies of the "
            f"classes, given to every sample alike: {', '.join(shown)}."
        )
