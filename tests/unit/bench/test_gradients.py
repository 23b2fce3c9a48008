"""The check of gradients: right ones pass, and a wrong backward pass is found where it is."""

import pytest
import torch
import yaml
from torch import nn

from aam.bench import gradients
from aam.bench.gradients import TOLERANCE, check_configured
from aam.cli import main
from aam.config.configuration import load

MODEL = {"width": 8, "heads": 2, "asv_layers": 1, "sample_layers": 1, "patch_bp": 2}
TASK = {"dataset": "demo", "folds": {"k": 2}}


def configuration(**model: object) -> dict[str, object]:
    return {
        "datasets": {"demo": {"simulate": {"samples": 36, "features": 60, "length_bp": 40}}},
        "models": {"base": {**MODEL, **model}},
        "unifrac": {"metrics": ["unweighted", "faith_pd"]},
        "pretraining": {"distances": {"unweighted": 1.0, "faith_pd": 0.1}},
        "tasks": {
            "age": {**TASK, "column": "host_age", "kind": "regression"},
            "site": {**TASK, "column": "site", "kind": "classification"},
        },
    }


class Wrong(torch.autograd.Function):
    """The identity, whose backward pass is half as large again as it should be."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return 1.5 * grad


class WrongEntry(nn.Module):
    def forward(self, x):
        return Wrong.apply(x)


@pytest.fixture
def wrong_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a wrong backward pass between the encoder of ASVs and that of samples."""
    build = gradients.build_encoder

    def build_wrong(*args, **options):
        encoder = build(*args, **options)
        encoder.sample.entry = WrongEntry()
        return encoder

    monkeypatch.setattr(gradients, "build_encoder", build_wrong)


@pytest.mark.parametrize("encoder", ["transformer", "bilstm", "bdh"])
def test_right_gradients_agree_with_differences_in_every_part(encoder: str) -> None:
    checked = dict(check_configured(load(configuration(encoder=encoder))))
    assert list(checked) == ["demo, base, pretraining", "demo, base, age", "demo, base, site"]
    parts = {error.part for error in checked["demo, base, pretraining"]}
    assert {part.split(".")[0] for part in parts} == {
        "encoder",
        "distances",
        "faith_pd",
        "nucleotides",
    }
    for what, errors in checked.items():
        assert [(what, one) for one in errors if one.is_wrong] == []
        assert 0 < max(one.relative for one in errors) < TOLERANCE


def test_a_wrong_backward_pass_is_found_in_the_parts_before_it(wrong_entry: None) -> None:
    errors = dict(check_configured(load(configuration())))["demo, base, age"]
    wrong = {one.part for one in errors if one.is_wrong}
    before = {one.part for one in errors if one.part.startswith("encoder.asv")}
    assert len(before) > 2
    assert wrong == before | {"encoder.sample.abundance"}
    found = {one.part: one.relative for one in errors}["encoder.sample.abundance"]
    assert found == pytest.approx(1 / 3, abs=1e-4)


def test_the_command_has_a_line_per_part_and_fails_where_one_is_wrong(
    wrong_entry: None, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(configuration()))
    with pytest.raises(SystemExit, match=r"demo, base, age: encoder\.sample\.abundance"):
        main(["gradients", str(path)])
    lines = capsys.readouterr().out.splitlines()
    assert any(
        line.startswith("demo, base, pretraining: distances.unweighted") and "e-" in line
        for line in lines
    )
    assert sum(line.endswith("wrong") for line in lines) >= 2


def test_without_models_there_is_nothing_to_check(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**configuration(), "models": {}}))
    with pytest.raises(SystemExit, match="no models"):
        main(["gradients", str(path)])
