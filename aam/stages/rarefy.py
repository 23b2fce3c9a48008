"""One rarefied view of the table."""

import logging

import pandas as pd

from aam.data.rarefaction import rarefy
from aam.data.table import read_biom, write_biom
from aam.runtime.entry import Cfg, Files, RunOptions
from aam.util.atomic import write_tsv
from aam.util.provenance import provenance

logger = logging.getLogger(__name__)


def run(cfg: Cfg, *, inputs: Files, outputs: Files, runtime: RunOptions) -> None:
    """Draw `depth` reads from every sample; given a `tree`, without ASVs behind long branches."""
    table, depth = read_biom(inputs["table"]), cfg["depth"]
    if "tree" in inputs:
        # Not above: scikit-bio takes half of this stage's time, and few tables need it.
        from aam.data.trees.newick import read_newick
        from aam.data.trees.rooting import set_apart

        apart = {name for names, _ in set_apart(read_newick(inputs["tree"])) for name in names}
        table = table.without_features(apart)
        logger.info("%d features behind long branches left out", len(apart))
    view = rarefy(table, depth, cfg["seed"], cfg["view"])
    reads = pd.Series(table.reads, index=pd.Index(table.sample_ids, name="sample-id"))
    dropped = pd.DataFrame({"reads": reads[reads < cfg["depth"]], "depth": depth})
    logger.info(
        "view %d at %d reads: %d of %d samples, %d of %d features",
        cfg["view"], depth, len(view.sample_ids), len(table.sample_ids), len(view.feature_ids),
        len(table.feature_ids),
    )  # fmt: skip
    write_tsv(outputs["dropped"], dropped, index=True)
    write_biom(outputs["table"], view, provenance(cfg, inputs))
