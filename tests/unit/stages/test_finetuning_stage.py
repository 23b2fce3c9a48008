from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from scipy.sparse import csr_array
from stage_calls import as_outputs, call
from study_fixtures import EXPLAINED

from aam.config.settings.finetuning import FinetuneSettings
from aam.data.folds import read_folds
from aam.data.importing.metadata import load_metadata
from aam.data.importing.sequences import load_sequences
from aam.data.predictions import read_predictions
from aam.data.sequences import read_fasta
from aam.data.table import FeatureTable
from aam.evaluate import clade_tests
from aam.evaluate.method_scores import headline_score
from aam.inference.asv_cache import module_digest
from aam.inference.bundle import ModelBundle
from aam.inference.ensemble import predict_table
from aam.inference.task_predictor import TaskPredictor
from aam.stages import explain
from aam.stages.finetune import finetune_task
from aam.tasks.finetune.setup import FinetuneSetup
from aam.util.atomic import read_json
from aam.util.errors import InputError
from aam.util.run_options import RunOptions

LEVELS = [f"probability:{name}" for name in ("low", "mid", "high")]
SITES = [f"probability:{name}" for name in ("gut", "skin")]
QUANTILES = [f"quantile:{level}" for level in ("0.05", "0.25", "0.5", "0.75", "0.95")]


@pytest.fixture(scope="module")
def finetuned(study, pretrained, tmp_path_factory) -> dict[str, dict[str, Path]]:
    """Return outputs of tasks: `ordered` has the host as covariate, `pair` is of quantiles."""
    own, asvs = {"model": pretrained["model"]}, {"asvs": pretrained["asvs"]}
    models = {"age": own, "site": own, "scratch": {}, "ordered": own, "pair": {**own, **asvs}}
    return {
        task: study.finetune(tmp_path_factory.mktemp(task), task, **inputs)
        for task, inputs in models.items()
    }


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", dtype={"sample-id": str})


@pytest.mark.parametrize(
    ("task", "probabilities"), [("age", []), ("scratch", []), ("site", SITES), ("ordered", LEVELS)]
)
def test_every_labelled_sample_is_predicted_once(finetuned, study, task, probabilities):
    table = read(finetuned[task]["predictions"])
    folds = read_folds(study.files[f"{task}.tsv"]).reset_index()
    # Two networks of a fold are draws of initial weights.
    draws = ["draw:0", "draw:1"] if task == "ordered" else []
    columns = ["sample-id", "fold", "group", "observed", "predicted", *probabilities, *draws]
    assert list(table) == columns
    for column in ("sample-id", "fold", "observed"):
        assert table[column].astype(str).tolist() == folds[column].astype(str).tolist()
    assert table["predicted"].notna().all()
    if probabilities:
        assert (table[probabilities].sum(axis=1) - 1).abs().max() < 1e-5
        best = table[probabilities].idxmax(axis=1).str.removeprefix("probability:")
        assert table["predicted"].tolist() == best.tolist()
    history = pd.read_parquet(finetuned[task]["history"])
    assert {"fold", "model", "step", "name", "value"} <= set(history)
    assert set(history["fold"]) == {0, 1}
    assert not finetuned[task]["model"].with_name("work").exists()


def test_predictions_of_several_columns_are_a_row_each(finetuned, study):
    table = read(finetuned["pair"]["predictions"])
    folds = read_folds(study.files["pair.tsv"])
    names = ["sample-id", "target", "fold", "group", "observed", "predicted", *QUANTILES]
    assert list(table) == names
    assert table["target"].tolist() == ["age"] * len(folds) + ["weight"] * len(folds)
    for name, part in table.groupby("target"):
        assert part["sample-id"].tolist() == folds.index.tolist()
        assert part["observed"].tolist() == folds[f"observed:{name}"].astype(float).tolist()
        assert (np.diff(part[QUANTILES]) >= 0).all()
        np.testing.assert_allclose(part["predicted"], part["quantile:0.5"])
    assert table.loc[table["target"] == "age", "predicted"].max() < 100
    assert table.loc[table["target"] == "weight", "predicted"].min() > 200


def test_the_starts_are_what_they_are_called(finetuned, pretrained):
    """A frozen encoder is the pretrained one; the folds of a fine-tuned one differ."""

    def encoder(path: Path) -> dict[str, np.ndarray]:
        state = load_file(path / "model.safetensors")
        return {name: value for name, value in state.items() if name.startswith("encoder.")}

    start = encoder(pretrained["model"])
    for task, stays in (("site", True), ("age", False), ("scratch", False)):
        for fold in range(2):
            found = encoder(finetuned[task]["model"] / f"fold{fold}")
            assert set(found) == set(start)
            assert all(np.array_equal(found[name], start[name]) for name in start) == stays, task


def test_the_models_of_a_fold_start_from_weights_of_their_own(study, tmp_path):
    """Without training; the first of each fold has those that a single model has."""
    files = study.task_inputs("scratch")
    del files["table"]
    alone, make = (
        FinetuneSetup.open(
            FinetuneSettings.model_validate(study.finetune_slice("scratch", networks=networks)),
            RunOptions(work=tmp_path / "work"),
            **files,
            code="code",
        ).make_encoder
        for networks in (1, 2)
    )
    digests = {(fold, n): module_digest(make(fold, n)) for fold in (0, 1) for n in (0, 1)}
    assert digests[0, 0] == digests[1, 0] == module_digest(alone(0, 0))
    assert digests[0, 1] != digests[0, 0]
    assert digests[0, 1] == module_digest(make(0, 1)), "a resumed run starts from the same"


def test_digests_stand_for_what_predicting_takes(finetuned, study, pretrained, tmp_path):
    known = read_json(finetuned["age"]["digests"])
    assert list(known["models"]) == ["fold0", "fold1"]
    files = {"asvs.txt", "cross_validation.tsv", "reference.safetensors", "shares.json"}
    assert set(known["files"]) == files
    settings = study.finetune_slice("age")
    settings["rarefaction"]["views"] = 2
    outputs = {name: tmp_path / name for name in finetuned["age"]}
    inputs = {**study.task_inputs("age"), "model": pretrained["model"]}
    runtime = RunOptions(work=tmp_path / "work")
    finetune_task(
        **inputs,
        settings=FinetuneSettings.model_validate(settings),
        runtime=runtime,
        **as_outputs(outputs),
    )
    found = read_json(outputs["digests"])
    assert outputs["predictions"].read_bytes() == finetuned["age"]["predictions"].read_bytes()
    same = {name: found[name] == known[name] for name in known}
    # Another table is to be drawn twice.
    assert same == {"models": True, "files": True, "settings": False}


def test_novelty_is_that_of_the_encoder_and_all_labelled_samples_whatever_the_task(
    finetuned, study, pretrained, tmp_path
):
    """The tasks have one encoder and one set of labelled samples, of two folds."""
    kernel = study.finetune(tmp_path / "kernel", "kernel", model=pretrained["model"])
    table, sequences = study.tiny.table, study.tiny.sequences
    labelled = set(read_folds(study.files["site.tsv"]).index)
    ids = [f"new {name}" for name in table.sample_ids]
    new = FeatureTable(ids, table.feature_ids, table.counts)
    columns = ["novelty", "in_training"]
    found = []
    for directory in (finetuned["site"]["model"], kernel["model"]):
        bundle = ModelBundle.load(directory)
        assert bundle.reference.samples.sample_ids == labelled
        known = predict_table(bundle, table, sequences)[columns]
        is_labelled = known.index.isin(labelled)
        assert not known.loc[is_labelled, "novelty"].any()
        assert known.loc[~is_labelled, "novelty"].any()
        assert known["in_training"].tolist() == np.where(is_labelled, "id", "").tolist()
        # New samples have the reads of two each.
        mixed = csr_array(2 * table.counts + 3 * table.counts[::-1])
        mixed.sort_indices()
        unlike = FeatureTable(ids, table.feature_ids, mixed)
        found.append(predict_table(bundle, unlike, sequences)[columns])
        renamed = predict_table(bundle, new, sequences)[columns]
        assert renamed["in_training"].tolist() == np.where(is_labelled, "reads", "").tolist()
        assert not renamed.loc[is_labelled, "novelty"].any()
    assert found[0]["novelty"].nunique() > 3
    assert not found[0]["in_training"].any()
    pd.testing.assert_frame_equal(found[0], found[1])


def test_samples_of_the_test_set_were_not_in_training(finetuned, study):
    fold = read_folds(study.files["pair.tsv"])["fold"]
    known = ModelBundle.load(finetuned["pair"]["model"]).reference.samples.sample_ids
    assert known == set(fold.index[fold >= 0]) != set(fold.index)


def test_a_missing_pretrained_model_is_one_message(study, tmp_path):
    with pytest.raises(InputError, match=r"got no config\.json"):
        study.finetune(tmp_path, "age", model=tmp_path)
    assert not (tmp_path / "predictions").exists()


@pytest.mark.parametrize("task", ["age", "site", "ordered"])
def test_the_models_predict_their_samples_again_from_the_table(finetuned, study, task):
    """Those of all folds the test set together; unlike without the covariates."""
    known = read(finetuned[task]["predictions"]).set_index("sample-id")
    columns = {"age": ["predicted"], "site": SITES, "ordered": LEVELS}[task]
    bundle, metadata = ModelBundle.load(finetuned[task]["model"]), None
    if task == "ordered":
        assert len(bundle.predictors) == 4
        metadata = read_folds(study.files["ordered.tsv"])["category:host"].to_frame("host")
    own, table = len(bundle.predictors) // 2, (study.tiny.table, study.tiny.sequences)
    for fold in (0, 1, -1):
        chosen = slice(own * fold, own * (fold + 1)) if fold >= 0 else slice(None)
        parts = {"predictors": bundle.predictors[chosen], "shares": bundle.shares[chosen]}
        one = replace(bundle, **parts)
        found = predict_table(one, *table, metadata=metadata)
        expected = known.loc[known["fold"] == fold, columns]
        assert not found["unseen_asvs"].any()
        again = found.loc[expected.index, columns].astype(float)
        np.testing.assert_allclose(again, expected, rtol=1e-5, atol=1e-5)
    if task == "ordered":
        silent = predict_table(bundle, *table).loc[expected.index, columns]
        assert np.abs(silent - expected).to_numpy().max() > 0.01


def test_the_table_again_gets_its_predictions_and_intervals_of_every_column(
    finetuned, study, tmp_path
):
    host = read_folds(study.files["pair.tsv"])["category:host"].to_frame("host")
    fasta = tmp_path / "sequences.fasta"
    records = (f">{name}\n{sequence}\n" for name, sequence in study.tiny.sequences.items())
    fasta.write_text("".join(records))
    found = TaskPredictor.load(finetuned["pair"]["model"]).predict(
        study.tiny.table, fasta, host, threads=1
    )
    table = read(finetuned["pair"]["predictions"]).set_index("sample-id")
    for name in ("age", "weight"):
        columns = {f"{base}:{name}" for base in ("predicted", "sd", "lower", "upper", *QUANTILES)}
        assert columns <= set(found)
        test = table[(table["fold"] < 0) & (table["target"] == name)]
        near = found.loc[test.index, f"predicted:{name}"].astype(float)
        np.testing.assert_allclose(near, test["predicted"], rtol=1e-5)


@pytest.fixture
def importance(finetuned, study, tmp_path):
    def run(task: str, folds: Path | None = None, **changes):
        inputs = {**study.task_inputs(task), "model": finetuned[task]["model"]}
        inputs["folds"] = folds or inputs["folds"]
        inputs["taxonomy"] = tmp_path / "taxonomy.tsv"
        rows = (f"{name}\tg__{name}\n" for name in study.tiny.tokens.feature_ids)
        inputs["taxonomy"].write_text("feature-id\ttaxon\n" + "".join(rows))
        inputs["sequences"] = study.files["sequences.fasta"]
        inputs |= study.name_clade(tmp_path, task)
        outputs = {name: tmp_path / name for name in EXPLAINED}
        settings = {"explained": 4, "checked": 2, "removed": 3, "seed": 0, **changes}
        call(explain.explain_task, settings, inputs, outputs)
        return outputs["importance"], read_json(outputs["check"])

    return run


def test_importance_of_the_asvs_that_held_out_samples_have(importance, study, monkeypatch):
    monkeypatch.setattr(explain, "MOST_IMPORTANT", 7)
    path, check = importance("site", explained=100)
    assert (check["samples"], check["checked"]) == (18, 4)
    assert check["outputs"] == ["gut", "skin"]
    assert check["completeness"]["gap_max"] < 1e-3
    assert {"aam.version", "aam.settings"} <= set(check["provenance"])
    tiny, table = study.tiny, load_metadata(path)
    is_labelled = np.isin(tiny.store.sample_ids, read_folds(study.files["site.tsv"]).index)
    number_U = (tiny.store.view_matrix(0, 30).toarray()[is_labelled] > 0).sum(axis=0)
    known = zip(tiny.tokens.feature_ids, number_U, strict=True)
    assert table["samples"].astype(float).to_dict() == {name: n for name, n in known if n}
    assert (table["taxon"] == "g__" + table.index).all()
    whole = read_fasta(study.files["sequences.fasta"])
    assert table["sequence"].to_dict().items() <= whole.items()
    top = table["sequence"].head(7)
    assert [*load_sequences(path.with_name("sequences")).items()] == [*top.to_dict().items()]
    values = table[["importance", "direction:gut", "direction:skin"]].astype(float)
    assert values["importance"].is_monotonic_decreasing
    assert values["importance"].iloc[0] > 0
    np.testing.assert_allclose(values["direction:gut"], -values["direction:skin"], rtol=1e-3)


def test_the_seed_chooses_the_samples_of_each_fold(importance):
    """Of models with covariates."""
    contents = []
    for seed in (0, 0, 1):
        path, check = importance("ordered", seed=seed)
        assert (check["samples"], check["checked"]) == (8, 4)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_a_fold_without_a_model_is_the_users_problem(importance, study, tmp_path):
    frame = pd.read_csv(study.files["site.tsv"], sep="\t", dtype=str, na_filter=False)
    frame.loc[3, "fold"] = "2"
    frame.to_csv(tmp_path / "folds.tsv", sep="\t", index=False)
    with pytest.raises(InputError, match=r"no model of fold 2; .*Hint: fine-tune again"):
        importance("site", tmp_path / "folds.tsv")


@pytest.mark.parametrize("task", ["age", "site", "ordered", "pair"])
def test_networks_are_asked_without_a_named_clade(task, importance, finetuned, study):
    """Of numbers, classes, ordered ones with a covariate, and two targets of quantiles."""
    path, _ = importance(task, explained=100)
    found = pd.read_csv(path.with_name("clades"), sep="\t")
    targets = study.config.tasks[task].columns
    assert found["clade"].tolist() == ["clade of a"] * len(targets)
    if len(targets) > 1:
        assert found["target"].tolist() == targets
    folds = read_folds(study.files[f"{task}.tsv"])
    assert (found["samples"] == (folds["fold"] >= 0).sum()).all()
    assert found["p"].between(0, 1).all()
    # So few right classes may stay the same.
    assert (found["loss"] != 0).all() or study.config.tasks[task].kind != "regression"
    # The score is that of the networks, but for reads of one view in place of the mean of all.
    predictions = read_predictions(finetuned[task]["predictions"])
    for target, (_, row) in zip(targets, found.iterrows(), strict=True):
        own = predictions[predictions["fold"] >= 0]
        if len(targets) > 1:
            own = own[own["target"] == target]
        kind = study.config.tasks[task].kind
        assert row["score"] == pytest.approx(headline_score(kind, own), rel=0.3)


def test_of_many_samples_some_are_asked_without_a_clade(importance, monkeypatch):
    monkeypatch.setattr(clade_tests, "MOST_SAMPLES", 8)
    path, _ = importance("age", explained=3)
    found = pd.read_csv(path.with_name("clades"), sep="\t")
    assert found["samples"].tolist() == [6]
    path, _ = importance("age", explained=100)
    assert pd.read_csv(path.with_name("clades"), sep="\t")["samples"].tolist() == [8]
