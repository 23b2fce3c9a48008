from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from unifrac_cases import compute, needs_ssu

from aam.data.importing.sequences import feature_sequences
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_to, load_tree
from aam.data.metadata import read_metadata
from aam.data.table import read_biom
from aam.data.trees.newick import read_newick
from aam.runtime.run_options import RunOptions
from aam.stages import import_metadata, import_table, import_tree
from aam.unifrac.engines import ScikitBio
from aam.unifrac.ssu import Ssu
from aam.util.errors import InputError

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
]


@pytest.mark.parametrize(
    ("name", "samples", "features", "column", "labelled"),
    [
        ("moving-pictures", 34, 735, "BodySite", 34),
        ("ecam", 741, 2618, "delivery", None),
        ("oral", 2537, 5574, "host_age", 2537),
    ],
)
def test_every_real_dataset_is_imported(tmp_path, name, samples, features, column, labelled):
    source, runtime = DATA / name, RunOptions()
    out = {key: tmp_path / key for key in ("table", "sequences", "dropped", "tree", "metadata")}
    table_inputs = {"table": source / "table.biom"}
    import_table.run({}, inputs=table_inputs, outputs=out, runtime=runtime)
    imported = {"table": out["table"], "sequences": out["sequences"]}
    tree_inputs = {**imported, "tree": source / "tree.nwk"}
    import_tree.run({}, inputs=tree_inputs, outputs=out, runtime=runtime)
    metadata_inputs = {"table": out["table"], "metadata": source / "metadata.tsv"}
    import_metadata.run({}, inputs=metadata_inputs, outputs=out, runtime=runtime)

    table, tree, metadata = (
        read_biom(out["table"]),
        read_newick(out["tree"]),
        read_metadata(out["metadata"]),
    )
    assert table.counts.shape == (samples, features)
    assert len(tree.children) == 2
    assert {tip.name for tip in tree.tips()} == set(table.feature_ids)
    assert list(metadata.index) == table.sample_ids
    if labelled is not None:
        assert metadata[column].notna().sum() == labelled
    else:
        assert metadata[column].notna().any()


@pytest.mark.parametrize("engine", [pytest.param(Ssu(), marks=needs_ssu), ScikitBio()])
def test_the_stem_of_a_reference_tree_is_kept(engine):
    """The reference numbers count the branch between the root and the ancestor of all tips."""
    folder = DATA / "unifrac-reference" / "crawford"
    table = load_table(folder / "crawford.biom")
    tree = cut_to(load_tree(folder / "crawford.tre"), table.feature_ids, folder / "crawford.tre")
    for metric, file in (("unweighted", "test.ssu.exp"), ("faith_pd", "test.faith.exp")):
        found = compute(engine, table, tree, metric)
        header = 0 if metric == "unweighted" else None
        expected = pd.read_csv(folder / file, sep="\t", index_col=0, header=header)
        names = [table.sample_ids] * found.ndim
        expected = expected.loc[*names].to_numpy() if found.ndim > 1 else expected[1][names[0]]
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_files_that_cannot_be_used_are_explained():
    folder = DATA / "unifrac-reference"
    path = folder / "crawford" / "crawford.biom"
    with pytest.raises(InputError, match="look like OTU numbers"):
        feature_sequences(load_table(path), path, None)
    with pytest.raises(InputError, match="3 children"):
        load_tree(folder / "dartunifrac" / "ASVs_aligned.tre")
