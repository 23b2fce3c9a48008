"""What a study is, from the user's files alone, before anything is computed."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aam.config import slices
from aam.config.configuration import Config
from aam.config.references import GET_GREENGENES, REFERENCES
from aam.config.sections.model import LINEAGE
from aam.config.settings.data import ImportTreeSettings
from aam.config.settings.describe import DescribeSettings
from aam.config.user_files import user_files
from aam.data.covariates import read_covariates
from aam.data.folds import TEST
from aam.data.importing.metadata import metadata_of
from aam.data.importing.region import ITS, ITS_HAS_NO_TREE, OTHER, SSU_18S, ReadRegion
from aam.data.lineages import SPELLED_BP, match_lineages, spell_lineages
from aam.data.metadata import metadata_column
from aam.data.nouns import Nouns, other_encoder, without_networks
from aam.data.outlier_branches import without_dropped_branches
from aam.data.predictions import NEAR_READS
from aam.data.sequences import tokenize, untokenize
from aam.data.splits import divide_labelled
from aam.data.study.study import (
    Study,
    decision_lines,
    study_sentences,
    task_sentences,
    with_decisions,
)
from aam.data.table import reads_of_samples
from aam.inference.nearness import (
    check_known,
    check_nearness,
    find_near,
    measure_known,
    measure_nearness,
)
from aam.inference.tables import draw_views, like_training, rarefy_views, read_table, texts_for
from aam.report.duration import (
    Part,
    Work,
    describe_time,
    expected_parts,
    is_worth_it,
    propose_faster,
    round_time,
)
from aam.stages.simulate import simulate_study
from aam.util.notes import collect_notes

TREE_S_PER_BASE = 0.1
"""Seconds of MAFFT and FastTree for a thousand sequences, per base of these."""
TREE_POWER = 1.6
"""By how much these seconds grow with the number of sequences.

Two cores of an Intel Xeon, V3-V4, once: 500, 1000 and 2000 sequences took 24, 44 and 162 s."""


def describe_study(
    plan: DescribeSettings,
    *,
    table: Path,
    sequences: Path | None = None,
    tree: Path | None = None,
    metadata: Path | None = None,
    taxonomy: Path | None = None,
) -> str:
    """Read all files of the user, and say what they hold and how long a run takes.

    Parameters
    ----------
    plan
        What a run does with the files.
    table
        The user's table: BIOM 2.1, BIOM 1.0, TSV or `.qza`.
    sequences
        FASTA file or `.qza` with the sequences of the features. None: their IDs are the sequences.
    tree, metadata, taxonomy
        Further files of the user, where there are any.

    Returns
    -------
    str
        Lines of text.

    Raises
    ------
    InputError
        A file has a problem, no sample has enough reads, a task cannot be learned, or a table is
        one of which methods would know nothing.
    """
    study = Study.read(
        table=table,
        sequences=sequences,
        tree=tree,
        metadata=metadata,
        taxonomy=taxonomy,
        values=plan.values,
    )
    return "\n".join(_sentences(study, plan)) + "\n"


def expected_time(study: Study, plan: DescribeSettings) -> Iterator[str]:
    """Yield how long a run of a study takes, as `describe_study` says it.

    Parameters
    ----------
    study
        The user's files.
    plan
        What a run does with them.
    """
    kept = study.at_depth(plan.depth, drops_long_branches=plan.drops_long_branches)
    labels = {}
    # What is decided of the tasks is for `describe_study` to say.
    with collect_notes():
        for name, task in plan.tasks.items():
            _, _, fold, _ = divide_labelled(kept, task)
            labels[name] = _count_labelled(fold)
    longest_bp = max(map(len, study.sequences.values()), default=0)
    work = Work.from_table(plan, study.table, longest_bp=longest_bp)
    yield from describe_time([*_tree_parts(study, plan), *expected_parts(plan, work, labels)])


def _count_labelled(fold_N: NDArray[np.int64]) -> tuple[int, int]:
    """Return the samples of a task that are no test samples, and its folds."""
    return int((fold_N != TEST).sum()), len({*fold_N.tolist()} - {TEST})


@contextmanager
def files_to_read(config: Config, dataset: str) -> Iterator[dict[str, Path]]:
    """Yield the files of a dataset by name; those of a simulated one exist inside the block only.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.

    Yields
    ------
    dict
        Arguments of `describe_study`.
    """
    section = config.datasets[dataset]
    if section.simulate is None:
        yield user_files(config, section)
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {
            "table": root / "table.biom",
            "tree": root / "tree.nwk",
            "metadata": root / "metadata.tsv",
        }
        simulate_study(
            **dict(slices.simulate(config, dataset)),
            table_out=files["table"],
            tree_out=files["tree"],
            metadata_out=files["metadata"],
            new_table_out=root / "new_table.biom",
            new_metadata_out=root / "new_metadata.tsv",
        )
        yield files


def _sentences(study: Study, plan: DescribeSettings) -> list[str]:
    """Return what a study has and what its tasks find."""
    _require_what_networks_need(study, plan)
    kept = study.at_depth(plan.depth, drops_long_branches=plan.drops_long_branches)
    targets = [column for task in plan.tasks.values() for column in task.columns]
    lines = list(study_sentences(study, kept, depth=plan.depth, targets=targets))
    if study.region is not None and plan.tree.digests:
        lines.append(_describe_tree(study.region, len(study.sequences), plan.tree))
    labels: dict[str, tuple[int, int]] = {}
    reads = reads_of_samples(study.table)
    with collect_notes() as notes, with_decisions(notes):
        notes += without_dropped_branches(study.notes, is_dropped=plan.drops_long_branches)
        for name, task in plan.tasks.items():
            wanted, values, fold, groups = divide_labelled(
                kept, task, before=study.metadata, depth=plan.depth
            )
            for column in [*task.categories, *task.report_by]:
                metadata_column(wanted, column)
            if task.covariates:
                read_covariates(wanted.loc[values.index], task.covariates)
            samples, folds = _count_labelled(fold)
            labels[name] = (samples, folds)
            lines.append(f"Task {name}: {samples} labelled samples in {folds} folds.")
            lines += task_sentences(name, task, wanted, values, fold, groups, reads)
        for name, files in plan.predictions.items():
            lines.append(_describe_predicted(name, files, study, plan))
    lines += decision_lines(notes)
    return [*lines, "", *_times(study, plan, labels)]


def _fitting_references(region: ReadRegion, plan: ImportTreeSettings) -> list[str]:
    """Return the references that may have places for sequences of a region of 16S."""
    return [name for name in plan.digests if region.is_v4 or name not in REFERENCES]


def _tree_parts(study: Study, plan: DescribeSettings) -> list[Part]:
    """Return the part of a run that makes a tree, where one has to be made."""
    if study.region is None or not plan.tree.digests:
        return []
    seconds = _tree_seconds(study.region, len(study.sequences), plan.tree)
    return [Part("others", "the tree of the sequences", seconds)] if seconds else []


def _tree_seconds(region: ReadRegion, sequences: int, plan: ImportTreeSettings) -> float:
    """Return about how long MAFFT and FastTree take; 0 where a reference may have the places."""
    if plan.reference is not None:
        return 0.0
    if region.gene not in (ITS, SSU_18S) and _fitting_references(region, plan):
        return 0.0
    per_thousand_s = TREE_S_PER_BASE * region.lengths[1]
    return per_thousand_s * (sequences / 1000) ** TREE_POWER


def _describe_tree(region: ReadRegion, sequences: int, plan: ImportTreeSettings) -> str:
    """Return a sentence on what the tree of sequences will be, where no file is given."""
    if plan.reference is not None:
        text = f"The sequences will be placed in the reference tree {plan.reference}"
        if plan.reference in REFERENCES and region.gene != OTHER and not region.is_v4:
            text += ", which holds V4 alone: take `tree: greengenes`, or none"
        return f"{text}."
    made = f"MAFFT and FastTree make one of the {sequences} sequences"
    if region.gene == ITS:
        return f"No tree is given: {made}. {ITS_HAS_NO_TREE}."
    if region.gene == SSU_18S:
        return f"No tree is given: {made}, since the references hold 16S alone."
    if region.gene == OTHER:
        return f"No tree is given: where no reference fits, {made}."
    names = _fitting_references(region, plan)
    if names:
        return (
            f"No tree is given: the sequences are placed in the reference tree "
            f"{' or '.join(names)} if nine in ten reads lie near it; otherwise {made}."
        )
    seconds = _tree_seconds(region, sequences, plan)
    return (
        f"No tree is given: {made}, in about {round_time(seconds)}. One tree for all regions, in "
        f"which 10 000 sequences are placed in 15 s: {GET_GREENGENES}, once."
    )


def _require_what_networks_need(study: Study, plan: DescribeSettings) -> None:
    """Check that networks can be trained on a table, where there are any.

    Raises
    ------
    InputError
        They cannot.
    """
    if plan.models and not study.facts.is_counted:
        raise without_networks(study.facts)
    for planned in plan.models.values():
        encoder = planned.model.encoder
        if (encoder == LINEAGE) == study.facts.has_sequences:
            raise other_encoder(encoder, reads_lineages=not study.facts.has_sequences)


def _describe_predicted(
    name: str, files: Mapping[str, str], study: Study, plan: DescribeSettings
) -> str:
    """Return a sentence on a table to predict for, after reading it as its prediction does."""
    given = read_table(files["table"], files.get("sequences"), study.facts, study.table.feature_ids)
    if "metadata" in files:
        metadata_of(Path(files["metadata"]), given.table.sample_ids)
    counts = like_training(given.table, study.facts, files["table"])
    sequences = texts_for(given, study.facts)
    if not study.facts.has_sequences:
        draws = draw_views(counts, depth=plan.depth, views=1, seed=0, where=files["table"])
        noun = study.facts.noun
        texts = spell_lineages(study.table.feature_ids, study.ranks, noun)
        nearness = measure_known(draws, match_lineages(texts, sequences, noun).keys())
        check_known(nearness, counts, study.facts, files["table"])
        nouns = Nouns.of_table(study.facts)
        return (
            f"Table {name}, to predict for: {len(nearness)} samples; "
            f"{nearness[NEAR_READS].mean():.0%} of their {nouns.value} are of {nouns.many} of the "
            "study."
        )
    known = [*study.sequences.values()]
    length_bp = max(map(len, known))
    seen_asvs = frozenset(untokenize(*tokenize(known, length_bp)))
    tokens, store = rarefy_views(
        counts,
        sequences,
        depth=plan.depth,
        views=1,
        seed=0,
        max_length_bp=length_bp,
        where=files["table"],
    )
    is_near_U = find_near(tokens, seen_asvs)
    nearness = measure_nearness(store, tokens, seen_asvs, is_near_U, plan.depth)
    check_nearness(nearness, counts, sequences, seen_asvs, files["table"])
    return (
        f"Table {name}, to predict for: {len(nearness)} samples at depth {plan.depth}; "
        f"{nearness[NEAR_READS].mean():.0%} of their reads are near those of the study."
    )


def _times(
    study: Study, plan: DescribeSettings, labels: Mapping[str, tuple[int, int]]
) -> Iterator[str]:
    """Yield how long a run takes, part by part and in all, and what would make it faster."""
    longest_bp = max(map(len, study.sequences.values()), default=SPELLED_BP)
    work = Work.from_table(plan, study.table, longest_bp=longest_bp)
    yield (
        "Estimated time on two cores of this machine, give or take half (`recipe: auto`: its "
        "budget):"
    )
    tree = _tree_parts(study, plan)
    parts = [*tree, *expected_parts(plan, work, labels)]
    nouns = Nouns.of_table(study.table.facts)
    for part in parts:
        what = nouns.rename_asvs(part.what)
        yield f"  {what}: {round_time(part.seconds)}"
    yield from describe_time(parts)
    total_s = sum(part.seconds for part in parts)
    lines, changed = propose_faster(plan, work)
    changed_s = sum(part.seconds for part in [*tree, *expected_parts(changed, work, labels)])
    if lines and is_worth_it(total_s, changed_s):
        yield f"Faster, about {round_time(changed_s)}, with these lines in the configuration:"
        yield from (f"  {line}" for line in lines)
