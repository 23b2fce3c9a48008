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
    if not path.stem.startswith("_")
)
SCRIPTS = digest.PACKAGE_ROOT.parent / "workflow" / "scripts"
TRAINING = {
    *("pretrain", "pretrain_inductive", "finetune", "predict", "explain"),
    *("clade_losses", "explain_predictions", "super_learner"),
}
LEARNING = {"model", "train", "tasks", "inference"}
FOLDS = {f"aam.data.{name}" for name in ("fold_checks", "splits", "target_columns")}
FOLDS |= {"aam.stages.folds"}
"""How folds are drawn; their files stand for it."""
SCORES = {"aam.evaluate.score_functions", "aam.learners.conformal", "aam.evaluate.task_report"}
TASKS = {"aam.config.sections.finetuning", "aam.config.sections.task", "aam.config.losses"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a checkout of the package in another place."""
    root = tmp_path / "elsewhere" / "aam"
    shutil.copytree(digest.PACKAGE_ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(digest, "PACKAGE_ROOT", root)
    digest._normalized.cache_clear()
    yield root
    digest._normalized.cache_clear()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the test expects {old!r} in {path.name}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    digest._normalized.cache_clear()


def digests(*stages: str) -> list[str]:
    return [digest.code_digest(f"aam.stages.{stage}") for stage in stages]


def test_what_is_no_logic_changes_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, stage = digests("rarefy"), package / "stages" / "rarefy.py"
    os.utime(stage, (0, 0))
    for path, old, new in (
        (stage, "import", "# why\nimport"),
        (stage, '"""', '"""Other words. '),
        (package / "data" / "rarefaction.py", '"""', '"""Other words. '),
        (stage, "\n\n\ndef rarefy_table", "\n\n\n\n\ndef rarefy_table"),
        (package / "version.py", '__version__ = "', '__version__ = "9'),
        (package / "util" / "log.py", "INFO", "DEBUG"),
    ):
        edit(path, old, new)
        assert digests("rarefy") == before, new
    digest._normalized.cache_clear()
    monkeypatch.undo()
    assert digests("rarefy") == before, "another place"


@pytest.mark.parametrize(
    ("module", "old", "new", "concerned", "others"),
    [
        ("data/rarefaction.py", "import ", "import json\nimport ", "rarefy", ["tokenize"]),
        ("stages/tokenize.py", ") > max_", ") >= max_", "tokenize", ["rarefy"]),
        (
            *("config/sections/finetuning.py", "networks: int", "more: int = 1\n    networks: int"),
            *("finetune", ["pretrain", "pretrain_inductive"]),
        ),
    ],
)
def test_logic_changes_the_stages_that_import_it(
    package: Path, module: str, old: str, new: str, concerned: str, others: list[str]
) -> None:
    before, kept = digests(concerned), digests(*others)
    edit(package / module, old, new)
    assert digests(concerned) != before
    assert digests(*others) == kept


def test_the_digest_of_a_script_covers_its_logic_and_what_it_imports(
    package: Path, tmp_path: Path
) -> None:
    script = tmp_path / "rarefy.py"
    shutil.copy(SCRIPTS / "rarefy.py", script)
    before = digest.script_digest(script)
    os.utime(script, (0, 0))
    edit(script, '"""', '"""Other words. ')
    edit(script, "    with", "    # why\n    with")
    edit(package / "stages" / "rarefy.py", '"""', '"""Other words. ')
    edit(package / "stages" / "job.py", "MARGIN_S = 180.0", "MARGIN_S = 181.0")
    assert digest.script_digest(script) == before
    edit(script, "job.settings.seed", "job.settings.seed + 1")
    edited = digest.script_digest(script)
    assert edited != before
    edit(package / "util" / "digests.py", "sort_keys=True", "sort_keys=False")
    assert digest.script_digest(script) not in (before, edited)
    assert digest.script_digest(script, "aam.stages.plot") != digest.script_digest(script)


def test_what_a_stage_imports() -> None:
    for stage in STAGES:
        imported = digest.imported_modules(f"aam.stages.{stage}")
        layers = {name.split(".")[1] for name in imported if "." in name}
        # Tables to predict for are described as predicting reads them.
        allowed = {"inference"} if stage == "describe" else set()
        assert stage in TRAINING or not layers & (LEARNING - allowed), stage
        figures = [name for name in imported if name.startswith("aam.report.figures")]
        assert stage.startswith("plot") or not figures, "a colour costs figures only"
    for stage, others in {
        "pretrain": FOLDS | SCORES | TASKS | {"aam.data.folds"},
        "pretrain_inductive": FOLDS | SCORES | TASKS,
        "finetune": FOLDS | SCORES,
    }.items():
        assert all(map(digest.imported_modules, others))
        assert not digest.imported_modules(f"aam.stages.{stage}") & others, stage
    # What training only logs is what the benchmark of speed writes.
    assert "aam.train.monitoring.roofline" not in digest.imported_modules("aam.stages.pretrain")
    assert "aam.train.monitoring.roofline" in digest.imported_modules("benchmarks.speed.ablation")


def test_an_edit_of_a_drawing_module_draws_only_its_own_figures_again(package: Path) -> None:
    script = SCRIPTS / "plot.py"
    before = {name: digest.script_digest(script, *plot.modules) for name, plot in PLOTS.items()}
    edit(package / "report" / "figures" / "distances.py", "BINS = 45", "BINS = 46")
    after = {name: digest.script_digest(script, *plot.modules) for name, plot in PLOTS.items()}
    assert {name for name in PLOTS if after[name] != before[name]} == {"pretraining"}


def test_a_run_takes_what_an_earlier_one_has_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget() -> None:
        digest._known_sources.cache_clear()
        digest._normalized.cache_clear()

    script = SCRIPTS / "rarefy.py"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    forget()
    first = digest.script_digest(script)
    (kept,) = tmp_path.rglob("*.json")
    with monkeypatch.context() as without:
        without.delattr(digest.ast, "parse")
        forget()
        assert digest.script_digest(script) == first
    # What another version of Python or of the parser has kept, and what is no longer whole, counts
    # for nothing.
    text = kept.read_text(encoding="utf-8")
    for other in (text[: len(text) // 2], text.replace('"parser": "', '"parser": "0', 1), "[]"):
        kept.write_text(other.replace("def ", "def other_"), encoding="utf-8")
        forget()
        assert digest.script_digest(script) == first
        assert "other_" not in kept.read_text(encoding="utf-8")
    kept.unlink()
    kept.mkdir()
    forget()
    assert digest.script_digest(script) == first, "a folder where nothing can be kept"
    forget()
