"""Place and name the sequences of a study in a reference of whole genes."""

from pathlib import Path

from aam.config.references import gene_reference_folder, reference_digest
from aam.data.sequences import read_fasta
from aam.data.table import read_biom
from aam.reference_tree.gene_placement import place_in_genes
from aam.reference_tree.genes import GeneReference
from aam.util.errors import problem


def find_genes(
    *,
    table: Path,
    sequences: Path,
    reference: str,
    digest: str,
    threads: int = 1,
    genes_out: Path,
) -> None:
    """Find the genes that the sequences of a table lie near, and what these are called.

    Parameters
    ----------
    table
        BIOM file of an imported table.
    sequences
        FASTA file with the sequence of every feature; empty where they have none.
    reference
        Name of a reference of whole genes on this machine.
    digest
        Digest of its file.
    threads
        Cores to use.
    genes_out
        TSV file to write, a row per feature, in the order of the table; see
        `aam.reference_tree.gene_placement.GenePlacement.to_frame`. Without sequences it has no
        rows.

    Raises
    ------
    InputError
        The reference is another one than that of the digest.
    """
    folder = gene_reference_folder(reference)
    if reference_digest(reference) != digest:
        raise problem(
            folder,
            f"a reference that was made after this run had begun: {reference}",
            "the one that the run began with",
            "run again",
        )
    counted = read_biom(table)
    texts = {}
    if counted.facts.has_sequences:
        sequence_of = read_fasta(sequences)
        texts = {name: sequence_of[name] for name in counted.feature_ids}
    place_in_genes(GeneReference.open(folder), texts, threads).write(genes_out)
