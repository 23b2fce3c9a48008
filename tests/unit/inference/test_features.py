"""The transformer for pipelines of others: scikit-learn's rules, the same numbers as elsewhere."""

import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import aam
from aam.data.table import FeatureTable, read_biom
from aam.inference.features import SampleFeatures, clades_of, encoder_of
from aam.reference_tree import phylogeny
from aam.util.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[3]
TREE = "((a:1,b:2):0.5,((c:1,d:1):3,(e:4):1):1);"
READS = pd.DataFrame(
    [[6, 2, 1, 1, 0], [0, 0, 20, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]],
    index=["s1", "s2", "s3", "s4"],
    columns=list("abcde"),
)


@pytest.fixture
def tree(tmp_path) -> Path:
    path = tmp_path / "tree.nwk"
    path.write_text(TREE)
    return path


@pytest.fixture(scope="module")
def of_v4() -> pd.DataFrame:
    """Return reads of known sequences: 12 samples of two kinds."""
    known = aam.reference("v4").tree_of_known.sequences()[:400:10]
    rng = np.random.default_rng(2)
    rates = np.where(np.arange(40) < 20, 6, 1)
    reads = rng.poisson(np.where(np.arange(12)[:, None] % 2, rates, rates[::-1]))
    return pd.DataFrame(reads, [f"s{row}" for row in range(12)], known)


@parametrize_with_checks([SampleFeatures(None), SampleFeatures(None, "ratios")])
def test_scikit_learns_rules_are_kept(estimator, check):
    check(estimator)


def test_clades_are_those_of_the_reference(of_v4):
    found = SampleFeatures("v4", min_prevalence=0).set_output(transform="pandas")
    frame = found.fit_transform(of_v4)
    table = FeatureTable([*of_v4.index], [*of_v4.columns], csr_array(of_v4.to_numpy(np.int64)))
    expected = aam.reference("v4").features(table).sparse.to_dense()
    assert list(frame.columns) == [f"clade_{number}" for number in expected.columns]
    assert list(frame.index) == list(of_v4.index)
    np.testing.assert_allclose(frame, expected, rtol=1e-6)


def test_clades_and_ratios_of_a_tree_of_ones_own(tree):
    clades = SampleFeatures(tree).set_output(transform="pandas").fit_transform(READS)
    assert list(clades.columns) == [
        *("clade_1", "a", "b", "clade_4", "clade_5", "c", "d", "clade_8", "e")
    ]
    assert clades.loc["s1", "clade_1"] == pytest.approx(np.log1p(2000 * 0.8) * 0.5**0.5)
    assert clades.loc["s1", "b"] == pytest.approx(np.log1p(2000 * 0.2) * 2**0.5)
    assert (clades.loc["s4"] == 0).all()
    ratios = SampleFeatures(tree, "ratios").set_output(transform="pandas")
    frame = ratios.fit_transform(READS)
    # Two siblings have one ratio; e, alone below its branch, has none.
    names = [f"{name}:siblings" for name in ("clade_1", "a", "clade_5", "c")]
    assert list(frame.columns) == names
    assert frame.loc["s1", "a:siblings"] == pytest.approx(np.log(1201 / 401))
    assert frame.loc["s1", "clade_1:siblings"] == pytest.approx(np.log(1601 / 401))
    assert ratios.members("clade_5:siblings") == ["c", "d"]
    with pytest.raises(InputError, match="'clade_9'; expected a clade"):
        ratios.members("clade_9")


def test_branches_are_chosen_by_the_samples_of_fit_alone(tree):
    half = SampleFeatures(tree, min_prevalence=0.6).fit(READS)
    assert half.get_feature_names_out().tolist() == ["clade_4", "clade_5", "c"]
    np.testing.assert_array_equal(
        half.transform(READS)[:, 1], half.transform(READS[["c", "d", "b", "a", "e"]])[:, 1]
    )
    # What only other samples have adds no column.
    without_e = SampleFeatures(tree).fit(READS.iloc[:2])
    assert "e" not in without_e.get_feature_names_out()


@pytest.mark.parametrize("kind", ["clades", "ratios"])
def test_frames_arrays_and_sparse_matrices_are_the_same(tree, kind):
    expected = SampleFeatures(tree, kind).fit_transform(READS)
    named = SampleFeatures(tree, kind, columns=list("abcde"))
    values = READS.to_numpy()
    sparse = pd.DataFrame.sparse.from_spmatrix(csr_array(values), READS.index, READS.columns)
    for given in (values, csr_array(values), values / 7.0):
        np.testing.assert_allclose(clone(named).fit_transform(given), expected, atol=1e-12)
    np.testing.assert_array_equal(SampleFeatures(tree, kind).fit_transform(sparse), expected)


def test_a_new_study_may_have_other_asvs(of_v4):
    pipeline = make_pipeline(SampleFeatures("v4"), StandardScaler(), LogisticRegression())
    kinds = np.arange(12) % 2
    pipeline.fit(of_v4.iloc[:, ::2], kinds)
    assert (pipeline.predict(of_v4.iloc[:, 1::2]) == kinds).mean() > 0.8
    renamed = of_v4.set_axis([f"f{number}" for number in range(40)], axis=1)
    texts = dict(zip(renamed.columns, of_v4.columns, strict=True))
    np.testing.assert_array_equal(
        SampleFeatures("v4", sequences=texts).fit_transform(renamed),
        SampleFeatures("v4").fit_transform(of_v4),
    )


def test_a_search_tries_kinds_and_places_sequences_once(of_v4, monkeypatch):
    placed = []
    place = phylogeny.place_reads
    monkeypatch.setattr(
        phylogeny, "place_reads", lambda *given: placed.append(given) or place(*given)
    )
    # A column less, so that no other test has placed the same sequences.
    pipeline = make_pipeline(SampleFeatures(), RandomForestClassifier(5, random_state=0))
    grid = {"samplefeatures__kind": ["clades", "ratios"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise")
    search.fit(of_v4.iloc[:, 1:], np.arange(12) % 2)
    assert len(placed) == 1


@pytest.mark.parametrize(
    ("features", "reads", "message"),
    [
        (SampleFeatures(kind="clade"), READS, "kind: got 'clade'; expected one of clades"),
        (SampleFeatures(kind="embedding"), READS, "'v4' with kind='embedding'; expected an encod"),
        (SampleFeatures("."), READS, "'.' with kind='clades'; expected an encoder's folder"),
        (SampleFeatures(None, min_prevalence=5), READS, "min_prevalence: got 5; .* fraction"),
        (SampleFeatures(None, sequences={}), READS, "sequences: got them, with source=None"),
        (SampleFeatures("v4"), READS, "X: got .*expected .*sequences"),
        (SampleFeatures("v4"), READS.to_numpy(), "X: got 5 columns without names"),
        (SampleFeatures(None, columns=["a"]), READS.to_numpy(), "1 names for 5 columns"),
        (SampleFeatures("none.nwk"), READS, "none.nwk: .*Hint"),
        (SampleFeatures(None, "ratios"), READS[["a"]], "expected clades with siblings"),
        (SampleFeatures(None), -READS, "Negative values in data passed to SampleFeatures"),
    ],
)
def test_what_cannot_be_meant_is_refused(features, reads, message):
    with pytest.raises(ValueError, match=message):
        features.fit(reads)


def test_a_column_that_the_tree_lacks_is_named(tree):
    fitted = SampleFeatures(tree).fit(READS)
    with pytest.raises(InputError, match=r"tree.nwk: got a tree without column 'z' of 5"):
        fitted.transform(READS.rename(columns={"a": "z"}))


def test_embeddings_are_those_of_the_encoder(pretrained, study):
    expected = aam.encoder(pretrained["model"]).embed(study.files["table.biom"], threads=1)
    table = read_biom(study.files["table.biom"])
    reads = pd.DataFrame(table.counts.toarray(), table.sample_ids, table.feature_ids)
    features = SampleFeatures(pretrained["model"], "embedding").set_output(transform="pandas")
    found = features.fit_transform(reads.loc[expected.index])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.columns[0] == "embedding_0"
    with pytest.raises(InputError, match="20 rows .* without reads"):
        features.transform(reads * 0)
    with pytest.raises(InputError, match="expected reads"):
        features.transform(reads / 7)


def test_biotapy_finds_both_embeddings(of_v4, pretrained, study):
    """What it calls: a function of an AnnData, whose rows are samples, that returns floats."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    points = project["entry-points"]["biotapy.embeddings"]
    modules = {name: point.split(":") for name, point in points.items()}
    functions = {name: getattr(import_module(m), f) for name, (m, f) in modules.items()}
    assert functions == {"aam_clades": clades_of, "aam_encoder": encoder_of}
    numbered = pd.DataFrame({"sequence": of_v4.columns}, index=[f"f{n}" for n in range(40)])
    data = SimpleNamespace(X=csr_array(of_v4), var=numbered, var_names=numbered.index, uns={})
    np.testing.assert_array_equal(clades_of(data), SampleFeatures("v4").fit_transform(of_v4))
    with pytest.raises(InputError, match="no 'aam_encoder'"):
        encoder_of(data)
    table = read_biom(study.files["table.biom"])
    names = pd.Index(table.feature_ids)
    data = SimpleNamespace(
        X=table.counts,
        var=pd.DataFrame(index=names),
        var_names=names,
        uns={"aam_encoder": str(pretrained["model"])},
    )
    expected = aam.encoder(pretrained["model"]).embed(study.files["table.biom"], threads=1)
    found = pd.DataFrame(encoder_of(data), table.sample_ids)
    np.testing.assert_allclose(found.loc[expected.index], expected, rtol=1e-5, atol=1e-6)


def test_columns_of_one_sequence_have_one_place(of_v4):
    names = [*of_v4.columns[:5], of_v4.columns[0], *of_v4.columns[5:]]
    reads = np.insert(of_v4.to_numpy(np.float64), 5, 0, axis=1)
    repeated = SampleFeatures("v4", columns=names).fit_transform(reads)
    once = SampleFeatures("v4", columns=[*of_v4.columns]).fit_transform(of_v4.to_numpy())
    np.testing.assert_allclose(repeated, once)
