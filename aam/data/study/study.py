"""A study as every command and stage sees it: read once from the user's files, at one depth.

Also sentences on it: what its files hold, what looks wrong, and what may flatter its scores.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.config.settings.tasks import FoldsSettings
from aam.data.confounding import (
    Number,
    Observed,
    RivalScore,
    list_others,
    list_rivals,
    measure_alone,
)
from aam.data.folds import TEST, units_of
from aam.data.importing.counts import import_counts, warn_of_odd_reads
from aam.data.importing.metadata import metadata_of
from aam.data.importing.region import ReadRegion
from aam.data.importing.table import NO_AMOUNTS, NO_READS
from aam.data.importing.taxonomy import taxonomy_of
from aam.data.importing.tree import load_cut_tree
from aam.data.nouns import Nouns, split_lineage
from aam.data.rarefaction import too_deep
from aam.data.roles import is_blank, names_units, says_kind_of_sample
from aam.data.study.columns import columns_of, propose_grouping, technical_columns, unit_columns
from aam.data.study.proposal import depth_sentences, other_units, propose_depth
from aam.data.table import FeatureTable, TableFacts
from aam.data.tree_building import outlier_branches, warn_of_long_branches
from aam.util.errors import InputError, first_few, first_names
from aam.util.notes import Note, collect_notes

CHANCE_OF_OTHERS = 0.01
"""Corrected p-value from which on a column that is no rival predicts a target by chance."""
DEPTHS = (500, 1000, 2000, 5000, 10_000, 20_000)


@dataclass(frozen=True, eq=False)
class Study:
    """The content of a study's files, without what every run leaves out.

    `aam init` and `aam check` read all files at once by `read`. The stages of a run read one file
    each, by the same functions.
    """

    table: FeatureTable
    """Reads or amounts, without what `import_counts` leaves out."""
    left_out: pd.DataFrame
    """`what`, `id` and `why` of what it leaves out."""
    sequences: Mapping[str, str]
    """Sequence by feature ID; empty if they have none."""
    metadata: pd.DataFrame
    """Text by sample ID, a row per sample of the table, None where missing."""
    taxa: Mapping[str, str] | None = None
    """Taxon by feature ID; None: no taxonomy is given."""
    lineages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ranks by feature ID, of features without sequences whose table has them."""
    has_tree: bool = False
    """Whether a tree is given; it has a tip for every feature then."""
    behind_long_branches: frozenset[str] = frozenset()
    """Features behind outlier branches of that tree."""
    region: ReadRegion | None = None
    """What the sequences are of; None where there are none."""
    notes: tuple[Note, ...] = ()
    """What was decided for the user while the files were read."""

    @classmethod
    def read(
        cls,
        *,
        table: Path,
        sequences: Path | None = None,
        tree: Path | None = None,
        metadata: Path | None = None,
        taxonomy: Path | None = None,
        values: Literal["reads", "amounts"] | None = None,
    ) -> "Study":
        """Read and check all files of a study.

        Parameters
        ----------
        table
            The user's table.
        sequences, tree, metadata, taxonomy
            Further files of the user, where there are any.
        values
            What the numbers of the table are; None: it is recognized.

        Raises
        ------
        InputError
            A file cannot be read, or does not belong to the table.
        """
        with collect_notes() as notes:
            # Sequences of a file of their own tell samples from features themselves.
            axes = None if sequences else metadata
            counts = import_counts(table, sequences, metadata=axes, values=values)
            sample_ids = counts.table.sample_ids
            feature_ids = counts.table.feature_ids
            # The order is that of the stages of a run, so that `check` warns in the order in which
            # the page does.
            region = counts.region()
            warn_of_odd_reads(table, region)
            rows = pd.DataFrame(index=pd.Index(sample_ids))
            if metadata is not None:
                rows = metadata_of(metadata, sample_ids)
            taxa = None
            if taxonomy is not None:
                taxa = taxonomy_of(taxonomy, feature_ids, counts.other_names)
            outliers: set[str] = set()
            if tree is not None:
                cut = load_cut_tree(tree, feature_ids, counts.other_names)
                # Only of trees of sequences the unit of the branches is known.
                if counts.table.facts.has_sequences:
                    warn_of_long_branches(cut)
                for names, _ in outlier_branches(cut):
                    outliers.update(names)
        return cls(
            table=counts.table,
            left_out=counts.left_out,
            sequences=counts.sequences,
            lineages=counts.lineages,
            metadata=rows,
            taxa=taxa,
            has_tree=tree is not None,
            behind_long_branches=frozenset(outliers),
            region=region,
            notes=tuple(notes),
        )

    @property
    def facts(self) -> TableFacts:
        """What the table holds and can do."""
        return self.table.facts

    @property
    def ranks(self) -> dict[str, list[str]]:
        """Ranks by feature ID, of features without sequences: of the taxonomy, or of the table."""
        if self.taxa is None:
            return {name: [*ranks] for name, ranks in self.lineages.items()}
        return {name: split_lineage(taxon) for name, taxon in self.taxa.items()}

    @property
    def can_have_tree(self) -> bool:
        """Whether a tree is given, or can be made of sequences or lineages."""
        return bool(self.has_tree or self.facts.has_sequences or self.lineages or self.taxa)

    @property
    def blanks(self) -> list[str]:
        """IDs of samples that are blanks, by their ID or by what the metadata call them."""
        is_blank_N = np.array([is_blank(name) for name in self.metadata.index], bool)
        for name in map(str, self.metadata):
            if says_kind_of_sample(name):
                values = self.metadata[name]
                called = [value for value in values.dropna().unique() if is_blank(value)]
                is_blank_N |= values.isin(called).to_numpy()
        return list(self.metadata.index[is_blank_N])

    def reads_that_matter(self, columns: Sequence[str] = ()) -> NDArray[Any]:
        """Return the reads of the samples that a rarefaction depth should keep.

        Parameters
        ----------
        columns
            Columns to predict; none: all columns count.

        Returns
        -------
        numpy.ndarray
            Reads of the samples with a value in one of the columns that are no blanks; of all
            samples where there are no such samples.
        """
        values = self.metadata[list(columns)] if columns else self.metadata
        matters = values.notna().any(axis=1).to_numpy() & ~self.metadata.index.isin(self.blanks)
        reads = self.table.reads
        return reads[matters] if matters.any() else reads

    def at_depth(self, depth: int, *, drops_long_branches: bool = False) -> pd.DataFrame:
        """Return the metadata of the samples that rarefaction keeps: what tasks are made of.

        Parameters
        ----------
        depth
            Reads that are drawn from each sample. All samples of a table of amounts are kept.
        drops_long_branches
            Whether features behind outlier branches of the given tree are left out first. Those of
            a tree that a run makes are not known yet.

        Returns
        -------
        pandas.DataFrame
            Rows of `metadata`.

        Raises
        ------
        InputError
            No sample has enough reads.
        """
        table = self.table
        if not self.facts.is_counted:
            return self.metadata
        if drops_long_branches:
            table = table.without_features(self.behind_long_branches)
        reads = pd.Series(table.reads, index=table.sample_ids)
        kept = [name for name in self.metadata.index if reads.get(name, 0) >= depth]
        if not kept:
            raise too_deep(table.sample_ids, table.reads, depth)
        rows = self.metadata.loc[kept]
        # Selecting rows may lose the attributes, which hold the types that the file declares.
        rows.attrs = dict(self.metadata.attrs)
        return rows


def study_sentences(
    study: Study, kept: pd.DataFrame, *, depth: int, targets: Sequence[str] = ()
) -> Iterator[str]:
    """Yield sentences on a study: reads, sequences, depths, columns, groups, missing values.

    Parameters
    ----------
    study
        Its files.
    kept
        Metadata of the samples that rarefaction keeps, by `Study.at_depth`: columns are described
        as tasks find them.
    depth
        Reads that are drawn from each sample.
    targets
        Columns that tasks predict.
    """
    table = study.table
    reads = table.reads
    nouns = Nouns.of_table(study.facts)
    size = f"{len(reads)} samples, {len(table.feature_ids)} {nouns.many}"
    if study.facts.is_counted:
        yield (
            f"{size}, {reads.sum():,} reads: {np.median(reads):,.0f} in the median sample, "
            f"{reads.min():,} to {reads.max():,}."
        )
    else:
        yield f"{size}, amounts: each sample is scaled to one."
    if study.region is not None:
        yield str(study.region)
    empty = int(study.left_out["why"].isin([NO_READS, NO_AMOUNTS]).sum())
    if empty:
        yield f"{empty} samples and {nouns.many} have no {nouns.value}, and are left out."
    if study.has_tree:
        yield f"The tree has a tip for every {nouns.one}."
    elif study.lineages or (study.taxa and not study.facts.has_sequences):
        yield "Their lineages make the tree: one unit of length a rank."
    elif not study.can_have_tree:
        yield (
            "They have neither sequences nor a tree nor lineages: Bray-Curtis stands where UniFrac "
            "does (`tree: false`)."
        )
    if study.taxa is not None:
        share = sum(map(bool, study.taxa.values())) / len(study.taxa)
        yield f"{share:.0%} of the {nouns.many} have a taxon."
    blanks = study.blanks
    if blanks:
        yield describe_blanks(blanks)
    if study.facts.is_counted:
        labels = [name for name in targets if name in study.metadata]
        that_matter = study.reads_that_matter(labels)
        proposed = propose_depth(that_matter)
        shown = sorted({proposed, *(one for one in DEPTHS if one <= that_matter.max())})
        share_kept = ", ".join(f"{one} keeps {np.mean(that_matter >= one):.0%}" for one in shown)
        yield f"Rarefaction depths: {share_kept}. Proposed: {proposed}."
        yield from depth_sentences(that_matter, depth, are_labelled=bool(labels))
    columns = columns_of(kept)
    unknown = int(study.metadata.isna().all(axis=1).sum())
    if columns and unknown:
        yield f"{unknown} samples have no metadata."
    which = f"the {len(kept)} samples that rarefaction keeps"
    if not study.facts.is_counted:
        which = f"{len(kept)} samples"
    yield f"{len(columns)} metadata columns, in {which}:"
    yield from (f"  {one}" for one in columns)
    # A column `Patient` of patients and controls may be what is predicted.
    others = [one for one in columns if one.name not in targets]
    together = propose_grouping(others)
    if together is not None:
        yield (
            f"Samples of one `{together.name}` should stay together (`groups`): there are "
            f"{len(together.counts)}; scores would be too good otherwise."
        )
        yield from other_units(others, together)
    technical = [one.name for one in technical_columns(columns) if one.kind == "classes"]
    if technical:
        yield (
            f"Columns on how samples were processed: {first_few(technical)}. Check whether the "
            "classes differ in these, as a model would learn them instead."
        )


def describe_blanks(blanks: Sequence[str]) -> str:
    """Return which samples are blanks by their names, and what follows from it."""
    return (
        f"{len(blanks)} samples are blanks by their names ({first_names(blanks)}): they do not "
        "count for the proposed depth. Leave them out of tasks with `where`."
    )


def decision_lines(notes: Sequence[Note]) -> list[str]:
    """Return what was decided for the user as lines of a terminal, the cautions first.

    Parameters
    ----------
    notes
        Decisions; where there are none, there are no lines.
    """
    if not notes:
        return []
    ordered = sorted(notes, key=lambda note: not note.is_caution)
    return ["Decided for you:", *(f"  {note.text}" for note in ordered)]


@contextmanager
def with_decisions(notes: Sequence[Note]) -> Iterator[None]:
    """Add to a refusal what was decided before it, which may be its cause.

    Parameters
    ----------
    notes
        Decisions; the list may grow inside the block.

    Raises
    ------
    InputError
        What was raised inside, with the decisions below it.
    """
    try:
        yield
    except InputError as error:
        raise InputError("\n".join([str(error), *decision_lines(notes)])) from error


def task_sentences(
    name: str,
    task: FoldsSettings,
    metadata: pd.DataFrame,
    values: pd.DataFrame,
    fold: NDArray[np.int64],
    groups: Sequence[str] | None,
    reads: pd.Series | None,
) -> Iterator[str]:
    """Yield sentences on what may flatter the scores of a task: groups, and what else says it.

    Parameters
    ----------
    name
        What the task is called.
    task
        What the task predicts, and how its samples are divided.
    metadata
        That of all samples that the task wants.
    values, fold, groups
        Targets, folds and groups of the labelled samples, as `aam.data.splits.divide_labelled`
        returns them.
    reads
        Reads of the samples before rarefaction, by sample ID; None: the table has amounts.
    """
    settings = task.folds
    if groups is None and settings.groups is None:
        yield (
            f"Task {name}: nothing says which samples belong together. Set `groups` of its folds "
            "to a column, or to false where every sample is of another person, animal or site."
        )
    is_scored = fold != TEST
    scored = values[is_scored]
    group = pd.Series("" if groups is None else groups, index=values.index)[is_scored]
    rows = metadata.loc[scored.index]
    # Selecting rows may lose the attributes, which hold the types that the file declares.
    rows.attrs = dict(metadata.attrs)
    numbers: dict[Number, pd.Series] = {} if reads is None else {"reads": reads}
    rivals = list_rivals(rows, targets=task.columns, numbers=numbers)
    others = list_others(rows, targets=task.columns)
    units = {one.name for one in unit_columns(columns_of(rows))}
    for target in task.columns:
        observed = Observed.from_values(
            scored[target],
            kind=task.kind,
            fold=fold[is_scored],
            units=units_of(group).to_numpy(),
        )
        what = f"'{target}'" if len(task.columns) > 1 else "the target"
        scores = measure_alone(observed, rivals, seed=settings.seed)
        yield from _describe_rivals(name, what, scores, is_number=observed.is_number)
        named = []
        for other in measure_alone(observed, others, seed=settings.seed):
            if other.exactness is None or other.p >= CHANCE_OF_OTHERS:
                continue
            if groups is None and (names_units(other.name) or other.name in units):
                yield (
                    f"Task {name}: samples of one `{other.name}` share {what}. Set "
                    f"`groups: {other.name}`, or the scores will be too good."
                )
            else:
                named.append(other.name)
        if named:
            yield (
                f"Task {name}: other columns predict {what} exactly or nearly by themselves: "
                f"{first_few(named)}. Are they other names of it, or what follows from it? If not, "
                "a model may learn them instead."
            )


def _describe_rivals(
    name: str, what: str, scores: Sequence[RivalScore], *, is_number: bool
) -> Iterator[str]:
    """Yield what columns, and the number of reads, say of a target by themselves."""
    known: dict[str, list[str]] = {"exactly": [], "nearly": []}
    partial = []
    for rival in scores:
        subject = "the number of reads of a sample" if rival.role == "reads" else f"`{rival.name}`"
        score = f"{rival.score:.3g}" if is_number else f"{rival.score:.0%}"
        if rival.exactness is not None and (rival.predicts or rival.role == "technical"):
            is_exact = rival.exactness == "exactly"
            known[rival.exactness].append(subject if is_exact else f"{subject} ({score})")
        elif rival.predicts:
            partial.append((rival.skill, f"{subject} ({score})"))
    for exactness, subjects in known.items():
        how = "exactly" if exactness == "exactly" else "nearly exactly"
        if subjects:
            verb = "each predict" if len(subjects) > 1 else "predicts"
            yield (
                f"Task {name}: {first_few(subjects)} {verb} {what} {how}, with nothing else known. "
                "A model may learn that instead, and hardly any score can tell the two apart."
            )
    if partial:
        named = [text for _, text in sorted(partial, reverse=True)]
        guess = scores[0].guessing
        guessing = f"a mean error of {guess:.3g}" if is_number else f"{guess:.0%} of a class right"
        yield (
            f"Task {name}: {what} is predicted better than by guessing "
            f"({guessing}) by {first_few(named)} alone. The page says what is left of the scores "
            "within their values."
        )
