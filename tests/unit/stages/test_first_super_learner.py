"""The mixture of a task's baselines, kept and applied to other tables without a network."""

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from baseline_studies import HELD_OUT, KINDS, BaselineStudy, write_study
from scipy.sparse import csr_array
from stage_calls import as_outputs

import aam
from aam.cli import main
from aam.config.references import references_folder
from aam.config.settings.tasks import SampleGroups, ScoreSettings, SuperLearnerSettings
from aam.data.folds import units_of
from aam.data.importing.sequences import load_sequences
from aam.data.predictions import by_baseline, read_predictions
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, write_biom
from aam.evaluate.task_report import TaskReport
from aam.inference.with_baselines import SuperLearner, used_mixtures
from aam.learners.baselines.registry import predict_others
from aam.learners.conformal import Calibration
from aam.learners.recalibration import Recalibration
from aam.learners.super_learner import learners_by_target, super_learner
from aam.reference_tree.genes import build_reference
from aam.reference_tree.nearest import reverse_complement
from aam.stages import super_learner as stage
from aam.stages.predict import predict_table
from aam.stages.score import score_task
from aam.stages.super_learner import keep_super_learner, task_of
from aam.util.atomic import read_json, write_json
from aam.util.errors import InputError
from aam.util.notes import read_notes

TREE = "reference mine (CC BY 4.0)"
FRESH = """
import sys
import aam
import numpy as np
from aam.learners.recalibration import Recalibration
fixed = Recalibration(slope=1.5, intercept_C=np.array([0.3, -0.3]))
Recalibration.fit = lambda *args, **settings: fixed
folder, table, sequences, found = sys.argv[1:]
aam.load(folder).predict(table, sequences).to_csv(found)
assert not {"torch", "sklearn"} & set(sys.modules)
"""


@pytest.fixture(scope="module", params=KINDS)
def study(request, augmented, tmp_path_factory) -> BaselineStudy:
    folder = tmp_path_factory.mktemp(request.param)
    return write_study(folder, request.param, augmented.table, augmented.sequences)


@pytest.fixture(autouse=True)
def calibration(monkeypatch):
    """So few samples show no signal: their calibrated probabilities would all be the same."""
    fixed = Recalibration(slope=1.5, intercept_C=np.array([0.3, -0.3]))
    monkeypatch.setattr(Recalibration, "fit", lambda *args, **settings: fixed)


def keep(study: BaselineStudy, folder: Path, **inputs: Path) -> Path:
    outputs = {"directory": folder / "super_learner", "digest": folder / "super_learner.json"}
    given = {name: path for name, path in study.paths.items() if name != "distances"} | inputs
    settings = SuperLearnerSettings(
        **study.settings, dataset="d", task="t", answer="first", tree=TREE
    )
    keep_super_learner(**given, settings=settings, **as_outputs(outputs))
    return outputs["directory"]


@pytest.fixture(scope="module")
def kept(study, tmp_path_factory) -> Path:
    return keep(study, tmp_path_factory.mktemp("kept"))


def test_the_digest_stands_for_the_arrays_too(study, kept, tmp_path, monkeypatch):
    """Other code may fit others with the same settings, and predictions have to follow."""
    digest = kept.with_suffix(".json").read_text()
    same = keep(study, tmp_path / "same")
    assert same.with_suffix(".json").read_text() == digest
    fit = stage.fit_kept

    def fit_others(settings: Any, directory: Path) -> Any:
        facts, arrays = fit(settings, directory)
        return facts, {name: array[::-1].copy() for name, array in arrays.items()}

    monkeypatch.setattr(stage, "fit_kept", fit_others)
    other = keep(study, tmp_path / "other")
    assert other.with_suffix(".json").read_text() != digest


def mixed_by_target(study: BaselineStudy) -> dict[str, Any]:
    """Return what the workflow mixes of the baselines, target by target."""
    learners = learners_by_target(
        read_predictions(study.paths["baselines"]),
        pd.read_parquet(study.paths["nested_baselines"]),
    )
    units = units_of(study.folds.set_index("sample-id")["group"])
    return {target: super_learner(named, units) for target, named in learners.items()}


def test_without_torch_a_fresh_process_says_of_samples_held_out_what_the_workflow_says(
    study, kept, tmp_path
):
    """The workflow predicts them beside the others, with labels of theirs that nobody looks at."""
    write_biom(tmp_path / "table.biom", study.table, {})
    files = [kept, tmp_path / "table.biom", study.paths["sequences"], tmp_path / "found.csv"]
    arguments = [sys.executable, "-c", FRESH, *map(str, files)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(files[-1], dtype={"sample-id": str}).set_index("sample-id")
    assert not {"sd", "novelty"} & set(found)
    assert not found["unseen_asvs"].any()
    assert found["in_training"].isna().all()
    for target, mixed in mixed_by_target(study).items():
        weights = mixed.mixture.weights.values()
        assert sum(weight > 1e-3 for weight in weights) > 1, "a mixture of one"
        suffix = f":{target}" if target else ""
        held_out = mixed.predictions[mixed.predictions["fold"] == -1].set_index("sample-id")
        assert found.index.tolist() == held_out.index.tolist()
        columns = [f"probability:{name}" for name in study.classes] or ["predicted"]
        wanted = held_out[columns].astype(float)
        if study.classes:
            fitted = Calibration.fit(mixed.predictions).recalibration
            wanted = pd.DataFrame(fitted.apply(wanted), wanted.index, columns)
            assert found["predicted"].tolist() == held_out["predicted"].tolist()
        closest = 1e-6 * wanted.abs().max().max()
        said = found[[f"{name}{suffix}" for name in columns]]
        np.testing.assert_allclose(said, wanted, rtol=0, atol=closest)
        assert wanted.std().min() > 1e-3
        assert ("prediction_set" if study.classes else f"lower{suffix}") in found


@pytest.mark.parametrize("study", ["several"], indirect=True)
@pytest.mark.parametrize("is_shared", [False, True])
def test_every_column_is_predicted_by_its_own_methods(study, kept, tmp_path, is_shared):
    """Arrays are numbered as the alphabet has the columns; the configuration names weight first."""
    folder = kept
    if is_shared:
        folder = tmp_path / "shared"
        main(["share", str(kept), "--output", str(folder)])
    found = aam.load(folder).predict(study.table, study.paths["sequences"])
    for column in ("weight", "age"):
        observed = study.folds.set_index("sample-id")[f"observed:{column}"].astype(float)
        assert found[f"predicted:{column}"].between(observed.min(), observed.max()).all()


def test_arrays_say_what_refitting_to_the_kept_samples_does(study, kept):
    """Refitting is the slow reference: it takes the same folder."""
    own = SuperLearner.load(kept)
    texts = load_sequences(study.paths["sequences"])
    features = own.reads.nearest_features(study.table, texts)
    drawn = own.reads.draw(study.table, features, study.table.sample_ids)
    found = own.predict_reads(drawn, 1)
    columns = [f"probability:{name}" for name in study.classes] or ["predicted"]
    for target, mixture in used_mixtures(own.settings).items():
        task = task_of(own.settings, own.folds, own.reads, drawn, target)
        refitted = predict_others(task, 1).groupby("baseline")
        values = {name: part[columns].to_numpy(float) for name, part in refitted}
        expected = mixture.apply(values)
        np.testing.assert_allclose(found[target], expected, rtol=1e-9, atol=1e-9)


def test_a_shared_copy_holds_no_sample_and_predicts_by_the_methods_that_need_none(
    study, kept, tmp_path, caplog, capsys
):
    folder = tmp_path / "shared"
    main(["share", str(kept), "--output", str(folder)])
    assert "holds samples: no" in capsys.readouterr().out
    names = {path.name for path in folder.iterdir()}
    stay = {"features.json", "methods.safetensors", "super_learner.json", "MANIFEST.json"}
    assert names == stay | {"tree.nwk"}
    content = b"".join(path.read_bytes() for path in folder.iterdir()).decode(errors="replace")
    assert not [name for name in study.folds["sample-id"] if f'"{name}"' in content]
    with caplog.at_level(logging.WARNING):
        found = aam.load(folder).predict(study.table, study.paths["sequences"])
    assert "shared without samples" in caplog.text
    assert not {"in_training", "prediction_set", "lower"} & set(found)
    whole, part = SuperLearner.load(kept), SuperLearner.load(folder)
    texts = load_sequences(study.paths["sequences"])
    drawn = whole.reads.draw(
        study.table, whole.reads.nearest_features(study.table, texts), study.table.sample_ids
    )
    for target, mixture in used_mixtures(part.settings).items():
        assert sum(mixture.weights.values()) == pytest.approx(1)
        assert not {"kernel_unifrac", "knn_unifrac"} & set(mixture.weights)
        samples = whole._samples(drawn)
        values = {name: whole.methods[target][name].predict(samples) for name in mixture.weights}
        expected = mixture.apply(values)
        np.testing.assert_allclose(part.predict_reads(drawn, 1)[target], expected, rtol=1e-12)
    with pytest.raises(InputError, match="shared without samples"):
        aam.load(folder).explain(study.table, study.paths["sequences"])


def test_the_stage_writes_what_python_returns(study, kept, tmp_path):
    write_biom(tmp_path / "table.biom", study.table, {})
    inputs = {"model": kept, "table": tmp_path / "table.biom"}
    inputs["sequences"] = study.paths["sequences"]
    outputs = {"predictions": tmp_path / "found.tsv"}
    predict_table(
        **inputs,
        predictions_out=outputs["predictions"],
        notes_out=outputs["predictions"].with_suffix(".notes.tsv"),
    )
    written = pd.read_csv(outputs["predictions"], sep="\t", dtype={"sample-id": str})
    expected = aam.load(kept).predict(study.table, study.paths["sequences"])
    assert [*written.columns] == ["sample-id", *expected.columns]
    numbers = expected.select_dtypes("number")
    np.testing.assert_allclose(written[numbers.columns], numbers, rtol=1e-8)
    assert [*expected.columns[-3:]] == ["unseen_asvs", "near_reads", "in_training"]


def test_describe_says_what_was_learned_from_what(study, kept, capsys, tmp_path):
    main(["describe", str(kept)])
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    labelled = int((study.folds["fold"] >= 0).sum())
    assert said["predicts"].startswith(study.settings["kind"])
    assert all(name in said["predicts"] for name in study.classes)
    assert "; task t" in said["predicts"]
    several = [name for name in study.folds if name.startswith("observed:")]
    assert several or " of t by baselines" in repr(aam.load(kept))
    assert said["learned from"].startswith(f"{labelled} samples of 1 groups, ")
    assert said["draws"] == "60 reads per sample, 2 times"
    assert said["tree and its licence"] == "reference mine (CC BY 4.0)"
    assert "nucleotides" in said["sequences"]
    assert "near_reads" in said["novelty"]
    assert said["networks"] == "none"
    assert said["format"] == f"3, written by AAM {aam.__version__}"
    # The heaviest method comes first.
    weights = [float(part.split()[-1]) for part in said["methods"].split("; ")[0].split(", ")]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1, abs=0.03)
    old = shutil.copytree(kept, tmp_path / "old")
    settings = read_json(old / "super_learner.json")
    write_json(old / "super_learner.json", settings | {"format": 2})
    with pytest.raises(SystemExit, match=r"format 2, of another version.*aam run"):
        main(["describe", str(old)])
    with pytest.raises(SystemExit, match="nothing"):
        main(["describe", str(tmp_path / "nothing")])


def test_what_is_kept_is_what_the_first_answer_scored(study, kept, tmp_path):
    metadata = pd.DataFrame({"sample_id": study.folds["sample-id"], "host": "a"})
    metadata.to_parquet(tmp_path / "metadata")
    names = ("baselines", "nested_baselines", "folds")
    outputs = {"scores": tmp_path / "scores", "predictions": tmp_path / "predictions.tsv"}
    several = [name for name in study.folds if name.startswith("observed:")]
    settings = ScoreSettings(
        **{key: study.settings[key] for key in ("kind", "classes", "bounds")},
        dataset="d",
        task="t",
        answer="first",
        columns=[name.removeprefix("observed:") for name in several] or ["label"],
        structure=SampleGroups(column=None, stated=False),
        report_by=[],
    )
    inputs = {name: study.paths[name] for name in names} | {"metadata": tmp_path / "metadata"}
    reads = {"table": study.paths["table"], "rarefied": study.paths["views"][0]}
    score_task(**inputs, **reads, settings=settings, **as_outputs(outputs))
    report = TaskReport.read(outputs["scores"])
    scored = {key.column: target for key, target in report.by_key()}
    mixtures = read_json(kept / "super_learner.json")["mixtures"]
    assert mixtures.keys() == scored.keys()
    for target, mixture in mixtures.items():
        assert mixture["weights"] == scored[target].best.mixing.weights
    told = read_predictions(outputs["predictions"])
    own = read_predictions(kept / "cross_validation.tsv")
    assert told["predicted"].tolist() == own["predicted"].tolist()
    # By these groups the page calibrates probabilities.
    units = units_of(study.folds.set_index("sample-id")["group"])
    assert own["group"].tolist() == units.loc[own["sample-id"]].tolist()


def test_samples_of_training_are_marked_and_shallow_ones_named(study, kept, augmented, caplog):
    whole = augmented.table
    ids = [f"new {name}" for name in whole.sample_ids]
    ids[-1] = whole.sample_ids[-1]
    counts = whole.counts.copy()
    # The first keeps a read of each of its ASVs: too few.
    counts.data[: counts.indptr[1]] = 1
    with caplog.at_level(logging.WARNING):
        found = aam.load(kept).predict(
            FeatureTable(ids, whole.feature_ids, counts), study.paths["sequences"]
        )
    assert found.index.tolist() == ids[1:]
    known = len(ids) - HELD_OUT - 1
    assert found["in_training"].tolist() == [""] * (HELD_OUT - 1) + ["reads"] * known + ["id"]
    shallow, marked = (record.getMessage() for record in caplog.records)
    assert "fewer than 60 reads and are left out: 'new 000'" in shallow
    assert "were in training" in marked


def test_asvs_that_the_study_lacks_are_counted_and_longer_reads_are_not(study, kept):
    sequences = load_sequences(study.paths["sequences"])
    table = study.table
    most = table.feature_ids[int(np.argmax(table.counts.sum(axis=0)))]
    letters = [sequences[name] + "ACGT" for name in table.feature_ids]
    letters[table.feature_ids.index(most)] = "ACGT" * 5
    found = aam.load(kept).predict(FeatureTable(table.sample_ids, letters, table.counts))
    share = csr_array(table.counts).toarray()[:, table.feature_ids.index(most)] / table.reads
    # The views are draws of the reads.
    np.testing.assert_allclose(found["unseen_asvs"], share, atol=0.2)
    assert found["unseen_asvs"].mean() > 0.02


def test_a_table_of_the_other_strand_is_refused_and_nothing_written(study, kept, tmp_path):
    """Its predictions would be those of samples without a read."""
    write_biom(tmp_path / "new.biom", study.table, {})
    sequences = load_sequences(study.paths["sequences"])
    turned = {name: reverse_complement(text) for name, text in sequences.items()}
    write_fasta(tmp_path / "turned.fasta", turned)
    files = {"model": kept, "table": tmp_path / "new.biom", "sequences": tmp_path / "turned.fasta"}
    message = rf"{tmp_path}/new\.biom: got 5 samples in which 0 % of the reads .*other strand"
    with pytest.raises(InputError, match=message):
        predict_table(
            **files, predictions_out=tmp_path / "found.tsv", notes_out=tmp_path / "found.notes.tsv"
        )
    assert not (tmp_path / "found.tsv").exists()
    # What the hint says leads to the predictions.
    back = {name: reverse_complement(text) for name, text in turned.items()}
    write_fasta(tmp_path / "turned.fasta", back)
    predict_table(
        **files, predictions_out=tmp_path / "found.tsv", notes_out=tmp_path / "found.notes.tsv"
    )
    assert (tmp_path / "found.tsv").exists()


def test_a_sample_of_which_little_is_known_has_no_bounds_and_a_set_of_all_classes(study, kept):
    """What is predicted for the other samples is what it is without it."""
    table, sequences = study.table, load_sequences(study.paths["sequences"])
    model = aam.load(kept)
    plain = model.predict(table, study.paths["sequences"])
    strange = [reverse_complement(sequences[name]) for name in table.feature_ids]
    counts = table.counts.toarray()
    counts = np.hstack([counts, np.zeros_like(counts)])
    half = len(strange)
    counts[0, half:], counts[0, :half] = counts[0, :half].copy(), 0
    ids = [*table.feature_ids, *strange]
    sequences.update(zip(strange, strange, strict=True))
    given = FeatureTable(table.sample_ids, ids, csr_array(counts))
    write_fasta(kept.parent / "both.fasta", sequences)
    found = model.predict(given, kept.parent / "both.fasta")
    assert found["near_reads"].tolist() == [0, 1, 1, 1, 1]
    first = found.iloc[0]
    if study.classes:
        assert first["prediction_set"] == "gut|skin"
    else:
        bounds = [name for name in found if name.startswith(("lower", "upper"))]
        assert first[bounds].isna().all()
        assert found[bounds].iloc[1:].notna().all(axis=None)
    pd.testing.assert_frame_equal(found.iloc[1:], plain.iloc[1:])


def test_metadata_are_taken_as_models_take_them_and_change_nothing(study, kept, tmp_path):
    """The how-to calls every directory in the same way; baselines know no covariates."""
    (tmp_path / "metadata.tsv").write_text("sample-id\thost\n000\tcat\n")
    model, sequences = aam.load(kept), study.paths["sequences"]
    expected = model.predict(study.table, sequences)
    found = model.predict(study.table, sequences, tmp_path / "metadata.tsv")
    pd.testing.assert_frame_equal(found, expected)
    with pytest.raises(InputError, match=r"metadata\.tvs: got no such file"):
        model.predict(study.table, sequences, tmp_path / "metadata.tvs")


def test_a_predictor_that_is_printed_shows_no_samples(study, kept):
    shown = repr(aam.load(kept))
    assert "baselines" in shown
    assert len(shown) < 200, "people share what they print, and samples are of patients"


def test_a_single_sample_is_predicted_as_among_others(study, kept):
    model, sequences = aam.load(kept), study.paths["sequences"]
    one = model.predict(study.table.select_samples(np.array([2])), sequences)
    expected = model.predict(study.table, sequences).iloc[[2]]
    pd.testing.assert_frame_equal(one, expected, rtol=1e-6)


def test_a_baseline_that_is_alone_predicts_as_it_is(study, tmp_path):
    tables = read_predictions(study.paths["baselines"])
    nested = pd.read_parquet(study.paths["nested_baselines"])
    only = tables[tables["baseline"] == "random_forest"]
    only.to_csv(tmp_path / "baselines", sep="\t", index=False)
    nested[nested["baseline"] == "random_forest"].to_parquet(tmp_path / "nested")
    names = {"baselines": tmp_path / "baselines", "nested_baselines": tmp_path / "nested"}
    alone = keep(study, tmp_path, **names)
    found = aam.load(alone).predict(study.table, study.paths["sequences"])
    for target, table in by_baseline(only)["random_forest"].items():
        held_out = table[table["fold"] == -1]["predicted"]
        column = f"predicted:{target}" if target else "predicted"
        if study.classes:
            assert found[column].tolist() == held_out.tolist()
        else:
            np.testing.assert_allclose(found[column], held_out.astype(float), rtol=1e-6)


@pytest.mark.parametrize("damage", ["folds.tsv", "fingerprints.safetensors", "tree.nwk"])
def test_what_is_missing_is_told(kept, tmp_path, damage):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    (folder / damage).unlink()
    with pytest.raises(InputError, match="copy: got files that"):
        aam.load(folder)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match="got no such directory"):
        aam.load(tmp_path / "nothing")


@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_a_class_that_is_a_guess_is_called_one(study, kept, tmp_path, monkeypatch, slope):
    fixed = Recalibration(slope=slope, intercept_C=np.array([0.3, -0.3]))
    monkeypatch.setattr(Recalibration, "fit", lambda *args, **settings: fixed)
    write_biom(tmp_path / "table.biom", study.table, {})
    outputs = {"predictions": tmp_path / "found.tsv", "notes": tmp_path / "found.notes.tsv"}
    predict_table(
        model=kept,
        table=tmp_path / "table.biom",
        sequences=study.paths["sequences"],
        **as_outputs(outputs),
    )
    said = [note for note in read_notes(outputs["notes"]) if "nothing was learned" in note.text]
    has_classes = study.settings["kind"] != "regression"
    assert len(said) == (has_classes and slope == 0)
    assert all(note.is_caution for note in said)


def test_reads_of_another_region_are_predicted_by_their_genes(
    study, kept, tmp_path, monkeypatch, caplog
):
    own = load_sequences(study.paths["sequences"])
    rng = np.random.default_rng(3)
    behind = {name: "".join(rng.choice(list("ACGT"), 150)) for name in own}
    write_fasta(tmp_path / "behind.fasta", behind)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    predictor = aam.load(kept)
    with pytest.raises(InputError, match="aam reference get greengenes"):
        predictor.predict(study.table, tmp_path / "behind.fasta")
    with pytest.raises(InputError, match="other, which is not in"):
        predictor.predict(study.table, tmp_path / "behind.fasta", reference="other")
    # Genes that have the reads of training in front of the others, and a ladder as their tree.
    genes = {name: own[name] + "ACGTTGCA" * 3 + behind[name] for name in own}
    write_fasta(tmp_path / "genes.fasta", genes)
    names = [*genes]
    ladder = "".join(f"({name}:0.3," for name in names[:-1]) + f"{names[-1]}:0.3"
    (tmp_path / "genes.nwk").write_text(ladder + "):0.1" * (len(names) - 2) + ");\n")
    files = {"sequences": tmp_path / "genes.fasta", "tree": tmp_path / "genes.nwk"}
    build_reference(references_folder() / "greengenes", **files)
    with caplog.at_level(logging.WARNING):
        found = predictor.predict(study.table, tmp_path / "behind.fasta")
    assert "reads of another region than those of training, of which 100 %" in caplog.text
    expected = predictor.predict(study.table, study.paths["sequences"])
    columns = [name for name in expected if str(name).startswith(("predicted", "probability"))]
    pd.testing.assert_frame_equal(found[columns], expected[columns])
    # By their bases they are far from training: no bound is given, or the set of all classes.
    assert (found["near_reads"] == 0).all()
    assert not [name for name in found if str(name).startswith("lower")]
    # Neither are reads predicted that no gene lies near.
    nonsense = {name: "".join(rng.choice(list("ACGT"), 150)) for name in own}
    write_fasta(tmp_path / "nonsense.fasta", nonsense)
    with pytest.raises(InputError, match="0 % lie within"):
        predictor.predict(study.table, tmp_path / "nonsense.fasta")
