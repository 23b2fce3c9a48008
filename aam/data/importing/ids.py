"""IDs of two files that should be the same, and how programs change them on the way."""

import logging
import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aam.util.errors import first_few, first_names, problem
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)

MANY_UNMATCHED = 0.1
"""Share of the samples without metadata from which on this limits the trust in results."""


@dataclass(frozen=True)
class LikelyPair:
    """Two IDs that are probably the same sample or feature."""

    name: str
    other: str
    difference: str
    """In what they differ, in words."""

    def __str__(self) -> str:
        return f"'{self.name}' and '{self.other}' ({self.difference})"


def _compose(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _strip(name: str) -> str:
    return " ".join(name.split())


def _join_by_dashes(name: str) -> str:
    return re.sub(r"[\W_]+", "-", name).strip("-")


def _drop_x(name: str) -> str:
    return re.sub(r"^x-?(?=\d)", "", name)


def _drop_zeros(name: str) -> str:
    return re.sub(r"(?<!\d)0+(?=\d)", "", name)


_CHANGES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("the encoding of accents", _compose),
    ("spaces around it", _strip),
    ("upper and lower case", str.casefold),
    ("spaces, dots, dashes and underscores", _join_by_dashes),
    ("the X that R puts before a digit", _drop_x),
    ("zeros before a number", _drop_zeros),
)
"""What programs change in an ID, the most harmless change first, and what undoes it."""


def likely_pairs(names: Iterable[str], others: Iterable[str]) -> list[LikelyPair]:
    """Return the IDs of two files that are probably the same.

    The changes of `_CHANGES` are undone one after the other, then numbers that a spreadsheet
    rewrote (`101.0`, `1E+05`), then a prefix or suffix that one of the IDs has more, then lost
    separators. IDs are paired as soon as they are alike, and only where no other ID is alike, too.

    Parameters
    ----------
    names, others
        IDs that the other file does not have.

    Returns
    -------
    list of LikelyPair
        In the order of `names`; no ID is in two pairs.
    """
    ours = {name: name for name in dict.fromkeys(names)}
    theirs = {name: name for name in dict.fromkeys(others)}
    position = {name: number for number, name in enumerate(ours)}
    pairs: list[LikelyPair] = []

    def pair(difference: str, alike: Iterable[tuple[str, str]]) -> None:
        for name, other in list(alike):
            pairs.append(LikelyPair(name, other, difference))
            # A pair is settled by the most harmless change that explains it.
            del ours[name], theirs[other]

    # What is undone stays undone, so that IDs are paired that several programs have changed.
    for difference, undo in _CHANGES:
        ours = {name: undo(form) for name, form in ours.items()}
        theirs = {name: undo(form) for name, form in theirs.items()}
        pair(difference, _alike(ours, theirs))
    numbers = {name: _number(name) for name in ours}, {name: _number(name) for name in theirs}
    pair("how a number is written", _alike(*numbers))
    pair("a longer beginning or end", _extended(ours, theirs))
    pair("lost separators", _alike(_without_dashes(ours), _without_dashes(theirs)))
    return sorted(pairs, key=lambda one: position[one.name])


def describe_matches(names: Iterable[str], others: Iterable[str]) -> str:
    """Say which features of a table are probably which of another file, empty if none is.

    Parameters
    ----------
    names
        IDs that the other file lacks.
    others
        IDs that it has.
    """
    pairs = likely_pairs(names, others)
    shown = [f"{pair.name!r} is probably {pair.other!r} ({pair.difference})" for pair in pairs]
    return f"; {first_few(shown, limit=2)}" if shown else ""


def _alike(ours: dict[str, str], theirs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names of both sides whose forms are the same and unique on each side."""
    # A form that two names share pairs neither: which of them it was, nobody knows.
    our_counts = Counter(ours.values())
    name_by_form = _unique(theirs)
    for name, form in ours.items():
        if form and our_counts[form] == 1 and form in name_by_form:
            yield name, name_by_form[form]


def _without_dashes(forms: dict[str, str]) -> dict[str, str]:
    return {name: form.replace("-", "") for name, form in forms.items()}


def _unique(forms: dict[str, str]) -> dict[str, str]:
    """Return the name of each form that one name alone has."""
    counts = Counter(forms.values())
    return {form: name for name, form in forms.items() if counts[form] == 1}


def _number(name: str) -> str:
    """Return an ID that is a whole number in one way of writing; empty: it is none."""
    try:
        value = float(name)
    except ValueError:
        return ""
    return str(int(value)) if math.isfinite(value) and value.is_integer() else ""


def _extended(ours: dict[str, str], theirs: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield names of which one form begins or ends with the whole other one, at a dash."""
    found = [(name, other) for name, other in _contained(ours, theirs)]
    found += [(other, name) for name, other in _contained(theirs, ours)]
    counts = Counter(name for one in found for name in (("ours", one[0]), ("theirs", one[1])))
    for name, other in found:
        if counts["ours", name] == 1 and counts["theirs", other] == 1:
            yield name, other


def _contained(longer: dict[str, str], shorter: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names of a form and of a shorter one that it begins or ends with."""
    name_by_form = _unique(shorter)
    for name, form in longer.items():
        words = form.split("-")
        cuts = range(1, len(words))
        parts = {"-".join(words[:cut]) for cut in cuts} | {"-".join(words[cut:]) for cut in cuts}
        for part in sorted(parts & name_by_form.keys()):
            yield name, name_by_form[part]


def shared_ending(names: Sequence[str], known: Collection[str]) -> str:
    """Return the ending that programs gave all IDs of a table, without which others know them.

    Parameters
    ----------
    names
        IDs of the table, such as `S1_profile`.
    known
        IDs of another file, such as `S1`.

    Returns
    -------
    str
        The ending, such as `_profile`; empty: some IDs are known as they are, or no ending makes
        them so.
    """
    others = set(known)
    if not names or not others.isdisjoint(names):
        return ""
    common = os.path.commonprefix([name[::-1] for name in names])[::-1]
    starts = [place for place, letter in enumerate(common) if letter in "._- "]
    found = {
        common[place:]: sum(name[: place - len(common)] in others for name in names)
        for place in starts
    }
    # The shortest ending wins where several make the same IDs known.
    return max(reversed(found), key=found.__getitem__) if any(found.values()) else ""


def match_samples(path: Path, table_ids: Sequence[str], metadata_ids: Sequence[str]) -> None:
    """Check which samples of a table have metadata, and name those that have none.

    Further rows of the metadata are fine: they often cover a whole project.

    Parameters
    ----------
    path
        File of the metadata.
    table_ids, metadata_ids
        IDs of the samples in both files.

    Raises
    ------
    InputError
        The metadata have none of the samples.
    """
    known = set(metadata_ids)
    wanted = set(table_ids)
    without = [name for name in table_ids if name not in known]
    others = [name for name in metadata_ids if name not in wanted]
    logger.info(
        "metadata for %d of %d samples, and for %d others",
        len(table_ids) - len(without),
        len(table_ids),
        len(others),
    )
    if not without:
        if others:
            logger.warning(
                "%s: %d of its %d rows are not used, as the table has no such samples: %s",
                path,
                len(others),
                len(metadata_ids),
                first_names(others, limit=3),
            )
        return
    pairs = likely_pairs(without, others)
    likely = f"likely the same samples: {first_few(map(str, pairs))}" if pairs else ""
    if len(without) == len(table_ids):
        raise problem(
            path,
            f"no sample of the table; its IDs are {first_names(metadata_ids, limit=3)}, "
            f"those of the table {first_names(table_ids, limit=3)}{'; ' * bool(likely)}{likely}",
            "metadata of the samples in the table",
            "write the IDs alike in both files"
            if pairs
            else "give the metadata of this table, with its sample IDs",
        )
    sentences = [
        f"no metadata for {len(without)} of the {len(table_ids)} samples of the table, which no "
        f"task can use: {first_names(without)}."
    ]
    if others:
        sentences.append(f"IDs that the table lacks: {len(others)} ({first_names(others)}).")
    if pairs:
        sentences.append(f"L{likely[1:]}. If so, write their IDs alike in both files.")
    is_serious = bool(pairs) or len(without) >= MANY_UNMATCHED * len(table_ids)
    logger.warning("%s: %s", path, " ".join(sentences), extra=CAUTION if is_serious else {})
