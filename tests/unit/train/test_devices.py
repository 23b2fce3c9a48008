import os
import tempfile
from types import SimpleNamespace

import pytest
import torch
from filelock import FileLock
from torch import nn

from aam.config.sections.execution import Optimization
from aam.distributed import devices as devices_module
from aam.distributed import processes
from aam.distributed.devices import MORE_KERNELS, Devices, has_fast_bf16, has_tf32
from aam.distributed.inference_device import KERNELS
from aam.distributed.processes import claim_accelerator
from aam.model.batch import TARGET, Batch
from aam.tasks.pretrain.run import pretraining_devices
from aam.util.run_options import RunOptions

pytestmark = pytest.mark.usefixtures("one_thread")


class Spy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, batch: Batch) -> torch.Tensor:
        self.batch = batch
        self.product = self.layer(batch.values[TARGET])
        return self.product.float().sum()


def a_batch() -> Batch:
    true_BB = torch.tensor([[0.0, 0.70001], [0.70001, 0.0]])
    values = {TARGET: torch.tensor([[1.0001, 2.0], [3.0, 70_001.0]])}
    return Batch([], [], torch.arange(2), {"unweighted": true_BB}, values)


HAS_GPU = torch.cuda.is_available()
ON_CPU = pytest.mark.skipif(HAS_GPU, reason="an accelerator has bf16")


@pytest.mark.parametrize("has_bf16", [pytest.param(False, marks=ON_CPU), True])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_layers_compute_in_the_precision_and_batches_are_not_rounded(
    caplog, monkeypatch, precision, has_bf16
):
    """On a CPU without fast products of 16 bits, in the nearest that it has, with one warning."""
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: has_bf16)
    is_half = precision in ("bf16", "fp16")
    used = "fp32" if is_half and not has_bf16 else precision
    used = "bf16" if used == "fp16" and not HAS_GPU else used
    devices, spy = Devices(precision, 1, deterministic=precision == "fp32"), Spy()
    warnings = [f"this CPU has no fast {precision}: training in {used}"] * (used != precision)
    if precision == "tf32" and not has_tf32(devices.device):
        warnings = ["this machine has no tf32: training in fp32"]
    assert [record.getMessage() for record in caplog.records] == warnings
    assert devices.precision == used
    assert torch.get_float32_matmul_precision() == ("high" if precision == "tf32" else "highest")
    assert torch.are_deterministic_algorithms_enabled() == (precision == "fp32")
    wrapped = devices.setup_model(spy)
    batch = a_batch()
    wrapped(batch)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}
    assert spy.product.dtype == half.get(used, torch.float32)
    assert torch.equal(spy.batch.distances["unweighted"], batch.distances["unweighted"])
    assert torch.equal(spy.batch.values[TARGET], batch.values[TARGET])
    assert next(spy.parameters()).dtype == torch.float32


@pytest.mark.parametrize(
    ("name", "amx", "has_bf16", "fast"),
    [
        ("Intel Xeon", False, True, False),
        ("Intel Xeon", True, True, True),
        ("AMD EPYC", False, True, True),
        ("AMD EPYC", False, False, False),
    ],
)
def test_bf16_is_fast_where_a_cpu_has_products_for_it(monkeypatch, name, amx, has_bf16, fast):
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: has_bf16)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": name, "amx_bf16": amx})
    assert has_fast_bf16() == fast


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_exact_inference_is_in_fp32_and_training_goes_on_as_before(monkeypatch, precision):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    devices, spy = Devices(precision, 1), Spy()
    before = torch.get_float32_matmul_precision()
    batch, products = a_batch(), {}
    for name, used in (("trained", devices), ("exact", devices.exact()), ("again", devices)):
        with used.inference(spy):
            spy(batch.to(used.device))
            during = torch.get_float32_matmul_precision()
            assert during == ("highest" if name == "exact" else before)
        products[name] = spy.product.cpu()
    values = batch.values[TARGET] @ spy.layer.weight.cpu().T + spy.layer.bias.cpu()
    torch.testing.assert_close(products["exact"], values)
    assert torch.equal(products["trained"], products["again"])
    assert (products["trained"].dtype == torch.bfloat16) == (precision == "bf16")
    assert (devices.exact().precision, devices.precision) == ("fp32", precision)
    assert torch.get_float32_matmul_precision() == before
    assert spy.training


@pytest.mark.parametrize(("given", "kept"), [(None, "1024"), ("100", "100")])
def test_the_environment_has_the_say_how_many_kernels_are_kept(monkeypatch, given, kept):
    name = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
    # What a test sets is undone.
    monkeypatch.setenv(name, given or "")
    if given is None:
        monkeypatch.delenv(name)
    Devices("fp32", 1, kernels=MORE_KERNELS)
    assert os.environ[name] == kept


@pytest.mark.parametrize(
    ("runtime", "kernels"),
    [({"max_memory_gb": 4.0}, MORE_KERNELS), ({"max_memory_gb": 3.0}, KERNELS)],
)
def test_pretraining_keeps_more_kernels_where_there_is_room(runtime, kernels):
    devices = pretraining_devices(Optimization(precision="fp32"), RunOptions(**runtime))
    assert devices.kernels == kernels


def test_no_more_threads_than_cores_that_were_granted(monkeypatch):
    numbers = []
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 6})
    Devices("fp32", 8)
    Devices("fp32", 2)
    assert numbers == [3, 2]


def test_an_allocation_of_several_tasks_is_left_alone(monkeypatch):
    variables = {
        "SLURM_NTASKS": "4",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NAME": "x",
        "SLURM_PROCID": "0",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    devices = Devices("fp32", 1)
    assert (devices.processes, devices._fabric.world_size) == (1, 1)


@pytest.fixture
def two_accelerators(monkeypatch, tmp_path) -> list[int]:
    """Play two accelerators, whose locks are in `tmp_path`; return those that were set."""
    used: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    named = lambda number: SimpleNamespace(uuid=f"gpu{number}")  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", named)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(processes, "_LOCKS", [])
    return used


def test_jobs_side_by_side_hold_different_accelerators(two_accelerators, tmp_path, caplog):
    assert [claim_accelerator.__wrapped__() for _ in range(3)] == [0, 1, 0]
    assert two_accelerators == [0, 1]
    assert "other jobs use all accelerators: sharing the first" in caplog.text
    modes = [path.stat().st_mode & 0o777 for path in tmp_path.iterdir()]
    assert modes == [0o666] * 2, "a later job of another user can open the file"


def test_a_lock_that_cannot_be_opened_is_not_taken_for_one_that_is_held(
    two_accelerators, monkeypatch, caplog
):
    class OfAnotherUser(FileLock):
        def acquire(self, timeout):
            if "gpu1" in self.lock_file:
                raise PermissionError(13, "Permission denied", self.lock_file)
            return super().acquire(timeout=timeout)

    monkeypatch.setattr(processes, "FileLock", OfAnotherUser)
    assert [claim_accelerator.__wrapped__() for _ in range(2)] == [0, 1]
    assert two_accelerators == [0, 1]
    assert "gpu1.lock cannot be opened: other jobs may use accelerator 1, too" in caplog.text
    assert "use all accelerators" not in caplog.text
