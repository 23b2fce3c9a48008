"""Policies and clipping in two processes: both decide alike, as one process would."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from aam.train.distributed.devices import World

SCRIPT = Path(__file__).with_name("faulty_together.py")
LIMITS = {"norm": 0.5, "value": 0.01, "adaptive": 0.01}
CASES = {
    **{
        f"{strategy}-{kind}": {
            "strategy": strategy,
            "settings": {"clipping": kind, "gradient_clip": limit, "nonfinite": "skip"},
            "bad": [2],
        }
        for strategy in ("ddp", "fsdp")
        for kind, limit in LIMITS.items()
    },
    "raise": {"strategy": "ddp", "settings": {}, "bad": [3]},
    "restore": {
        "strategy": "fsdp",
        "settings": {"nonfinite": "restore", "nonfinite_limit": 2},
        "bad": [3],
        "folder": "restore",
    },
    "full": {"strategy": "fsdp", "settings": {}, "full": True, "folder": "full"},
}


@pytest.fixture(scope="module")
def alone(one_thread):
    """Return the function that trains a case in this process."""
    spec = importlib.util.spec_from_file_location("faulty_together", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda name: module.train({**CASES[name], "folder": None}, World())


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> dict[str, list[dict]]:
    """Return what both processes tell of each case."""
    folder = tmp_path_factory.mktemp("together")
    cases = {
        name: {**case, "folder": str(folder / case["folder"])} if "folder" in case else case
        for name, case in CASES.items()
    }
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(folder / "cases.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = {
        name: [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]
        for name in cases
    }
    (found["restore"][0]["kept"], found["full"][0]["kept"]) = (
        sorted(path.name for path in (folder / name).rglob("step-*"))
        for name in ("restore", "full")
    )
    found["full"][0]["said"] = done.stderr.count("could not be written")
    return found


@pytest.mark.parametrize("name", [name for name in CASES if "-" in name])
def test_a_step_is_left_out_by_both_and_gradients_are_clipped_as_by_one(together, alone, name):
    one, (first, second) = alone(name), together[name]
    assert first["ended"] == second["ended"] == "well"
    for run in (one, first, second):
        assert run["stability"]["skipped_steps"] == 1
        assert len(run["losses"]) == 5
    assert first["weights"] == pytest.approx(second["weights"], rel=1e-12)
    assert first["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert first["norms"] == pytest.approx(one["norms"], rel=1e-4)


def test_both_stop_at_the_same_step_with_the_same_words(together, alone):
    first, second = together["raise"]
    assert first["ended"] == second["ended"] == alone("raise")["ended"]
    assert first["ended"].startswith("training step 4: got unweighted_loss, loss, gradient_norm")


def test_both_go_back_as_often_and_stop(together):
    first, second = together["restore"]
    assert first["ended"] == second["ended"]
    assert "after 0 steps left out and 2 returns" in first["ended"]
    assert first["kept"] == ["step-000000002.sharded", "step-000000003.sharded"]


def test_a_full_disk_holds_up_neither(together, alone):
    first, second = together["full"]
    assert first["ended"] == second["ended"] == "well"
    assert first["losses"] == pytest.approx(alone("full")["losses"], rel=1e-5)
    assert first["kept"] == ["step-000000001.sharded", "step-000000002.sharded"]
