import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from skbio import TreeNode
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_predict

from aam.config.sections.dataset import Simulation
from aam.data.rarefaction import rarefy
from aam.data.table import read_biom
from aam.runtime.run_options import RunOptions
from aam.simulate.birth_death import coalescent_tree
from aam.simulate.community import brownian_motion, clades
from aam.stages import simulate
from aam.util.seeds import generator

NAMES = {
    "table": "table.biom",
    "tree": "tree.nwk",
    "metadata": "metadata.tsv",
    "new_table": "new_table.biom",
    "new_metadata": "new_metadata.tsv",
}


def make(folder: Path, **settings) -> dict[str, Path]:
    outputs = {key: folder / name for key, name in NAMES.items()}
    cfg = Simulation(**settings).plain()
    simulate.run(cfg, inputs={}, outputs=outputs, runtime=RunOptions())
    return outputs


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make(tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="module")
def rarefied(files):
    table = read_biom(files["table"])
    metadata = metadata_of(files["metadata"]).loc[table.sample_ids]
    view = rarefy(table, 1000, 42)
    return view, metadata.loc[view.sample_ids]


def metadata_of(path: Path) -> pd.DataFrame:
    return pd.read_csv(
        path, sep="\t", index_col="sample-id", skiprows=[1], dtype={"sample-id": str}
    )


def test_same_settings_give_the_same_bytes_and_another_seed_another_data_set(tmp_path):
    small = {"samples": 20, "features": 50, "length_bp": 40, "hosts": 6, "newcomers": 4}
    first, again = (make(tmp_path / name, **small) for name in ("first", "again"))
    assert all(again[key].read_bytes() == path.read_bytes() for key, path in first.items())
    other = make(tmp_path / "other", **small, seed=2)
    tables = [read_biom(found["table"]) for found in (first, other)]
    assert not set(tables[0].feature_ids) & set(tables[1].feature_ids)
    assert len(tables[0].sample_ids) == 20
    assert len(read_biom(first["new_table"]).sample_ids) == 4


def test_features_are_distinct_sequences_on_the_tree_and_nothing_is_empty(files):
    tips = {tip.name for tip in TreeNode.read(str(files["tree"])).tips()}
    for table in (read_biom(files["table"]), read_biom(files["new_table"])):
        ids = table.feature_ids
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch("[ACGT]{100}", name) for name in ids)
        assert set(ids) <= tips
        assert (table.counts.sum(axis=0) > 0).all()
        assert (table.reads > 0).all()


def test_depth_and_richness_are_those_of_a_body_site(files, rarefied):
    reads = read_biom(files["table"]).reads
    assert 1 <= (reads < 1000).sum() <= 4
    assert reads.max() <= 8000
    assert (read_biom(files["new_table"]).reads >= 1000).all()
    richness = np.diff(rarefied[0].counts.indptr)
    assert 40 <= np.median(richness) <= 90
    assert np.quantile(richness, 0.9) <= 110


def test_newcomers_are_other_hosts_with_asvs_of_their_own(files):
    known, new = (read_biom(files[key]) for key in ("table", "new_table"))
    assert len(new.sample_ids) == 24
    assert not set(known.sample_ids) & set(new.sample_ids)
    hosts = [set(metadata_of(files[key])["host"]) for key in ("metadata", "new_metadata")]
    assert not hosts[0] & hosts[1]
    unseen = ~np.isin(new.feature_ids, known.feature_ids)
    share = new.counts[:, np.flatnonzero(unseen)].sum() / new.counts.sum()
    assert 0.03 < share < 0.4


def test_metadata_is_a_qiime_file_with_gaps(files):
    with files["metadata"].open(encoding="utf-8") as handle:
        rows = list(csv.reader(handle, delimiter="\t"))
    assert rows[0] == ["sample-id", "host", "site", "environment", "host_age"]
    assert rows[1] == ["#q2:types", "categorical", "categorical", "numeric", "numeric"]
    assert {len(row) for row in rows} == {5}
    metadata = metadata_of(files["metadata"])
    assert list(metadata.index) == read_biom(files["table"]).sample_ids
    assert metadata["site"].value_counts().min() > 40
    assert 1 <= metadata["environment"].isna().sum() <= 10
    assert metadata["host"].nunique() == 32
    assert (metadata.groupby("host")["host_age"].nunique() == 1).all()


@pytest.mark.parametrize(
    ("column", "forest", "dummy", "least", "best"),
    [
        ("environment", RandomForestRegressor, DummyRegressor(strategy="median"), 0.3, 0.75),
        ("site", RandomForestClassifier, DummyClassifier(), 0.05, 0.5),
    ],
)
def test_targets_are_in_the_composition_but_not_plainly(
    rarefied, column, forest, dummy, least, best
):
    table, metadata = rarefied
    known = metadata[column].notna().to_numpy()
    fractions, observed = table.counts.toarray()[known] / 1000, metadata[column][known]

    def error(model):
        split = {"groups": metadata["host"][known], "cv": GroupKFold(5)}
        predicted = cross_val_predict(model, fractions, observed, **split)
        wrong = predicted != observed if column == "site" else np.abs(predicted - observed)
        return wrong.mean()

    settings = {"min_samples_leaf": 2, "max_features": 0.3, "random_state": 0}
    fraction = error(forest(60, **settings)) / error(dummy)
    assert least < fraction < best


def test_brownian_motion_gives_relatives_like_values():
    ages = np.full(199, 0.01)
    ages[99] = 1.0
    trait = brownian_motion(coalescent_tree(ages), generator("trait"))
    assert abs(trait[:100].mean() - trait[100:].mean()) > 5 * trait[:100].std()


def test_clades_are_connected_parts_of_the_tree():
    tree = coalescent_tree(np.array([1.0, 5.0, 2.0, 3.0]))
    assert clades(tree, 3).tolist() == [0, 0, 1, 1, 2]
    assert clades(tree, 2).tolist() == [0, 0, 1, 1, 1]
