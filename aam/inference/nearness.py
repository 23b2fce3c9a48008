"""How near the reads of another table are to the ASVs of training, and why they may not be.

Methods know an ASV by its bases from the first one on. A table of the other strand, of another
region, or with a primer left on therefore holds nothing that they know, however complete it is.

Shape suffixes: N samples, U ASVs that were drawn from the table, F features of the table, K known
ASVs, R some ASVs, S positions, P words.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.references import GET_GREENGENES
from aam.data.lineages import LEVELS
from aam.data.nouns import LEAST_SHARE, Nouns
from aam.data.predictions import FEW_NEAR, NEAR_READS, UNSEEN_ASVS
from aam.data.sequences import untokenize
from aam.data.stores import SampleStore, TokenStore
from aam.data.table import FeatureTable, TableFacts
from aam.reference_tree.nearest import NEAR, UNKNOWN, KnownSequences, encode, reverse_complement
from aam.util.errors import first_names, problem
from aam.util.notes import CAUTION

logger = logging.getLogger(__name__)

LEAST_NEAR = 0.05
"""Mean fraction of near reads below which a table is refused: its predictions rest on nothing.

`python -m benchmarks.near_reads` measures it on public studies of the region V4. From one half of a
study to the other the mean is 0.97 to 1.00, whether reads are cut to 90 bases or not; between three
studies of people it is at least 0.61. The other strand, another start, if only by a base, and
another part of the region give 0.000. Of the 210 pairs of the 15 studies of the corpus 31 lie below
0.05: one of both is of sea water, river sediment or fish, and the other is of another environment.
"""
MOST_COMPARED = 300
"""ASVs with most reads, of those that are not near, that a cause is looked for in."""
LEAST_EXPLAINED = 0.1
"""Fraction of the reads that a cause has to bring near: by chance it brings none."""
SAME_START = 0.2
"""Median difference per base to the nearest known ASV up to which reads begin at the same base.

Between the studies of the corpus it is at most 0.16, of other strands and starts at least 0.27
(`python -m benchmarks.near_reads`).
"""
LONGEST_SHIFT = 40
"""Bases that reads of the same region begin before or behind the known ones at most."""
NEAR_WAY = 0.1
"""Length of the way in a tree of whole genes, in substitutions per site, up to which a read of
another region counts as near an ASV of training."""
SEED_BP = 12
"""Bases of the words that show where in the known ASVs others begin."""
_SERIAL = re.compile(r"(asv|sv|esv|z?otu)[_ .-]?\d+", re.IGNORECASE)
"""IDs that are numbers of a run; the numbers of a reference have no word in front."""


@dataclass(frozen=True)
class _Cause:
    """What brings reads near, that are not near as they are."""

    is_reversed: bool
    """Whether their reverse complements are near."""
    offset: int
    """Bases before the first one of the known ASVs; negative: behind it."""
    explained: float
    """Fraction of the reads that becomes near."""


def measure_nearness(
    store: SampleStore,
    tokens: TokenStore,
    seen_asvs: Collection[str],
    is_near_U: NDArray[np.bool_],
    depth: int,
) -> pd.DataFrame:
    """Return how many reads of each sample are of unseen ASVs, and of ASVs that methods know.

    Parameters
    ----------
    store, tokens
        Samples that were rarefied to `depth`, and their ASVs.
    seen_asvs
        Sequences of the table of training.
    is_near_U
        Whether each ASV is near one that the methods learned from.
    depth
        Reads of every sample in every view.

    Returns
    -------
    pandas.DataFrame
        By sample ID `UNSEEN_ASVS` and `NEAR_READS`, fractions of the reads, means of the views. A
        seen ASV counts as near.
    """
    sequences_U = untokenize(tokens.tokens, tokens.lengths)
    is_new_U = np.array([name not in seen_asvs for name in sequences_U], bool)
    counted_UC = np.stack([is_new_U, is_near_U | ~is_new_U], axis=1).astype(float)
    views = [store.view_matrix(view, len(is_new_U)) @ counted_UC for view in range(store.views)]
    shares_NC = np.mean(views, axis=0) / depth
    index = pd.Index(store.sample_ids, name="sample-id")
    return pd.DataFrame(shares_NC, index, [UNSEEN_ASVS, NEAR_READS])


def measure_known(draws: Sequence[FeatureTable], known: Collection[str]) -> pd.DataFrame:
    """Return what `measure_nearness` does, of features that are known or not, without sequences.

    Parameters
    ----------
    draws
        Views of the same samples.
    known
        IDs of the features that methods know.

    Returns
    -------
    pandas.DataFrame
        As of `measure_nearness`; what is not known is unseen.
    """
    shares = []
    for draw in draws:
        is_known_F = np.array([name in known for name in draw.feature_ids], float)
        shares.append((draw.counts @ is_known_F) / draw.reads)
    near_N = np.mean(shares, axis=0)
    index = pd.Index(draws[0].sample_ids, name="sample-id")
    return pd.DataFrame({UNSEEN_ASVS: 1 - near_N, NEAR_READS: near_N}, index)


def check_known(
    nearness: pd.DataFrame, table: FeatureTable, facts: TableFacts, where: object
) -> None:
    """Refuse a table of whose features methods know nothing, and name samples of few known ones.

    Parameters
    ----------
    nearness
        What `measure_known` returns; or `measure_nearness`, of lineages.
    table
        The other table.
    facts
        What the table of training held.
    where
        What messages call the table.

    Raises
    ------
    InputError
        The mean share of what is known is below `LEAST_NEAR`, or below `FEW_NEAR` and the features
        are of another rank.
    """
    trained = Nouns.of_table(facts)
    given = Nouns.of_table(table.facts)
    near_N = nearness[NEAR_READS]
    is_other_rank = {given.one, trained.one} <= {*LEVELS} and given.one != trained.one
    # Networks know of an unseen species its genus, but not what another rank adds up.
    known_N = 1 - nearness[UNSEEN_ASVS] if is_other_rank else near_N
    if known_N.mean() < (FEW_NEAR if is_other_rank else LEAST_NEAR):
        rank = f"{given.many}, but the methods learned from {trained.many}: "
        if given.one == trained.one:
            rank = f"other {given.many} than those of training: "
        raise problem(
            where,
            f"{rank}{_percent(known_N.mean())} of the {given.value} of its {len(near_N)} samples "
            f"are of known ones; its IDs are {first_names(table.feature_ids, limit=3)}",
            f"{trained.many} named as in training",
            f"give a table of {trained.many}, by the same reference, or train on a table like it",
        )
    few = near_N.index[near_N < FEW_NEAR]
    if len(few):
        logger.warning(
            "%s: in these %d of %d samples less than %s of the %s are of %s of training (column "
            "%s): %s. What is predicted for them rests on little: they get no interval, or the set "
            "of all classes",
            where,
            len(few),
            len(near_N),
            _percent(FEW_NEAR),
            given.value,
            trained.many,
            NEAR_READS,
            first_names(few, limit=20),
        )


def warn_of_serial_ids(table: FeatureTable, where: object) -> None:
    """Warn where features are known by numbers alone, which a pipeline assigns in each run.

    Parameters
    ----------
    table
        The other table, without sequences.
    where
        What messages call the table.
    """
    serial = [name for name in table.feature_ids if _SERIAL.fullmatch(name)]
    if table.facts.has_lineages or len(serial) < LEAST_SHARE * len(table.feature_ids):
        return
    logger.warning(
        "%s: IDs such as %s are numbers that a pipeline assigns in each run, so that one ID may be "
        "another organism than in training: predictions hold only if both tables come from one run",
        where,
        first_names(serial, limit=3),
        extra=CAUTION,
    )


def warn_of_unknown(table: FeatureTable, known: Collection[str], where: object) -> None:
    """Name the features of another table that methods do not know, and their share.

    Parameters
    ----------
    table
        The other table.
    known
        IDs of the features that methods know.
    where
        What messages call the table.
    """
    given = Nouns.of_table(table.facts)
    is_unknown_F = np.array([name not in known for name in table.feature_ids], bool)
    if not is_unknown_F.any():
        return
    share_F = np.asarray(table.counts.sum(axis=0)).ravel() / table.counts.sum()
    order = np.argsort(-share_F, kind="stable")
    unknown = [table.feature_ids[at] for at in order if is_unknown_F[at]]
    logger.warning(
        "%s: %d of its %d %s were not in training and are left out, %s of the %s: %s",
        where,
        len(unknown),
        len(share_F),
        given.many,
        _percent(float(share_F[is_unknown_F].sum())),
        given.value,
        first_names(unknown, limit=5),
    )


def find_near(tokens: TokenStore, seen_asvs: Collection[str]) -> NDArray[np.bool_]:
    """Return whether each ASV is near one of the table of training.

    Parameters
    ----------
    tokens
        ASVs of another table.
    seen_asvs
        Sequences of the table of training.

    Returns
    -------
    numpy.ndarray
        [U], by `KnownSequences.nearest`, as baselines map ASVs to known ones.
    """
    known = _known(seen_asvs)
    texts = untokenize(tokens.tokens, tokens.lengths)
    return known.nearest(encode(texts, known.length_bp)).is_near_Q


def is_of_other_region(
    nearness: pd.DataFrame,
    table: FeatureTable,
    sequences: Mapping[str, str],
    seen_asvs: Collection[str],
) -> bool:
    """Return whether the reads of a table are of another region than those of training.

    Reads that a primer's length more or less at their start would bring near are of the same one.

    Parameters
    ----------
    nearness, table, sequences, seen_asvs
        As for `check_nearness`.
    """
    near_N = nearness[NEAR_READS]
    if near_N.mean() >= LEAST_NEAR:
        return False
    known = _known(seen_asvs)
    texts, weights = _far_asvs(table, sequences, list(near_N.index), known)
    cause = _find_cause(texts, weights, known)
    if cause is not None:
        return abs(cause.offset) > LONGEST_SHIFT
    return _median_distance(texts, weights, known) > SAME_START


def check_nearness(
    nearness: pd.DataFrame,
    table: FeatureTable,
    sequences: Mapping[str, str],
    seen_asvs: Collection[str],
    where: object,
) -> None:
    """Refuse a table of which methods know nothing, and name samples of which they know little.

    Parameters
    ----------
    nearness
        What `measure_nearness` returns.
    table, sequences
        Reads before rarefaction, and the sequence of every feature, uncut.
    seen_asvs
        Sequences of the table of training.
    where
        What messages call the table.

    Raises
    ------
    InputError
        The mean of the near reads is below `LEAST_NEAR`.
    """
    near_N = nearness[NEAR_READS]
    few = near_N.index[near_N < FEW_NEAR]
    if near_N.mean() < LEAST_NEAR:
        known = _known(seen_asvs)
        texts, weights = _far_asvs(table, sequences, list(near_N.index), known)
        cause = _find_cause(texts, weights, known)
        raise problem(
            where,
            f"{len(near_N)} samples in which {_percent(near_N.mean())} of the reads are of ASVs of "
            f"training, or differ from one in at most {_percent(NEAR)} of the bases; "
            + (_describe(cause) if cause else _describe_unknown(texts, weights, known)),
            "reads of the strand, the region and the kind of samples that the models learned from",
            _advise(cause),
        )
    if len(few):
        known = _known(seen_asvs)
        texts, weights = _far_asvs(table, sequences, list(few), known)
        cause = _find_cause(texts, weights, known)
        logger.warning(
            "%s: in these %d of %d samples less than %s of the reads are of ASVs of training, or "
            "differ from one in at most %s of the bases (column %s): %s%s. What is predicted for "
            "them rests on little: they get no interval, or the set of all classes. Hint: %s",
            where,
            len(few),
            len(near_N),
            _percent(FEW_NEAR),
            _percent(NEAR),
            NEAR_READS,
            first_names(few, limit=20),
            f"; {_describe(cause)}" if cause else "",
            _advise(cause),
        )


def check_ways(
    table: FeatureTable, ways: Mapping[str, float], where: object, reference: str
) -> None:
    """Refuse a table of another region whose reads lie apart from training, and warn of others.

    Parameters
    ----------
    table
        Reads before rarefaction.
    ways
        By feature the length of the way to the nearest ASV of training, in substitutions per site;
        features without a place are absent.
    where
        What messages call the table.
    reference
        Name of the reference in whose tree the places are.

    Raises
    ------
    InputError
        Less than `FEW_NEAR` of the reads, on average over the samples, lie within `NEAR_WAY`.
    """
    is_near_F = np.array([ways.get(name, np.inf) <= NEAR_WAY for name in table.feature_ids])
    near = float(np.mean((table.counts @ is_near_F.astype(float)) / table.reads))
    said = (
        f"reads of another region than those of training, of which {_percent(near)} lie within "
        f"{NEAR_WAY} substitutions per site of an ASV of training in the tree of {reference}"
    )
    if near < FEW_NEAR:
        raise problem(
            where,
            said,
            f"at least {_percent(FEW_NEAR)}: 16S of samples like those of training",
            "predict samples of the kind that the methods learned from, or train on samples like "
            "these",
        )
    logger.warning(
        "%s: %s. Each counts as the ASV of training that lies nearest, and errors are larger than "
        "those of cross-validation (docs/explanation/reference-tree.md): there are no intervals, "
        "or the set of all classes",
        where,
        said,
        extra=CAUTION,
    )


def _known(seen_asvs: Collection[str]) -> KnownSequences:
    texts = sorted(seen_asvs)
    return KnownSequences(encode(texts, max(map(len, texts))))


def _far_asvs(
    table: FeatureTable,
    sequences: Mapping[str, str],
    sample_ids: Sequence[str],
    known: KnownSequences,
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the ASVs with most reads in some samples that are not near, and their reads' share."""
    rows = pd.Index(table.sample_ids).get_indexer(pd.Index(sample_ids))
    counts = table.counts[rows]
    weight_F = (counts.T @ (1 / counts.sum(axis=1))) / len(rows)
    texts = [sequences[name] for name in table.feature_ids]
    is_near_F = known.nearest(encode(texts, known.length_bp)).is_near_Q
    weight_F = np.where(is_near_F, 0.0, weight_F)
    # The sequence decides between equals, so that the order of columns changes nothing.
    order = sorted(np.flatnonzero(weight_F > 0), key=lambda at: (-weight_F[at], texts[at]))
    chosen = order[:MOST_COMPARED]
    return [texts[at] for at in chosen], weight_F[chosen]


def _find_cause(
    texts: Sequence[str], weight_R: NDArray[np.float64], known: KnownSequences
) -> _Cause | None:
    """Return what brings most reads near; None: nothing brings enough of them."""
    causes = []
    for is_reversed in (False, True):
        turned = [reverse_complement(text) for text in texts] if is_reversed else list(texts)
        bases_RS = encode(turned, max(map(len, turned)))
        for offset in sorted({0, _likely_offset(bases_RS, weight_R, known)}):
            share = _near_share(bases_RS, offset, weight_R, known)
            causes.append(_Cause(is_reversed, offset, share))
    # Among equals the one that takes least to explain comes first.
    best = max(causes, key=lambda one: (one.explained, not one.is_reversed, -abs(one.offset)))
    return best if best.explained >= LEAST_EXPLAINED else None


def _near_share(
    bases_RS: NDArray[np.uint8], offset: int, weight_R: NDArray[np.float64], known: KnownSequences
) -> float:
    """Return the share of the reads that is near when its first `offset` bases are left out.

    If `offset` is negative, as many unknown bases are put before them. ASVs of which less than half
    can be compared do not count.
    """
    length_R = np.minimum((bases_RS != UNKNOWN).sum(axis=1), known.length_bp)
    before = max(-offset, 0)
    shifted_RS = np.pad(
        bases_RS[:, max(offset, 0) :], ((0, 0), (before, 0)), constant_values=UNKNOWN
    )
    nearest = known.nearest(shifted_RS)
    is_near_R = nearest.is_near_Q & (2 * nearest.compared_Q >= length_R)
    return float(weight_R[is_near_R].sum() / weight_R.sum())


def _likely_offset(
    bases_RS: NDArray[np.uint8], weight_R: NDArray[np.float64], known: KnownSequences
) -> int:
    """Return where, relative to known ASVs, most words of others stand; 0 where none is shared."""
    known_word_KP = _words(known.bases_US)
    word_RP = _words(bases_RS)
    positions = known_word_KP.shape[1]
    rows, known_position = np.nonzero(known_word_KP >= 0)
    known_word = known_word_KP[rows, known_position]
    # Each pair of a word and its position counts once, however many known ASVs have it.
    pairs = np.unique(known_word * max(positions, 1) + known_position)
    known_word = pairs // max(positions, 1)
    known_position = pairs % max(positions, 1)
    rows, position = np.nonzero(word_RP >= 0)
    word = word_RP[rows, position]
    first = np.searchsorted(known_word, word, side="left")
    number = np.searchsorted(known_word, word, side="right") - first
    if not number.sum():
        return 0
    # For every word the numbers of the pairs that have it, one after the other.
    ends = np.cumsum(number)
    pair = np.arange(ends[-1]) - np.repeat(ends - number, number) + np.repeat(first, number)
    offset = np.repeat(position, number) - known_position[pair]
    votes = np.bincount(offset + positions, weights=np.repeat(weight_R[rows], number))
    return int(votes.argmax()) - positions


def _words(bases_US: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the word that begins at each position as a number; -1 where a base is unknown."""
    positions = max(bases_US.shape[1] - SEED_BP + 1, 0)
    word_UP = np.zeros((len(bases_US), positions), np.int64)
    is_word_UP = np.ones((len(bases_US), positions), bool)
    for step in range(SEED_BP):
        part_UP = bases_US[:, step : step + positions]
        word_UP = 4 * word_UP + part_UP
        is_word_UP &= part_UP != UNKNOWN
    return np.where(is_word_UP, word_UP, -1)


def _describe(cause: _Cause) -> str:
    """Return what a cause brings, as part of a sentence."""
    what = "of the reads that are not"
    if cause.is_reversed:
        what += ", as their reverse complements,"
    if cause.offset > 0:
        how = (
            f"would be near without their first {cause.offset} bases: a primer was left on, or "
            "their region begins earlier"
        )
    elif cause.offset < 0:
        how = (
            f"would be near if they began {-cause.offset} bases earlier: more was trimmed from "
            "their start than in training, or their region begins later"
        )
    else:
        how = "would be near: they are of the other strand"
    return f"{_percent(cause.explained)} {what} {how}"


def _describe_unknown(
    texts: Sequence[str], weight_R: NDArray[np.float64], known: KnownSequences
) -> str:
    """Return what is known of reads that no cause brings near, as part of a sentence."""
    median = _median_distance(texts, weight_R, known)
    if median <= SAME_START:
        return (
            f"half of them differ from the nearest one in {_percent(median)} of the bases or more: "
            "the region is the same, but the organisms are others"
        )
    return (
        "neither their reverse complements nor another start would bring them near: they are of "
        "another region, or of another gene"
    )


def _median_distance(
    texts: Sequence[str], weight_R: NDArray[np.float64], known: KnownSequences
) -> float:
    """Return the differences per base to the nearest known ASV that half of the reads exceed."""
    distance_R = known.nearest(encode(texts, known.length_bp)).distance_Q
    order = np.argsort(distance_R)
    middle = np.searchsorted(np.cumsum(weight_R[order]), 0.5 * weight_R.sum())
    return float(distance_R[order][middle])


def _advise(cause: _Cause | None) -> str:
    """Return what to do, as an imperative."""
    if cause is None:
        return (
            "predict samples of the kind that the models learned from, amplified with the same "
            "primers, or train on samples like these; baselines without networks predict other "
            f"regions of 16S by their places in a tree of whole genes: {GET_GREENGENES}"
        )
    steps = []
    if cause.is_reversed:
        steps.append(
            "reverse-complement the sequences (`vsearch --fastx_revcomp rep-seqs.fasta "
            "--fastaout turned.fasta`)"
        )
    if cause.offset < 0:
        steps.append(
            f"make the table again with {-cause.offset} more bases at the start of its reads, or "
            f"train again on reads without their first {-cause.offset} bases"
        )
        return ", then ".join(steps)
    if cause.offset > 0:
        steps.append(
            f"cut the first {cause.offset} bases off the sequences (`cutadapt --cut "
            f"{cause.offset} --output cut.fasta rep-seqs.fasta`)"
        )
    return f"{', then '.join(steps)}, and give the new file as `sequences` with the same table"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
