"""Import the phylogeny, place the ASVs in a reference tree, or make a tree of them."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from aam.config.references import (
    GET_GREENGENES,
    GREENGENES,
    REFERENCES,
    TREE,
    gene_reference_folder,
)
from aam.data.importing.counts import read_left_out, read_other_names
from aam.data.importing.region import ITS, ITS_HAS_NO_TREE, SSU_18S, recognize_region
from aam.data.importing.tree import load_cut_tree
from aam.data.lineage_tree import build_lineage_tree
from aam.data.lineages import read_ranks
from aam.data.nouns import PLURALS
from aam.data.sequences import read_fasta
from aam.data.table import FeatureTable, read_biom
from aam.data.tree_building import build_tree, warn_of_long_branches
from aam.data.trees import write_newick
from aam.reference_tree.gene_placement import GenePlacement
from aam.reference_tree.genes import GeneReference
from aam.reference_tree.reading import FEW_NEAR
from aam.reference_tree.tree import Placement, ReferenceTree, place_reads
from aam.util.errors import problem
from aam.util.notes import CAUTION, collect_notes, write_notes
from aam.util.scikit_bio import TreeNode

logger = logging.getLogger(__name__)


NEAR_ENOUGH = 0.9
"""Fraction of the reads near the sequences of a reference, from which on its tree is taken."""


def import_tree(
    *,
    table: Path,
    sequences: Path,
    tree: Path | None = None,
    dropped: Path | None = None,
    taxonomy: Path | None = None,
    reference: str | None = None,
    candidates: Sequence[str] = (),
    genes: Path | None = None,
    threads: int = 1,
    work: Path | None = None,
    tree_out: Path,
    notes_out: Path,
) -> None:
    """Check the user's tree and cut it to the features, or find one for the sequences.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    sequences
        FASTA file with the sequence of every feature; empty where they have none.
    tree
        The user's tree: Newick or `.qza`. None: the features are placed in a reference tree, or a
        tree is made of them, of their lineages where they have no sequences.
    dropped
        TSV file of what the table left out, which has further names of its features.
    taxonomy
        TSV file with the taxon of each feature (`aam.stages.import_taxonomy`); None: those of the
        table, where it has any.
    reference
        Name of the reference to take. None: one of the candidates, where enough reads lie near it.
    candidates
        Names of the references that can be taken, in the order in which they are tried; at most one
        of them is of whole genes.
    genes
        TSV file with the places of the sequences in that one (`aam.stages.find_genes`).
    threads
        Cores to use.
    work
        Folder for scratch files.
    tree_out
        Newick file to write, with a tip for every feature.
    notes_out
        TSV file to write: what was decided for the user.

    Raises
    ------
    InputError
        The tree cannot be read or lacks features, a reference is named that fewer than half of the
        reads lie near, or features have neither sequences nor lineages.
    """
    imported = read_biom(table)
    with collect_notes() as notes:
        if tree is not None:
            other_names = {} if dropped is None else read_other_names(read_left_out(dropped))
            found = load_cut_tree(tree, imported.feature_ids, other_names)
            # Only of trees of sequences the unit of the branches is known.
            if imported.facts.has_sequences:
                warn_of_long_branches(found)
        elif imported.facts.has_sequences:
            sequence_of = read_fasta(sequences)
            found = _find_tree(imported, sequence_of, reference, candidates, genes, threads, work)
        else:
            found = _build_of_lineages(imported, read_ranks(table, taxonomy), reference)
    write_newick(tree_out, found)
    write_notes(notes_out, notes)


def _find_tree(
    table: FeatureTable,
    sequences: Mapping[str, str],
    reference: str | None,
    candidates: Sequence[str],
    genes: Path | None,
    threads: int,
    work: Path | None,
) -> TreeNode:
    """Return the tree of a reference that the sequences are placed in, or else one made of them.

    The parameters are those of `import_tree`, and `sequences` by feature ID.
    """
    reads_F = np.asarray(table.counts.sum(axis=0)).ravel()
    region = recognize_region([sequences[name] for name in table.feature_ids], reads_F)
    logger.warning("%s", str(region).removesuffix("."))
    with threadpool_limits(threads):
        placed = _place_in_reference(table, sequences, reference, candidates, genes)
    if placed is not None:
        return placed
    built = build_tree(sequences, threads, work)
    _warn_of_made_tree(region.gene, len(sequences), has_genes=GREENGENES in candidates)
    warn_of_long_branches(built)
    return built


def _warn_of_made_tree(gene: str, sequences: int, *, has_genes: bool) -> None:
    """Say what the tree was made of, and whether another one would be better."""
    # Other genes than 16S have no reference.
    other = f". For 16S of any region a reference is faster: {GET_GREENGENES}"
    logger.warning(
        "No tree is given: MAFFT and FastTree made one of the %d sequences; set `tree` of the "
        "dataset to take your own%s",
        sequences,
        "" if has_genes or gene in (ITS, SSU_18S) else other,
    )
    if gene == ITS:
        logger.warning("%s", ITS_HAS_NO_TREE, extra=CAUTION)


def _build_of_lineages(
    table: FeatureTable, lineages: Mapping[str, Sequence[str]], reference: str | None
) -> TreeNode:
    """Return the tree that lineages make, after saying so.

    Raises
    ------
    InputError
        There are no lineages, or a reference tree is named.
    """
    many = PLURALS[table.facts.noun]
    if reference is not None or not lineages:
        given = reference or "no tree"
        raise problem(
            "configuration key datasets.<name>.tree",
            f"{given} for {many} without sequences{'' if reference else ' and without lineages'}",
            "a tree with these IDs at its tips, or lineages",
            "give `tree`, `sequences` or `taxonomy`, or set `tree: false`: Bray-Curtis then stands "
            "where UniFrac does",
        )
    logger.warning(
        "No tree is given: the lineages of the %s make one, in which each rank is one unit long; "
        "set `tree` of the dataset to take your own",
        many,
    )
    return build_lineage_tree(lineages, table.feature_ids)


def _place_in_reference(
    table: FeatureTable,
    sequences: Mapping[str, str],
    reference: str | None,
    candidates: Sequence[str],
    genes: Path | None,
) -> TreeNode | None:
    """Return the tree of the reference that is named, or of one that most reads lie near.

    Parameters
    ----------
    table
        Reads of the ASVs.
    sequences
        By feature ID, whole.
    reference
        Name of the reference that is wanted, or None.
    candidates
        Names of the references that can be taken.
    genes
        TSV file with the places in the one of whole genes.

    Returns
    -------
    skbio.TreeNode or None
        None: no reference is named, and to none lie enough reads near.

    Raises
    ------
    InputError
        A reference is named that fewer than half of the reads lie near.
    """
    texts = {name: sequences[name] for name in table.feature_ids}
    reads_Q = np.asarray(table.counts.sum(axis=0)).ravel()
    placement: Placement | GenePlacement
    for name in candidates:
        if name in REFERENCES:
            placement, near = place_reads(
                ReferenceTree.read(REFERENCES[name] / TREE), texts, reads_Q
            )
        else:
            assert genes is not None, "the places in whole genes are an input of this stage"
            gene_reference = GeneReference.open(gene_reference_folder(name))
            placement = GenePlacement.read(genes, gene_reference)
            near = placement.share_near(reads_Q)
        if reference is not None and near < FEW_NEAR:
            raise problem(
                "configuration key datasets.<name>.tree",
                f"{name}, which {near:.0%} of the reads lie near",
                f"at least {FEW_NEAR:.0%}: reads of the gene and the region of the reference",
                "give a tree, or set `tree: null` to make one with MAFFT and FastTree",
            )
        if reference is None and near < NEAR_ENOUGH:
            logger.info("too few for the reference tree %s: another tree is looked for", name)
            continue
        if reference is None:
            logger.warning(
                "No tree is given: the ASVs are placed in the reference tree %s, which %.0f %% "
                "of the reads lie near; set `tree` of the dataset to take your own",
                name,
                100 * near,
            )
        tree = placement.to_tree()
        if isinstance(placement, GenePlacement):
            placement.warn(reads_Q)
            warn_of_long_branches(tree)
        return tree
    return None
