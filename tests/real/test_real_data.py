from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stage_calls import call
from unifrac_cases import ENGINES, compute

from aam.data.importing.metadata import load_metadata
from aam.data.importing.table import load_table
from aam.data.importing.tree import cut_tree, load_tree
from aam.data.metadata import read_metadata
from aam.data.table import read_biom
from aam.data.trees import read_newick, read_tree
from aam.distances.products import COMPUTED, Products
from aam.evaluate.method_scores import score_samples
from aam.inference.features import SampleFeatures
from aam.stages.import_metadata import import_metadata
from aam.stages.import_table import import_table
from aam.stages.import_tree import import_tree

KEYS = ("table", "sequences", "dropped", "tree", "metadata", "notes")
DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
REFERENCE = DATA / "unifrac-reference"
TABLES = {
    "crawford": ("crawford.biom", "crawford.tre"),
    "dartunifrac": ("ASVs_counts.biom", "ASVs_aligned.tre"),
}
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
]


@pytest.mark.parametrize(
    ("name", "samples", "features", "column", "labelled"),
    [("ecam", 741, 2618, "delivery", 741), ("oral", 2537, 5574, "host_age", 2537)],
)
def test_every_real_dataset_is_imported(tmp_path, name, samples, features, column, labelled):
    source = DATA / name
    given = {"table": source / "table.biom"}
    out = {key: tmp_path / key for key in KEYS}
    for stage, inputs in (
        (import_table, given),
        (import_tree, {**out, "tree": source / "tree.nwk"}),
        (import_metadata, {**out, "metadata": source / "metadata.tsv"}),
    ):
        call(stage, {"root": "given"}, inputs, out)
    table, tree = read_biom(out["table"]), read_newick(out["tree"])
    metadata = read_metadata(out["metadata"])
    assert table.counts.shape == (samples, features)
    assert len(tree.children) == 2
    assert {tip.name for tip in tree.tips()} == set(table.feature_ids)
    assert list(metadata.index) == table.sample_ids
    assert metadata[column].notna().sum() == labelled


@pytest.mark.parametrize("engine", [*ENGINES, Products()])
@pytest.mark.parametrize(
    ("metric", "truth", "options"),
    [
        ("unweighted", "crawford/test.ssu.exp", {}),
        ("faith_pd", "crawford/test.faith.exp", {"header": None}),
        ("unweighted", "dartunifrac/ASVs_unweighted_truth.txt", {}),
        ("weighted_normalized", "dartunifrac/ASVs_weighted_normalized_truth.tsv", {}),
    ],
)
def test_published_distances(engine, metric, truth, options):
    if isinstance(engine, Products) and metric not in COMPUTED:
        pytest.skip(f"products do not compute {metric}")
    path, (folder, _) = REFERENCE / truth, truth.split("/")
    files = [REFERENCE / folder / name for name in TABLES[folder]]
    table = load_table(files[0])
    trees = [read_tree(files[1], table.feature_ids)]
    if folder == "crawford":
        # The numbers count the branch between the root and the ancestor of all tips, which the
        # import has to keep.
        trees.append(cut_tree(load_tree(files[1]), table.feature_ids, files[1]))
    expected = pd.read_csv(path, sep="\t", index_col=0, **options).loc[table.sample_ids]
    expected = expected[1] if metric == "faith_pd" else expected[table.sample_ids]
    for tree in trees:
        found = compute(engine, table, tree, metric)
        rtol = 1e-5 if metric == "faith_pd" else 0
        np.testing.assert_allclose(found, expected.to_numpy(), rtol=rtol, atol=1e-6)


def test_training_median_scores_as_published():
    metadata = pd.read_csv(DATA / "oral" / "metadata.tsv", sep="\t", dtype=str, index_col=0)
    age, fold = metadata["host_age"].astype(float), metadata["published_fold"].astype(int)
    predicted = [age[fold != own].median() for own in fold]
    columns = {"fold": fold, "observed": age, "predicted": predicted}
    predictions = pd.DataFrame(columns).rename_axis("sample-id").reset_index()
    studies = {"qiita_study_id": metadata["qiita_study_id"]}
    report = score_samples("regression", predictions, studies)
    assert report.scores["mae_fold_mean"] == pytest.approx(10.98, abs=0.005)
    assert report.scores["mae_pooled"] == pytest.approx(9.99, abs=0.005)
    assert report.by["qiita_study_id"]["10317"].n == 540


@pytest.fixture(scope="module")
def moving_pictures() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return reads and metadata of the same samples."""
    table = load_table(DATA / "moving-pictures" / "table.biom")
    reads = pd.DataFrame(table.counts.toarray(), table.sample_ids, table.feature_ids)
    metadata = load_metadata(DATA / "moving-pictures" / "metadata.tsv")
    return reads, metadata.loc[table.sample_ids]


def test_features_of_the_studys_own_tree_are_what_a_walk_over_it_adds_up(moving_pictures):
    reads, _ = moving_pictures
    path = DATA / "moving-pictures" / "tree.nwk"
    features = SampleFeatures(path, min_prevalence=0.5).set_output(transform="pandas")
    frame = features.fit_transform(reads)
    fraction = reads.div(reads.sum(axis=1), axis=0)
    length_of = {}
    for node in read_newick(path).traverse(include_self=False):
        tips = [node.name] if node.is_tip() else [tip.name for tip in node.tips()]
        length_of.setdefault(frozenset(tips), []).append(node.length)
    assert len(frame.columns) > 50
    for name in frame:
        members = features.members(name)
        below = fraction[members].sum(axis=1)
        assert (below > 0).mean() >= 0.5
        lengths = length_of[frozenset(members)]
        assert any(
            np.allclose(frame[name], np.log1p(2000 * below) * length**0.5, rtol=1e-6)
            for length in lengths
        )


@pytest.mark.parametrize("kind", ["clades", "ratios"])
def test_features_of_one_person_tell_the_body_sites_of_another(moving_pictures, kind):
    """The second table lacks most of the first one's ASVs, as that of a new study does."""
    reads, metadata = moving_pictures
    site = metadata["BodySite"].str.removeprefix("left ").str.removeprefix("right ")
    is_first = metadata["Subject"] == "subject-1"
    own, other = (part.loc[:, part.sum() > 0] for part in (reads[is_first], reads[~is_first]))
    assert len(own.columns.intersection(other.columns)) < 0.5 * len(other.columns)
    learner = LogisticRegression(C=0.01)
    pipeline = make_pipeline(SampleFeatures("v4", kind), StandardScaler(), learner)
    pipeline.fit(own, site[is_first])
    found = pipeline.predict(other)
    assert (found == site[~is_first]).mean() > 0.75
    # Columns without reads change nothing.
    np.testing.assert_array_equal(found, pipeline.predict(reads[~is_first]))
