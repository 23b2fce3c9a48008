"""Which samples of a task are held out for testing, and in which fold each of the others is."""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from aam.data import targets
from aam.data.folds import TEST
from aam.data.metadata import metadata_column
from aam.util.errors import first_names, problem
from aam.util.seeds import seed_of

logger = logging.getLogger(__name__)

SHOWN_GROUPS = 5
"""Groups that a message names."""
LEAST_TRAINING = 2
"""Samples that a fold must leave to train on."""
_SEEDS_OF_SKLEARN = 2**32
Names = Sequence[str] | NDArray[np.object_]


def labelled(
    metadata: pd.DataFrame, cfg: Mapping[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.int64], list[str] | None]:
    """Return the metadata of the samples that a task asks for, with their targets and folds.

    Parameters
    ----------
    metadata
        That of all samples, text by sample ID.
    cfg
        The slice `folds`.

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
    wanted = targets.samples_where(metadata, cfg["where"])
    values = targets.observed_values(wanted, cfg["kind"], cfg["columns"], cfg["classes"])
    if cfg["logarithm"]:
        targets.require_logarithms(values)
    return wanted, *divide(wanted, values, cfg)


def divide(
    metadata: pd.DataFrame, values: pd.DataFrame, cfg: Mapping[str, Any]
) -> tuple[pd.DataFrame, NDArray[np.int64], list[str] | None]:
    """Give every labelled sample a fold: that of a metadata column, or one that is drawn.

    Parameters
    ----------
    metadata
        That of all samples that the task wants.
    values
        The targets of the labelled samples, a column per target.
    cfg
        The slice `folds`.

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
    settings = cfg["folds"]
    target = cfg["columns"][0]
    column = settings["column"]
    groups: list[str] | None = None
    together: list[str] | None = None
    if column is not None:
        values, folds = _named(metadata, values, settings)
        together = _groups(metadata, values.index, column)
        groups = together if settings["groups"] is None else None
        if settings["groups"]:
            groups = _groups(metadata, values.index, settings["groups"])
            _require_whole_groups(groups, together, settings)
    else:
        if settings["groups"]:
            groups = _groups(metadata, values.index, settings["groups"])
        together = groups
        folds = _drawn(values[target], groups, cfg)
    in_folds = folds[folds != TEST]
    sizes = np.bincount(in_folds)
    if len(in_folds) - sizes.max() < LEAST_TRAINING:
        raise problem(
            f"metadata column '{settings['column'] or settings['groups'] or target}'",
            f"a fold of {sizes.max()} of {len(in_folds)} samples, which leaves "
            f"{len(in_folds) - sizes.max()} to train on",
            f"at least {LEAST_TRAINING} samples outside of every fold",
            "choose folds that divide the samples more evenly, or fill in the metadata",
        )
    if cfg["kind"] != "regression":
        _require_spread_classes(values[target], folds, together, cfg)
    return values, folds, groups


def members(metadata: pd.DataFrame, fold: pd.Series, columns: Sequence[str]) -> pd.Series:
    """Return the fold of every sample that shares a value of a column with a sample of the fold.

    These are what an encoder that is to know nothing of the fold must not see. Where a sample
    shares values with samples of two folds, the first of the columns decides.

    Parameters
    ----------
    metadata
        That of all stored samples.
    fold
        Folds of the labelled samples, by sample ID.
    columns
        Metadata columns each value of which lies in one fold; none: the labelled samples alone.
    """
    fold_of_sample = fold.reindex(metadata.index)
    for column in columns:
        shared = metadata_column(metadata, column)
        # A value lies in one fold, so that any of its samples tells which.
        fold_of_value = dict(zip(shared.loc[fold.index], fold, strict=True))
        fold_of_sample = fold_of_sample.fillna(shared[shared.notna()].map(fold_of_value))
    return fold_of_sample.dropna().astype(np.int64).rename("fold")


def _named(
    metadata: pd.DataFrame, values: pd.DataFrame, settings: Mapping[str, Any]
) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return the samples that a column puts into a fold, and these folds: whole ones to test."""
    column = settings["column"]
    labels = metadata_column(metadata, column).loc[values.index]
    without = labels.index[labels.isna()]
    if len(without):
        logger.warning("left out, as '%s' has no value: %s samples", column, first_names(without))
    labels = labels[labels.notna()]
    is_test = np.zeros(len(labels), dtype=np.bool_)
    if settings["test"] > 0 and labels.nunique() > 1:
        is_test = _held_out(labels.index.tolist(), settings, None, labels.tolist(), column)
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
        targets.require_varied(values[target], str(target), f"that have a value of '{column}'")
    return values, folds


def _require_whole_groups(
    groups: Sequence[str], labels: Sequence[str], settings: Mapping[str, Any]
) -> None:
    """Check that each group lies in one of the folds that a column names."""
    folds_by_group = pd.Series(labels).groupby(pd.Series(groups)).unique()
    straddling = folds_by_group[folds_by_group.map(len) > 1]
    if len(straddling):
        column = settings["column"]
        shown = (
            f"{group} in {' and '.join(sorted(map(str, folds)))}"
            for group, folds in straddling.items()
        )
        raise problem(
            f"metadata column '{settings['groups']}'",
            f"groups that lie in several folds of '{column}': {first_names(shown)}",
            "each group in one fold, as a model would know the group from its other samples",
            f"draw the folds with folds.k in place of folds.column: {column}, correct the "
            f"metadata, or leave out folds.groups, so that the values of '{column}' are the groups",
        )


def _groups(metadata: pd.DataFrame, samples: pd.Index, column: str) -> list[str]:
    groups = metadata_column(metadata, column).loc[samples]
    without = groups.index[groups.isna()]
    if len(without):
        raise problem(
            f"metadata column '{column}'",
            f"no value in {first_names(without)} of {len(groups)} samples that have a target",
            "the group of each of them",
            "fill in the column, or empty the target of these samples",
        )
    return [str(group) for group in groups]


def _drawn(observed: pd.Series, groups: Names | None, cfg: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the fold of each sample, -1 for the fraction to test."""
    settings = cfg["folds"]
    names = np.array(observed.index, dtype=object)
    classes = observed.to_numpy(dtype=object) if settings["stratified"] else None
    grouped = None if groups is None else np.array(groups, dtype=object)
    is_test = np.zeros(len(names), dtype=np.bool_)
    if settings["test"] > 0:
        where = settings["groups"] or cfg["columns"][0]
        is_test = _held_out(names, settings, classes, grouped, where)
    rest_groups = None if grouped is None else grouped[~is_test]
    _require_enough(observed[~is_test], rest_groups, cfg)
    folds = np.full(len(names), TEST, dtype=np.int64)
    folds[~is_test] = assign_folds(
        names[~is_test],
        settings["k"],
        settings["seed"],
        classes=None if classes is None else classes[~is_test],
        groups=rest_groups,
    )
    return folds


def _held_out(
    names: Names,
    settings: Mapping[str, Any],
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
    fraction = settings["test"]
    is_test = held_out_groups(names, fraction, settings["seed"], classes=classes, groups=groups)
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


def _require_enough(observed: pd.Series, groups: Names | None, cfg: Mapping[str, Any]) -> None:
    """Check that the samples to divide are enough for the folds, as are groups and classes."""
    settings = cfg["folds"]
    k = settings["k"]
    beyond = " beyond folds.test" if settings["test"] > 0 else ""
    lower = "lower folds.k or folds.test" if beyond else "lower folds.k"
    where = f"metadata column '{observed.name}'"
    expected = f"at least as many as folds, {k}"
    if groups is not None and len(set(groups)) < k:
        _refuse_few_groups(groups, settings, beyond=beyond, expected=expected, lower=lower)
    if len(observed) < k:
        got = f"a value in {len(observed)} samples{beyond}"
        raise problem(where, got, expected, f"{lower}, or fill in the metadata")
    sizes = observed.value_counts().sort_index()
    small = sizes[sizes < k]
    if cfg["kind"] != "regression" and len(small):
        names = first_names(f"{name}: {size}" for name, size in small.items())
        got = f"classes with fewer samples than folds{beyond}: {names}"
        hint = f"{lower}, or empty the target of the samples of these classes"
        raise problem(where, got, f"at least {k} samples of each class", hint)


def _refuse_few_groups(
    groups: Names, settings: Mapping[str, Any], *, beyond: str, expected: str, lower: str
) -> NoReturn:
    """Raise the error for fewer groups than folds; one group alone cannot be divided at all.

    Parameters
    ----------
    groups
        Group of each sample.
    settings
        The section `folds` of the task.
    beyond, expected, lower
        Parts of the message: which samples are meant, what was expected, and which keys to lower.

    Raises
    ------
    InputError
        Always.
    """
    by = f"metadata column '{settings['groups']}'"
    names = dict.fromkeys(groups)
    if len(names) > 1:
        shown = ", ".join(list(names)[:SHOWN_GROUPS])
        more = ", …" if len(names) > SHOWN_GROUPS else ""
        got = f"only {len(names)} groups{beyond}: {shown}{more}"
        raise problem(by, got, expected, f"{lower}, or group by another column")
    hint = "name the column that says which samples belong together, or set folds.groups: false "
    hint += "where every sample is of another person, animal or site"
    got = f"the one value '{next(iter(names))}' in all {len(groups)} samples{beyond}"
    raise problem(by, got, "at least two groups, each of which lies in one fold", hint)


def _require_spread_classes(
    observed: pd.Series, folds: NDArray[np.int64], together: Names | None, cfg: Mapping[str, Any]
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
    cfg
        The slice `folds`.

    Raises
    ------
    InputError
        A class lies in one fold, or in the test set alone.
    """
    in_folds = pd.Series(folds, index=observed.index).where(folds != TEST)
    spread = in_folds.groupby(observed).nunique()
    unseen = [name for name in cfg["classes"] or [] if name not in spread.index]
    if unseen:
        logger.warning("classes of '%s' that no sample has: %s", observed.name, first_names(unseen))
    confined = spread.index[spread < 2]
    if not len(confined):
        return
    shown = [str(name) for name in confined]
    got = "classes whose samples all lie in one fold, or in the test set"
    hint = "set folds.stratified: true or another folds.seed, or leave them out with `where`"
    if together is not None:
        by = cfg["folds"]["column"] or cfg["folds"]["groups"]
        values_of_class = pd.Series(together, index=observed.index).groupby(observed).unique()
        single = [name for name in confined if len(values_of_class[name]) == 1]
        if single:
            shown = [f"{name} in {values_of_class[name][0]}" for name in single]
            every = "every class is" if len(single) == len(spread) else "classes are"
            got = f"{every} in one value of '{by}' alone"
            hint = (
                "leave these classes out with `where`, join them with others, or add samples of "
                f"them from another '{by}'; while the two go together, no score can tell a model "
                f"of the class from one of '{by}'"
            )
    raise problem(
        f"metadata column '{observed.name}'",
        f"{got}: {first_names(shown)}",
        "samples of each class in at least two folds, as a model that predicts a fold would never "
        "have seen the class",
        hint,
    )


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
    splitter = kind(k, shuffle=True, random_state=seed % _SEEDS_OF_SKLEARN)
    folds = np.full(len(order), -1, dtype=np.int64)
    for fold, (_, test) in enumerate(splitter.split(np.zeros(len(order)), ordered, groups)):
        folds[order[test]] = fold
    assert set(folds.tolist()) == set(range(k))
    return folds
