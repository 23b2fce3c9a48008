"""The table of the clades that a label depends on."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.data.sequences import read_fasta, write_fasta
from aam.data.table import FeatureTable, write_biom
from aam.data.trees import read_newick
from aam.stages.clades import COLUMNS, DRAWS, common_taxon, name_clades

FEATURES = [f"s{number}" for number in range(12)]
SAMPLES = 90


@pytest.fixture
def files(tmp_path):
    """Return the inputs of a study whose label is that of one of its features."""
    rng = np.random.default_rng(1)
    weight = np.exp(rng.normal(size=(SAMPLES, len(FEATURES))))
    share = weight / weight.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(800, row) for row in share])
    names = [f"0{number}" for number in range(SAMPLES)]
    table = FeatureTable(names, FEATURES, csr_array(counts))
    write_biom(tmp_path / "table.biom", table, {})
    write_fasta(tmp_path / "sequences.fasta", dict.fromkeys(FEATURES, "ACGT" * 20))
    halves = [",".join(f"{name}:1" for name in part) for part in (FEATURES[:6], FEATURES[6:])]
    (tmp_path / "tree.nwk").write_text(f"(({halves[0]}):1,({halves[1]}):1);\n")
    taxa = pd.DataFrame({"feature-id": FEATURES, "taxon": "k__B; g__Rothia"})
    taxa.to_csv(tmp_path / "taxonomy.tsv", sep="\t", index=False)
    number = np.log(counts[:, 3] + 0.5)
    folds = pd.DataFrame({"sample-id": names, "fold": np.arange(SAMPLES) % 5})
    folds["observed"] = number
    folds["group"] = ""
    folds.to_csv(tmp_path / "folds.tsv", sep="\t", index=False)
    return {
        "folds": tmp_path / "folds.tsv",
        "views": [tmp_path / "table.biom"],
        "table": tmp_path / "table.biom",
        "tree": tmp_path / "tree.nwk",
        "taxonomy": tmp_path / "taxonomy.tsv",
        "sequences": tmp_path / "sequences.fasta",
        "clades_out": tmp_path / "clades.tsv",
        "features_out": tmp_path / "features.tsv",
        "tree_out": tmp_path / "clades.nwk",
        "samples_out": tmp_path / "samples.tsv",
        "sequences_out": tmp_path / "clades.fasta",
    }


def test_a_clade_has_its_name_its_size_and_its_sequence(files):
    name_clades(**files, kind="regression")
    found = pd.read_csv(files["clades_out"], sep="\t")
    assert [*found.columns[: len(COLUMNS)]] == [*COLUMNS]
    first = found.iloc[0]
    assert (first["clade"], first["taxon"]) == ("s3", "k__B; g__Rothia")
    assert (first["features"], first["direction"], first["folds"]) == (1, "rises", 5)
    assert first["correlation"] > 0.9
    assert first["effect"] > 0.1
    assert first["prevalence"] > 0.9
    assert first["draws"] == DRAWS
    assert "s3" in read_fasta(files["sequences_out"])
    assert "s3" in {tip.name for tip in read_newick(files["tree_out"]).tips()}
    features = pd.read_csv(files["features_out"], sep="\t", index_col="feature-id")
    assert features.loc["s3", "clade"] == "s3"
    assert features.loc["s3", "importance"] == pytest.approx(first["effect"])
    assert features.loc[features["clade"].isna(), "importance"].eq(0).all()
    samples = pd.read_csv(files["samples_out"], sep="\t", dtype={"sample-id": str})
    assert samples["sample-id"].tolist() == [f"0{number}" for number in range(SAMPLES)]
    assert samples["s3"].corr(samples["observed"]) > 0.9


def test_of_classes_each_has_a_mean_with_an_interval(files):
    folds = pd.read_csv(files["folds"], sep="\t", dtype={"sample-id": str})
    folds["observed"] = np.where(folds["observed"] > folds["observed"].median(), "01", "02")
    folds.to_csv(files["folds"], sep="\t", index=False)
    name_clades(**files, kind="classification")
    first = pd.read_csv(files["clades_out"], sep="\t", dtype={"direction": str}).iloc[0]
    assert (first["clade"], first["direction"]) == ("s3", "01")
    for name in ("01", "02"):
        assert first[f"low:{name}"] < first[f"log_ratio:{name}"] < first[f"high:{name}"]
    assert first["log_ratio:02"] < first["log_ratio:01"]


def test_a_table_without_tree_taxa_and_sequences_is_tested_too(files):
    write_fasta(files["sequences"], {})
    name_clades(**(files | {"tree": None, "taxonomy": None}), kind="regression")
    found = pd.read_csv(files["clades_out"], sep="\t")
    assert found["clade"][0] == "s3"
    assert found["taxon"].isna().all()
    assert read_fasta(files["sequences_out"]) == {}


def test_noise_gives_an_empty_table_with_its_header(files):
    folds = pd.read_csv(files["folds"], sep="\t", dtype={"sample-id": str})
    folds["observed"] = np.random.default_rng(0).normal(size=SAMPLES)
    folds.to_csv(files["folds"], sep="\t", index=False)
    name_clades(**files, kind="regression")
    found = pd.read_csv(files["clades_out"], sep="\t")
    assert [*found.columns] == [*COLUMNS]
    assert len(found) == 0


def test_a_clade_is_called_by_what_nine_tenths_of_its_reads_have():
    lineages = [["k", "p", "g1"], ["k", "p", "g2"], ["k", "q"], []]
    assert common_taxon(lineages, np.array([95, 2, 2, 1])) == "k; p; g1"
    assert common_taxon(lineages, np.array([50, 45, 4, 1])) == "k; p"
    assert common_taxon(lineages, np.array([50, 10, 35, 5])) == "k"
    assert common_taxon(lineages, np.array([5, 5, 5, 85])) == ""
