"""What leads to the first answers starts without PyTorch, which takes seconds to import."""

import subprocess
import sys
from pathlib import Path

from aam.config.figures import PLOTS

REPOSITORY = Path(__file__).resolve().parents[2]
STAGES = (
    *("import_table", "import_tree", "import_metadata", "import_taxonomy", "rarefy"),
    *("rarefaction_curve", "unifrac", "folds", "baselines", "score", "plot", "summary", "describe"),
    *("super_learner", "export_qza"),
)
"""All that run where a configuration has no models."""


def imported_with(*modules: str) -> set[str]:
    """Return the names of all modules that a fresh process has after it imported some."""
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    return set(done.stdout.split())


def test_the_stages_of_the_first_answers_import_no_torch() -> None:
    modules = [f"aam.stages.{stage}" for stage in STAGES]
    modules += [f"aam.report.figures.{one.draw.split('.')[0]}" for one in PLOTS["answer"].figures]
    imported = imported_with(*modules)
    assert "aam.stages.score" in imported
    assert not {"torch", "lightning_fabric", "aam.model"} & imported


def test_the_page_of_results_imports_neither_scikit_learn_nor_statistics() -> None:
    """It is written twice in a run without networks, and these would double the time it takes."""
    imported = imported_with("aam.stages.summary")
    assert "aam.report.page.render" in imported
    assert not {"sklearn", "scipy.stats"} & imported
