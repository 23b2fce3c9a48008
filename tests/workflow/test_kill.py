"""The whole workflow ends with the same bytes however often it is killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import artifacts

REPOSITORY = Path(__file__).parents[2]

RESULTS = [
    f"results/demo/{path}"
    for path in (
        "answers/environment/base/scores.json",
        "finetune/base/environment/importance.tsv",
        "predict/base/environment/newcomers.tsv",
    )
]
"""What everything before figures and timings leads to; the program itself takes these, too."""


@pytest.mark.workflow
def test_killed_twice() -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.kill_workflow",
        "--kills",
        "2",
        "--targets",
        *RESULTS,
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count("killed after") == 2


def test_every_other_byte_counts(tmp_path: Path) -> None:
    """The comparison sees what is missing, left over or changed, and no times."""
    files = {
        "demo/pretrain/base/scores.json": '{"wall_s": 3.5, "steps": 4}',
        "demo/tokens/asvs.arrow": "tokens",
        "demo/logs/tokenize.log": "at work",
        "demo/summary.md": "r 0.9\n12 samples per second for 3 minutes\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = artifacts.digests(tmp_path)
    assert "demo/logs/tokenize.log" not in before
    (tmp_path / "demo/pretrain/base/scores.json").write_text('{"wall_s": 9, "steps": 4}')
    (tmp_path / "demo/summary.md").write_text("r 0.9\n13 samples per second for 2 minutes\n")
    (tmp_path / "demo/logs/tokenize.log").write_text("at work again")
    assert artifacts.differences(before, artifacts.digests(tmp_path)) == []
    (tmp_path / "demo/pretrain/base/scores.json").write_text('{"wall_s": 9, "steps": 5}')
    (tmp_path / "demo/tokens/asvs.arrow").unlink()
    (tmp_path / "demo/tokens/.partial-7-asvs.arrow").write_text("tok")
    assert artifacts.differences(before, artifacts.digests(tmp_path)) == [
        "missing: demo/tokens/asvs.arrow",
        "left over: demo/tokens/.partial-7-asvs.arrow",
        "not the same: demo/pretrain/base/scores.json",
    ]
