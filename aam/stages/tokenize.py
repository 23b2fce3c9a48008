"""The token cache of a table."""

import logging
from collections.abc import Mapping
from pathlib import Path

from aam.data.nouns import without_networks
from aam.data.sequences import read_fasta, tokenize
from aam.data.stores import TokenStore, write_tokens
from aam.data.table import read_biom

logger = logging.getLogger(__name__)


def tokenize_asvs(
    *,
    table: Path,
    sequences: Path,
    max_length_bp: int,
    tokens_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Turn the sequence of every ASV of a table into tokens, in the order of the table.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    sequences
        FASTA file with the sequence of every ASV of the table.
    max_length_bp
        Longer sequences are cut to this length.
    tokens_out
        Arrow file to write: see `aam.data.stores.TokenStore`.
    provenance
        Metadata of the file that is written (`aam.util.digests`).

    Raises
    ------
    InputError
        The table has amounts, or its features have no sequences.
    """
    counted = read_biom(table)
    if not (counted.facts.has_sequences and counted.facts.is_counted):
        raise without_networks(counted.facts)
    feature_ids = counted.feature_ids
    sequence_of = read_fasta(sequences)
    wanted = [sequence_of[feature] for feature in feature_ids]
    tokens, lengths = tokenize(wanted, max_length_bp)
    if cut := sum(len(sequence) > max_length_bp for sequence in wanted):
        logger.info("%d sequences cut to %d nucleotides", cut, max_length_bp)
    logger.info("%d sequences of %d to %d nucleotides", len(lengths), lengths.min(), lengths.max())
    write_tokens(tokens_out, TokenStore(feature_ids, lengths, tokens), provenance)
