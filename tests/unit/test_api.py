import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from model_directories import write_models
from scipy.sparse import csr_array
from skbio import DistanceMatrix, TreeNode
from skbio.metadata import SampleMetadata

import aam
from aam.cli import main
from aam.data.predictions import CROSS_VALIDATION, write_predictions
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, write_biom
from aam.data.target import Target
from aam.inference.bundle import ModelBundle
from aam.inference.embed import embed_samples
from aam.inference.outputs import Share, decode_outputs, raw_outputs
from aam.inference.task_predictor import TaskPredictor
from aam.learners.conformal import Calibration, load_calibration
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.reference_tree.nearest import reverse_complement
from aam.stages.predict import predict_table
from aam.util.errors import InputError

AGES = np.array([[str(number + 0.5)] for number in range(20)])
EVERY = np.ones(20, bool)
AGE = Target.fit("regression", ("age",), AGES, EVERY)
SITE = Target.fit("classification", ("site",), [["gut"], ["skin"]] * 10, EVERY)
ROUND_TRIP = """
import sys
import aam
assert "torch" not in sys.modules, "import aam has to stay cheap"
model, table, sequences, found = sys.argv[1:]
aam.load(model).predict(table, sequences=sequences, threads=1).to_csv(found)
assert not {"lightning_fabric", "torch._dynamo"} & {*sys.modules}, "predicting has to start fast"
"""


@pytest.fixture(scope="module")
def files(augmented, tmp_path_factory) -> dict[str, Path]:
    """Write the table in two formats, and its sequences."""
    folder, table = tmp_path_factory.mktemp("files"), augmented.table
    files = {name: folder / name for name in ("table.biom", "table.tsv", "sequences.fasta")}
    write_biom(files["table.biom"], table, {})
    counts = pd.DataFrame(table.counts.toarray().T, table.feature_ids, table.sample_ids)
    counts.rename_axis("#OTU ID").to_csv(files["table.tsv"], sep="\t")
    records = (f">{name}\n{sequence}\n" for name, sequence in augmented.sequences.items())
    files["sequences.fasta"].write_text("".join(records))
    return files


@pytest.fixture(scope="module")
def saved(augmented, new_encoder, devices, tmp_path_factory) -> tuple[Path, list[Predictor]]:
    """Write three models of two views as fine-tuning does."""
    names = "fold0", "fold0-1", "fold1"
    predictors = [Predictor(new_encoder(20, seed=s), AGE, seed=s) for s in range(3)]
    for predictor in predictors:
        for weight in predictor.head.parameters():
            weight.data.mul_(5)
    store, tokens, rows = augmented.store, augmented.tokens, np.arange(20)
    embedding = embed_samples(predictors[0].encoder, store, tokens, rows, devices)
    folder = write_models(
        tmp_path_factory.mktemp("model"),
        dict(zip(names, predictors, strict=True)),
        augmented.sequences.values(),
        embedding.numpy(),
        cross_validated(),
        augmented.table,
    )
    return folder, predictors


def cross_validated(classes: Sequence[str] = ()) -> pd.DataFrame:
    """Return predictions: of numbers they are off by 0, 1, …, 18."""
    ids = [f"{number:03d}" for number in range(19)]
    frame = pd.DataFrame({"sample-id": ids, "fold": [0, 1] * 9 + [0]})
    if not classes:
        return frame.assign(observed="40", predicted=40 + np.arange(19.0))
    probabilities = {f"probability:{name}": 0.5 for name in classes}
    return frame.assign(observed=classes[0], predicted=classes[0], **probabilities)


def test_a_fresh_process_predicts_what_this_one_does(saved, augmented, devices, files, tmp_path):
    folder, predictors = saved
    paths = [folder, files["table.biom"], files["sequences.fasta"], tmp_path / "found.csv"]
    arguments = [sys.executable, "-c", ROUND_TRIP, *map(str, paths)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1, "one thing to warn of: this is the table of training"
    assert "of 20 samples these were in training" in done.stderr
    found = pd.read_csv(paths[-1], dtype={"sample-id": str}).set_index("sample-id")
    store, tokens, rows = augmented.store, augmented.tokens, np.arange(40)
    raw = [raw_outputs(predictor, store, tokens, rows, devices) for predictor in predictors]
    single = [decode_outputs(AGE, output_RO, 2).point_NC[:, 0] for output_RO in raw]
    assert found.index.tolist() == augmented.store.sample_ids
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=0, atol=1e-6)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=0, atol=1e-6)
    assert found["predicted"].std() > 0.1, "models that say the same of all samples prove little"
    assert not found[["unseen_asvs", "novelty"]].any(axis=None)
    assert (found["in_training"] == "id").all()


@pytest.fixture(scope="module")
def model(saved) -> TaskPredictor:
    return aam.load(str(saved[0]))


def test_tables_come_as_paths_or_in_memory(model, augmented, files):
    expected = model.predict(files["table.biom"], files["sequences.fasta"])
    told = ["unseen_asvs", "near_reads", "novelty", "in_training"]
    assert list(expected.columns) == ["predicted", "sd", "lower", "upper", *told]
    # The 18th smallest of the 19 errors of cross-validation, 18 = ceil(0.9 * 20).
    np.testing.assert_allclose(expected["predicted"] - expected["lower"], 17)
    np.testing.assert_allclose(expected["upper"] - expected["predicted"], 17)
    by_sequence = FeatureTable(
        augmented.table.sample_ids, list(augmented.sequences.values()), augmented.table.counts
    )
    for found in (
        model.predict(str(files["table.tsv"]), str(files["sequences.fasta"])),
        model.predict(augmented.table, files["sequences.fasta"]),
        # Draws are made by feature ID: with other IDs they are other draws.
        model.predict(by_sequence)[told],
    ):
        pd.testing.assert_frame_equal(found, expected[found.columns], atol=1e-3)
    with pytest.raises(InputError, match="the table.*sequences"):
        model.predict(augmented.table)
    with pytest.raises(InputError, match="nothing.biom: got no such file"):
        model.predict("nothing.biom")


def test_a_table_of_the_other_strand_is_refused_and_nothing_written(saved, augmented, tmp_path):
    turned = [reverse_complement(text) for text in augmented.sequences.values()]
    table = FeatureTable(augmented.table.sample_ids, turned, augmented.table.counts)
    write_biom(tmp_path / "new.biom", table, {})
    message = rf"{tmp_path}/new\.biom: got 20 samples in which 0 % of the reads .*other strand"
    with pytest.raises(InputError, match=message):
        predict_table(
            model=saved[0],
            table=tmp_path / "new.biom",
            predictions_out=tmp_path / "found.tsv",
            notes_out=tmp_path / "found.notes.tsv",
        )
    assert not (tmp_path / "found.tsv").exists()


def test_a_sample_of_which_little_is_known_has_no_bounds(model, augmented):
    """What is predicted for the other samples is what it is without it."""
    asvs = [*augmented.sequences.values()]
    counts = augmented.table.counts.toarray()
    counts = np.hstack([counts, np.zeros_like(counts)])
    counts[3, 30:], counts[3, :30] = counts[3, :30].copy(), 0
    texts = [*asvs, *map(reverse_complement, asvs)]
    ids = augmented.table.sample_ids
    found = model.predict(FeatureTable(ids, texts, csr_array(counts)))
    plain = model.predict(FeatureTable(ids, asvs, augmented.table.counts))
    assert found["near_reads"].tolist() == [1, 1, 1, 0, *[1] * 16]
    assert found.loc["003", ["lower", "upper"]].isna().all()
    pd.testing.assert_frame_equal(found.drop("003"), plain.drop("003"), atol=1e-4)


def test_samples_without_reads_are_named(model, augmented, files, caplog):
    counts = augmented.table.counts.copy()
    counts.data[counts.indptr[4] : counts.indptr[5]] = 0
    counts.eliminate_zeros()
    table = FeatureTable(augmented.table.sample_ids, augmented.table.feature_ids, counts)
    found = model.predict(table, files["sequences.fasta"])
    assert len(found) == 19
    assert "004" not in found.index
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    assert "left out: '004'" in caplog.text
    assert "19 samples these were in training" in caplog.text


@pytest.mark.parametrize("case", ["age", "few", "site"])
def test_a_file_is_metadata_to_qiime(new_encoder, tiny, files, model, tmp_path, monkeypatch, case):
    """Read by the reader of QIIME 2 as scikit-bio has it."""
    bundle = model.networks
    cross_validation, added = {
        "age": (cross_validated(), {"lower", "upper"}),
        "few": (cross_validated().iloc[:5], set()),
        "site": (cross_validated(SITE.classes), {"likeliest", "prediction_set"}),
    }[case]
    if case == "site":
        predictors = [Predictor(new_encoder(20), SITE, seed=0)]
        bundle = replace(bundle, predictors=predictors, shares=[Share()])
    chosen = TaskPredictor(bundle.target, bundle, calibration=Calibration.fit(cross_validation))
    monkeypatch.setattr(TaskPredictor, "load", lambda path: chosen)
    inputs = {"table": files["table.biom"], "sequences": files["sequences.fasta"], "model": None}
    output = tmp_path / "predictions.tsv"
    predict_table(**inputs, predictions_out=output, notes_out=tmp_path / "notes.tsv")
    found = SampleMetadata.load(str(output))
    assert list(found.ids) == tiny.table.sample_ids
    assert added == set(found.columns) & {"lower", "upper", "likeliest", "prediction_set"}
    words = {
        "likeliest",
        "prediction_set",
        "in_training",
        *(["predicted"] if case == "site" else []),
    }
    for column, about in found.columns.items():
        assert about.type == ("categorical" if column in words else "numeric"), column
    assert not found.to_dataframe().isna().any(axis=None)


@pytest.mark.parametrize(
    ("target", "content", "got"),
    [
        (SITE, None, "those of another task"),
        (replace(AGE, columns=("age", "weight")), None, "those of another task"),
        (AGE, "", "no such table"),
        (AGE, "sample-id\tpredicted\n1\t2\n", "no such table"),
        (AGE, "fold\nx\n", "no such table"),
    ],
)
def test_cross_validation_of_another_task_or_damaged_is_refused(
    tmp_path, caplog, target, content, got
):
    """Without it there are no intervals."""
    path = tmp_path / CROSS_VALIDATION
    assert load_calibration(tmp_path, target) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "intervals are left out" in caplog.text
    write_predictions(path, cross_validated())
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=rf"cross_validation\.tsv: got {got}.*Hint"):
        load_calibration(tmp_path, target)


def test_metadata_come_as_a_file_or_in_memory(new_encoder, tiny, files, tmp_path, caplog):
    """Categories that pandas reads as numbers are the same as the text of the file."""
    vocabulary = Vocabulary(("host",), (("1", "2"),))
    predictor = Predictor(new_encoder(20), AGE, vocabulary=vocabulary, seed=0)
    seen = frozenset(tiny.sequences.values())
    bundle = ModelBundle([predictor], [Share()], 60, 0, 20, seen)
    model = TaskPredictor(bundle.target, bundle)
    index = pd.Index(tiny.table.sample_ids, name="sample-id")
    frame = pd.DataFrame({"host": [1, 2] * 10}, index=index)
    frame.to_csv(tmp_path / "metadata.tsv", sep="\t")
    arguments = tiny.table, files["sequences.fasta"]
    expected = model.predict(*arguments, metadata=tmp_path / "metadata.tsv")
    pd.testing.assert_frame_equal(model.predict(*arguments, metadata=frame), expected)
    assert not caplog.records
    # The IDs of the table tell which column has them, as they do for `aam check`.
    tubes = frame.rename_axis("tube").reset_index()[["host", "tube"]]
    tubes.to_csv(tmp_path / "tubes.csv", index=False)
    found = model.predict(*arguments, metadata=tmp_path / "tubes.csv")
    pd.testing.assert_frame_equal(found, expected)
    assert "tube" in caplog.text
    halves = frame.astype(object).where(frame["host"].to_numpy()[:, None] == 1)
    other = model.predict(*arguments, metadata=halves)
    assert "host in 10" in caplog.text
    same = np.isclose(other["predicted"], expected["predicted"], rtol=1e-6)
    assert same.tolist() == [True, False] * 10
    with pytest.raises(InputError, match="more than once: '000'"):
        model.predict(*arguments, metadata=pd.concat([frame, frame.iloc[:1]]))


def test_an_encoder_with_a_value_of_samples_among_its_metrics_has_its_distances(pretrained, study):
    found = aam.encoder(pretrained["model"]).distances(study.files["table.biom"], threads=1)
    assert found.shape == (20, 20)


def test_a_home_directory_may_be_written_as_a_tilde(saved, files, monkeypatch):
    folder, _ = saved
    monkeypatch.setenv("HOME", str(folder.parent))
    model = aam.load(f"~/{folder.name}")
    expected = aam.load(folder).predict(files["table.biom"], files["sequences.fasta"], threads=1)
    frame = model.predict(files["table.biom"], files["sequences.fasta"], threads=1)
    pd.testing.assert_frame_equal(frame, expected)


def test_the_command_predicts_as_the_api_does(saved, files, tmp_path):
    output = tmp_path / "predictions.tsv"
    main(
        [
            "predict",
            str(saved[0]),
            str(files["table.biom"]),
            "--sequences",
            str(files["sequences.fasta"]),
            "--output",
            str(output),
        ]
    )
    predicted = pd.read_csv(output, sep="\t", index_col=0, dtype={0: str})
    expected = aam.load(saved[0]).predict(files["table.biom"], files["sequences.fasta"], threads=1)
    assert list(predicted.index) == list(expected.index)
    assert list(predicted.columns) == list(expected.columns)
    np.testing.assert_allclose(predicted["predicted"], expected["predicted"], rtol=1e-6)
    with pytest.raises(SystemExit, match="choose another --output"):
        main(["predict", str(saved[0]), str(files["table.biom"]), "--output", str(output)])


def test_the_command_embeds_as_the_api_does(study, pretrained, tmp_path):
    output = tmp_path / "embedding.tsv"
    table = study.files["table.biom"]
    main(["embed", str(pretrained["model"]), str(table), "--output", str(output)])
    written = pd.read_csv(output, sep="\t", index_col="sample-id", dtype={"sample-id": str})
    expected = aam.encoder(pretrained["model"]).embed(table, threads=1)
    assert list(written.columns[:2]) == ["axis1", "axis2"]
    np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def of_v4(tmp_path_factory) -> dict[str, Path]:
    """Write a table of known sequences, whose features have names of their own."""
    folder = tmp_path_factory.mktemp("of_v4")
    known = [f"f{number}" for number in range(30)]
    sequences = dict(zip(known, aam.reference("v4").tree_of_known.sequences()[::500], strict=False))
    rng = np.random.default_rng(0)
    counts = csr_array(rng.integers(0, 90, (5, len(known))))
    files = {"table": folder / "table.biom", "sequences": folder / "rep-seqs.fasta"}
    write_biom(files["table"], FeatureTable([f"s{n}" for n in range(5)], known, counts), {})
    write_fasta(files["sequences"], sequences)
    return files


def test_the_command_places_sequences_as_the_api_does(of_v4, tmp_path):
    folder = tmp_path / "placed"
    main(["place", str(of_v4["sequences"]), "--reference", "v4", "--output", str(folder)])
    places = pd.read_csv(folder / "places.tsv", sep="\t", index_col="feature-id")
    expected = aam.reference("v4").place(of_v4["sequences"])
    assert list(places["nearest"]) == list(expected["nearest"])
    tree = TreeNode.read(str(folder / "tree.nwk"))
    assert {tip.name for tip in tree.tips()} == {*expected.index}
    assert len(tree.children) == 2


def test_the_command_measures_distances_as_the_api_does(of_v4, tmp_path):
    output = tmp_path / "distances.tsv"
    table, sequences = (str(of_v4[name]) for name in ("table", "sequences"))
    options = ["--metric", "weighted_normalized", "--depth", "500", "--seed", "3"]
    main(["distances", table, "--sequences", sequences, *options, "--output", str(output)])
    matrix = DistanceMatrix.read(str(output))
    expected = aam.reference("v4").distances(
        table, sequences, "weighted_normalized", depth=500, seed=3
    )
    assert list(matrix.ids) == list(expected.index)
    np.testing.assert_allclose(matrix.data, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["place", "none.fasta", "--reference", "v4"], "none.fasta"),
        (["place", "SEQUENCES"], "aam reference get greengenes"),
        (["distances", "TABLE", "--depth", "0"], "--depth: got 0"),
        (["distances", "TABLE", "--sequences", "SEQUENCES", "--depth", "99999"], "99999"),
        (["embed", "nowhere", "TABLE"], "nowhere"),
        (["predict", "nowhere", "TABLE"], "nowhere"),
    ],
)
def test_what_the_command_cannot_do_ends_as_one_message(of_v4, tmp_path, words, message):
    output = tmp_path / "output"
    given = [str(of_v4.get(word.lower(), word)) for word in words]
    with pytest.raises(SystemExit, match=message):
        main([*given, "--output", str(output)])
    assert not output.exists()
