"""Fine-tuning and scoring of the kinds of targets: ordered classes, and several columns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.api import Model
from aam.data.folds import read_folds
from aam.inference.bundle import ModelBundle
from aam.inference.ensemble import predict_table
from aam.runtime.run_options import RunOptions
from aam.stages import explain
from aam.util.atomic import read_json

LEVELS = ["low", "mid", "high"]
SHARES = [f"probability:{name}" for name in LEVELS]
QUANTILES = [f"quantile:{level}" for level in ("0.05", "0.25", "0.5", "0.75", "0.95")]


@pytest.fixture(scope="module")
def finetuned(study, pretrained, tmp_path_factory) -> dict[str, dict[str, Path]]:
    """Return outputs of `ordered`, with the host as covariate, and of `pair`, of quantiles."""
    return {
        "ordered": study.finetune(
            tmp_path_factory.mktemp("ordered"), "ordered", model=pretrained["model"]
        ),
        "pair": study.finetune(
            tmp_path_factory.mktemp("pair"),
            "pair",
            model=pretrained["model"],
            asvs=pretrained["asvs"],
        ),
    }


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", dtype={"sample-id": str})


def test_predictions_of_ordered_classes_stand_in_their_order(finetuned, study):
    table = read(finetuned["ordered"]["predictions"])
    folds = read_folds(study.files["ordered.tsv"])
    assert list(table) == ["sample-id", "fold", "observed", "predicted", *SHARES]
    assert table["sample-id"].tolist() == folds.index.tolist()
    assert table["fold"].tolist() == folds["fold"].tolist()
    assert table["observed"].tolist() == folds["observed"].tolist()
    share_LK = table[SHARES].to_numpy()
    assert np.abs(share_LK.sum(axis=1) - 1).max() < 1e-5
    assert table["predicted"].tolist() == [LEVELS[place] for place in share_LK.argmax(axis=1)]


def test_the_models_of_all_folds_predict_the_test_set_together(finetuned, study):
    """Without the metadata the host is unknown, and the predictions are others."""
    table = read(finetuned["ordered"]["predictions"]).set_index("sample-id")
    host = read_folds(study.files["ordered.tsv"])["category:host"]
    bundle = ModelBundle.load(finetuned["ordered"]["model"])
    assert len(bundle.predictors) == 4
    test = table[table["fold"] < 0]
    covariates = host.to_frame("host")
    found, silent = (
        predict_table(bundle, study.tiny.table, study.tiny.sequences, metadata=metadata)
        for metadata in (covariates, None)
    )
    np.testing.assert_allclose(found.loc[test.index, SHARES], test[SHARES], atol=1e-5)
    assert np.abs(silent.loc[test.index, SHARES] - test[SHARES]).to_numpy().max() > 0.02
    of_fold0 = replace(bundle, predictors=bundle.predictors[:2])
    again = predict_table(of_fold0, study.tiny.table, study.tiny.sequences, metadata=covariates)
    fold0 = table[table["fold"] == 0]
    np.testing.assert_allclose(again.loc[fold0.index, SHARES], fold0[SHARES], atol=1e-5)


def test_importance_is_of_models_with_covariates(finetuned, study, tmp_path):
    outputs = {name: tmp_path / name for name in ("importance", "check")}
    inputs = {**study.task_inputs("ordered"), "model": finetuned["ordered"]["model"]}
    cfg = {"samples": 2, "checked": 1, "seed": 0}
    explain.run(cfg, inputs=inputs, outputs=outputs, runtime=RunOptions())
    assert read_json(outputs["check"])["samples"] == 4
    assert pd.read_csv(outputs["importance"], sep="\t")["importance"].iloc[0] > 0


def test_predictions_of_several_columns_are_a_row_each(finetuned, study):
    table = read(finetuned["pair"]["predictions"])
    folds = read_folds(study.files["pair.tsv"])
    assert list(table) == ["sample-id", "target", "fold", "observed", "predicted", *QUANTILES]
    assert table["target"].tolist() == ["age"] * len(folds) + ["weight"] * len(folds)
    for name, part in table.groupby("target"):
        assert part["sample-id"].tolist() == folds.index.tolist()
        assert part["observed"].tolist() == folds[f"observed:{name}"].astype(float).tolist()
        assert (np.diff(part[QUANTILES]) >= 0).all()
        np.testing.assert_allclose(part["predicted"], part["quantile:0.5"])
    assert table.loc[table["target"] == "age", "predicted"].max() < 100
    assert table.loc[table["target"] == "weight", "predicted"].min() > 200


def test_the_table_again_gets_its_predictions_and_intervals_of_every_column(
    finetuned, study, tmp_path
):
    host = read_folds(study.files["pair.tsv"])["category:host"].to_frame("host")
    fasta = tmp_path / "sequences.fasta"
    records = (f">{name}\n{sequence}\n" for name, sequence in study.tiny.sequences.items())
    fasta.write_text("".join(records))
    model = Model.load(finetuned["pair"]["model"])
    found = model.predict(study.tiny.table, fasta, host, threads=1)
    table = read(finetuned["pair"]["predictions"]).set_index("sample-id")
    for name in ("age", "weight"):
        columns = {f"{base}:{name}" for base in ("predicted", "sd", "lower", "upper", *QUANTILES)}
        assert columns <= set(found)
        test = table[(table["fold"] < 0) & (table["target"] == name)]
        near = found.loc[test.index, f"predicted:{name}"].astype(float)
        np.testing.assert_allclose(near, test["predicted"], rtol=1e-5)
