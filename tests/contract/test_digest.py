"""Code digests: logic changes them, everything else does not."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from aam.config import digest
from aam.config.figures import PLOTS

STAGES = sorted(
    path.stem
    for path in (digest.PACKAGE_ROOT / "stages").glob("*.py")
    if path.stem not in ("__init__", "entry")
)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout of the package in another place."""
    root = tmp_path / "elsewhere" / "aam"
    shutil.copytree(digest.PACKAGE_ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "PACKAGE_ROOT", root)
    digest._normalized.cache_clear()
    yield root
    digest._normalized.cache_clear()


def digest_after(path: Path, old: str, new: str, module: str) -> str:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the test expects {old!r} in {path.name}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    digest._normalized.cache_clear()
    return digest.code_digest(module)


def test_moved_checkout(package: Path) -> None:
    here = digest.code_digest("aam.stages.rarefy")
    digest._normalized.cache_clear()
    digest.PACKAGE_ROOT = Path(__file__).resolve().parents[2] / "aam"
    assert digest.code_digest("aam.stages.rarefy") == here


def test_time_comment_docstring_and_layout(package: Path) -> None:
    before = digest.code_digest("aam.stages.rarefy")
    stage = package / "stages" / "rarefy.py"
    os.utime(stage, (0, 0))
    assert digest_after(stage, "logger = ", "# why\nlogger = ", "aam.stages.rarefy") == before
    assert digest_after(stage, '"""One ', '"""Some ', "aam.stages.rarefy") == before
    assert digest_after(stage, '    """Draw', '    """Take', "aam.stages.rarefy") == before
    assert digest_after(stage, "\n\n\ndef run", "\n\n\n\n\ndef run", "aam.stages.rarefy") == before


def test_logic(package: Path) -> None:
    before = digest.code_digest("aam.stages.rarefy")
    tokens = digest.code_digest("aam.stages.tokenize")
    stage = package / "stages" / "rarefy.py"
    edited = digest_after(stage, "reads < cfg", "reads <= cfg", "aam.stages.rarefy")
    assert edited != before
    assert digest.code_digest("aam.stages.tokenize") == tokens
    assert digest_after(stage, "reads <= cfg", "reads < cfg", "aam.stages.rarefy") == before


def test_logic_of_an_imported_module(package: Path) -> None:
    before = {name: digest.code_digest(f"aam.stages.{name}") for name in ("rarefy", "simulate")}
    edited = digest_after(
        package / "data" / "rarefaction.py", "import ", "import json\nimport ", "aam.stages.rarefy"
    )
    assert edited != before["rarefy"]
    assert digest.code_digest("aam.stages.simulate") == before["simulate"]


def test_release_number_and_logging_leave_results_alone(package: Path) -> None:
    before = digest.code_digest("aam.stages.rarefy")
    assert digest_after(package / "__init__.py", '"0.', '"9.', "aam.stages.rarefy") == before
    assert digest_after(package / "util" / "log.py", "INFO", "DEBUG", "aam.stages.rarefy") == before


@pytest.mark.parametrize("stage", [name for name in STAGES if not name.startswith("plot_")])
def test_no_stage_depends_on_a_drawing_module(stage: str) -> None:
    imported = digest.imported_modules(f"aam.stages.{stage}")
    assert not [name for name in imported if name.startswith("aam.evaluate.figures")]


@pytest.mark.parametrize("stage", STAGES)
def test_only_training_stages_import_the_training_layers(stage: str) -> None:
    trains = stage in {
        *("pretrain", "pretrain_inductive", "finetune", "processes", "predict", "explain"),
        *(f"benchmark_{name}" for name in ("speed", "scaling", "models")),
        "launch",
    }
    layers = {
        name.split(".")[1] for name in digest.imported_modules(f"aam.stages.{stage}") if "." in name
    }
    assert trains or not layers & {"nn", "model", "loss", "train", "bench"}


@pytest.mark.parametrize("stage", ["pretrain", "pretrain_inductive"])
def test_a_key_of_finetuning_pretrains_nothing_anew(package: Path, stage: str) -> None:
    module, tuned = f"aam.stages.{stage}", "aam.stages.finetune"
    before, tuned_before = digest.code_digest(module), digest.code_digest(tuned)
    section = package / "config" / "sections" / "finetuning.py"
    after = digest_after(section, "models: int", "more: int = 1\n    models: int", module)
    assert after == before
    assert digest.code_digest(tuned) != tuned_before


def test_an_edit_of_a_drawing_module_draws_only_its_own_figures_again(package: Path) -> None:
    before = {name: digest.code_digest(*plot.modules) for name, plot in PLOTS.items()}
    module = package / "evaluate" / "figures" / "distances.py"
    digest_after(module, "BINS = 45", "BINS = 46", "aam.stages.plot")
    after = {name: digest.code_digest(*plot.modules) for name, plot in PLOTS.items()}
    assert {name for name in PLOTS if after[name] != before[name]} == {"pretraining"}


def test_unknown_module() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"aam\.stages\.nothing"):
        digest.code_digest("aam.stages.nothing")
