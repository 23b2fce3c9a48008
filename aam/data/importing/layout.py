"""Which axis of a table holds the samples, and what stands among them that is no sample.

Tables of all formats come here: most programs write features in rows, DADA2, mothur and pandas
samples, and spreadsheets totals. What cannot be told for sure is refused.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from aam.data.importing.ids import likely_pairs
from aam.util.errors import InputError, count_names, first_names, problem

logger = logging.getLogger(__name__)
FEATURE_AXIS = frozenset(
    "otu otus otuid otuids asv asvs asvid asvids zotu zotus zotuid zotuids esv esvs esvid feature "
    "features featureid featureids featurename sv svs svid sequence sequences sequenceid seqid seq "
    "repseq repseqs representativesequence clusterid taxaid cladename clade pathway genefamily "
    "function genome genomeid".split()
)
"""Simple names of a first column of features."""
SAMPLE_AXIS = frozenset(
    "sample samples sampleid sampleids samplename samplenames group groups specimen specimenid "
    "libraryid runaccession".split()
)
"""Simple names of a first column of samples."""
TOTAL = re.compile("(grand|row|column|col|overall)?(total|totals|sum|sums)(reads?|counts?|all)?")
"""Simple names of what may be the sum of the others."""
LENGTH = re.compile("(sequence|seq|asv|otu|amplicon|read|repseq)?(length|len)(bp|nt)?")
"""Simple names of what may be the lengths of the sequences."""
CONFIDENCE = re.compile("o?(confidence|consensus)(score)?|bootstrap")
"""Simple names of what may be the confidence of a classifier."""
LEAST_ENTRIES = 3
"""Counts above 0 from which on a sum of the others is no coincidence, whatever its name."""


def simple_name(name: str) -> str:
    """Return a name in lower case, without anything but letters and digits.

    Parameters
    ----------
    name
        The name of a column.
    """
    return re.sub(r"[\W_]", "", name.lower())


def names_rows(name: str) -> bool:
    """Tell whether the first name of a header is one of features or of samples.

    Parameters
    ----------
    name
        The name of a column.
    """
    return simple_name(name) in FEATURE_AXIS | SAMPLE_AXIS


@dataclass(frozen=True)
class Layout:
    """Counts and the names of both axes, before anything is checked."""

    sample_ids: list[str]
    feature_ids: list[str]
    counts: csr_array
    """float64 [N, F]."""
    states_axes: bool = False
    """Whether the file says that these are the samples and the features."""
    left_out: list[tuple[str, str, str]] = field(default_factory=list)
    """What was no sample or no feature: `what`, `id` and `why`, as in the file of all such."""
    values: Literal["reads", "amounts"] | None = None
    """What the format says that the numbers are; None: the numbers themselves say it."""
    noun: str | None = None
    """What the format calls one feature, a key of `aam.data.nouns.PLURALS`; None: its IDs do."""

    def turned(self) -> "Layout":
        """Return the same counts with the axes exchanged."""
        counts = csr_array(self.counts.T)
        return replace(
            self, sample_ids=self.feature_ids, feature_ids=self.sample_ids, counts=counts
        )


def read_layout(corner: str, rows: list[str], columns: list[str], values: csr_array) -> Layout:
    """Return a table of rows and columns as the name of its first column says, if it does.

    Parameters
    ----------
    corner
        Name of the first column.
    rows, columns
        Their names.
    values
        float64 [columns, rows].
    """
    states_axes = names_rows(corner)
    layout = Layout(columns, rows, values, states_axes)
    return layout.turned() if simple_name(corner) in SAMPLE_AXIS else layout


def orient(
    path: Path,
    layout: Layout,
    has_sequence: Callable[[Sequence[str]], int],
    metadata_ids: Collection[str] | None = None,
    is_lineage: Callable[[str], bool] = lambda _: False,
    known_features: Collection[str] = (),
) -> Layout:
    """Return a table with its samples in rows.

    The axis whose IDs are sequences, or have one in the file of the sequences, holds the features;
    else the axis whose IDs the metadata have holds the samples, or the axis whose IDs are lineages
    the features. If that can be said of both, the table itself decides: its format, or the name of
    its first column.

    Parameters
    ----------
    path
        The user's file, for messages.
    layout
        The table as its file has it.
    has_sequence
        Returns how many of some IDs have a sequence.
    metadata_ids
        IDs of the samples in the metadata; None: there are none.
    is_lineage
        Tells whether an ID is a lineage.
    known_features
        IDs of features that the table may have, such as those of training, which tell the axes
        where neither sequences nor metadata do.

    Raises
    ------
    InputError
        The table could be either, or the metadata have no ID of either axis.
    """
    axes = (layout.sample_ids, layout.feature_ids)
    sequenced = _likelier(has_sequence(axes[1]), axes[1], has_sequence(axes[0]), axes[0])
    is_unknown = sequenced is None and all(axes)
    is_open = is_unknown and not layout.states_axes
    if is_open and all(has_sequence(axis) == len(axis) for axis in axes):
        raise _either(
            path,
            axes,
            "the IDs of both have sequences",
            "call the first column '#OTU ID' if each row is a feature, 'sample-id' if it is a "
            "sample",
        )
    if is_unknown:
        return _orient_by_names(path, layout, metadata_ids, is_lineage, known_features)
    if sequenced is not False:
        return layout
    if layout.states_axes:
        logger.warning(
            "%s: the axes are exchanged: %s are called samples there, but they have sequences; if "
            "that is wrong, give the sequences of this table",
            path,
            first_names(axes[0], limit=2),
        )
    return layout.turned()


def _orient_by_names(
    path: Path,
    layout: Layout,
    metadata_ids: Collection[str] | None,
    is_lineage: Callable[[str], bool],
    known_features: Collection[str],
) -> Layout:
    """Return a table without sequences with its samples in rows."""
    axes = (layout.sample_ids, layout.feature_ids)
    features = {*known_features}
    shown = [sum(name in features or is_lineage(name) for name in axis) for axis in axes]
    by_features = _likelier(shown[1], axes[1], shown[0], axes[0])
    if metadata_ids is None:
        return layout if by_features is not False else layout.turned()
    known = set(metadata_ids)
    shared = [sum(name in known for name in axis) for axis in axes]
    if not any(shared) and not layout.states_axes:
        # Programs change IDs on the way; which are meant is said when samples are matched. Names
        # that are only alike do not contradict a table that says what its samples are.
        shared = [len(likely_pairs(axis, metadata_ids)) for axis in axes]
    is_named = shared[0] > 0
    if is_named != (shared[1] > 0):
        if is_named:
            return layout
        if layout.states_axes:
            logger.warning(
                "%s: the axes are exchanged: %s are called features there, but they are samples of "
                "the metadata",
                path,
                first_names(axes[1], limit=2),
            )
        return layout.turned()
    by_metadata = _likelier(shared[0], axes[0], shared[1], axes[1])
    if layout.states_axes or by_features is not None:
        return layout.turned() if by_features is False else layout
    if by_metadata is not None:
        return layout if by_metadata else layout.turned()
    if is_named:
        raise _either(
            path,
            axes,
            "the metadata have IDs of both",
            "call the first column '#OTU ID' if each row is a feature, 'sample-id' if it is a "
            "sample",
        )
    raise problem(
        path,
        f"a table of which the metadata have no ID: its rows and columns are "
        f"{first_names(axes[1], limit=2)} and {first_names(axes[0], limit=2)}, the samples of the "
        f"metadata {first_names(metadata_ids, limit=2)}",
        "samples of the metadata in its rows or in its columns",
        "write the IDs alike in both files",
    )


def _likelier(count: int, axis: list[str], other_count: int, other_axis: list[str]) -> bool | None:
    """Return whether an axis is the one whose IDs are known; None: that cannot be said."""
    if not count and not other_count:
        return None
    is_whole = count == len(axis) > 0
    is_other_whole = other_count == len(other_axis) > 0
    if is_whole != is_other_whole:
        return is_whole
    if is_whole:
        return None
    is_mostly = 2 * count >= len(axis) > 0
    is_other_mostly = 2 * other_count >= len(other_axis) > 0
    return is_mostly if is_mostly != is_other_mostly else None


def _either(path: Path, axes: tuple[list[str], list[str]], why: str, hint: str) -> InputError:
    shown = [first_names(axis, limit=2) for axis in axes]
    return problem(
        path,
        f"a table that can be read in two ways: samples are {shown[0]} and features {shown[1]}, or "
        f"the reverse; {why}",
        "one way to read it",
        hint,
    )


def drop_foreign(
    path: Path, layout: Layout, lengths: Callable[[Sequence[str]], dict[str, int]]
) -> tuple[Layout, list[InputError]]:
    """Leave out what stands among samples and features but is none: totals, lengths, confidence.

    The sum of all others is left out under any name, with a warning. What is called a total, a
    length or a confidence and does not hold it is a problem.

    Parameters
    ----------
    path
        The user's file, for messages.
    layout
        The table.
    lengths
        Returns the lengths of those features whose sequences are known.

    Returns
    -------
    rest : Layout
        The table without them; `left_out` names them.
    problems : list of InputError
        One for each name that says what its values do not.
    """
    sample_names = [simple_name(name) for name in layout.sample_ids]
    kinds = {
        number: kind
        for kind, pattern in (("total", TOTAL), ("length", LENGTH), ("confidence", CONFIDENCE))
        for number, name in enumerate(sample_names)
        if pattern.fullmatch(name)
    }
    length_of = lengths(layout.feature_ids)
    reasons: dict[int, str] = {}
    for number, kind in kinds.items():
        row = layout.counts[[number]].toarray()[0]
        if kind == "length" and _are_lengths(row, layout.feature_ids, length_of):
            reasons[number] = "the lengths of the sequences"
        elif kind == "confidence" and ((row >= 0) & (row <= 1)).all() and row.any():
            reasons[number] = "the confidence of a classifier"
    totals = {number for number, kind in kinds.items() if kind == "total"}
    asked = kinds.keys() - reasons.keys() - totals
    sums, unfit = _find_sums(layout.counts, totals, exclude=kinds.keys() - totals)
    reasons |= dict.fromkeys(sums, "the sum of the other samples")
    rest = _without(path, layout, "sample", reasons)
    problems = [
        _odd(path, "sample", layout.sample_ids[number], kinds[number]) for number in asked | unfit
    ]
    turned = rest.turned()
    totals = {
        number
        for number, name in enumerate(turned.sample_ids)
        if TOTAL.fullmatch(simple_name(name)) and name not in length_of
    }
    known = {number for number, name in enumerate(turned.sample_ids) if name in length_of}
    sums, unfit = _find_sums(turned.counts, totals, known=known)
    reasons = dict.fromkeys(sums - known, "the sum of the other features")
    rest = _without(path, turned, "feature", reasons).turned()
    problems += [_odd(path, "feature", turned.sample_ids[number], "total") for number in unfit]
    return rest, problems


def _are_lengths(
    row: NDArray[np.float64], feature_ids: list[str], length_of: dict[str, int]
) -> bool:
    told = {number: length_of[name] for number, name in enumerate(feature_ids) if name in length_of}
    return bool(told) and all(row[number] == length for number, length in told.items())


def _find_sums(
    counts: csr_array,
    named: Collection[int],
    exclude: Collection[int] = (),
    known: Collection[int] = (),
) -> tuple[set[int], set[int]]:
    """Return the rows that are the sum of the others, and those of such a name that are not.

    Parameters
    ----------
    counts
        float64; its rows are looked at.
    named
        Rows that are called totals, which are no part of the sum.
    exclude
        Rows that are no part of the sum, and are not looked at either.
    known
        Rows that are no sums of others, whatever they hold.
    """
    base = sorted(set(range(counts.shape[0])) - {*named, *exclude})
    found: set[int] = set()
    total = np.asarray(counts[base].sum(axis=0)).ravel()
    entries = np.diff(counts.indptr)
    row_sums = np.asarray(counts.sum(axis=1)).ravel()
    # A row is the sum of the others where its double is the sum of all. This cheap test of the
    # totals leaves few rows to compare entry by entry.
    is_half = (2 * row_sums == total.sum()) & (entries >= LEAST_ENTRIES)
    # Of two equal rows each is the sum of the other, which says nothing.
    is_half &= (entries[base] > 0).sum() > 2
    for number in base:
        if number in known or not is_half[number]:
            continue
        row = counts[[number]].toarray()[0]
        if np.array_equal(2 * row, total):
            found.add(number)
            # Without that row the others sum to just it: this is what rows called totals have to
            # hold.
            total = row
            break
    fitting = {
        number
        for number in named
        if base and total.any() and np.array_equal(counts[[number]].toarray()[0], total)
    }
    return found | fitting, set(named) - fitting


def _without(path: Path, layout: Layout, what: str, reasons: dict[int, str]) -> Layout:
    """Return the rows that have no reason to be left out, after a warning of the others."""
    if not reasons:
        return layout
    for reason in dict.fromkeys(reasons.values()):
        names = [layout.sample_ids[number] for number in reasons if reasons[number] == reason]
        logger.warning(
            "%s: %s %s left out, because the values are %s; delete it from the file, and this "
            "warning goes",
            path,
            count_names(what, names),
            "is" if len(names) == 1 else "are",
            reason,
        )
    kept = [number for number in range(len(layout.sample_ids)) if number not in reasons]
    return replace(
        layout,
        sample_ids=[layout.sample_ids[number] for number in kept],
        counts=csr_array(layout.counts[kept]),
        left_out=[
            *layout.left_out,
            *((what, layout.sample_ids[number], why) for number, why in sorted(reasons.items())),
        ],
    )


def _odd(path: Path, what: str, name: str, kind: str) -> InputError:
    """Ask about a sample or feature whose name says that it is none, and whose values do not."""
    meant = {
        "total": f"the sum of the other {what}s",
        "length": "the lengths of the sequences",
        "confidence": "the confidence of a classifier",
    }[kind]
    return problem(
        path,
        f"a {what} called '{name}' that does not hold {meant}",
        f"{what}s alone",
        f"delete '{name}' if it is no {what}, else give it another name",
    )
