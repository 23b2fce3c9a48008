"""The token cache of a table."""

import logging

from aam.data.sequences import read_fasta
from aam.data.table import read_biom
from aam.data.tokens import TokenStore, write_tokens
from aam.data.vocabulary import tokenize
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Write the tokens of every feature of a table, in its order."""
    feature_ids = read_biom(inputs["table"]).feature_ids
    sequence_of = read_fasta(inputs["sequences"])
    sequences = [sequence_of[feature] for feature in feature_ids]
    tokens, lengths = tokenize(sequences, cfg["max_length_bp"])
    if cut := sum(len(sequence) > cfg["max_length_bp"] for sequence in sequences):
        logger.info("%d sequences cut to %d nucleotides", cut, cfg["max_length_bp"])
    logger.info("%d sequences of %d to %d nucleotides", len(lengths), lengths.min(), lengths.max())
    store = TokenStore(feature_ids, lengths, tokens)
    write_tokens(outputs["tokens"], store, provenance(cfg, inputs))
