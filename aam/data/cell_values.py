"""What the text of metadata cells means: numbers, dates, missing values, spellings of one value.

Everything that reads a column asks here, so that the description of a study, the configuration that
is proposed for it and a run cannot differ.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import pandas as pd

NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
"""A number as programs write it."""
LARGEST = 1e30
"""Largest size of a number to predict: the square of an error has to be a number, too."""
FEW_NUMBERS = 10
"""Different numbers up to which an undeclared column may hold codes of classes."""

_PLAIN = re.compile(NUMBER)
_CODE = re.compile(r"[+-]?0[0-9].*|[0-9]{16,}")
"""Leading zeros, and more digits than a measurement has: a code, not a number."""
_MINUS = dict.fromkeys(map(ord, "−‐‑–－﹣"), "-")
_GROUPED = re.compile(r"([+-]?[0-9]{1,3})((?:[ '’][0-9]{3})+)([.,][0-9]+)?")
"""Thousands that spaces or apostrophes separate."""
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")
_EITHER = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")
"""One comma before three digits: a decimal comma, or thousands."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_UNIT = (
    "years?|yrs?|y|yo|years? old|months?|mo|weeks?|wks?|w|days?|d|hours?|hrs?|h|minutes?|min|"
    "seconds?|secs?|s|[kmcµμun]?g|[mµμu]?mol|[kmcdµμun]?[mlL]|[mµμun]?M|%|‰|percent|pct|"
    "°C|°F|°|degrees?|deg C|K|ppm|ppb|ppt|psu|PSU|kcal|kJ|cells?|copies|IU|U|mmHg|k?Pa|m?bar"
    "|cfu|CFU"
)
_WITH_UNIT = re.compile(
    rf"(.*[0-9]\.?)\s*((?:{_UNIT})(?:\s*[23²³])?(?:\s*/\s*(?:{_UNIT})(?:\s*[23²³])?)?)"
)

_MONTH = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_TIME = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:\s*[ap]m)?"
    r"(?:\s*(?:z|utc|[+-][0-9]{2}:?[0-9]{2}))?"
)
_DATE = re.compile(
    r"(?:(?:1[89]|20|21)[0-9]{2}[-/](?:0?[1-9]|1[0-2])(?:[-/](?:0?[1-9]|[12][0-9]|3[01]))?"
    r"|(?:1[89]|20|21)[0-9]{2}\.(?:0?[1-9]|1[0-2])\.(?:0?[1-9]|[12][0-9]|3[01])"
    r"|(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0?[1-9]|1[0-2])([-/.])(?:0?[1-9]|[12][0-9]|3[01])\1(?:[0-9]{4}|[0-9]{2})"
    r"|(?:0?[1-9]|[12][0-9]|3[01])([-/.])(?:0?[1-9]|1[0-2])\2(?:[0-9]{4}|[0-9]{2})"
    rf"|[0-9]{{1,2}}[-/. ]*(?:{_MONTH})\.?(?:[-/., ]*(?:[0-9]{{4}}|[0-9]{{2}}))?"
    rf"|(?:{_MONTH})\.?[-/ ]*[0-9]{{1,2}}(?:,?[-/ ]+[0-9]{{4}})?"
    rf"|(?:{_MONTH})\.?[-/ ]*[0-9]{{4}})"
    rf"(?:[t ]\s*{_TIME})?"
    r"|[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?\s*[ap]m",
    re.IGNORECASE,
)
_YEAR = re.compile("(?:19|20)[0-9]{2}")

MISSING = re.compile(
    "na|n/a|<na>|nan|nat|null|<null>|(missing|not applicable|not collected|not provided"
    "|restricted access)( *:.*)?|not available|no data|labcontrol test"
    "|#(n/a|n/v|nv|na|value!|wert!|valeur!|ref!|bezug!|div/0!|name\\?|num!|zahl!|null!|#+)",
    re.IGNORECASE,
)
"""Words that are missing values in every column: those of INSDC's list, with reasons behind a colon
as there and in Qiita, of R and pandas, and the errors of spreadsheets."""
UNKNOWN = re.compile(
    r"unknown|unkown|unk|unknow|not known|\?+|\.{1,3}|…|n\.a\.?"
    "|not (determined|measured|recorded|reported|tested|done|specified|stated)|unspecified"
    "|undetermined|unavailable|no answer|no value"
    "|prefer not to (say|answer)|do(n'?t| not) know|declined( to answer)?|tbd|data missing",
    re.IGNORECASE,
)
"""Words that are missing values among numbers; elsewhere they are classes that look odd."""
DASHES = re.compile(r"[-–—−]+|[nN]\.?[dD]\.?|None|\*")
"""Marks that are missing values among more numbers than `FEW_NUMBERS`; among a few codes, as among
classes, they may be one of them: no dose, not detected, negative. `None` is what Python writes;
people who write `none` may mean zero."""
_CODED = re.compile(r"-?9{3,}(\.0|\.9+)|-?(8{3,}|7{3,})\.0|-?99\.0|-[1-9]\.0|-(77|88)\.0")
"""Numbers that people write for a missing value."""
_TRUTH = {"t": "true", "f": "false", "y": "yes", "n": "no"}


@dataclass(frozen=True)
class Numbers:
    """The numbers of a column."""

    values: pd.Series
    """float64 by sample, NaN where the text is no number or beyond `LARGEST`."""
    how: str
    """How the texts were read where they are no plain numbers, such as "with decimal commas"."""


def read_numbers(text: pd.Series) -> Numbers:
    """Read the texts of a column as numbers.

    A plain number is one in any column. Decimal commas, thousands and units are read where that is
    certain from the whole column: as long as one way of writing them fits more samples than
    any other. Values written in another way are then no numbers; `1,234` is none without a value
    that decides, nor are `90+` and `<1`.

    Parameters
    ----------
    text
        Texts, without missing values.
    """
    cleaned = {one: _cleaned(one) for one in text.unique()}
    counts = Counter(text)
    best: dict[str, str] = {}
    best_how = ""
    most = -1
    for ways, bodies in _bodies(cleaned, counts):
        for way, plain in _plain_texts(bodies):
            size = sum(counts[one] for one in plain)
            # The first of equals is taken, and plain numbers come first.
            if size > most:
                most = size
                best = plain
                best_how = " and ".join([*ways, *filter(None, [way])])
    numbers = {one: float(plain) for one, plain in best.items()}
    values = text.map(numbers).astype(np.float64)
    return Numbers(values.where(values.abs() <= LARGEST), best_how)


def _cleaned(text: str) -> str:
    """Return a text with plain spaces and a plain minus sign."""
    text = " ".join(text.split())
    return text[:1].translate(_MINUS) + re.sub("(?<=[eE])[−–]", "-", text[1:])


def _bodies(
    cleaned: Mapping[str, str], counts: Mapping[str, int]
) -> list[tuple[list[str], dict[str, str]]]:
    """Return the texts as they are, and those with the most frequent unit without it."""
    ungrouped = {}
    for one, text in cleaned.items():
        grouped = _GROUPED.fullmatch(text)
        ungrouped[one] = re.sub("[ '’]", "", text) if grouped else text
    has_groups = ungrouped != dict(cleaned)
    ways = ["without the spaces or marks between thousands"] if has_groups else []
    units: Counter[str] = Counter()
    without: dict[str, dict[str, str]] = {}
    for one, text in cleaned.items():
        match = _WITH_UNIT.fullmatch(text)
        if match:
            # A year and two years are one unit.
            unit = re.sub("(?<=[a-z]{2})s$", "", match[2])
            units[unit] += counts[one]
            body = match[1].strip()
            without.setdefault(unit, {})[one] = (
                re.sub("[ '’]", "", body) if _GROUPED.fullmatch(body) else body
            )
    found: list[tuple[list[str], dict[str, str]]] = [([], dict(cleaned))]
    if has_groups:
        found.append((ways, ungrouped))
    if units:
        unit, _ = units.most_common(1)[0]
        found.append(([f"without their unit, '{unit}'"], without[unit]))
    return found


def _plain_texts(bodies: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Return, by the way that they are read in, the texts that are numbers, in plain form."""
    plain = {one: text for one, text in bodies.items() if _PLAIN.fullmatch(text)}
    found = [("", plain)]
    commas = {one: text for one, text in bodies.items() if _COMMA.fullmatch(text)}
    if any(not _EITHER.fullmatch(text) for text in commas.values()):
        whole = {one: text for one, text in bodies.items() if _INTEGER.fullmatch(text)}
        read = {one: text.replace(",", ".") for one, text in commas.items()}
        found.append(("with decimal commas", whole | read))
    thousands = {one: text for one, text in bodies.items() if _THOUSANDS.fullmatch(text)}
    if any(text.count(",") > 1 or "." in text for text in thousands.values()):
        read = {one: text.replace(",", "") for one, text in thousands.items()}
        found.append(("without the commas between thousands", plain | read))
    return found


def are_codes(values: Iterable[str]) -> bool:
    """Return whether numbers are codes, such as `01` and `007`: one has a zero in front."""
    return any(_CODE.fullmatch(value.strip()) for value in values)


def are_dates(values: Iterable[str]) -> bool:
    """Return whether values are dates or times, some of them perhaps years alone or unknown."""
    known = [value for value in values if not is_unknown(value)]
    is_date = [_DATE.fullmatch(value.strip()) is not None for value in known]
    others = [value for value, is_one in zip(known, is_date, strict=True) if not is_one]
    return 2 * sum(is_date) >= max(len(known), 1) and all(map(_YEAR.fullmatch, others))


def is_unknown(value: str) -> bool:
    """Return whether a word, among classes, may stand for a missing value."""
    return UNKNOWN.fullmatch(value) is not None


def missing_among_numbers(counts: Mapping[str, int], *, is_declared: bool = False) -> list[str]:
    """Return the values of a column that say that there is none, as its others are numbers.

    Parameters
    ----------
    counts
        Number of samples by value, without the words of `MISSING`.
    is_declared
        Whether the column is declared to be of numbers; all such values are missing then.

    Returns
    -------
    list of str
        Values that `UNKNOWN` describes where all others are numbers, or most of more than
        `FEW_NUMBERS` different ones; there those of `DASHES`, too.
    """
    words = [v for v in counts if UNKNOWN.fullmatch(v) or DASHES.fullmatch(v)]
    others = [value for value in counts if value not in words]
    if is_declared:
        return words
    if not words or not others or are_codes(others) or are_dates(others):
        return []
    text = pd.Series(others, dtype=object).repeat([counts[one] for one in others])
    is_number = read_numbers(text).values.notna()
    if text[is_number].nunique() > FEW_NUMBERS and is_number.mean() > 0.5:
        return words
    if is_number.all():
        return [value for value in words if UNKNOWN.fullmatch(value)]
    return []


def group_alike(values: Iterable[str]) -> list[list[str]]:
    """Return the values that people read as one though they are written differently.

    They differ in case, spaces, dashes, underscores or the encoding of a letter, are equal
    numbers, or short and long forms of yes, no, true and false.

    Parameters
    ----------
    values
        The different values of a column.

    Returns
    -------
    list of list of str
        The spellings of each value that has several.
    """
    all_values = list(values)
    keys = [_key(value) for value in all_values]
    if {*keys} <= {*_TRUTH, *_TRUTH.values()}:
        keys = [_TRUTH.get(str(key), key) for key in keys]
    spellings: dict[Decimal | str, list[str]] = {}
    for key, value in zip(keys, all_values, strict=True):
        spellings.setdefault(key, []).append(value)
    return [sorted(group) for group in spellings.values() if len(group) > 1]


def _key(value: str) -> Decimal | str:
    number = _cleaned(value)
    if _PLAIN.fullmatch(number):
        # Letters and digits such as 1E99999999999999999999 are an ID, and no number.
        with suppress(InvalidOperation):
            return Decimal(number)
    text = unicodedata.normalize("NFKC", value).casefold()
    # Signs of the category Cf have no width: nobody sees that two values differ in them.
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Cf")
    joined = " ".join(re.split(r"[\s_-]+", text)).strip()
    return joined or text


def join_spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Return the spellings that are certainly one value, each with the one that replaces it.

    Among numbers alone these are `1.0` and `1`, which tools that fill gaps make of each other;
    among true and false alone any case, since spreadsheets and programs write them differently.

    Parameters
    ----------
    counts
        Number of samples by value.
    """
    if {value.casefold() for value in counts} <= {"true", "false"}:
        most: dict[str, str] = {}
        for value in sorted(counts, key=lambda one: (-counts[one], one)):
            most.setdefault(value.casefold(), value)
        replaced = {value: most[value.casefold()] for value in counts}
    elif all(_PLAIN.fullmatch(value) for value in counts) and not are_codes(counts):
        replaced = {value: re.sub(r"\.0*$", "", value) for value in counts}
        replaced = {value: one for value, one in replaced.items() if one in counts}
    else:
        return {}
    return {value: one for value, one in replaced.items() if value != one}


def find_sentinels(values: pd.Series) -> dict[float, int]:
    """Return numbers that may stand for a missing value, with their numbers of samples.

    They lie further from all others than these from each other: one such as -9999 or 999, or
    another that occurs several times, or -1 and -9 among numbers that are never negative.

    Parameters
    ----------
    values
        Numbers of the samples.
    """
    counts = values.value_counts()
    coded = [value for value in counts.index if _is_coded(value)]
    usual = counts.index.difference(coded)
    # The range of one or two numbers says nothing about what is far from them.
    if len(usual) < 3:
        return {}
    found = {
        value: int(counts[value])
        for value in coded
        if _is_far(value, usual.min(), usual.max())
        or (value < 0 <= usual.min() and counts[value] > 1 and value == round(value))
    }
    for value in (usual.min(), usual.max()) if len(usual) > FEW_NUMBERS else ():
        rest = usual[usual != value]
        if value != 0 and counts[value] > 1 and _is_far(value, rest.min(), rest.max(), times=2):
            found[float(value)] = int(counts[value])
    return found


def _is_coded(value: float) -> bool:
    return _CODED.fullmatch(repr(float(value))) is not None


def _is_far(value: float, low: float, high: float, times: float = 1) -> bool:
    gap = max(low - value, value - high)
    return bool(gap > times * (high - low) and gap > 0)
