"""The token cache of a table."""

import logging
from collections.abc import Mapping
from pathlib import Path

from aam.data.lineages import SPELLED_BP, read_ranks, spell_lineages
from aam.data.nouns import without_networks
from aam.data.sequences import read_fasta, tokenize
from aam.data.stores import TokenStore, write_tokens
from aam.data.table import read_biom

logger = logging.getLogger(__name__)


def tokenize_asvs(
    *,
    table: Path,
    sequences: Path,
    taxonomy: Path | None = None,
    max_length_bp: int,
    tokens_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Turn the sequence or lineage of every feature of a table into tokens, in its order.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    sequences
        FASTA file with the sequence of every feature; empty where they have none: their lineages
        are then spelled (`aam.data.lineages`).
    taxonomy
        TSV file with the taxon of each feature (`aam.stages.import_taxonomy`), for features without
        sequences; None: the table has their lineages, where there are any.
    max_length_bp
        Longer sequences are cut to this length. Lineages are not.
    tokens_out
        Arrow file to write: see `aam.data.stores.TokenStore`.
    provenance
        Metadata of the file that is written (`aam.util.digests`).

    Raises
    ------
    InputError
        The table has amounts.
    """
    counted = read_biom(table)
    if not counted.facts.is_counted:
        raise without_networks(counted.facts)
    feature_ids = counted.feature_ids
    if not counted.facts.has_sequences:
        text_of = spell_lineages(feature_ids, read_ranks(table, taxonomy), counted.facts.noun)
        words, word_lengths = tokenize([*text_of.values()], SPELLED_BP)
        logger.info("%d features, spelled by their lineages", len(feature_ids))
        write_tokens(
            tokens_out,
            TokenStore(feature_ids, word_lengths, words, are_lineages=True),
            provenance,
        )
        return
    sequence_of = read_fasta(sequences)
    wanted = [sequence_of[feature] for feature in feature_ids]
    tokens, lengths = tokenize(wanted, max_length_bp)
    if cut := sum(len(sequence) > max_length_bp for sequence in wanted):
        logger.info("%d sequences cut to %d nucleotides", cut, max_length_bp)
    logger.info("%d sequences of %d to %d nucleotides", len(lengths), lengths.min(), lengths.max())
    write_tokens(tokens_out, TokenStore(feature_ids, lengths, tokens), provenance)
