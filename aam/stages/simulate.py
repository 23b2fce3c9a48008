"""A simulated dataset: a tree, sequences evolved on it, and two studies of communities."""

from collections.abc import Mapping
from pathlib import Path

from aam.data.table import write_biom
from aam.simulate import birth_death_tree, draw_biology, draw_study, evolve, metadata_tsv
from aam.util.atomic import write_text
from aam.util.seeds import generator


def simulate_study(
    *,
    samples: int,
    features: int,
    length_bp: int,
    hosts: int,
    newcomers: int,
    seed: int = 1,
    table_out: Path,
    tree_out: Path,
    metadata_out: Path,
    new_table_out: Path,
    new_metadata_out: Path,
    provenance: Mapping[str, str] = {},
) -> None:
    """Draw and write a dataset; the same settings give the same bytes.

    Parameters
    ----------
    samples
        Samples of the study.
    features
        ASVs at the tips of the tree.
    length_bp
        Length of every ASV in base pairs.
    hosts
        Hosts that the samples are of.
    newcomers
        Samples of a second study, with ASVs that the first table lacks.
    seed
        Seed of everything that is drawn.
    table_out, tree_out, metadata_out
        BIOM, Newick and TSV file to write: the study.
    new_table_out, new_metadata_out
        BIOM and TSV file to write: the second study.
    provenance
        Metadata of the tables that are written (`aam.util.digests`).
    """
    tree = birth_death_tree(features, generator(seed, "tree"))
    sequences = evolve(tree, length_bp, generator(seed, "sequences"))
    for tip, sequence in zip(tree.tips(), sequences, strict=True):
        tip.name = sequence
    biology = draw_biology(tree, sequences, seed)
    table, metadata = draw_study(
        biology, name="demo", samples=samples, hosts=hosts, seed=seed, newcomers=False
    )
    write_biom(table_out, table, provenance)
    write_text(metadata_out, metadata_tsv(metadata))
    new_hosts = max(2, newcomers // 4)
    table, metadata = draw_study(
        biology, name="new", samples=newcomers, hosts=new_hosts, seed=seed, newcomers=True
    )
    write_biom(new_table_out, table, provenance)
    write_text(new_metadata_out, metadata_tsv(metadata))
    write_text(tree_out, str(tree).strip() + "\n")
