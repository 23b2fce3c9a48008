"""What leads to the first answers starts without PyTorch, which takes seconds to import."""

import subprocess
import sys
from pathlib import Path

from aam.config.figures import PLOTS

REPOSITORY = Path(__file__).resolve().parents[2]
STAGES = (
    *("import_table", "import_tree", "import_metadata", "import_taxonomy", "rarefy"),
    *("rarefaction_curve", "unifrac", "folds", "baselines", "first", "plot", "summary", "describe"),
    *("first_super_learner", "predict_first", "export_qza"),
)
"""All that run where a configuration has no models."""


def test_the_stages_of_the_first_answers_import_no_torch() -> None:
    modules = [f"aam.stages.{stage}" for stage in STAGES]
    modules += [f"aam.report.figures.{one.draw.split('.')[0]}" for one in PLOTS["first"].figures]
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    )
    imported = set(done.stdout.split())
    assert "aam.stages.first" in imported
    assert not {"torch", "lightning_fabric", "aam.model"} & imported
