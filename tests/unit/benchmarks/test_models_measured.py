"""Kept models are measured beside methods that are fitted again."""

import zipfile

import pytest
from kept_models.make_kept_models import HERE

from benchmarks import kept_models


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_arrays_are_compared_with_methods_that_are_fitted_again(kind, tmp_path, monkeypatch):
    with zipfile.ZipFile(sorted(HERE.glob("*.zip"))[-1]) as opened:
        opened.extractall(tmp_path)
    monkeypatch.setattr(kept_models, "REPEATS", 1)
    figures = kept_models.measure(tmp_path / kind / "model")
    assert float(figures["largest difference"]) < 1e-8
    assert float(figures["shared"]) > 0
