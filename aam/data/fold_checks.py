"""Checks of what is divided into folds: enough samples, whole groups, classes in several folds."""

import json
import logging
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.sections.task import Folds
from aam.config.settings.tasks import FoldsSettings
from aam.data.folds import TEST, Names
from aam.data.target_columns import BeforeRarefaction
from aam.data.times import read_times
from aam.util.errors import count_names, first_few, first_names, problem
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)

LEAST_TRAINING = 2
"""Samples that a fold must leave to train on."""
LEAST_STUDIES = 3
"""Studies that leaving out whole ones needs: of two, one alone would be learned from."""
MOST_ELSEWHERE = 0.5
"""Share of the samples, of people in several studies, beyond which a task is refused."""
LEAST_REPEATED = 2
"""People with samples of two times, below which nothing is learned of change."""
MOST_LISTED = 8
"""Classes that a hint lists."""


def require_whole_groups(groups: Sequence[str], labels: Sequence[str], settings: Folds) -> None:
    """Check that each group lies in one of the folds that a column names.

    Parameters
    ----------
    groups
        Group of each sample.
    labels
        Value of `folds.column` of each sample.
    settings
        The section `folds` of the task.

    Raises
    ------
    InputError
        A group has samples in several folds.
    """
    folds_by_group = pd.Series(labels).groupby(pd.Series(groups)).unique()
    straddling = folds_by_group[folds_by_group.map(len) > 1]
    if len(straddling):
        column = settings.column
        shown = []
        for group, folds in straddling.items():
            names = " and ".join(sorted(f"'{fold}'" for fold in folds))
            shown.append(f"'{group}' in {names}")
        raise problem(
            f"metadata column '{settings.groups}'",
            f"groups that lie in several folds of '{column}': {first_few(shown)}",
            "each group in one fold, as a model would know the group from its other samples",
            f"draw the folds with folds.k in place of folds.column: {column}, correct the "
            f"metadata, or leave out folds.groups, so that the values of '{column}' are the groups",
        )


def warn_of_tested_groups(groups: Names, folds: NDArray[np.int64], settings: Folds) -> None:
    """Warn where samples of one group are on both sides of a test set that the user names.

    Parameters
    ----------
    groups
        Group of each sample.
    folds
        The fold of each, -1: held out for testing.
    settings
        The section `folds` of the task.
    """
    is_test = pd.Series(folds == TEST).groupby(pd.Series(groups)).mean()
    split = is_test[(is_test > 0) & (is_test < 1)]
    if len(split):
        logger.warning(
            "folds.test divides %d of %d groups of '%s': %s; the score of the test set is too good "
            "where a model knows the group from training",
            len(split),
            len(is_test),
            settings.groups or settings.column,
            first_names(map(str, split.index)),
            extra=CAUTION,
        )


def warn_of_one_tested_class(observed: pd.Series, folds: NDArray[np.int64]) -> None:
    """Warn where a test set that the user names has one class, so that nothing is told apart.

    Parameters
    ----------
    observed
        The class of each sample.
    folds
        The fold of each, -1: held out for testing.
    """
    classes = observed[folds == TEST].unique()
    if len(classes) == 1:
        logger.warning(
            "all samples of the test set that folds.test names are '%s': its score says how often "
            "this class is recognized, and is not compared with guessing",
            classes[0],
            extra=CAUTION,
        )


def require_studies(
    observed: pd.Series,
    folds: NDArray[np.int64],
    studies: Names,
    task: FoldsSettings,
) -> None:
    """Check that leaving out whole studies says how a study never seen would be predicted.

    Parameters
    ----------
    observed
        The target of each sample.
    folds
        The fold of each, -1: held out for testing.
    studies
        The study of each.
    task
        What the task predicts, and how its samples are divided.

    Raises
    ------
    InputError
        Fewer than `LEAST_STUDIES` studies have two classes, or numbers.
    """
    column = task.folds.column
    where = f"metadata column '{column}', which `studies` names"
    is_scored = folds != TEST
    study = pd.Series(studies, observed.index)[is_scored]
    sizes = study.value_counts()
    spread = observed[is_scored].groupby(study).nunique()
    if len(sizes) < LEAST_STUDIES:
        raise problem(
            where,
            f"{len(sizes)} studies in the samples with a target: {_with_sizes(sizes)}",
            f"at least {LEAST_STUDIES}, of which all but one are learned from",
            "remove `studies` from the task, or name a column with more values",
        )
    several = spread[spread > 1]
    if len(several) < LEAST_STUDIES:
        single = sizes[spread.index[spread < 2]]
        what = "one number" if task.kind == "regression" else "one class"
        raise problem(
            where,
            f"{what} alone in {len(single)} of {len(sizes)} studies: {_with_sizes(single)}",
            f"at least {LEAST_STUDIES} studies with different values of '{observed.name}', as no "
            "score can tell a model of the value from one of the study",
            "remove `studies` from the task, or add samples with other values to these studies",
        )


def keep_in_one_study(
    studies: pd.Series, known: pd.Series, task: FoldsSettings
) -> NDArray[np.bool_]:
    """Return which samples answer how a study never seen is predicted: those of no other one, [N].

    What is known of a person would be known in a study that has other samples of the same person.
    So each person belongs to the study that has most of its samples, of equals to the first by
    name, and those in other studies take no part: neither trained on nor scored.

    Parameters
    ----------
    studies
        Study of each sample.
    known
        The person of each, or whatever else must not be in two studies.
    task
        What the task predicts, and how its samples are divided.

    Raises
    ------
    InputError
        More than `MOST_ELSEWHERE` of the samples would be left out.
    """
    pairs = pd.DataFrame({"known": known, "study": studies})
    sizes = pairs.value_counts().reset_index(name="size")
    first = sizes.sort_values(["size", "study"], ascending=[False, True], kind="stable")
    home = first.drop_duplicates("known").set_index("known")["study"]
    is_kept = (pairs["study"] == pairs["known"].map(home)).to_numpy()
    lost = int((~is_kept).sum())
    if not lost:
        return is_kept
    shared = sorted({*known[~is_kept]})
    column = task.folds.column
    if lost > MOST_ELSEWHERE * len(is_kept):
        raise problem(
            f"metadata column '{column}', which `studies` names",
            f"values of '{task.known}' that are in several studies: {first_names(shared)}; each in "
            f"one study alone would leave out {lost} of {len(is_kept)} samples",
            "most samples of each in one study, as a study never seen would hold what is known "
            "otherwise",
            f"name a column in `studies` that keeps the samples of a '{task.known}' together, or "
            "remove `studies` from the task",
        )
    logger.warning(
        "left out of the question about %s: %d samples of %d values of '%s' that are in several "
        "of '%s', in all but the one that has most of their samples: %s",
        task.question,
        lost,
        len(shared),
        task.known,
        column,
        first_names(shared),
        extra=CAUTION,
    )
    return is_kept


def require_repeats(people: Names, text: pd.Series, column: str, person: str) -> None:
    """Check that some people have samples of different times.

    Parameters
    ----------
    people
        The person of each sample.
    text
        When each was taken, as the metadata have it, by sample ID.
    column, person
        Metadata columns of times and of people.

    Raises
    ------
    InputError
        No time can be read, or fewer than `LEAST_REPEATED` people have two.
    """
    where = f"metadata column '{column}', which `time` names"
    time = read_times(text)
    unread = text[text.notna() & time.isna()]
    if time.isna().all():
        shown = first_few(repr(value) for value in dict.fromkeys(unread))
        raise problem(
            where,
            f"no time in {len(text)} samples{f': {shown}' if shown else ''}",
            "numbers, such as days, or dates as 2014-02-07",
            "name another column, or write its dates with the year first",
        )
    if len(unread):
        logger.warning(
            "samples with a '%s' that is neither a number nor a date, taken for missing: %s",
            column,
            count_names("sample", unread.index),
            extra=CAUTION,
        )
    times = time.groupby(pd.Series(people, text.index)).nunique()
    repeated = int((times > 1).sum())
    if repeated < LEAST_REPEATED:
        raise problem(
            where,
            f"{repeated} of {len(times)} values of '{person}' that have samples of two times",
            f"at least {LEAST_REPEATED}, as change is told from samples of one person",
            "remove `time` from the task, or name in folds.groups the column that says of whom "
            "each sample is",
        )


def require_forecast(
    time: pd.Series, people: pd.Series, cut: float | None, task: FoldsSettings
) -> None:
    """Check that a time has samples before it to learn from, and after it to predict.

    Parameters
    ----------
    time
        When each sample was taken.
    people
        The person of each.
    cut
        The time after which samples are later; None: it could not be read, or there are no times.
    task
        What the task predicts, and how its samples are divided.

    Raises
    ------
    InputError
        The time cannot be read, or fewer than two people are on one side of it.
    """
    where = f"`forecast: {task.forecast}` of a task with `time: {task.time}`"
    hint = "correct `forecast`, write `forecast: auto`, or remove it"
    if cut is None:
        shown = f"times from {time.min():g} to {time.max():g}" if len(time) else "none"
        raise problem(
            where,
            f"no time on the scale of '{task.time}', which has {shown}",
            "a time as the column has it",
            hint,
        )
    early, late = people[time <= cut].nunique(), people[time > cut].nunique()
    # With fewer, no fold could be made of the earlier samples, and nothing be said of later ones.
    if early < LEAST_REPEATED or late < LEAST_REPEATED:
        raise problem(
            where,
            f"samples of {early} people up to it, and of {late} after it",
            f"at least {LEAST_REPEATED} people on both sides, to learn from and to predict",
            hint,
        )


def _with_sizes(sizes: pd.Series) -> str:
    """Return names with the numbers of their samples, the first few."""
    return first_few(f"{name!r} ({size})" for name, size in sizes.items())


def require_enough(
    observed: pd.Series,
    groups: Names | None,
    task: FoldsSettings,
    before: BeforeRarefaction | None = None,
) -> None:
    """Check that the samples to divide are enough for the folds, as are groups and classes.

    Parameters
    ----------
    observed
        The target of each sample that is not held out for testing.
    groups
        Group of each; None: samples are drawn singly.
    task
        What the task predicts, and how its samples are divided.
    before
        The samples that the task wanted before rarefaction, which is blamed where they were
        enough.

    Raises
    ------
    InputError
        There are fewer samples, groups, or samples of a class than folds.
    """
    settings = task.folds
    k = settings.k
    assert k is not None, "only folds that are drawn can be too many"
    beyond = " beyond folds.test" if settings.holds_out else ""
    lower = "lower folds.k or folds.test" if beyond else "lower folds.k"
    # What the samples to test take is not what rarefaction drops.
    before = None if beyond else before
    where = f"metadata column '{observed.name}'"
    expected = f"at least as many as folds, {k}"
    if groups is not None:
        group_names = list(dict.fromkeys(groups))
        by = f"metadata column '{settings.groups}'"
        if len(group_names) == 1:
            actual = f"the one value '{group_names[0]}' in all {len(groups)} samples{beyond}"
            raise problem(
                by,
                actual,
                "at least two groups, each of which lies in one fold",
                "name the column that says which samples belong together, or set folds.groups: "
                "false where every sample is of another person, animal or site",
            )
        if len(group_names) < k:
            actual = f"only {len(group_names)} groups{beyond}: {first_few(group_names)}"
            had = 0 if before is None else len(before.counts(str(settings.groups)))
            if before is not None and had >= k:
                actual += f"; {before.act} keeps them of {had}"
                lower = f"{before.hint}, {lower}"
            raise problem(by, actual, expected, f"{lower}, or group by another column")
    if len(observed) < k:
        actual = f"a value in {len(observed)} samples{beyond}"
        had = 0 if before is None else int(before.counts(str(observed.name)).sum())
        if before is not None and had >= k:
            actual += f"; {before.act} keeps these of {had}"
            lower = f"{before.hint}, {lower}"
        raise problem(where, actual, expected, f"{lower}, or fill in the metadata")
    sizes = observed.value_counts().sort_index()
    small = sizes[sizes < k]
    if task.kind != "regression" and len(small):
        names = first_few(f"'{name}' with {size}" for name, size in small.items())
        actual = f"classes with fewer samples than folds{beyond}: {names}"
        hint = f"{lower}, or leave these classes out{_with_where(observed, small.index)}"
        lost = _lost(observed, small, before)
        if before is not None and before.counts(str(observed.name)).reindex(small.index).max() >= k:
            actual += f"; {lost}"
            hint = f"{before.hint}, {hint}"
        raise problem(where, actual, f"at least {k} samples of each class", hint)


def _with_where(observed: pd.Series, left_out: Iterable[str]) -> str:
    """Return how `where` leaves out some classes; they are listed where the others are few."""
    kept = sorted({*observed} - {*left_out})
    if not 1 < len(kept) <= MOST_LISTED:
        return " with `where`"
    column, names = (json.dumps(one, ensure_ascii=False) for one in (observed.name, kept))
    return f": where: {{{column}: {names}}}"


def _lost(observed: pd.Series, sizes: pd.Series, before: BeforeRarefaction | None) -> str:
    """Return what rarefaction dropped of some classes, the numbers of whose samples are given."""
    if before is None:
        return ""
    had = before.counts(str(observed.name)).to_dict()
    dropped = [
        f"of the {had[name]} samples of '{name}' {before.act} keeps {size}"
        for name, size in sizes.items()
        if had.get(name, 0) > size
    ]
    return first_few(dropped)


def require_training_samples(folds: NDArray[np.int64], column: str) -> None:
    """Check that every fold leaves samples to train on.

    Parameters
    ----------
    folds
        The fold of each sample, -1: held out for testing.
    column
        Metadata column that an error blames.

    Raises
    ------
    InputError
        Fewer than `LEAST_TRAINING` samples are left.
    """
    in_folds = folds[folds != TEST]
    largest = np.bincount(in_folds).max()
    left = len(in_folds) - largest
    if left < LEAST_TRAINING:
        raise problem(
            f"metadata column '{column}'",
            f"a fold of {largest} of {len(in_folds)} samples, which leaves {left} to train on",
            f"at least {LEAST_TRAINING} samples outside of every fold",
            "choose folds that divide the samples more evenly, or fill in the metadata",
        )


def require_spread_classes(
    observed: pd.Series,
    folds: NDArray[np.int64],
    together: Names | None,
    task: FoldsSettings,
    before: BeforeRarefaction | None = None,
) -> None:
    """Check that the models that predict a class have seen samples of it.

    A class whose samples all lie in one fold, or in the test set, is predicted by models that were
    trained without it. Warns of classes of the configuration that no sample has.

    Parameters
    ----------
    observed
        The class of each sample.
    folds
        The fold of each, -1: held out for testing.
    together
        The value of `folds.column`, else of `folds.groups`, of each; None without either.
    task
        What the task predicts, and how its samples are divided.
    before
        The samples that the task wanted before rarefaction, for messages.

    Raises
    ------
    InputError
        A class lies in one fold, or in the test set alone.
    """
    in_folds = pd.Series(folds, index=observed.index).where(folds != TEST)
    spread = in_folds.groupby(observed).nunique()
    unseen = [name for name in task.classes or [] if name not in spread.index]
    if unseen:
        logger.warning("classes of '%s' that no sample has: %s", observed.name, first_names(unseen))
    confined = spread.index[spread < 2]
    if not len(confined):
        return
    shown = [f"'{name}'" for name in confined]
    actual = "classes whose samples all lie in one fold, or in the test set"
    hint = "set folds.stratified: true or another folds.seed, or leave them out with `where`"
    if together is not None:
        by = task.folds.column or task.folds.groups
        values_of_class = pd.Series(together, index=observed.index).groupby(observed).unique()
        single = [name for name in confined if len(values_of_class[name]) == 1]
        if single:
            shown = [f"'{name}' in '{values_of_class[name][0]}'" for name in single]
            every = "every class is" if len(single) == len(spread) else "classes are"
            actual = f"{every} in one value of '{by}' alone"
            hint = (
                "leave these classes out with `where`, join them with others, or add samples of "
                f"them from another '{by}'; while the two go together, no score can tell a model "
                f"of the class from one of '{by}'"
            )
    lost = _lost(observed, observed.value_counts()[confined], before)
    if before is not None and lost:
        shown[-1] += f"; {lost}"
        hint = f"{before.hint}, or {hint}"
    raise problem(
        f"metadata column '{observed.name}'",
        f"{actual}: {first_few(shown)}",
        "samples of each class in at least two folds, as a model that predicts a fold would never "
        "have seen the class",
        hint,
    )
