"""Which samples of a task are held out for testing, and in which fold each of the others is.

Draws are functions of IDs, groups, classes and a seed, whatever the order of the table.
Shape suffixes: N samples, G groups, C classes.
"""

import logging
import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from aam.config.questions import FORECAST, STUDIES
from aam.config.sections.task import Folds
from aam.config.settings.tasks import FoldsSettings
from aam.data.fold_checks import (
    keep_in_one_study,
    require_enough,
    require_forecast,
    require_repeats,
    require_spread_classes,
    require_studies,
    require_training_samples,
    require_whole_groups,
    warn_of_one_tested_class,
    warn_of_tested_groups,
)
from aam.data.folds import TEST, Names
from aam.data.metadata import metadata_column
from aam.data.target_columns import (
    BeforeRarefaction,
    observed_values,
    require_logarithms,
    require_varied,
    samples_where,
    spellings_of,
)
from aam.data.times import read_cut, read_times
from aam.util.errors import count_names, first_few, first_names, problem
from aam.util.notes import CAUTION
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)
_SEEDS_OF_SKLEARN = 2**32
MANY_LOST = 0.1
"""Share of the labelled samples, lost by rarefaction, from which on there is a caution."""
MOST_STUDY_FOLDS = 10
"""Folds into which studies are joined where there are more of them.

Each fold costs a fit of every method. Of ten folds a study never seen is still predicted by a model
of nine tenths of the studies.
"""


def divide_labelled(
    metadata: pd.DataFrame,
    task: FoldsSettings,
    *,
    before: pd.DataFrame | None = None,
    depth: int | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.int64], list[str] | None]:
    """Return the metadata of the samples that a task asks for, with their targets and folds.

    Parameters
    ----------
    metadata
        That of all samples, text by sample ID.
    task
        What the task predicts, and how its samples are divided.
    before
        The metadata of all samples of the table before rarefaction, so that a message can say that
        rarefaction is the cause; None: unknown.
    depth
        The depth of rarefaction, for messages; None: unknown.

    Returns
    -------
    tuple
        The metadata of the samples that `where` keeps, then what `divide` returns of them.

    Raises
    ------
    InputError
        The task cannot be learned: a column or a value is missing, a target does not vary or is no
        number, or no folds can be made.
    """
    where = task.where
    unrarefied = None
    if before is not None and len(before) > len(metadata):
        unrarefied = BeforeRarefaction(before, depth)
    wanted = samples_where(metadata, where, unrarefied)
    _warn_of_left_out(metadata, wanted, where)
    if unrarefied is not None:
        unrarefied = unrarefied.where(where)
    values = observed_values(
        wanted,
        task.kind,
        task.columns,
        task.classes,
        before=unrarefied,
        where=[column for column in where if column in task.columns],
    )
    if task.logarithm:
        require_logarithms(values)
    if unrarefied is not None:
        _warn_of_lost(values, unrarefied)
    return wanted, *divide(wanted, values, task, unrarefied)


def _warn_of_left_out(
    metadata: pd.DataFrame, wanted: pd.DataFrame, where: Mapping[str, Sequence[str]]
) -> None:
    """Name the values whose samples `where` leaves out: a proposed configuration may have one."""
    left = metadata.loc[metadata.index.difference(wanted.index)]
    for column, names in where.items():
        values = metadata_column(left, column)
        counts = values[~values.isin(spellings_of(names, values))].value_counts()
        if len(counts):
            shown = first_few(f"{value!r} ({count})" for value, count in counts.items())
            logger.warning(
                "%d of %d samples are left out, as `where` of the task does not name their value "
                "of '%s': %s",
                counts.sum(),
                len(metadata),
                column,
                shown,
            )


def _warn_of_lost(values: pd.DataFrame, before: BeforeRarefaction) -> None:
    """Warn where rarefaction loses many samples that have all targets; others do not matter.

    Parameters
    ----------
    values
        Targets of the samples that it keeps.
    before
        The samples that the task wanted before it.
    """
    columns = [metadata_column(before.metadata, str(name)) for name in values]
    labelled = int(pd.concat(columns, axis=1).notna().all(axis=1).sum())
    lost = labelled - len(values)
    if lost >= MANY_LOST * labelled:
        logger.warning(
            "%d of the %d samples with a value of %s, %.0f %%, have too few reads for %s: %s to "
            "keep more of them",
            lost,
            labelled,
            first_names(map(str, values)),
            100 * lost / labelled,
            before.act,
            before.hint,
            extra=CAUTION,
        )


def divide(
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    task: FoldsSettings,
    before: BeforeRarefaction | None = None,
) -> tuple[pd.DataFrame, NDArray[np.int64], list[str] | None]:
    """Give every labelled sample a fold: that of a metadata column, or one that is drawn.

    Parameters
    ----------
    metadata
        That of all samples that the task wants.
    values
        The targets of the labelled samples, a column per target.
    task
        What the task predicts, and how its samples are divided.
    before
        The samples that the task wanted before rarefaction, for messages.

    Returns
    -------
    pandas.DataFrame
        The targets of the samples that have a fold.
    numpy.ndarray
        Their folds; -1: held out for testing.
    list of str, or None
        Their groups: the values of `folds.groups`, or those of `folds.column` where no groups are
        given, since the folds are then the groups. None where samples are drawn singly, or
        `folds.groups` is false.

    Raises
    ------
    InputError
        No folds can be made, a group lies in several folds, or all samples of a class lie in one
        fold, so that no model that predicts the class has seen it.
    """
    settings = task.folds
    target = task.columns[0]
    column = settings.column
    groups: list[str] | None = None
    together: list[str] | None = None
    is_named = _named_to_test(metadata, values.index, settings)
    if task.question == FORECAST:
        values, is_named = _later(metadata, values, task, is_named)
    if task.question == STUDIES and task.known is not None:
        values = _of_one_study(metadata, values, task, is_named)
    if column is not None:
        values, folds = _folds_in_column(metadata, values, task, column, is_named)
        together = _groups(metadata, values.index, column)
        groups = together if settings.groups is None else None
        if settings.groups:
            groups = _groups(metadata, values.index, settings.groups)
            require_whole_groups(groups, together, settings)
        if task.question == STUDIES:
            require_studies(values[target], folds, together, task)
            folds = _join_studies(values[target], folds, together, task)
    else:
        if settings.groups:
            groups = _groups(metadata, values.index, settings.groups)
        together = groups
        folds = _draw_folds(values[target], groups, task, before, is_named)
    if task.time is not None and task.question is None:
        assert groups is not None, "loading requires people of tasks with times"
        times = metadata_column(metadata, task.time).loc[values.index]
        require_repeats(groups, times, task.time, str(settings.groups))
    if is_named is not None and groups is not None and task.question != FORECAST:
        warn_of_tested_groups(groups, folds, settings)
    if is_named is not None and task.kind != "regression" and task.question is None:
        warn_of_one_tested_class(values[target], folds)
    require_training_samples(folds, settings.column or settings.groups or target)
    if task.kind != "regression":
        require_spread_classes(values[target], folds, together, task, before)
    return values, folds, groups


def _later(
    metadata: pd.DataFrame, values: pd.DataFrame, task: FoldsSettings, is_named: pd.Series | None
) -> tuple[pd.DataFrame, pd.Series]:
    """Return the targets of the samples of a forecast, and which of them are the later ones.

    Parameters
    ----------
    metadata, values, task
        See `divide`.
    is_named
        Samples that are set aside for another test, which take no part; None: there are none.

    Raises
    ------
    InputError
        The time is none, or too few samples are on one side of it.
    """
    assert task.time is not None, "loading requires times of forecasts"
    assert task.forecast is not None, "a forecast is after some time"
    text = metadata_column(metadata, task.time).loc[values.index]
    if is_named is not None:
        text = text[~is_named]
    time = read_times(text)
    without = time.index[time.isna()]
    if len(without):
        logger.warning(
            "left out of the forecast, as '%s' has no time: %s",
            task.time,
            count_names("sample", without),
        )
    time = time.dropna()
    people = metadata_column(metadata, str(task.folds.groups)).loc[time.index]
    cut = None if not len(time) else read_cut(task.forecast, text)
    require_forecast(time, people, cut, task)
    return values.loc[time.index], time > cut


def _of_one_study(
    metadata: pd.DataFrame, values: pd.DataFrame, task: FoldsSettings, is_named: pd.Series | None
) -> pd.DataFrame:
    """Return the targets without the samples of people that are outside of their own study.

    Parameters
    ----------
    metadata, values, task
        See `divide`.
    is_named
        Samples that are set aside for a test, which are in no study; None: there are none.

    Raises
    ------
    InputError
        Too many samples would be left out.
    """
    assert task.folds.column is not None, "the question is about the studies of a column"
    assert task.known is not None, "there is something that must not be in two studies"
    studies = metadata_column(metadata, task.folds.column).loc[values.index].dropna()
    if is_named is not None:
        studies = studies[~is_named.loc[studies.index]]
    known = pd.Series(_groups(metadata, studies.index, task.known), studies.index)
    left_out = studies.index[~keep_in_one_study(studies, known, task)]
    return values.drop(index=left_out)


def _join_studies(
    observed: pd.Series, folds: NDArray[np.int64], studies: Names, task: FoldsSettings
) -> NDArray[np.int64]:
    """Return `MOST_STUDY_FOLDS` folds of whole studies; those given if there are no more than that.

    Folds are alike in size, and in the frequencies of classes.

    Parameters
    ----------
    observed
        The target of each sample.
    folds
        The study of each as a number, -1: held out for testing.
    studies
        The study of each.
    task
        What the task predicts, and how its samples are divided.
    """
    is_divided = folds != TEST
    if folds.max() < MOST_STUDY_FOLDS:
        return folds
    learned = observed[is_divided]
    classes = None
    # Classes that are all rarer than that cannot be in every fold.
    if task.kind != "regression" and learned.value_counts().max() >= MOST_STUDY_FOLDS:
        classes = learned.to_numpy(dtype=object)
    joined = folds.copy()
    joined[is_divided] = assign_folds(
        np.array(learned.index, dtype=object),
        MOST_STUDY_FOLDS,
        task.folds.seed,
        classes=classes,
        groups=np.array(studies, dtype=object)[is_divided],
    )
    return joined


def fold_members(
    metadata: pd.DataFrame, fold: pd.Series, columns: Sequence[str], known: str | None = None
) -> pd.Series:
    """Return the fold of every sample that shares a value of a column with a sample of the fold.

    These are what an encoder that is to know nothing of the fold must not see. Where a sample
    shares values with samples of two folds, the first of the columns decides; a sample that shares
    its value of `known` with another fold than that is of fold -1, which no encoder sees.

    Parameters
    ----------
    metadata
        That of all stored samples.
    fold
        Folds of the labelled samples, by sample ID.
    columns
        Metadata columns each value of which lies in one fold; none: the labelled samples alone.
    known
        Another such column, values of which other samples may share; None: there is none.
    """
    fold_of_sample = fold.reindex(metadata.index)
    for column in columns:
        shared = metadata_column(metadata, column)
        # A value lies in one fold, so that any of its samples tells which.
        fold_of_value = dict(zip(shared.loc[fold.index], fold, strict=True))
        fold_of_sample = fold_of_sample.fillna(shared[shared.notna()].map(fold_of_value))
    if known is not None:
        shared = metadata_column(metadata, known)
        fold_of_value = dict(zip(shared.loc[fold.index], fold, strict=True))
        of_known = shared[shared.notna()].map(fold_of_value).reindex(metadata.index)
        is_torn = of_known.notna() & fold_of_sample.notna() & (of_known != fold_of_sample)
        fold_of_sample = fold_of_sample.fillna(of_known).mask(is_torn, TEST)
    return fold_of_sample.dropna().astype(np.int64).rename("fold")


def _named_to_test(metadata: pd.DataFrame, samples: pd.Index, settings: Folds) -> pd.Series | None:
    """Return which samples a column marks as the test set; None: no column does.

    Raises
    ------
    InputError
        A value is not there, or marks all samples.
    """
    if not isinstance(settings.test, dict):
        return None
    ((column, named),) = settings.test.items()
    names = [named] if isinstance(named, str) else named
    given = metadata_column(metadata, column).loc[samples]
    where = f"metadata column '{column}', which folds.test names"
    counts = given.value_counts()
    absent = [name for name in names if not set(spellings_of([name], given)) & set(counts.index)]
    if absent:
        raise problem(
            where,
            f"no sample with a target that has the value {first_names(absent)}",
            f"its values: {first_few(f'{value!r} ({size})' for value, size in counts.items())}",
            "correct folds.test, or the metadata",
        )
    is_test = given.isin(spellings_of(names, given))
    if is_test.all():
        raise problem(
            where,
            f"the value {first_names(names)} in all {len(given)} samples with a target",
            "other samples to learn from",
            "name fewer values in folds.test, or fill in the targets of the others",
        )
    return is_test


def _folds_in_column(
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    task: FoldsSettings,
    column: str,
    is_named: pd.Series | None,
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return the samples that a column puts into a fold, and these folds: whole ones to test.

    Samples that `is_named` marks are tested, wherever the column puts them.
    """
    settings = task.folds
    labels = metadata_column(metadata, column).loc[values.index]
    without = labels.index[labels.isna()]
    if len(without):
        asked = "" if task.question is None else f" of the question about {task.question}"
        logger.warning(
            "left out%s, as '%s' has no value: %s", asked, column, count_names("sample", without)
        )
    labels = labels[labels.notna()]
    is_test = np.zeros(len(labels), dtype=np.bool_)
    if is_named is not None:
        is_test = is_named.loc[labels.index].to_numpy()
    elif settings.holds_out and labels.nunique() > 1:
        is_test = _hold_out(labels.index.tolist(), settings, None, labels.tolist(), column)
    rest = labels[~is_test]
    if rest.nunique() < 2:
        left = " that folds.test leaves" if is_test.any() else ""
        raise problem(
            f"metadata column '{column}'",
            f"{rest.nunique()} folds in the {len(rest) if left else len(values)} samples{left} "
            "that have a target",
            "at least two",
            "name another column in folds.column, or draw folds with folds.k"
            + (", or lower folds.test" if left else ""),
        )
    folds = np.full(len(labels), TEST, dtype=np.int64)
    folds[~is_test] = folds_of_labels(rest.tolist())
    values = values.loc[labels.index]
    for target in values:
        require_varied(values[target], str(target), f"that have a value of '{column}'")
    return values, folds


def _groups(metadata: pd.DataFrame, samples: pd.Index, column: str) -> list[str]:
    groups = metadata_column(metadata, column).loc[samples]
    without = groups.index[groups.isna()]
    if len(without):
        raise problem(
            f"metadata column '{column}'",
            f"no value in {count_names('sample', without)} of the {len(groups)} that have a target",
            "the group of each of them",
            "fill in the column, leave these samples out with `where`, or empty their target",
        )
    if groups.nunique() == len(groups):
        logger.warning(
            "metadata column '%s': every sample has a group of its own, so that no samples are "
            "kept together; name the column that says whose a sample is, if some are of one "
            "person, animal or site, or set folds.groups: false if none are",
            column,
        )
    return [str(group) for group in groups]


def _draw_folds(
    observed: pd.Series,
    groups: Names | None,
    task: FoldsSettings,
    before: BeforeRarefaction | None,
    is_named: pd.Series | None,
) -> NDArray[np.int64]:
    """Return the fold of each sample, -1 for the fraction to test, or for those named to test."""
    settings = task.folds
    assert settings.k is not None, "folds are drawn where no column names them"
    names = np.array(observed.index, dtype=object)
    classes = observed.to_numpy(dtype=object) if settings.stratified else None
    grouped = None if groups is None else np.array(groups, dtype=object)
    is_test = np.zeros(len(names), dtype=np.bool_)
    if is_named is not None:
        is_test = is_named.to_numpy()
    elif settings.holds_out:
        where = settings.groups or task.columns[0]
        is_test = _hold_out(names, settings, classes, grouped, where)
    rest_groups = None if grouped is None else grouped[~is_test]
    require_enough(observed[~is_test], rest_groups, task, before)
    folds = np.full(len(names), TEST, dtype=np.int64)
    folds[~is_test] = assign_folds(
        names[~is_test],
        settings.k,
        settings.seed,
        classes=None if classes is None else classes[~is_test],
        groups=rest_groups,
    )
    return folds


def _hold_out(
    names: Names,
    settings: Folds,
    classes: Names | None,
    groups: Names | None,
    column: str,
) -> NDArray[np.bool_]:
    """Return which samples are held out for testing, [N], after checking that there are any.

    Parameters
    ----------
    names
        IDs of the samples.
    settings
        The section `folds` of the task.
    classes
        Class of each sample; None: classes do not matter.
    groups
        Group of each sample; None: samples are drawn singly.
    column
        Metadata column that an error blames.

    Raises
    ------
    InputError
        Even the smallest group is larger than the fraction to test.
    """
    fraction = settings.test
    assert not isinstance(fraction, dict), "samples that a column names are not drawn"
    is_test = held_out_groups(names, fraction, settings.seed, classes=classes, groups=groups)
    if not is_test.any():
        smallest = pd.Series(names if groups is None else groups).value_counts().min()
        raise problem(
            f"metadata column '{column}'",
            f"{len(names)} samples, of which folds.test = {fraction:g} is less than the smallest "
            f"group, {smallest}",
            "a fraction to test that whole groups come near to",
            "raise folds.test, or set it to 0",
        )
    return is_test


def held_out_groups(
    sample_ids: Names,
    fraction: float,
    seed: int,
    *,
    classes: Names | None = None,
    groups: Names | None = None,
) -> NDArray[np.bool_]:
    """Choose the samples that are held out for testing, in whole groups.

    Groups are gone through in the order of the digests of (seed, group). One is taken where that
    brings the number of samples taken of each class nearer to the fraction of the class, by the
    squared differences over the wanted numbers. None is taken where even the smallest is too large.

    Parameters
    ----------
    sample_ids
        IDs of the N samples.
    fraction
        Fraction of the samples to hold out.
    seed
        Seed of the order.
    classes
        Class of each sample; None: they do not matter.
    groups
        Group of each sample; None: every sample is a group.

    Returns
    -------
    numpy.ndarray
        Whether each sample is held out, bool [N].
    """
    group_N, names = pd.factorize(np.array(sample_ids if groups is None else groups, object))
    class_N, _ = pd.factorize(np.array([""] * len(group_N) if classes is None else classes, object))
    sizes_GC = pd.crosstab(group_N, class_N).to_numpy(dtype=np.float64)
    wanted_C = fraction * sizes_GC.sum(axis=0)
    missing_C = wanted_C.copy()
    is_chosen = np.zeros(len(names), dtype=np.bool_)
    order = sorted((seed_of("test", seed, name), name, g) for g, name in enumerate(names))
    for _, _, group in order:
        after_C = missing_C - sizes_GC[group]
        # Squares are divided by what is wanted, as in a chi-squared statistic: one sample too many
        # matters more in a rare class than in a frequent one.
        if (after_C**2 / wanted_C).sum() < (missing_C**2 / wanted_C).sum():
            missing_C = after_C
            is_chosen[group] = True
    return is_chosen[group_N]


def folds_of_labels(labels: Sequence[str]) -> NDArray[np.int64]:
    """Return numbers [N] for the folds that a metadata column names, from 0, in natural order.

    That puts `fold2` before `fold10`, and `9` before `10`.
    """

    def key(name: str) -> tuple[list[tuple[str, int]], str]:
        words = re.split(r"[0-9]+", name)
        numbers = re.findall(r"[0-9]+", name)
        # There is one word more than numbers: -1 fills up the last pair. The name itself decides
        # between `fold1` and `fold01`.
        return list(zip(words, map(int, [*numbers, "-1"]), strict=True)), name

    names = sorted(set(labels), key=key)
    return pd.Index(names).get_indexer(pd.Index(labels)).astype(np.int64)


def assign_folds(
    sample_ids: Names,
    k: int,
    seed: int,
    *,
    classes: Names | None = None,
    groups: Names | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each sample, of folds that are alike in size and classes.

    Parameters
    ----------
    sample_ids
        IDs of the N samples; their order does not matter.
    k
        Number of folds.
    seed
        Seed of the draw.
    classes
        Class of each sample, of which all folds get the same fraction; None: they do not matter.
    groups
        Group of each sample, which lies in one fold as a whole; None: samples are drawn singly.

    Returns
    -------
    numpy.ndarray
        Folds from 0 to k - 1, int64 [N].
    """
    # Samples are divided in the order of their IDs, whatever their order in the table.
    order = np.array(sorted(range(len(sample_ids)), key=sample_ids.__getitem__))
    kind = KFold if classes is None else StratifiedKFold
    if groups is not None:
        # With one class for all, this balances the folds' sizes; GroupKFold, shuffled, does not.
        kind = StratifiedGroupKFold
        groups = np.array(groups, dtype=str)[order]
        classes = [""] * len(order) if classes is None else classes
    ordered = None if classes is None else np.array(classes, dtype=str)[order]
    # Seeds of the configuration may be larger than what scikit-learn takes.
    splitter = kind(k, shuffle=True, random_state=seed % _SEEDS_OF_SKLEARN)
    folds = np.full(len(order), -1, dtype=np.int64)
    for fold, (_, test) in enumerate(splitter.split(np.zeros(len(order)), ordered, groups)):
        folds[order[test]] = fold
    assert set(folds.tolist()) == set(range(k))
    return folds
