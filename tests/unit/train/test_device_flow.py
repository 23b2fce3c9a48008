"""Steps on fake tensors of an accelerator (`fake_accelerator.py`): what a GPU would trip over.

A CPU passes over a tensor on the wrong device, and waits for nothing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
WAITS = "DataDependentOutputException: aten._local_scalar_dense.default"
SEEN = {
    "item": WAITS,
    "bool": WAITS,
    "nonzero": "DynamicOutputShapeException: aten.nonzero.default",
    "boolean mask": "DynamicOutputShapeException: aten.nonzero.default",
    "to the host": "aten::_to_copy",
    "from the host": "aten::_to_copy",
    "two devices": "FakeTensorDeviceMismatchError: Expected all tensors to be on the same device",
    "index of the host": "aten::index",
    "a tensor that no buffer holds": "AssertionError: Please convert all Tensors to FakeTensors",
}
CASES = 16


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, list[str]]:
    result = tmp_path_factory.mktemp("fake") / "result.json"
    script = Path(__file__).with_name("fake_accelerator.py")
    done = subprocess.run(
        [sys.executable, script, result],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(result.read_text())


def test_steps_mix_no_devices_and_wait_for_nothing(found):
    """Of pretraining and fine-tuning, forward, backward and the update."""
    steps = {name: faults for name, faults in found.items() if not name.startswith("planted")}
    assert len(steps) == CASES
    # This policy has to know before each update whether it may be made.
    assert steps.pop("pretraining, skip") == [WAITS]
    assert {name: faults for name, faults in steps.items() if faults} == {}


def test_faults_that_are_planted_are_seen(found):
    planted = {
        name.removeprefix("planted: "): faults
        for name, faults in found.items()
        if name.startswith("planted")
    }
    assert planted.pop("none") == []
    assert planted.keys() == SEEN.keys()
    for fault, faults in planted.items():
        assert faults[0].startswith(SEEN[fault]), fault
