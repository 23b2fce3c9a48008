"""scikit-bio without the import of PyTorch."""

import subprocess
import sys


def told_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_stages_that_read_trees_do_not_load_torch() -> None:
    stages = "simulate, import_tree, unifrac, unifrac_part, baselines, plot_importance"
    code = f"import sys; from aam.stages import {stages}; print('torch' in sys.modules)"
    assert told_by(code) == "False"


def test_torch_can_be_imported_before_and_after() -> None:
    after = "from aam.util.scikit_bio import TreeNode; import torch; print(torch.tensor(3).item())"
    assert told_by(after) == "3"
    before = "import torch; from aam.util.scikit_bio import TreeNode; print(TreeNode('a').name)"
    assert told_by(before) == "a"
