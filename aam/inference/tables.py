"""Tables of the user as stores of samples and tokens, and what is new in them.

Shape suffixes: N samples, V views, U ASVs.
"""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.augment.views import Augmentation, build_store
from aam.data.importing.counts import import_counts
from aam.data.importing.table import NO_READS
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize, untokenize
from aam.util.errors import first_names

logger = logging.getLogger(__name__)


def read_table(
    table: str | Path | FeatureTable, sequences: str | Path | None
) -> tuple[FeatureTable, Mapping[str, str]]:
    """Return a table as `import_counts` reads it, and the sequence of every feature.

    Parameters
    ----------
    table
        Read counts: BIOM, text in columns or .qza, or a table in memory.
    sequences
        FASTA or .qza, where the feature IDs are not the sequences.

    Returns
    -------
    counts : FeatureTable
        Reads. Samples without reads are left out, and named in a warning.
    sequences : Mapping
        Sequence by feature ID.

    Raises
    ------
    InputError
        A file cannot be read, or features have no sequence.
    """
    given = table if isinstance(table, FeatureTable) else Path(table)
    counts = import_counts(given, None if sequences is None else Path(sequences))
    left_out = counts.left_out
    without_reads = left_out.loc[(left_out["what"] == "sample") & (left_out["why"] == NO_READS)]
    if len(without_reads):
        shown = first_names(without_reads["id"], limit=20)
        logger.warning("these samples have no reads and are left out: %s", shown)
    return counts.table, counts.sequences


def rarefy_views(
    table: FeatureTable,
    sequences: Mapping[str, str],
    depth: int | None,
    views: int,
    seed: int,
    max_length_bp: int,
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
    draws = [table] if depth is None else [rarefy(table, depth, seed, v) for v in range(views)]
    left = {name for draw in draws for name in draw.sample_ids}
    if shallow := sorted({*table.sample_ids} - left):
        logger.warning(
            "of %d samples these have fewer than %d reads and are left out: %s",
            len(table.sample_ids),
            depth,
            first_names(shallow, limit=20),
        )
    drawn = {name for draw in draws for name in draw.feature_ids}
    names = [name for name in table.feature_ids if name in drawn]
    letters_US, length_U = tokenize([sequences[name] for name in names], max_length_bp)
    nothing = Augmentation(asv_dropout=0, cutmix=0, seed=0)
    return TokenStore(names, length_U, letters_US), build_store(names, draws, nothing)


def unseen_share(
    store: SampleStore, tokens: TokenStore, seen_asvs: Collection[str], depth: int
) -> NDArray[np.float64]:
    """Return the fraction of the reads whose ASV is new.

    Parameters
    ----------
    store, tokens
        Samples that were rarefied to `depth`, and their ASVs.
    seen_asvs
        Sequences of the table of training.
    depth
        Reads of every sample in every view.

    Returns
    -------
    numpy.ndarray
        Mean of the views, [N].
    """
    sequences_U = untokenize(tokens.tokens, tokens.lengths)
    is_new_U = np.array([name not in seen_asvs for name in sequences_U], float)
    reads_VN = [store.view_matrix(view, len(is_new_U)) @ is_new_U for view in range(store.views)]
    unseen_N: NDArray[np.float64] = np.mean(reads_VN, axis=0) / depth
    return unseen_N
