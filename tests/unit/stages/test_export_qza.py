import hashlib
import io
import uuid
import zipfile

import numpy as np
import pandas as pd
import pytest
import skbio
import yaml
from unifrac_cases import read_distances

from aam.config.configuration import load
from aam.config.references import GENES
from aam.config.result_paths import exports
from aam.data.importing.files import ArtifactKind, read_artifact
from aam.distances.store import write_faith_pd
from aam.stages.export_qza import export_artifact
from aam.util.digests import MANIFEST, provenance
from aam.util.qiime2 import LAYOUTS

FILES = """VERSION checksums.md5 data/distance-matrix.tsv metadata.yaml provenance/VERSION
provenance/action/action.yaml provenance/citations.bib provenance/metadata.yaml"""


@pytest.fixture
def export(tmp_path):
    def exported(kind, source):
        path = tmp_path / "made.qza"
        about = provenance({"type": kind}, {"source": source})
        export_artifact(source=source, semantic_type=kind, artifact_out=path, provenance=about)
        return path

    return exported


def data_of(path, kind):
    return read_artifact(path, path.read_bytes(), ArtifactKind(kind, LAYOUTS[kind][1], {}))


def test_distances_and_their_archive(export, study):
    path = export("DistanceMatrix", study.files["unweighted"])
    found = skbio.DistanceMatrix.read(io.BytesIO(data_of(path, "DistanceMatrix")))
    ids, true = read_distances(study.files["unweighted"])
    assert list(found.ids) == ids
    assert np.abs(found.data - true).max() < 1e-7

    # The files that QIIME 2 itself puts into an artifact, each with its MD5 sum.
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    roots = {name.split("/")[0] for name in members}
    inside = {name.partition("/")[2]: content for name, content in members.items()}
    assert sorted(inside) == FILES.split()
    own = yaml.safe_load(inside["metadata.yaml"])["uuid"]
    assert roots == {own}
    assert uuid.UUID(own).version == 4
    sums = [line.split("  ") for line in inside.pop("checksums.md5").decode().splitlines()]
    assert {name: one for one, name in sums} == {
        name: hashlib.md5(content).hexdigest() for name, content in inside.items()
    }
    action = yaml.safe_load(inside["provenance/action/action.yaml"])
    assert action["action"]["manifest"][0]["md5sum"] == dict(map(reversed, sums))[FILES.split()[2]]
    assert path.read_bytes() == export("DistanceMatrix", study.files["unweighted"]).read_bytes()


@pytest.mark.parametrize("width", [6, 16])
def test_ordination(export, pretrained, tmp_path, width):
    table = pd.read_parquet(pretrained["embeddings"])
    table["embedding"] = table["embedding"].str[:width]
    table.to_parquet(tmp_path / "table")
    text = data_of(export("PCoAResults", tmp_path / "table"), "PCoAResults")
    found = skbio.OrdinationResults.read(io.BytesIO(text))
    assert list(found.samples.index) == table["sample_id"].to_list()
    assert found.samples.shape[1] == min(width, 10)
    value_ND = np.stack(table["embedding"].to_list()).astype(float)
    matrix = skbio.DistanceMatrix(np.linalg.norm(value_ND[:, None] - value_ND, axis=2))
    reference = skbio.stats.ordination.pcoa(matrix)
    assert np.allclose(found.eigvals, reference.eigvals[: len(found.eigvals)], rtol=1e-4)
    assert np.allclose(*(abs(own.samples.iloc[:, :3]) for own in (found, reference)), atol=1e-4)


def test_tables(export, tmp_path):
    write_faith_pd(tmp_path / "alpha", ["01", "1e5"], np.array([0.5, 2.0]), {})
    source = tmp_path / "source.tsv"
    source.write_text(
        "sample-id\tfold\tpredicted\tlikeliest\tprobability:a b\tprobability:NA\n"
        "01\t0\ta b\ta b\t0.75\t0.25\n1e5\t1\tNA\ta b\t0.6\t0.4\n"
    )
    importance = tmp_path / "importance.tsv"
    importance.write_text(
        "feature-id\ttaxon\tsequence\timportance\tattention\nACGT\t7\tACGT\t0.5\t\n"
    )
    taxonomy = tmp_path / "taxonomy.tsv"
    taxonomy.write_text("feature-id\ttaxon\tconfidence\n01\tk__B; g__X\t0.75\nb\t\t0\n")
    named = b"Feature ID\tTaxon\tConfidence\n01\tk__B; g__X\t0.75\nb\tUnassigned\t0\n"
    # Not the class of the highest calibrated probability.
    predicted = b"id\tprediction\n01\ta b\n1e5\tNA\n"
    for kind, file, expected in (
        ("SampleData[AlphaDiversity]", tmp_path / "alpha", b"\tfaith_pd\n01\t0.5\n1e5\t2\n"),
        ("SampleData[ClassifierPredictions]", source, predicted),
        ("SampleData[RegressorPredictions]", source, predicted),
        ("SampleData[Probabilities]", source, b"id\ta b\tNA\n01\t0.75\t0.25\n1e5\t0.6\t0.4\n"),
        ("FeatureData[Importance]", importance, b"id\timportance\nACGT\t0.5\n"),
        ("FeatureData[Taxonomy]", taxonomy, named),
    ):
        assert data_of(export(kind, file), kind) == expected


def test_every_result_that_qiime2_has_a_type_for(study, tmp_path, monkeypatch):
    found = exports(study.config, "d")
    assert {kind for _, kind in found.values()} == LAYOUTS.keys() - {"FeatureData[Taxonomy]"}
    with monkeypatch.context() as patched:
        patched.setenv("XDG_DATA_HOME", str(tmp_path))
        reference = tmp_path / "aam/references/greengenes"
        reference.mkdir(parents=True)
        (reference / GENES).touch()
        (reference / MANIFEST).touch()
        named = exports(load({"datasets": {"d": {"table": "t.biom"}}}), "d")
        assert named["inputs/taxonomy"] == ("inputs/taxonomy.tsv", "FeatureData[Taxonomy]")
    # Two targets have no type, their important ASVs do; numbers have no probabilities.
    assert [name for name in found if "/pair/" in name] == ["finetune/small/pair/importance"]
    raw = study.config.model_dump(mode="json")
    raw["predictions"] = {"new": {"table": "t.biom", "tasks": ["site"]}}
    further = exports(load(raw), "d").keys() - found.keys()
    assert further == {"predict/small/site/new", "predict/small/site/new.probabilities"}
