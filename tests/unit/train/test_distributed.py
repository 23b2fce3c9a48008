"""Training in several processes: what one process would do with the same batches."""

import importlib.util
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from aam.data.vocabulary import MASK
from aam.train.data.collate import assemble
from aam.train.data.masking import Masker
from aam.train.distributed.devices import _strategy
from aam.train.distributed.shards import shard_of
from aam.train.distributed.world import World
from aam.util.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

SCRIPT = Path(__file__).with_name("together.py")
STRATEGIES = ("ddp", "fsdp")
# Muon's iteration is in bf16, where the last bit of a gradient is a jump: a high rate shows it.
RATES = {"adamw": 1e-3, "muon": 2e-6}
EQUAL = {
    f"{strategy}-{optimizer}": {
        "strategy": strategy,
        "steps": 20,
        "validations": 2,
        "settings": {"optimizer": optimizer, "learning_rate": rate},
    }
    for strategy in STRATEGIES
    for optimizer, rate in RATES.items()
}
SPLIT = {"steps": 5, "validations": 5}
CLIPPED = {
    f"{strategy}-{kind}": {
        "strategy": strategy,
        "steps": 6,
        "settings": {"clipping": kind, "gradient_clip": limit, "nonfinite": "skip"},
        "bad": [2],
    }
    for strategy in STRATEGIES
    for kind, limit in (("norm", 0.5), ("value", 0.01), ("adaptive", 0.01))
}
RAISED = {"strategy": "ddp", "steps": 6, "bad": [3]}
RESTORED = {
    "strategy": "fsdp",
    "steps": 6,
    "settings": {"nonfinite": "restore", "nonfinite_limit": 2},
    "bad": [3],
}
FULL_DISK = {"strategy": "fsdp", "steps": 6, "full": True}


@pytest.fixture(scope="module")
def alone(one_thread):
    """Return the function that trains a case in this process."""
    spec = importlib.util.spec_from_file_location("together", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda case: module.train(case, World())


@pytest.fixture(scope="module")
def expected(alone):
    """Return the function that gives the curves of a case of `EQUAL` in one process."""
    by_optimizer = cache(lambda optimizer: alone(EQUAL[f"ddp-{optimizer}"])["curves"])
    return lambda name: by_optimizer(name.partition("-")[2])


def in_processes(number: int, folder: Path, cases: dict[str, dict]) -> dict[str, list[dict]]:
    """Train some cases in so many processes; return what each process tells of each case."""
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(number)]
    done = subprocess.run(
        [*command, str(SCRIPT), str(folder / "cases.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {
        name: [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in range(number)]
        for name in cases
    }


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """Return the folder of all checkpoints."""
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def turns(work, alone) -> dict[str, dict]:
    """Return a run of each strategy, which one process has begun and left after a step."""
    cases = {
        f"turn-{strategy}": {**SPLIT, "strategy": strategy, "folder": str(work / strategy)}
        for strategy in STRATEGIES
    }
    for case in cases.values():
        assert alone({**case, "leaves": True})["ended"] == "late"
    return {name: {**case, "leaves": True} for name, case in cases.items()}


@pytest.fixture(scope="module")
def two(work, turns) -> dict[str, list[dict]]:
    """Train all cases in two processes."""
    kept = {
        "restored": {**RESTORED, "folder": str(work / "restored")},
        "full": {**FULL_DISK, "folder": str(work / "full")},
    }
    return in_processes(2, work / "2", {**EQUAL, **turns, **CLIPPED, "raised": RAISED, **kept})


@pytest.fixture(scope="module")
def four(work, turns, two) -> dict[str, list[dict]]:
    """Train some of them in four processes, which go on from two."""
    return in_processes(4, work / "4", {"ddp-adamw": EQUAL["ddp-adamw"], **turns})


def assert_close(found: dict[str, list], expected: dict[str, list]) -> None:
    assert set(found) == set(expected)
    for curve, values in expected.items():
        tolerance = {"rel": 1e-5} if curve.endswith("loss") else {"rel": 1e-3, "abs": 1e-4}
        assert found[curve] == pytest.approx(values, **tolerance), curve


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("step-*"))


@pytest.mark.parametrize("name", EQUAL)
def test_two_processes_have_the_losses_of_one(two, expected, name):
    assert len(expected(name)["train/loss"]) == EQUAL[name]["steps"]
    assert_close(two[name][0]["curves"], expected(name))


def test_four_processes_have_the_losses_of_one(four, expected):
    assert_close(four["ddp-adamw"][0]["curves"], expected("ddp-adamw"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_goes_on_in_another_number_of_processes(work, turns, two, four, alone, strategy):
    name = f"turn-{strategy}"
    assert {run["ended"] for run in (*two[name], *four[name])} == {"late"}
    is_sharded = any(path.is_dir() for path in (work / strategy).rglob("step-*"))
    assert is_sharded == (strategy == "fsdp"), "sharded weights are kept in parts"
    undisturbed = alone({**SPLIT, "strategy": "ddp"})["curves"]
    assert_close(alone({**turns[name], "leaves": False})["curves"], undisturbed)


def test_sharded_weights_and_moments_take_their_part_of_the_memory(two):
    assert two["fsdp-adamw"][0]["bytes"] < 0.52 * two["ddp-adamw"][0]["bytes"]


@pytest.mark.parametrize("name", CLIPPED)
def test_a_step_is_left_out_by_both_and_gradients_are_clipped_as_by_one(two, alone, name):
    one, (first, second) = alone(CLIPPED[name]), two[name]
    assert first["ended"] == second["ended"] == "well"
    for run in (one, first, second):
        assert run["stability"]["skipped_steps"] == 1
        assert len(run["curves"]["train/loss"]) == 5
    assert first["weights"] == pytest.approx(second["weights"], rel=1e-12)
    for curve, tolerance in (("train/loss", 1e-5), ("train/gradient_norm", 1e-4)):
        assert first["curves"][curve] == pytest.approx(one["curves"][curve], rel=tolerance)


def test_both_stop_at_the_same_step_with_the_same_words(two, alone):
    first, second = two["raised"]
    assert first["ended"] == second["ended"] == alone(RAISED)["ended"]
    assert first["ended"].startswith("training step 4: got unweighted_loss, loss, gradient_norm")


def test_both_go_back_as_often_and_stop(two, work):
    first, second = two["restored"]
    assert first["ended"] == second["ended"]
    assert "after 0 steps left out and 2 returns" in first["ended"]
    assert [name.partition(".")[0] for name in kept(work / "restored")] == [
        "step-000000002",
        "step-000000003",
    ]


def test_a_full_disk_holds_up_neither(two, alone, work):
    first, second = two["full"]
    assert first["ended"] == second["ended"] == "well"
    one = alone(FULL_DISK)["curves"]["train/loss"]
    assert first["curves"]["train/loss"] == pytest.approx(one, rel=1e-5)
    assert [name.partition(".")[0] for name in kept(work / "full")] == [
        "step-000000001",
        "step-000000002",
    ]


def test_every_row_of_a_batch_is_in_one_shard_and_where_it_is_said_to_be(mixed_lengths):
    store, tokens = mixed_lengths.store, mixed_lengths.tokens
    batch = assemble(store, tokens, np.arange(19, -1, -1), masker=Masker(0.2, 0))
    shards = [shard_of(batch, rank, 3) for rank in range(3)]
    expected = [row.tolist() for block in batch.asvs for row in block.tokens_US]
    found = [row.tolist() for shard in shards for block in shard.asvs for row in block.tokens_US]
    assert [found[place] for place in shards[0].asv_U.tolist()] == expected
    counts = [row[row > 0].tolist() for block in batch.samples for row in block.counts_BA]
    found = [
        row[row > 0].tolist() for s in shards for block in s.samples for row in block.counts_BA
    ]
    assert [found[place] for place in shards[1].sample_B] == [counts[i] for i in batch.order_B]
    masked = [block for shard in shards for block in shard.asvs]
    assert sum(len(block.masked.asv_M) for block in masked) == shards[2].masked_nucleotides
    for block in masked:
        at = block.tokens_US[block.masked.asv_M, block.masked.position_M]
        assert (at == MASK).all(), "masked nucleotides stay with their ASV"
    shapes = {tuple(block.tokens_US.shape for block in shard.asvs) for shard in shards}
    assert len(shapes) == 1, "layers that gather their weights are called alike"
    assert {shard.size for shard in shards} == {batch.size}
    assert {len(shard.order_B) for shard in shards} == {-(-batch.size // 3)}


def test_sharded_weights_are_refused_in_fp16():
    with pytest.raises(InputError, match=r"runtime.strategy: got fsdp with precision fp16"):
        _strategy(World(2, 1, "fsdp"), "fp16")
