"""Models that released versions wrote predict what they did then, to the last digit written."""

import zipfile
from pathlib import Path

import pytest
from kept_models.make_kept_models import HERE, KINDS, predict

from aam.inference.apply import describe_model
from aam.inference.with_baselines import SuperLearner
from aam.learners.baselines.arrays import FORMS

ARCHIVES = sorted(HERE.glob("*.zip"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("archive", ARCHIVES, ids=[path.stem for path in ARCHIVES])
def test_a_model_of_a_version_predicts_what_it_did(archive: Path, kind: str, tmp_path):
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path)
    folder = tmp_path / kind
    assert predict(folder) == (folder / "expected.csv").read_text()
    assert f"written by AAM {archive.stem}" in describe_model(folder / "model")


def test_the_models_have_every_form_but_constants(tmp_path):
    with zipfile.ZipFile(ARCHIVES[-1]) as opened:
        opened.extractall(tmp_path)
    kept = [SuperLearner.load(tmp_path / kind / "model") for kind in KINDS]
    forms = {method.facts["form"] for own in kept for method in own.methods[""].values()}
    assert forms == set(FORMS) - {"constant"}
