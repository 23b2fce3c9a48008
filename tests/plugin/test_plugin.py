"""The plugin in a real QIIME 2, on moving pictures, from its own artifacts to a page."""

import hashlib
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from browser import needs_browser, open_page
from model_directories import write_pretrained
from skbio import OrdinationResults

import aam
from aam.data.importing.table import load_table
from aam.model.asv_encoders import Architecture
from tests.plugin.qiime import PYTHON, REPOSITORY, Qiime, install

DATA = REPOSITORY.parent / "shared" / "data" / "moving-pictures"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
    pytest.mark.skipif(PYTHON is None, reason="needs QIIME 2 with q2-sample-classifier"),
]
MAKE_ARTIFACTS = """
import hashlib, sys
from pathlib import Path
import biom, pandas, skbio
from qiime2 import Artifact

data = Path(sys.argv[1])
table = biom.load_table(str(data / "table.biom"))
names = {one: hashlib.md5(one.encode()).hexdigest() for one in table.ids("observation")}
table.update_ids(names, axis="observation")
tree = skbio.TreeNode.read(str(data / "tree.nwk"))
for tip in tree.tips():
    tip.name = names[tip.name]
sequences = pandas.Series({name: text for text, name in names.items()})
Artifact.import_data("FeatureTable[Frequency]", table).save("table.qza")
Artifact.import_data("FeatureData[Sequence]", sequences).save("rep-seqs.qza")
Artifact.import_data("Phylogeny[Rooted]", tree, skbio.TreeNode).save("tree.qza")
"""
"""Features are named by hashes, as DADA2's plugin names them."""
TABLE = ("--i-table", "table.qza", "--i-rep-seqs", "rep-seqs.qza")
METADATA = ("--m-metadata-file", "metadata.tsv")
STUDY = (*TABLE, "--i-phylogeny", "tree.qza", *METADATA)
BODY_SITE = ("--p-columns", "BodySite", "--p-groups", "false")


@pytest.fixture(scope="module")
def qiime(tmp_path_factory: pytest.TempPathFactory) -> Qiime:
    """Return QIIME 2 with the plugin, and moving pictures as artifacts."""
    qiime = install(tmp_path_factory.mktemp("plugin"))
    qiime.python(MAKE_ARTIFACTS, DATA)
    shutil.copy(DATA / "metadata.tsv", qiime.folder)
    return qiime


def peek(qiime: Qiime, name: str) -> str:
    """Return the type of a result that QIIME 2 finds valid."""
    assert "valid at level=max" in qiime.run("tools", "validate", name)
    return re.search(r"Type: +(.*)", qiime.run("tools", "peek", name))[1]


def unpack(qiime: Qiime, name: str) -> Path:
    """Return the folder `data` of a result."""
    folder = qiime.folder / f"{name}.unpacked"
    with zipfile.ZipFile(qiime.folder / name) as archive:
        archive.extractall(folder)
    (data,) = folder.glob("*/data")
    return data


@pytest.fixture(scope="module")
def first_answer(qiime: Qiime) -> Path:
    """Return the unpacked page of a first answer."""
    done = qiime.try_to(
        *("aam", "first-answer", *STUDY, *BODY_SITE, "--p-random-state", "3", "--p-n-jobs", "2"),
        *("--o-visualization", "answer.qzv", "--verbose"),
    )
    assert done.returncode == 0, done.stderr
    assert "Fitting the baselines of BodySite" in done.stderr
    assert "33 of 34 samples have at least" in done.stdout
    assert "BodySite is predicted right in" in done.stdout
    assert peek(qiime, "answer.qzv") == "Visualization"
    return unpack(qiime, "answer.qzv")


@needs_browser
def test_the_page_of_the_visualization_opens_in_a_browser(first_answer: Path, qiime: Qiime) -> None:
    text, complaints = open_page(
        first_answer / "index.html", profile=qiime.folder.parent / "browser"
    )
    assert complaints == []
    assert "BodySite is predicted right in" in text
    assert "Download as TSV" in text
    assert text.count("<svg") >= 1


def test_what_the_page_refers_to_is_in_the_visualization(first_answer: Path) -> None:
    page = (first_answer / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'(?:href|src)="(?!data:|https?:|#)([^"#]+)', page)
    assert any(link.endswith("methods.svg") for link in links)
    assert [link for link in links if not (first_answer / link).is_file()] == []
    predicted = pd.read_csv(first_answer / "answers/BodySite/first/predictions.tsv", sep="\t")
    assert len(predicted) == 33


def test_pictures_within_a_page_are_no_files(qiime: Qiime) -> None:
    page = (
        '<a href="inputs/a.tsv#top"> <img src="data:image/png;base64,aa"> <a href="https://a.b/c">'
    )
    code = "import sys; from q2_aam._study import LINK; print(LINK.findall(sys.argv[1]))"
    assert qiime.python(code, page).strip() == "['inputs/a.tsv']"


def test_seed_and_groups_reach_the_configuration(first_answer: Path) -> None:
    config = yaml.safe_load((first_answer / "study.yaml").read_text(encoding="utf-8"))
    assert config["rarefaction"]["seed"] == 3
    folds = config["tasks"]["BodySite"]["folds"]
    assert (folds["groups"], folds["seed"]) == (False, 3)


@needs_browser
def test_the_report_has_networks(qiime: Qiime) -> None:
    small = (
        "{models: {base: {width: 16, asv_layers: 1, sample_layers: 1}}, "
        "pretraining: {epochs: 1}, finetuning: {epochs: 1, recipe: frozen}, "
        "tasks: {BodySite: {baselines: [kernel_clr]}}}"
    )
    qiime.run(
        *("aam", "report", *STUDY, *BODY_SITE, "--p-settings", small, "--p-n-jobs", "2"),
        *("--o-visualization", "report.qzv"),
    )
    assert peek(qiime, "report.qzv") == "Visualization"
    page = unpack(qiime, "report.qzv") / "index.html"
    text, complaints = open_page(page, profile=qiime.folder.parent / "browser")
    assert complaints == []
    assert "Pretraining" in text
    assert (page.parent / "answers/BodySite/base/scores.json").is_file()


@pytest.fixture(scope="module")
def classifier(qiime: Qiime) -> pd.DataFrame:
    """Return the cross-validated predictions of a kept model of body sites."""
    qiime.run(
        *("aam", "fit-classifier", *STUDY, "--m-metadata-column", "BodySite", "--p-n-jobs", "2"),
        *("--m-groups-file", "metadata.tsv", "--m-groups-column", "Subject"),
        *("--o-model", "model.qza", "--o-predictions", "cv.qza", "--o-probabilities", "cvp.qza"),
    )
    assert peek(qiime, "model.qza") == "AAMClassifier"
    assert peek(qiime, "cv.qza") == "SampleData[ClassifierPredictions]"
    assert peek(qiime, "cvp.qza") == "SampleData[Probabilities]"
    return read(unpack(qiime, "cv.qza") / "predictions.tsv")


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", index_col=0)


def test_a_kept_model_predicts_and_qiime_takes_what_it_predicts(
    qiime: Qiime, classifier: pd.DataFrame
) -> None:
    qiime.run(
        *("aam", "predict-classification", *TABLE, "--i-model", "model.qza"),
        *("--o-predictions", "p.qza", "--o-probabilities", "pp.qza", "--o-details", "d.qza"),
    )
    assert peek(qiime, "p.qza") == "SampleData[ClassifierPredictions]"
    assert peek(qiime, "pp.qza") == "SampleData[Probabilities]"
    assert peek(qiime, "d.qza") == "SampleData[AAMPredictions]"
    predicted = read(unpack(qiime, "p.qza") / "predictions.tsv")["prediction"]
    details = read(unpack(qiime, "d.qza") / "columns.tsv")
    observed = pd.read_csv(DATA / "metadata.tsv", sep="\t", index_col=0)["BodySite"]
    assert (predicted == observed.loc[predicted.index]).mean() > 0.8, "they were in training"
    assert (details["near_reads"] > 0.9).all()
    assert (details["in_training"] == "id").all()
    assert list(classifier.index) == list(predicted.index)
    with zipfile.ZipFile(qiime.folder / "p.qza") as archive:
        ancestors = [one for one in archive.namelist() if one.endswith("action/action.yaml")]
        actions = [archive.read(one).decode() for one in ancestors]
    assert any("action: fit_classifier" in action for action in actions), "provenance goes on"
    qiime.run(
        *("sample-classifier", "confusion-matrix", "--i-predictions", "cv.qza"),
        *("--i-probabilities", "cvp.qza", "--p-missing-samples", "ignore"),
        *("--m-truth-file", "metadata.tsv", "--m-truth-column", "BodySite"),
        *("--o-visualization", "matrix.qzv"),
    )
    qiime.run(
        *("metadata", "tabulate", "--m-input-file", "d.qza", "metadata.tsv"),
        *("--o-visualization", "tabulated.qzv"),
    )


def test_a_model_of_another_kind_or_a_changed_one_is_refused(
    qiime: Qiime, classifier: pd.DataFrame
) -> None:
    folder = unpack(qiime, "model.qza")
    given = ("--input-path", folder, "--output-path", "imported.qza")
    wrong = qiime.try_to("tools", "import", "--type", "AAMRegressor", *given)
    assert "import it with --type AAMClassifier" in wrong.stderr
    (folder / "folds.tsv").write_text("changed", encoding="utf-8")
    changed = qiime.try_to("tools", "import", "--type", "AAMClassifier", *given)
    assert "folds.tsv was changed" in changed.stderr
    other = qiime.try_to(
        "tools", "import", "--type", "AAMEncoder", *("--input-path", DATA), *given[2:]
    )
    assert "MANIFEST.json" in other.stderr


def test_numbers_are_fitted_and_predicted(qiime: Qiime) -> None:
    qiime.run(
        *("aam", "fit-regressor", *STUDY, "--m-metadata-column", "DaysSinceExperimentStart"),
        *("--p-settings", "tasks: {DaysSinceExperimentStart: {baselines: [kernel_clr]}}"),
        *("--p-n-jobs", "2", "--o-model", "days.qza", "--o-predictions", "days-cv.qza"),
    )
    qiime.run(
        *("aam", "predict-regression", *TABLE, "--i-model", "days.qza"),
        *("--o-predictions", "days-p.qza", "--o-details", "days-d.qza"),
    )
    assert peek(qiime, "days.qza") == "AAMRegressor"
    assert peek(qiime, "days-cv.qza") == "SampleData[RegressorPredictions]"
    assert peek(qiime, "days-p.qza") == "SampleData[RegressorPredictions]"
    details = read(unpack(qiime, "days-d.qza") / "columns.tsv")
    assert (
        (details["lower"] <= details["predicted"]) & (details["predicted"] <= details["upper"])
    ).all()


def test_sequences_get_a_tree_and_names(qiime: Qiime, tmp_path: Path) -> None:
    data_home = {"XDG_DATA_HOME": str(tmp_path)}
    command = ("aam", "place", "--i-rep-seqs", "rep-seqs.qza")
    outputs = ("--o-phylogeny", "placed.qza", "--o-taxonomy", "named.qza")
    assert "aam reference get greengenes" in qiime.refuse(*command, *outputs, **data_home)
    assert "'v4', which has no names" in qiime.refuse(*command, "--p-reference", "v4", *outputs)
    table = load_table(DATA / "table.biom")
    names = [hashlib.md5(one.encode()).hexdigest() for one in table.feature_ids]
    lineages = [f"{name}\tk__Bacteria; p__P{number % 2}" for number, name in enumerate(names)]
    taxonomy = tmp_path / "taxonomy.tsv"
    taxonomy.write_text("\n".join(["Feature ID\tTaxon", *lineages]) + "\n", encoding="utf-8")
    files = ("--sequences", "rep-seqs.qza", "--tree", "tree.qza", "--taxonomy", taxonomy)
    done = qiime.shell("aam", "reference", "build", "small", *files, **data_home)
    assert done.returncode == 0, done.stderr
    placed = qiime.try_to(*command, "--p-reference", "small", *outputs, **data_home)
    assert placed.returncode == 0, placed.stderr
    assert peek(qiime, "placed.qza") == "Phylogeny[Rooted]"
    assert peek(qiime, "named.qza") == "FeatureData[Taxonomy]"
    named = read(unpack(qiime, "named.qza") / "taxonomy.tsv")["Taxon"]
    assert {*named.index} == {*names}
    assert (named.loc[names] == [line.partition("\t")[2] for line in lineages]).mean() > 0.8


def test_distances_need_no_tree(qiime: Qiime) -> None:
    output = ("--o-distance-matrix", "distances.qza")
    command = ("aam", "distances", *TABLE, "--p-metric", "weighted_normalized", *output)
    assert "99999" in qiime.refuse(*command, "--p-sampling-depth", "99999")
    qiime.run(*command)
    assert peek(qiime, "distances.qza") == "DistanceMatrix"
    matrix = read(unpack(qiime, "distances.qza") / "distance-matrix.tsv")
    expected = aam.reference("v4").distances(DATA / "table.biom", metric="weighted_normalized")
    expected = expected.loc[matrix.index, matrix.columns]
    assert len(matrix) == 34
    np.testing.assert_allclose(matrix, expected, rtol=1e-6, atol=1e-6)


def test_samples_are_embedded(qiime: Qiime, tmp_path: Path) -> None:
    shape = Architecture(
        encoder="transformer",
        width=16,
        heads=2,
        asv_layers=1,
        sample_layers=1,
        patch_bp=10,
        ffn_ratio=2,
        max_length_bp=120,
    )
    write_pretrained(tmp_path / "encoder", shape)
    folder = ("--input-path", tmp_path / "encoder", "--output-path", "encoder.qza")
    qiime.run("tools", "import", "--type", "AAMEncoder", *folder)
    qiime.run(
        *("aam", "embed", *TABLE, "--i-encoder", "encoder.qza"),
        *("--o-embedding", "embedding.qza", "--o-ordination", "ordination.qza"),
    )
    assert peek(qiime, "embedding.qza") == "SampleData[AAMEmbedding]"
    assert peek(qiime, "ordination.qza") == "PCoAResults"
    written = read(unpack(qiime, "embedding.qza") / "columns.tsv")
    expected = aam.encoder(tmp_path / "encoder").embed(DATA / "table.biom", threads=1)
    np.testing.assert_allclose(written, expected.loc[written.index], rtol=1e-4, atol=1e-4)
    first = OrdinationResults.read(str(unpack(qiime, "ordination.qza") / "ordination.txt"))
    centred = expected - expected.mean()
    assert first.eigvals.iloc[0] == pytest.approx(np.linalg.norm(centred, 2) ** 2, rel=1e-3)


def test_help_shows_an_example_whose_files_qiime_writes(qiime: Qiime) -> None:
    shown = qiime.run("aam", "first-answer", "--help")
    assert "--p-columns body_site" in shown
    qiime.run("aam", "first-answer", "--example-data", "examples")
    written = {path.name for path in (qiime.folder / "examples").rglob("*.*")}
    assert {"table.qza", "rep-seqs.qza", "sample-metadata.tsv"} <= written
    assert "AAM" in qiime.run("aam", "first-answer", "--citations")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--p-columns", "Bodysite"], ["no column 'Bodysite'", "did you mean 'BodySite'?"]),
        (["--p-columns", "a,b"], ["'a,b'", "without commas"]),
        (["--p-columns", "BodySite", "--p-groups", "Subjekt"], ["did you mean 'Subject'?"]),
        (
            ["--p-columns", "BodySite", "--p-sampling-depth", "99999"],
            ["99999", "the reads of the deepest sample"],
        ),
        (["--p-columns", "BodySite", "--p-settings", "depth"], ["settings", "'depth'", "keys"]),
        (
            ["--p-columns", "BodySite", "--p-settings", "rarefaction: {dept: 3}"],
            ["rarefaction.dept"],
        ),
    ],
)
def test_what_aam_refuses_is_the_message_of_qiime(
    qiime: Qiime, arguments: list[str], words: list[str]
) -> None:
    message = qiime.refuse(
        "aam", "first-answer", *STUDY, *arguments, "--o-visualization", "none.qzv"
    )
    assert [word for word in words if word not in message] == []
    assert "Traceback" not in message
    assert not (qiime.folder / "none.qzv").exists()


def test_samples_that_the_metadata_lack_are_refused_or_left_out(qiime: Qiime) -> None:
    lines = (DATA / "metadata.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    (qiime.folder / "some.tsv").write_text("".join(lines[:-3]), encoding="utf-8")
    renamed = [*lines[:2], *(f"other-{line}" for line in lines[2:])]
    (qiime.folder / "other.tsv").write_text("".join(renamed), encoding="utf-8")
    command = ("aam", "first-answer", *TABLE, *BODY_SITE, "--o-visualization", "none.qzv")
    some = qiime.refuse(*command, "--m-metadata-file", "some.tsv")
    assert "3 of 34 samples that are not in the metadata" in some
    other = qiime.refuse(*command, "--m-metadata-file", "other.tsv")
    assert "34 samples" in other
    assert "of which the metadata have none" in other


def test_sequences_of_other_features_are_refused(qiime: Qiime) -> None:
    code = (
        "from qiime2 import Artifact; import pandas\n"
        "sequences = pandas.Series({'other': 'ACGT' * 30})\n"
        "Artifact.import_data('FeatureData[Sequence]', sequences).save('other-seqs.qza')"
    )
    qiime.python(code)
    files = ("--i-table", "table.qza", "--i-rep-seqs", "other-seqs.qza", *METADATA)
    message = qiime.refuse(
        "aam", "first-answer", *files, *BODY_SITE, "--o-visualization", "none.qzv"
    )
    assert "rep-seqs.fasta" in message
    assert "sequence" in message


def test_a_command_that_is_missing_broken_or_of_another_release(
    qiime: Qiime, tmp_path: Path
) -> None:
    command = ("aam", "first-answer", *STUDY, *BODY_SITE, "--o-visualization", "none.qzv")
    missing = qiime.refuse(*command, AAM_COMMAND="/nowhere/aam")
    assert "AAM_COMMAND: got no program '/nowhere/aam'" in missing
    assert "export AAM_COMMAND=" in missing
    old = tmp_path / "aam"
    old.write_text("#!/bin/sh\necho aam 0.1.0\n")
    old.chmod(0o755)
    assert "got AAM 0.1.0; expected AAM" in qiime.refuse(*command, AAM_COMMAND=str(old))
    old.write_text("#!/bin/sh\necho 'No module named aam' >&2; exit 1\n")
    assert "'No module named aam'" in qiime.refuse(*command, AAM_COMMAND=str(old))


def test_the_plugin_is_of_the_release_of_aam(qiime: Qiime) -> None:
    found = qiime.python("import q2_aam; print(q2_aam.__version__)")
    assert found.strip() == aam.__version__
