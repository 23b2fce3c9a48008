import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from aam.data.target import Target
from aam.inference.asv_cache import module_digest
from aam.inference.bundle import ModelBundle
from aam.inference.ensemble import predict_table
from aam.inference.reference import Reference, write_reference
from aam.model.predictor import Predictor
from aam.model.store import REFERENCE, SEEN_ASVS
from aam.util.errors import InputError

SITES = np.array([["gut"], ["skin"], ["tongue"]])
SITE = Target.fit("classification", ("site",), SITES, np.ones(3, bool))
NAMES = ("fold2", "fold2-1", "fold10")


def bundle_of(new_encoder) -> ModelBundle:
    predictors = [Predictor(new_encoder(20, seed=s), SITE, seed=s) for s in range(3)]
    return ModelBundle(predictors, 60, 0, 20, frozenset(["ACGT"]), views=2)


@pytest.fixture(scope="module")
def saved(tiny, new_encoder, tmp_path_factory) -> Path:
    """Write three models, of two folds, with what they share."""
    folder = tmp_path_factory.mktemp("saved")
    bundle = bundle_of(new_encoder)
    about = {
        "rarefaction": {"depth": 60, "seed": 0, "views": 2},
        "settings": {"finetuning": {"precision": "fp32"}},
    }
    for name, predictor in zip(NAMES, bundle.predictors, strict=True):
        predictor.save(folder / name, about)
    (folder / SEEN_ASVS).write_text("ACGT\n")
    write_reference(folder / REFERENCE, np.random.default_rng(0).normal(size=(5, 16)))
    return folder


def test_a_bundle_is_loaded_from_the_folder_alone(tiny, new_encoder, saved, caplog):
    expected = replace(bundle_of(new_encoder), reference=Reference.open(saved / REFERENCE))
    loaded = ModelBundle.load(saved)
    assert not caplog.records
    assert loaded.seen_asvs == {"ACGT"}
    for found, known in zip(loaded.predictors, expected.predictors, strict=True):
        assert module_digest(found) == module_digest(known), "not in the order of the folds"
    pd.testing.assert_frame_equal(
        predict_table(loaded, tiny.table, tiny.sequences),
        predict_table(expected, tiny.table, tiny.sequences),
    )


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def swap_classes(folder: Path) -> None:
    path = folder / "fold10" / "config.json"
    target = json.loads(path.read_text())["target"]
    edit(path, target={**target, "classes": target["classes"][::-1]})


BROKEN = {
    "no folder fold0": lambda folder: [shutil.rmtree(path) for path in folder.glob("fold*")],
    "no such directory": shutil.rmtree,
    r"asvs\.txt: got no such file": lambda folder: (folder / SEEN_ASVS).unlink(),
    r"fold10: got no config\.json": lambda folder: (folder / "fold10" / "config.json").unlink(),
    "no JSON": lambda folder: (folder / "fold2" / "config.json").write_text("{"),
    "format 2;(?=.*install)": lambda folder: edit(folder / "fold2-1" / "config.json", format=2),
    "kind pretrained": lambda folder: edit(folder / "fold2" / "config.json", kind="pretrained"),
    "no key rarefaction": lambda folder: (folder / "fold2" / "config.json").write_text(
        '{"format": 1, "kind": "predictor", "architecture": 0, "target": 0, "settings": 0}'
    ),
    "fold2: got files that are missing": lambda folder: (
        folder / "fold2" / "model.safetensors"
    ).unlink(),
    "fold2-1: got files.* damaged": lambda folder: (
        folder / "fold2-1" / "model.safetensors"
    ).write_bytes(b"12345678"),
    "do not fit": lambda folder: edit(folder / "fold2" / "config.json", architecture={"width": 1}),
    "different targets": swap_classes,
    "embeddings of width 3": lambda folder: write_reference(
        folder / REFERENCE, np.eye(3, dtype=np.float32)
    ),
}


@pytest.mark.parametrize("message", BROKEN)
def test_what_is_missing_or_broken_is_named(saved, tmp_path, message):
    folder = shutil.copytree(saved, tmp_path / "model")
    BROKEN[message](folder)
    with pytest.raises(InputError, match=f"{message}.*Hint: "):
        ModelBundle.load(folder)


def test_without_references_everything_but_novelty_is_there(saved, tiny, tmp_path, caplog):
    folder = shutil.copytree(saved, tmp_path / "model")
    (folder / REFERENCE).unlink()
    found = ModelBundle.load(folder)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "novelty" in caplog.text
    whole = predict_table(ModelBundle.load(saved), tiny.table, tiny.sequences)
    pd.testing.assert_frame_equal(
        predict_table(found, tiny.table, tiny.sequences), whole.drop(columns="novelty")
    )
