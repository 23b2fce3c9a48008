import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from baseline_studies import CLASSES, HELD_OUT, RAREFACTION, write_study
from problems import nested_of
from stage_calls import as_outputs

import aam
from aam.config.settings.tasks import SuperLearnerSettings
from aam.data.folds import units_of
from aam.data.importing.sequences import load_sequences
from aam.data.predictions import read_predictions, write_predictions
from aam.data.table import FeatureTable, write_biom
from aam.data.target import Target
from aam.inference.bundle import ModelBundle, write_bundle
from aam.inference.embed import embed_samples
from aam.inference.ensemble import predict_table
from aam.inference.outputs import Share
from aam.learners.conformal import Calibration
from aam.learners.recalibration import Recalibration
from aam.learners.super_learner import Learner, learners_by_target
from aam.learners.super_learner import super_learner as mixture_of
from aam.model.predictor import Predictor
from aam.stages.super_learner import keep_super_learner
from aam.util.atomic import read_json, write_json
from aam.util.errors import InputError

UNREAD = "distances", "digests"

FRESH = """
import sys
import aam
import numpy as np
from aam.learners.recalibration import Recalibration
fixed = Recalibration(slope=1.5, intercept_C=np.array([0.3, -0.3]))
Recalibration.fit = lambda *args, **settings: fixed
folder, table, sequences, found = sys.argv[1:]
aam.load(folder).predict(table, sequences, threads=1).to_csv(found)
"""


@pytest.fixture(scope="module", params=["regression", "classification"])
def study(request, augmented, new_encoder, devices, tmp_path_factory) -> dict[str, Any]:
    """Return the inputs of the stage, its settings, and the table of the samples held out."""
    folder, kind, table = tmp_path_factory.mktemp(request.param), request.param, augmented.table
    written = write_study(folder, kind, table, augmented.sequences)
    ids, rng = table.sample_ids, np.random.default_rng(1)
    names = ("model", "digests", "predictions", "nested")
    paths = {**written.paths, **{name: folder / name for name in names}}
    folds = written.folds
    observed = folds["observed"].to_numpy(str)
    target = Target.fit(kind, ("label",), observed[:, None], np.ones(len(ids), bool))
    predictor = Predictor(new_encoder(20), target, seed=0)
    predictor.save(folder / "fold0", {"rarefaction": RAREFACTION, "settings": {}})
    rows = np.arange(len(ids))
    known = embed_samples(predictor.encoder, augmented.store, augmented.tokens, rows, devices)
    own = folds.drop(columns="group").assign(predicted=observed)
    if kind == "regression":
        own["predicted"] = own["observed"].astype(float) + rng.normal(size=len(ids))
    else:
        right = rng.uniform(0.35, 0.95, size=len(ids))
        shares = np.where(observed == "gut", [right, 1 - right], [1 - right, right]).T
        own[[f"probability:{name}" for name in CLASSES]] = shares
    write_bundle(
        paths["model"],
        {"fold0": folder / "fold0"},
        {"fold0": Share()},
        tokens=augmented.tokens,
        trained_on=table.select_samples(np.arange(HELD_OUT, len(ids))),
        reference_ND=known[HELD_OUT:],
        reference_model="fold0",
        predictions=own,
    )
    said = predict_table(ModelBundle.load(paths["model"]), written.table, augmented.sequences)
    columns = [name for name in own if name in said]
    own[columns] = own[columns].astype(object)
    own.loc[: HELD_OUT - 1, columns] = said[columns].to_numpy()
    write_predictions(paths["predictions"], own)
    nested_of(own).to_parquet(paths["nested"])
    write_json(paths["digests"], {})
    names = {"dataset": "d", "task": "t", "answer": "base"}
    settings = SuperLearnerSettings(**written.settings, **names)
    return {"paths": paths, "settings": settings, "table": written.table, "folds": folds}


@pytest.fixture(autouse=True)
def calibration(monkeypatch):
    """So few samples show no signal: their calibrated probabilities would all be the same."""
    fixed = Recalibration(slope=1.5, intercept_C=np.array([0.3, -0.3]))
    monkeypatch.setattr(Recalibration, "fit", lambda *args, **settings: fixed)


@pytest.fixture(scope="module")
def kept(study, tmp_path_factory) -> Path:
    return keep(study, tmp_path_factory.mktemp("kept"))


def keep(study, folder: Path) -> Path:
    outputs = {"directory": folder / "super_learner", "digest": folder / "super_learner.json"}
    given = {key: path for key, path in study["paths"].items() if key not in UNREAD}
    keep_super_learner(**given, settings=study["settings"], **as_outputs(outputs))
    return outputs["directory"]


def test_a_fresh_process_says_of_samples_held_out_what_the_workflow_says(study, kept, tmp_path):
    """The workflow predicts them beside the others, with labels of theirs that nobody looks at."""
    paths, group = study["paths"], study["folds"].set_index("sample-id")["group"]
    rivals = learners_by_target(
        read_predictions(paths["baselines"]), pd.read_parquet(paths["nested_baselines"])
    )[""]
    own = Learner(read_predictions(paths["predictions"]), pd.read_parquet(paths["nested"]))
    mixed = mixture_of({"base": own, **rivals}, units_of(group))
    expected, mixture = mixed.predictions, mixed.mixture
    assert sum(weight > 1e-3 for weight in mixture.weights.values()) > 1, "a mixture of one"
    write_biom(tmp_path / "table.biom", study["table"], {})
    files = [kept, tmp_path / "table.biom", paths["sequences"], tmp_path / "found.csv"]
    arguments = [sys.executable, "-c", FRESH, *map(str, files)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = pd.read_csv(files[-1], dtype={"sample-id": str}).set_index("sample-id")
    held_out = expected[expected["fold"] == -1].set_index("sample-id")
    assert found.index.tolist() == held_out.index.tolist()
    columns = [name for name in held_out if str(name).startswith("probability:")] or ["predicted"]
    wanted = held_out[columns].astype(float)
    if len(columns) > 1:
        fitted = Calibration.fit(expected).recalibration
        wanted = pd.DataFrame(fitted.apply(wanted), wanted.index, columns)
    np.testing.assert_allclose(found[columns], wanted, rtol=0, atol=1e-6 * wanted.abs().max().max())
    assert wanted.std().min() > 1e-3
    assert ("prediction_set" if len(columns) > 1 else "lower") in found
    assert "sd" not in found


def test_samples_of_training_are_marked(study, kept, augmented, caplog):
    """The held-out ones are not; all others have another ID."""
    whole = augmented.table
    ids = [f"new {name}" for name in whole.sample_ids]
    table = FeatureTable(ids, whole.feature_ids, whole.counts)
    found = aam.load(kept).predict(table, study["paths"]["sequences"], threads=1)
    marks = [""] * HELD_OUT + ["reads"] * (len(ids) - HELD_OUT)
    assert found["in_training"].tolist() == marks
    assert not found["novelty"].iloc[HELD_OUT:].any()
    assert sum("were in training" in record.message for record in caplog.records) == 1


def test_landmarks_stand_for_all_samples_where_they_are_all(study, kept, monkeypatch, tmp_path):
    given = study["table"], study["paths"]["sequences"]
    plain = aam.load(kept).predict(*given, threads=1)
    problem = "aam.learners.baselines.problem"
    number = int((study["folds"]["fold"] >= 0).sum())
    monkeypatch.setattr(f"{problem}.MOST_COMPARED", number - 1)
    monkeypatch.setattr(f"{problem}.LANDMARKS", number)
    (tmp_path / "all").mkdir()
    same = aam.load(keep(study, tmp_path / "all")).predict(*given, threads=1)
    pd.testing.assert_frame_equal(same, plain, rtol=1e-4)
    monkeypatch.setattr(f"{problem}.LANDMARKS", number // 2)
    (tmp_path / "half").mkdir()
    fewer = aam.load(keep(study, tmp_path / "half")).predict(*given, threads=1)
    numbers = fewer.select_dtypes("number")
    assert np.isfinite(numbers).all(axis=None)
    assert not np.allclose(numbers, plain[numbers.columns])


def test_asvs_that_nobody_knows_are_left_out_and_names_do_not_matter(study, kept):
    model, table = aam.load(kept), study["table"]
    sequences = load_sequences(study["paths"]["sequences"])
    by_sequence = FeatureTable(
        table.sample_ids, [sequences[name] for name in table.feature_ids], table.counts
    )
    mixed = model.super_learner.reads
    known = mixed.nearest_features(by_sequence, {name: name for name in by_sequence.feature_ids})
    names = mixed.features
    assert [sequences[names[place]] for place in known.values()] == by_sequence.feature_ids
    strange = {
        name: "ACGT" * 5 if name == table.feature_ids[0] else sequences[name]
        for name in table.feature_ids
    }
    assert set(mixed.nearest_features(table, strange)) == {*table.feature_ids[1:]}


@pytest.mark.parametrize("damage", ["folds.tsv", "view1.biom", "tree.nwk", "super_learner.json"])
def test_what_is_missing_or_damaged_is_told(kept, study, tmp_path, damage):
    folder = tmp_path / "copy"
    shutil.copytree(kept, folder)
    if damage == "super_learner.json":
        (folder / damage).write_text("{")
    else:
        (folder / damage).unlink()
    with pytest.raises(InputError, match="copy: got files that"):
        aam.load(folder).predict(study["table"], study["paths"]["sequences"])


def test_another_version_is_told(kept, tmp_path):
    settings = read_json(kept / "super_learner.json")
    write_json(tmp_path / "super_learner.json", {**settings, "format": 0})
    with pytest.raises(InputError, match="got format 0"):
        aam.load(tmp_path)
