"""Tables of the user as stores of samples and tokens."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from aam.data.augmentation import Augmentation, build_store
from aam.data.importing.counts import ReadCounts, import_counts
from aam.data.importing.table import NO_AMOUNTS, NO_READS
from aam.data.lineages import is_taxon, spell_lineages
from aam.data.nouns import Nouns
from aam.data.rarefaction import rarefy, scale_to_one
from aam.data.sequences import tokenize
from aam.data.stores import SampleStore, TokenStore
from aam.data.table import FeatureTable, TableFacts
from aam.util.errors import first_names, problem

logger = logging.getLogger(__name__)


def name_table(table: str | Path | FeatureTable) -> str:
    """Return what messages call a table: its path, or words where it has none.

    Parameters
    ----------
    table
        A file, or a table in memory.
    """
    return "the table" if isinstance(table, FeatureTable) else str(table)


def read_table(
    table: str | Path | FeatureTable,
    sequences: str | Path | None = None,
    trained_on: TableFacts | None = None,
    known_features: Collection[str] = (),
) -> ReadCounts:
    """Return a table as `import_counts` reads it.

    Parameters
    ----------
    table
        Read counts: BIOM, text in columns or .qza, or a table in memory.
    sequences
        FASTA or .qza, where the feature IDs are not the sequences.
    trained_on
        What the table of training held: where it held amounts, so does this one, whatever its
        numbers look like.
    known_features
        IDs of the features of training, which tell the axes of a table without sequences.

    Returns
    -------
    ReadCounts
        Reads or amounts, and sequences or lineages. Samples without reads are left out, and named
        in a warning.

    Raises
    ------
    InputError
        A file cannot be read, or only some features have a sequence.
    """
    given = table if isinstance(table, FeatureTable) else Path(table)
    takes_amounts = trained_on is not None and not trained_on.is_counted
    counts = import_counts(
        given,
        None if sequences is None else Path(sequences),
        values="amounts" if takes_amounts else None,
        known_features=known_features,
    )
    left_out = counts.left_out
    is_empty = left_out["why"].isin([NO_READS, NO_AMOUNTS])
    without_reads = left_out.loc[(left_out["what"] == "sample") & is_empty]
    if len(without_reads):
        shown = first_names(without_reads["id"], limit=20)
        where = name_table(table)
        logger.warning("%s: these samples have no reads and are left out: %s", where, shown)
    return counts


def texts_for(counts: ReadCounts, facts: TableFacts) -> dict[str, str]:
    """Return what methods know the features of another table by: sequences, or words of lineages.

    Parameters
    ----------
    counts
        The other table.
    facts
        What the table of training held. Where IDs of the other table are plain names, they are
        taken for names of the same rank.

    Returns
    -------
    dict
        By feature ID.
    """
    if facts.has_sequences:
        return counts.sequences
    noun = counts.table.facts.noun
    if not is_taxon(noun):
        noun = facts.noun
    return spell_lineages(counts.table.feature_ids, counts.lineages, noun)


def rarefy_views(
    table: FeatureTable,
    sequences: Mapping[str, str],
    depth: int | None,
    views: int,
    seed: int,
    max_length_bp: int,
    where: str = "the table",
) -> tuple[TokenStore, SampleStore]:
    """Draw the views of a table; samples that are too shallow are left out, and named in a warning.

    Parameters
    ----------
    table
        Reads.
    sequences
        Sequence of every feature.
    depth
        Reads of every sample in a view; None: the table is taken as it is.
    views
        Number of views V.
    seed
        Seed of the draws.
    max_length_bp
        Nucleotides of a sequence that are kept.
    where
        What messages call the table.

    Returns
    -------
    tokens : TokenStore
        ASVs that any view has.
    store : SampleStore
        The samples.

    Raises
    ------
    InputError
        No sample is deep enough.
    """
    draws = draw_views(table, depth=depth, views=views, seed=seed, where=where)
    drawn = {name for draw in draws for name in draw.feature_ids}
    names = [name for name in table.feature_ids if name in drawn]
    letters_US, length_U = tokenize([sequences[name] for name in names], max_length_bp)
    nothing = Augmentation(asv_dropout=0, cutmix=0, seed=0)
    return TokenStore(names, length_U, letters_US), build_store(names, draws, nothing)


def draw_views(
    table: FeatureTable, *, depth: int | None, views: int, seed: int, where: str
) -> list[FeatureTable]:
    """Return the views of a table: draws of its reads, or its amounts scaled to one.

    Samples that are too shallow are left out, and named in a warning.

    Parameters
    ----------
    table, depth, views, seed, where
        As for `rarefy_views`.

    Raises
    ------
    InputError
        No sample is deep enough.
    """
    if not table.facts.is_counted:
        return [scale_to_one(table)] * views
    if depth is not None and table.reads.max(initial=0) < depth:
        deepest = int(table.reads.argmax())
        raise problem(
            where,
            f"{len(table.sample_ids)} samples with fewer than {depth} reads; the deepest, "
            f"{table.sample_ids[deepest]!r}, has {table.reads[deepest]}",
            f"samples of {depth} reads or more, which is the depth that was trained with",
            "sequence these samples deeper, give their table as it was before any rarefaction, or "
            "train again with a lower rarefaction.depth",
        )
    draws = [table] if depth is None else [rarefy(table, depth, seed, v) for v in range(views)]
    left = {name for draw in draws for name in draw.sample_ids}
    if shallow := sorted({*table.sample_ids} - left):
        logger.warning(
            "%s: of %d samples these have fewer than %d reads and are left out: %s",
            where,
            len(table.sample_ids),
            depth,
            first_names(shallow, limit=20),
        )
    return draws


def like_training(table: FeatureTable, facts: TableFacts, where: str) -> FeatureTable:
    """Return another table as methods take it that learned from a table of some kind.

    Reads become amounts where the methods learned from amounts.

    Parameters
    ----------
    table
        The other table, as `read_table` returns it.
    facts
        What the table of training held.
    where
        What messages call the other table.

    Raises
    ------
    InputError
        It holds amounts where the methods learned from reads, or its features have no sequences
        where they know features by these.
    """
    trained = Nouns.of_table(facts)
    if facts.has_sequences and not table.facts.has_sequences:
        raise problem(
            where,
            f"{Nouns.of_table(table.facts).many} without sequences",
            f"{trained.many} with sequences, which the methods learned from",
            "give the sequences, or train on a table like this one",
        )
    if facts.is_counted and not table.facts.is_counted:
        raise problem(
            where,
            "amounts",
            f"reads, which the methods learned from: {trained.many} of whole numbers",
            "give the table of reads, or train on amounts",
        )
    return table if facts.is_counted else table.with_facts(is_counted=False)
