"""Lineages as words: the same taxon is the same word, however a table writes it.

A word has `WORD_BP` letters of A, C, G and T, which hash the name of a rank; a rank that is not
known has as many N. A feature is spelled as the words of its ranks and one of its own. So it is a
sequence of letters, and is stored, cut, cached, compared and encoded as the sequences of ASVs are.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.sections.model import WORD_BP
from aam.data.nouns import RANK, RANKS, SILVA, is_unknown, split_lineage
from aam.data.table import read_lineages

LEVELS = (*dict.fromkeys(RANKS.values()),)
"""Names of the ranks, the highest first."""
WORDS = len(LEVELS) + 1
"""Words of a feature: one for each rank, and its own."""
SPELLED_BP = WORDS * WORD_BP
"""Letters of a feature."""
UNKNOWN_WORD = "N" * WORD_BP
"""A rank that is not known."""
SAYS_NOTHING = re.compile(
    r"(uncultured|unidentified|metagenome|ambiguous taxa|incertae sedis|unknown)\b.*"
)
"""Names that any taxon could have."""


def read_ranks(table: Path, taxonomy: Path | None = None) -> dict[str, list[str]]:
    """Return the ranks of features by ID, as far as they are known.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    taxonomy
        TSV file with the taxon of each feature (`aam.stages.import_taxonomy`); None: those of the
        table, where it has any.
    """
    if taxonomy is None:
        given = read_lineages(table)
    else:
        taxa = pd.read_csv(taxonomy, sep="\t", dtype=str, keep_default_na=False)
        given = dict(zip(taxa["feature-id"], taxa["taxon"], strict=True))
    ranks_of = {name: split_lineage(text) for name, text in given.items()}
    return {name: ranks for name, ranks in ranks_of.items() if ranks}


def spell_lineages(
    feature_ids: Sequence[str], lineages: Mapping[str, Sequence[str]], noun: str
) -> dict[str, str]:
    """Return the features of a table without sequences as words, by ID.

    Parameters
    ----------
    feature_ids
        All features of the table.
    lineages
        Ranks of features by ID, the highest first, as far as they are known.
    noun
        What one feature is called (`aam.data.nouns.PLURALS`): the rank of IDs that are plain names.

    Returns
    -------
    dict
        `SPELLED_BP` letters by ID: the words of `LEVELS`, and one of the ID. The last is unknown
        where the lineage is all that the ID says, so that the feature is the same in other tables.
    """
    named = {name: _name_ranks(name, lineages.get(name, ()), noun) for name in feature_ids}
    words = {
        name: "".join(
            _spell(f"{level}:{ranks[level]}") if level in ranks else UNKNOWN_WORD
            for level in LEVELS
        )
        for name, ranks in named.items()
    }
    times = Counter(words.values())
    return {
        name: text
        + (
            UNKNOWN_WORD
            if is_taxon(noun) and named[name] and times[text] == 1
            else _spell(f"feature:{_clean(re.sub('[;|]', ' ', name))}")
        )
        for name, text in words.items()
    }


def is_taxon(noun: str) -> bool:
    """Return whether features are taxa, so that those of the same lineage are the same.

    Parameters
    ----------
    noun
        What one feature is called.
    """
    return noun in LEVELS or noun == "taxon"


def match_lineages(kept: Mapping[str, str], other: Mapping[str, str], noun: str) -> dict[str, str]:
    """Return the feature of one table that each feature of another is.

    Features of the same ID are the same, unless their lineages contradict each other. Of taxa also
    those are the same that agree in all ranks, and those whose lowest rank has the same name: other
    references call the ranks above it otherwise. What is not unique in both tables matches nothing.

    Parameters
    ----------
    kept, other
        Words of the features of both tables, by ID (`spell_lineages`).
    noun
        What one feature of the first table is called.

    Returns
    -------
    dict
        ID in the first table by ID in the other. Others are absent.
    """
    same = {
        name: name
        for name, text in other.items()
        if name in kept and not _contradict(text, kept[name])
    }
    if is_taxon(noun):
        for key_of in (_all_words, lowest_rank):
            same |= _match_unique(kept, other, key_of, same)
    return same


def adapt_lineages(seen: Collection[str], texts: Mapping[str, str], noun: str) -> dict[str, str]:
    """Return the features of another table as those of training are spelled, where they are these.

    Parameters
    ----------
    seen
        Words of the features of training.
    texts
        Words of the features of the other table, by ID.
    noun
        What one feature of training is called.

    Returns
    -------
    dict
        Words by ID. A feature that has the ID of another one of training, as its lineage shows, is
        known by its ranks alone.
    """
    seen_by_own = {text[-WORD_BP:]: text for text in seen}
    adapted = {}
    for name, text in texts.items():
        own = text[-WORD_BP:]
        like = text if own == UNKNOWN_WORD else seen_by_own.get(own, text)
        adapted[name] = text[:-WORD_BP] + UNKNOWN_WORD if _contradict(text, like) else like
    return adapted | match_lineages({text: text for text in seen}, adapted, noun)


def find_related(texts: Sequence[str], seen: Collection[str]) -> NDArray[np.bool_]:
    """Return whether features are related to some of training: seen, or seen one rank above.

    Parameters
    ----------
    texts
        Words of U features.
    seen
        Words of the features of training.

    Returns
    -------
    numpy.ndarray
        [U]: an unseen genus of a family of training is related, for example.
    """
    words = {word for text in seen for word in rank_words(text)} - {UNKNOWN_WORD}
    related = []
    for text in texts:
        lowest = [word for word in rank_words(text) if word != UNKNOWN_WORD][-2:]
        related.append(text in seen or not words.isdisjoint(lowest))
    return np.array(related, bool)


def lowest_rank(text: str) -> str:
    """Return the word of the lowest known rank of a feature; empty where none is known.

    Parameters
    ----------
    text
        Words of the feature.
    """
    known = [word for word in rank_words(text) if word != UNKNOWN_WORD]
    return known[-1] if known else ""


def rank_words(text: str) -> list[str]:
    """Return the words of the ranks of a feature, the highest first.

    Parameters
    ----------
    text
        Words of the feature.
    """
    return [text[first : first + WORD_BP] for first in range(0, SPELLED_BP - WORD_BP, WORD_BP)]


def read_rank(part: str, position: int) -> tuple[str, str]:
    """Return the rank and the name of a part of a lineage.

    Parameters
    ----------
    part
        The part, with a prefix of its rank or without.
    position
        Its place in the lineage, from 0, which tells the rank of parts without a prefix.

    Returns
    -------
    rank : str
        One of `LEVELS`; empty behind the last.
    name : str
        Without the prefix.
    """
    by_number = SILVA.match(part)
    if by_number:
        number = int(by_number[1])
        return (LEVELS[number] if number < len(LEVELS) else ""), part[by_number.end() :]
    by_letter = RANK.fullmatch(part)
    if by_letter:
        return RANKS[by_letter[1].lower()], by_letter[2]
    return (LEVELS[position] if position < len(LEVELS) else ""), part


def _match_unique(
    kept: Mapping[str, str],
    other: Mapping[str, str],
    key_of: Callable[[str], str],
    same: Mapping[str, str],
) -> dict[str, str]:
    """Return matches by a key that is unique in both tables, of what is not matched yet."""
    taken = {*same.values()}
    by_key = [
        _unique({name: key_of(text) for name, text in table.items() if name not in done})
        for table, done in ((kept, taken), (other, same))
    ]
    return {by_key[1][key]: by_key[0][key] for key in by_key[1].keys() & by_key[0].keys()}


def _unique(keys: Mapping[str, str]) -> dict[str, str]:
    """Return names by their keys, of keys that one name has."""
    times = Counter(keys.values())
    return {key: name for name, key in keys.items() if key and times[key] == 1}


def _all_words(text: str) -> str:
    """Return all words, the key of what agrees in every rank."""
    return text


def _contradict(text: str, other: str) -> bool:
    """Return whether the lowest rank that both features have is of two names."""
    shared = [
        one == another
        for one, another in zip(rank_words(text), rank_words(other), strict=True)
        if UNKNOWN_WORD not in {one, another}
    ]
    return bool(shared) and not shared[-1]


def _name_ranks(name: str, ranks: Sequence[str], noun: str) -> dict[str, str]:
    """Return the names of a feature's ranks, by rank.

    Parameters
    ----------
    name
        ID of the feature: where it has no lineage, the ID may be one, or the name of a taxon.
    ranks
        Its lineage; ranks without a prefix follow each other from the highest.
    noun
        What one feature is called.
    """
    parts = [*ranks]
    if not parts:
        parts = split_lineage(name)
        if parts and RANK.fullmatch(parts[0]) is None and SILVA.match(parts[0]) is None:
            return {noun: _clean(name)} if noun in LEVELS and not is_unknown(name) else {}
    named = {}
    for position, part in enumerate(parts):
        level, text = read_rank(part, position)
        text = _clean(text)
        if level and not is_unknown(text) and not SAYS_NOTHING.fullmatch(text):
            named[level] = text
    species = named.get("species")
    if species is not None and "genus" in named and " " not in species:
        # Greengenes gives the epithet alone.
        named["species"] = f"{named['genus']} {species}"
    return named


def _clean(name: str) -> str:
    """Return a name without what differs between tables: case, underscores, quotes, spaces."""
    return " ".join(name.replace("_", " ").replace('"', " ").replace("'", " ").casefold().split())


def _spell(name: str) -> str:
    """Return the word of a name."""
    digest = blake2b(name.encode(), digest_size=WORD_BP // 4).digest()
    return "".join("ACGT"[byte >> shift & 3] for byte in digest for shift in (6, 4, 2, 0))
