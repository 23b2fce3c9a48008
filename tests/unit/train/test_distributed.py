"""Training in several processes: what one process would do with the same batches."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
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

# Muon's iteration is in bf16, where the last bit of a gradient is a jump: a high rate shows it.
EQUAL = {
    "ddp-adamw": {"optimizer": "adamw", "steps": 50, "rate": 1e-3},
    "ddp-muon": {"optimizer": "muon", "steps": 50, "rate": 2e-6},
    "fsdp-adamw": {"optimizer": "adamw", "steps": 20, "rate": 1e-3},
    "fsdp-muon": {"optimizer": "muon", "steps": 20, "rate": 2e-6},
}
EQUAL = {name: {**case, "strategy": name.partition("-")[0]} for name, case in EQUAL.items()}
SPLIT = {"optimizer": "adamw", "steps": 5, "validations": 5, "rate": 1e-3}


@pytest.fixture(scope="module")
def alone(one_thread):
    """Return the function that trains a case in this process."""
    path = Path(__file__).with_name("together.py")
    spec = importlib.util.spec_from_file_location("together", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda case: module.train(case, World())


@pytest.fixture(scope="module")
def expected(alone) -> Callable[[str], dict]:
    """Return the function that gives the curves of a case in one process."""
    return cache(lambda name: alone(EQUAL[name])["curves"])


def in_processes(number: int, folder: Path, cases: dict[str, dict]) -> dict[str, dict]:
    """Train some cases in so many processes; return what the first of them tells of each."""
    folder.mkdir()
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(number)]
    script = Path(__file__).with_name("together.py")
    done = subprocess.run(
        [*command, str(script), str(folder / "cases.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in cases}


@pytest.fixture(scope="module")
def trained(alone, tmp_path_factory) -> dict[str, dict]:
    """Train all cases in two and in four processes, and one run by turns in all numbers of them."""
    work = tmp_path_factory.mktemp("together")
    turns = {
        f"turn-{strategy}": {
            **SPLIT,
            "strategy": strategy,
            "leaves": True,
            "folder": str(work / strategy),
        }
        for strategy in ("ddp", "fsdp")
    }
    for case in turns.values():
        assert alone(case)["left"], "the first step is done by one process"
    two = in_processes(2, work / "2", {**EQUAL, **turns})
    four = in_processes(4, work / "4", {"ddp-adamw": EQUAL["ddp-adamw"], **turns})
    finished = {name: alone({**case, "leaves": False}) for name, case in turns.items()}
    left = {
        strategy: any(path.is_dir() for path in (work / strategy).rglob("step-*"))
        for strategy in ("ddp", "fsdp")
    }
    return {
        **{f"2-{name}": result for name, result in two.items()},
        **{f"4-{name}": result for name, result in four.items()},
        **finished,
        "left": left,
    }


@pytest.mark.parametrize(
    "name", ["2-ddp-adamw", "4-ddp-adamw", "2-ddp-muon", "2-fsdp-adamw", "2-fsdp-muon"]
)
def test_several_processes_have_the_losses_of_one(trained, expected, name):
    one, several = expected(name[2:]), trained[name]["curves"]
    assert set(one) == set(several)
    assert len(one["train/loss"]) == EQUAL[name[2:]]["steps"]
    for curve, values in one.items():
        if curve.endswith("loss"):
            assert several[curve] == pytest.approx(values, rel=1e-5), curve
        else:
            assert several[curve] == pytest.approx(values, rel=1e-3, abs=1e-4), curve


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_run_goes_on_in_another_number_of_processes(trained, alone, strategy):
    undisturbed = alone({**SPLIT, "strategy": "ddp"})
    for number in (2, 4):
        assert trained[f"{number}-turn-{strategy}"]["left"]
    resumed = trained[f"turn-{strategy}"]["curves"]
    for curve, values in undisturbed["curves"].items():
        tolerance = {"rel": 1e-5} if curve.endswith("loss") else {"rel": 1e-3, "abs": 1e-4}
        assert resumed[curve] == pytest.approx(values, **tolerance), curve
    assert trained["left"][strategy] == (strategy == "fsdp"), "divided weights are kept in parts"


def test_divided_weights_and_moments_take_their_part_of_the_memory(trained):
    whole, divided = trained["2-ddp-adamw"]["bytes"], trained["2-fsdp-adamw"]["bytes"]
    assert divided < 0.52 * whole


def test_every_row_of_a_batch_is_in_one_share_and_where_it_is_said_to_be(mixed_lengths):
    store, tokens = mixed_lengths.store, mixed_lengths.tokens
    batch = assemble(store, tokens, np.arange(19, -1, -1), masker=Masker(0.2, 0))
    shares = [shard_of(batch, rank, 3) for rank in range(3)]
    expected = [row.tolist() for block in batch.asvs for row in block.tokens_US]
    found = [row.tolist() for share in shares for block in share.asvs for row in block.tokens_US]
    assert [found[place] for place in shares[0].asv_U.tolist()] == expected
    counts = [row[row > 0].tolist() for block in batch.samples for row in block.counts_BA]
    found = [
        row[row > 0].tolist() for s in shares for block in s.samples for row in block.counts_BA
    ]
    assert [found[place] for place in shares[1].sample_B] == [counts[i] for i in batch.order_B]
    masked = sum(len(block.masked.asv_M) for share in shares for block in share.asvs)
    assert masked == shares[2].masked_nucleotides
    shapes = {tuple(block.tokens_US.shape for block in share.asvs) for share in shares}
    assert len(shapes) == 1, "layers that gather their weights are called alike"
    assert {share.size for share in shares} == {batch.size}
    assert {len(share.order_B) for share in shares} == {-(-batch.size // 3)}


def test_masked_nucleotides_stay_with_their_asv(new_feed):
    batch = new_feed()[0]
    for rank in range(2):
        for block in shard_of(batch, rank, 2).asvs:
            assert (block.tokens_US[block.masked.asv_M, block.masked.position_M] == MASK).all()


def test_divided_weights_are_refused_in_fp16():
    with pytest.raises(InputError, match=r"runtime.strategy: got fsdp with precision fp16"):
        _strategy(World(2, 1, "fsdp"), "fp16")
