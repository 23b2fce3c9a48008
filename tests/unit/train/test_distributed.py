import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aam.batches.collate import assemble
from aam.batches.masking import Masker
from aam.data.sequences import MASK
from aam.distributed.batch_shards import cut_shard
from aam.distributed.devices import _make_strategy
from aam.distributed.processes import World
from aam.util.errors import InputError

pytestmark = pytest.mark.usefixtures("one_thread")

SCRIPT = Path(__file__).with_name("together.py")
# Muon's iteration is in bf16, where the last bit of a gradient is a jump: a high rate shows it.
ADAMW = {"settings": {"optimizer": "adamw", "learning_rate": 1e-3}}
MUON = {"settings": {"optimizer": "muon", "learning_rate": 2e-6}}
EQUAL = {
    "ddp-adamw": ADAMW | {"strategy": "ddp", "steps": 10, "validations": 2},
    "fsdp-adamw": ADAMW | {"strategy": "fsdp", "steps": 10, "validations": 2},
    "ddp-lineages": ADAMW | {"strategy": "ddp", "steps": 10, "validations": 2, "lineages": True},
    "fsdp-lineages": ADAMW | {"strategy": "fsdp", "steps": 10, "validations": 2, "lineages": True},
    "fsdp-muon": MUON | {"strategy": "fsdp", "steps": 10, "validations": 2},
}
CLIPPED = {
    f"{strategy}-{kind}": {
        "strategy": strategy,
        "steps": 6,
        "options": {"clipping": kind, "gradient_clip": limit, "nonfinite": "skip"},
        "bad": [2],
    }
    for strategy, kind, limit in (
        ("ddp", "value", 0.01),
        ("fsdp", "norm", 0.5),
        ("fsdp", "adaptive", 0.01),
    )
}
STOPPED = {
    "raised": {"strategy": "ddp", "steps": 6, "bad": [3]},
    "restored": {
        "strategy": "fsdp",
        "steps": 6,
        "options": {"nonfinite": "restore", "nonfinite_limit": 2},
        "bad": [3],
        "folder": "restored",
    },
}
FULL = {"full": {"strategy": "fsdp", "steps": 6, "full": True, "folder": "full"}}
DISAGREEING = [{"fp32": 1.0, "bf16": 0.5}, {"fp32": 0.5, "bf16": 1.0}]
CHOSEN = {
    f"{precision}-{strategy}": {"steps": 4, "strategy": strategy, "precision": precision, **more}
    for strategy in ("ddp", "fsdp")
    for precision, more in (("bf16", {}), ("auto", {"step_s": DISAGREEING}))
}
PARTS = {"steps": 5, "validations": 5}
LEFT = {
    f"left-{strategy}": {**PARTS, "strategy": strategy, "leaves": True, "folder": strategy}
    for strategy in ("ddp", "fsdp")
}
ENDED = {name.replace("left", "ended"): case | {"leaves": False} for name, case in LEFT.items()}
ALONE = {"full": FULL["full"] | {"folder": None}, "raised": STOPPED["raised"]}
STARTS = [
    (1, {**EQUAL, **CLIPPED, **ALONE, **LEFT, "undisturbed": PARTS}),
    (2, {**EQUAL, **CLIPPED, **STOPPED, **FULL, **LEFT, **CHOSEN}),
    (4, {**LEFT, "ddp-adamw": EQUAL["ddp-adamw"]}),
    (1, ENDED),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    """Run all cases, in one process and in several; return the folder of results."""
    folder = tmp_path_factory.mktemp("together")
    (folder / "starts.json").write_text(json.dumps(STARTS))
    done = subprocess.run(
        [sys.executable, SCRIPT, folder], cwd=folder, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture
def results(work):
    return lambda number, name: [
        json.loads((work / f"{number}-{name}-{rank}.json").read_text()) for rank in range(number)
    ]


def assert_close(actual: dict[str, list], expected: dict[str, list]) -> None:
    assert set(actual) == set(expected)
    for curve, values in expected.items():
        tolerance = {"rel": 1e-5} if curve.endswith("loss") else {"rel": 1e-3, "abs": 1e-4}
        assert actual[curve] == pytest.approx(values, **tolerance), curve


def kept(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in folder.rglob("step-*"))


@pytest.mark.parametrize(("number", "name"), [*((2, name) for name in EQUAL), (4, "ddp-adamw")])
def test_several_processes_have_the_losses_of_one(results, number, name):
    expected = results(1, name)[0]["curves"]
    assert len(expected["train/loss"]) == EQUAL[name]["steps"]
    assert_close(results(number, name)[0]["curves"], expected)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_all_processes_train_in_the_precision_that_the_first_one_measured(results, strategy):
    """And end as if it had been given."""
    chosen = results(2, f"auto-{strategy}")
    given = results(2, f"bf16-{strategy}")
    assert [run["precision"] for run in chosen] == ["bf16", "bf16"]
    for name in ("curves", "weights"):
        assert [run[name] for run in chosen] == [run[name] for run in given]


def test_sharded_weights_and_moments_take_their_part_of_the_memory(results):
    whole, sharded = (results(2, f"{strategy}-adamw")[0] for strategy in ("ddp", "fsdp"))
    assert sharded["bytes"] < 0.52 * whole["bytes"]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_run_goes_on_in_another_number_of_processes(results, strategy):
    left = {number: results(number, f"left-{strategy}") for number in (1, 2, 4)}
    assert {run["ended"] for runs in left.values() for run in runs} == {"late"}
    assert left[2][0]["is_sharded"] == (strategy == "fsdp"), "each process writes its part"
    undisturbed = results(1, "undisturbed")[0]["curves"]
    assert_close(results(1, f"ended-{strategy}")[0]["curves"], undisturbed)


@pytest.mark.parametrize("name", CLIPPED)
def test_a_step_is_left_out_by_both_and_gradients_are_clipped_as_by_one(results, name):
    first, second = results(2, name)
    one = results(1, name)[0]
    for run in (one, first, second):
        assert run["stability"]["skipped_steps"] == 1
        assert len(run["curves"]["train/loss"]) == 5
    assert first["weights"] == pytest.approx(second["weights"], rel=1e-12)
    for curve, tolerance in (("train/loss", 1e-5), ("train/gradient_norm", 1e-4)):
        assert first["curves"][curve] == pytest.approx(one["curves"][curve], rel=tolerance)


def test_both_stop_at_the_same_step_with_the_same_words(work, results):
    for name, words in (
        ("raised", "training step 4: got unweighted_loss, loss, gradient_norm"),
        ("restored", "after 0 steps left out and 2 returns"),
    ):
        first, second = results(2, name)
        assert words in first["ended"]
        assert first["ended"] == second["ended"]
    assert results(1, "raised")[0] == results(2, "raised")[0]
    assert kept(work / "restored") == ["step-000000002", "step-000000003"]


def test_a_full_disk_holds_up_neither(work, results):
    first, second = results(2, "full")
    assert first["ended"] == second["ended"] == "well"
    one = results(1, "full")[0]["curves"]["train/loss"]
    assert first["curves"]["train/loss"] == pytest.approx(one, rel=1e-5)
    assert kept(work / "full") == ["step-000000001", "step-000000002"]


def test_every_row_of_a_batch_is_in_one_shard_and_where_it_is_said_to_be(mixed_lengths):
    store, tokens = mixed_lengths.store, mixed_lengths.tokens
    batch = assemble(store, tokens, np.arange(19, -1, -1), masker=Masker(0.2, 0))
    shards = [cut_shard(batch, rank, 3) for rank in range(3)]

    def sequences(*batches):
        return [row.tolist() for each in batches for block in each.asvs for row in block.tokens_US]

    def counts(*batches):
        rows = (row for each in batches for block in each.samples for row in block.counts_BA)
        return [row[row > 0].tolist() for row in rows]

    gathered_sequences = sequences(*shards)
    assert [gathered_sequences[i] for i in shards[0].asv_U] == sequences(batch)
    gathered_counts = counts(*shards)
    batch_counts = counts(batch)
    assert [gathered_counts[i] for i in shards[1].sample_B] == [
        batch_counts[i] for i in batch.order_B
    ]
    blocks = [block for shard in shards for block in shard.asvs]
    assert sum(len(block.masked.asv_M) for block in blocks) == shards[2].masked_nucleotides
    for block in blocks:
        at = block.tokens_US[block.masked.asv_M, block.masked.position_M]
        assert (at == MASK).all(), "masked nucleotides stay with their ASV"
    shapes = {tuple(block.tokens_US.shape for block in shard.asvs) for shard in shards}
    assert len(shapes) == 1, "layers that gather their weights are called alike"
    assert {shard.size for shard in shards} == {batch.size}


def test_sharded_weights_are_refused_in_fp16():
    with pytest.raises(InputError, match=r"runtime.strategy: got fsdp with precision fp16"):
        _make_strategy(World(2, 1, "fsdp"), "fp16")
