"""What the features and the values of a table are called: the only place of these words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aam.config.sections.model import LINEAGE
from aam.data.table import ASV_READS, TableFacts
from aam.util.errors import InputError, problem

PLURALS = {
    "ASV": "ASVs",
    "OTU": "OTUs",
    "kingdom": "kingdoms",
    "phylum": "phyla",
    "class": "classes of taxa",
    "order": "orders",
    "family": "families",
    "genus": "genera",
    "species": "species",
    "strain": "strains",
    "genome": "genomes",
    "taxon": "taxa",
    "pathway": "pathways",
    "gene family": "gene families",
    "feature": "features",
}
"""What several features are called, by what one is."""
RANKS = {
    "d": "kingdom",
    "k": "kingdom",
    "p": "phylum",
    "c": "class",
    "o": "order",
    "f": "family",
    "g": "genus",
    "s": "species",
    "t": "strain",
}
"""Ranks by the letter that lineages abbreviate them with."""
RANK = re.compile(r"([dkpcofgst])(?:_\d)?__(.*)", re.IGNORECASE | re.DOTALL)
"""One rank of a lineage, such as `g__Bacteroides`."""
SILVA = re.compile(r"D_(\d)__")
"""Beginning of a rank by its number, as releases of SILVA before 138 write it."""
LEAST_SHARE = 0.5
"""Share of the features from which on a kind of IDs names all of them."""
_KINDS = {
    "OTU": re.compile(r"\d+|z?otu[_ .-]?\d+", re.IGNORECASE),
    "ASV": re.compile(r"(asv|sv|esv)[_ .-]?\d+", re.IGNORECASE),
    "genome": re.compile(r"G(CA|CF)?_?\d{6,}(\.\d+)?|MGYG\d+|GUT_GENOME\d+"),
    "gene family": re.compile(r"UniRef(50|90|100)_.*|K\d{5}|COG\d{4}|PF\d{5}|\d+\.\d+\.\d+\.\d+"),
    "pathway": re.compile(r"(.*PWY.*|map\d{5}|ko\d{5})(:.*)?"),
}
"""What features are whose IDs look so."""


@dataclass(frozen=True)
class Nouns:
    """What sentences call one feature, several, and what the values of a table are."""

    one: str
    many: str
    value: str
    """`reads`, or `amounts`."""

    @classmethod
    def of_table(cls, facts: TableFacts) -> "Nouns":
        """Return the words for a table.

        Parameters
        ----------
        facts
            What the table holds and can do.
        """
        value = "reads" if facts.is_counted else "amounts"
        return cls(facts.noun, PLURALS[facts.noun], value)

    def rename_asvs(self, text: str) -> str:
        """Return a text about ASVs with the features of the table in their place.

        Parameters
        ----------
        text
            Sentences or a title.
        """
        if self == OF_ASVS:
            return text
        article = "an" if self.one[0].lower() in "aeio" else "a"
        text = re.sub(r"\ban ASV\b", f"{article} {self.one}", text)
        return re.sub(r"\bASVs\b", self.many, text).replace("ASV", self.one)


OF_ASVS = Nouns.of_table(ASV_READS)
"""Words for a table of reads of ASVs."""


def without_networks(facts: TableFacts) -> InputError:
    """Return the error for networks that are asked for of a table of amounts.

    Parameters
    ----------
    facts
        What the table holds and can do.
    """
    return problem(
        "configuration key models",
        f"networks for amounts of {PLURALS[facts.noun]}",
        "no networks: they are trained on reads, which can be drawn again",
        "set `models: {}`; the other methods answer",
    )


def other_encoder(encoder: str, *, reads_lineages: bool) -> InputError:
    """Return the error for an encoder that cannot read the features of a table.

    Parameters
    ----------
    encoder
        Kind of the encoder.
    reads_lineages
        Whether it should read lineages, because the features have no sequences.
    """
    lacking = "features without sequences" if reads_lineages else "features with sequences"
    wanted = f"`encoder: {LINEAGE}`" if reads_lineages else "transformer, bilstm or bdh"
    return problem(
        "configuration key models.<name>.encoder",
        f"{encoder} for {lacking}",
        f"{wanted}, which reads {'lineages' if reads_lineages else 'nucleotides'}",
        "set it, or set `models: {}`; the other methods answer",
    )


def split_lineage(text: str) -> list[str]:
    """Return the ranks of a lineage down to the last that is known, the highest first.

    A rank without a name, such as `s__`, is left out at the end and stays where others follow.

    Parameters
    ----------
    text
        Ranks that `;` or `|` separates.
    """
    parts = [part.strip() for part in re.split(r"[;|]", text)]
    while parts and is_unknown(parts[-1]):
        parts.pop()
    return parts


def is_unknown(part: str) -> bool:
    """Return whether a rank of a lineage says nothing.

    Parameters
    ----------
    part
        The rank, with its prefix or without.
    """
    found = RANK.fullmatch(part)
    name = part if found is None else found[2]
    return name.strip(" _").lower() in {"", "na", "nan", "none", "unassigned", "unclassified"}


def find_lineages(feature_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the lineages that feature IDs are, by ID; empty where most IDs are none.

    Parameters
    ----------
    feature_ids
        IDs of a table.
    """
    found = {}
    for name in feature_ids:
        parts = split_lineage(name)
        first = RANK.fullmatch(parts[0]) if parts else None
        if first is not None and (len(parts) > 1 or first[1].lower() in "dk"):
            found[name] = parts
    return found if len(found) >= LEAST_SHARE * len(feature_ids) else {}


def name_features(
    feature_ids: Sequence[str], lineages: Mapping[str, Sequence[str]] = {}, *, of_ids: bool = False
) -> str:
    """Return what one feature is called, a key of `PLURALS`, by IDs or by the ranks of lineages.

    Parameters
    ----------
    feature_ids
        IDs of a table whose features have no sequences.
    lineages
        Ranks by ID.
    of_ids
        Whether the lineages are the IDs: their last ranks are then what the features are.
    """
    names = [parts[-1] for parts in lineages.values()] if of_ids else feature_ids
    ranks = [*filter(None, map(rank_of_taxon, map(str.strip, names)))]
    if of_ids:
        # Taxa that are not known down to the rank of the table end earlier: the lowest rank that
        # many reach is that of the table.
        order = [*dict.fromkeys(RANKS.values())]
        common = [rank for rank in order if _share(rank, ranks) >= 0.2]
        return common[-1] if common else "taxon"
    for rank in ("genus", "species", "family", "phylum", "class", "order", "strain"):
        if len(ranks) >= LEAST_SHARE * len(feature_ids) and ranks[0] == rank:
            return rank
    for noun, pattern in _KINDS.items():
        if sum(map(bool, map(pattern.fullmatch, feature_ids))) >= LEAST_SHARE * len(feature_ids):
            return noun
    return "feature"


def rank_of_taxon(part: str) -> str | None:
    """Return the rank that a taxon has by its prefix, None where it has none.

    Parameters
    ----------
    part
        A taxon such as `g__Blautia` or `D_5__Blautia`.
    """
    by_number = SILVA.match(part)
    if by_number:
        levels = [*dict.fromkeys(RANKS.values())]
        number = int(by_number[1])
        return levels[number] if number < len(levels) else None
    found = RANK.fullmatch(part)
    return RANKS[found[1].lower()] if found else None


def _share(wanted: str, names: Iterable[str]) -> float:
    """Return the share of names that are the wanted one."""
    given = [name == wanted for name in names]
    return sum(given) / len(given) if given else 0.0
