"""A simulated dataset: a tree, sequences evolved on it, and two studies of communities."""

from aam.data.table import write_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.simulate.birth_death import birth_death_tree
from aam.simulate.community import draw_biology, draw_study, metadata_tsv
from aam.simulate.evolution import evolve
from aam.util.atomic import write_text
from aam.util.provenance import provenance
from aam.util.seeds import generator


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw and write the dataset; the same settings give the same bytes."""
    seed = cfg["seed"]
    tree = birth_death_tree(cfg["features"], generator(seed, "tree"))
    sequences = evolve(tree, cfg["length_bp"], generator(seed, "sequences"))
    for tip, sequence in zip(tree.tips(), sequences, strict=True):
        tip.name = sequence
    biology = draw_biology(tree, sequences, seed)
    about = provenance(cfg, inputs)
    table, metadata = draw_study(
        biology, name="demo", samples=cfg["samples"], hosts=cfg["hosts"], seed=seed, newcomers=False
    )
    write_biom(outputs["table"], table, about)
    write_text(outputs["metadata"], metadata_tsv(metadata))
    samples = cfg["newcomers"]
    table, metadata = draw_study(
        biology, name="new", samples=samples, hosts=max(2, samples // 4), seed=seed, newcomers=True
    )
    write_biom(outputs["new_table"], table, about)
    write_text(outputs["new_metadata"], metadata_tsv(metadata))
    write_text(outputs["tree"], str(tree).strip() + "\n")
