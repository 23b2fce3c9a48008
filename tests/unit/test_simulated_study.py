import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from skbio import TreeNode
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_predict
from stage_calls import call

from aam.config import slices
from aam.config.configuration import load
from aam.data.importing.metadata import load_metadata
from aam.data.rarefaction import rarefy
from aam.data.table import read_biom
from aam.simulate import birth_death_tree, evolve
from aam.stages.simulate import simulate_study
from aam.util.seeds import generator

NAMES = ("table", "tree", "metadata", "new_table", "new_metadata")


def make(folder: Path, **settings) -> dict[str, Path]:
    outputs = {name: folder / name for name in NAMES}
    settings = slices.simulate(load({"datasets": {"demo": {"simulate": settings}}}), "demo")
    call(simulate_study, settings, {}, outputs)
    return outputs


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make(tmp_path_factory.mktemp("simulated"))


@pytest.fixture(scope="module")
def rarefied(files):
    view = rarefy(read_biom(files["table"]), 1000, 42)
    return view, metadata_of(files["metadata"]).loc[view.sample_ids]


def metadata_of(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", index_col="sample-id", skiprows=[1])


def test_same_settings_give_the_same_bytes_and_another_seed_another_data_set(tmp_path):
    small = {"samples": 20, "features": 50, "length_bp": 40}
    first = make(tmp_path / "first", **small)
    again = make(tmp_path / "again", **small)
    for key, path in first.items():
        assert again[key].read_bytes() == path.read_bytes()
    other = make(tmp_path / "other", **small, seed=2)
    table = read_biom(first["table"])
    other_table = read_biom(other["table"])
    assert not set(table.feature_ids) & set(other_table.feature_ids)
    assert len(table.sample_ids) == 20
    assert metadata_of(first["metadata"])["host"].nunique() == 6


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
    known = read_biom(files["table"])
    new = read_biom(files["new_table"])
    assert len(new.sample_ids) == 24
    assert not set(known.sample_ids) & set(new.sample_ids)
    known_hosts = set(metadata_of(files["metadata"])["host"])
    new_hosts = set(metadata_of(files["new_metadata"])["host"])
    assert not known_hosts & new_hosts
    unseen = np.flatnonzero(~np.isin(new.feature_ids, known.feature_ids))
    unseen_share = new.counts[:, unseen].sum() / new.counts.sum()
    assert 0.03 < unseen_share < 0.4


def test_metadata_is_a_qiime_file_with_gaps(files):
    metadata = load_metadata(files["metadata"])
    kinds = dict.fromkeys(["host", "site"], "categorical")
    assert metadata.attrs["q2:types"] == {**kinds, "environment": "numeric", "host_age": "numeric"}
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
    assert least < error(forest(60, **settings)) / error(dummy) < best


def test_relatives_have_similar_sequences():
    tree = birth_death_tree(150, generator("tree"))
    names = [str(number) for number in range(150)]
    for name, tip in zip(names, tree.tips(), strict=True):
        tip.name = name
    letters = np.array([list(s) for s in evolve(tree, 400, generator("sequences"))])
    different = (letters[:, None] != letters[None]).mean(axis=2)
    upper = np.triu_indices(150, 1)
    patristic = tree.cophenet().filter(names).data[upper]
    assert np.corrcoef(patristic, different[upper])[0, 1] > 0.7
