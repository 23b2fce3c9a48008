import pytest
import torch
from torch import nn

from aam.model.batch import TARGET, Batch
from aam.train.distributed import devices as devices_module
from aam.train.distributed.devices import Devices

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


@pytest.mark.parametrize(
    ("precision", "deterministic", "product", "matmul", "warnings"),
    [
        ("fp32", True, torch.float32, "highest", 0),
        ("tf32", False, torch.float32, "high", 0),
        ("bf16", False, torch.bfloat16, "highest", 0),
        ("fp16", False, torch.float16 if HAS_GPU else torch.bfloat16, "highest", not HAS_GPU),
    ],
)
def test_layers_compute_in_the_precision_and_batches_are_not_rounded(
    caplog, monkeypatch, precision, deterministic, product, matmul, warnings
):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    devices, spy = Devices(precision, 1, deterministic=deterministic), Spy()
    assert caplog.text.count("this CPU has no fast fp16: training in bf16") == warnings
    assert torch.get_float32_matmul_precision() == matmul
    assert torch.are_deterministic_algorithms_enabled() == deterministic
    wrapped = devices.setup_model(spy)
    batch = a_batch()
    wrapped(batch)
    assert spy.product.dtype == product
    assert torch.equal(spy.batch.distances["unweighted"], batch.distances["unweighted"])
    assert torch.equal(spy.batch.values[TARGET], batch.values[TARGET])
    assert next(spy.parameters()).dtype == torch.float32


@pytest.mark.skipif(HAS_GPU, reason="an accelerator has bf16")
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_cpu_without_bf16_trains_in_fp32(monkeypatch, caplog, precision):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: False)
    devices, spy = Devices(precision, 1), Spy()
    assert devices.precision == "fp32"
    assert [r.getMessage() for r in caplog.records] == [
        f"this CPU has no fast {precision}: training in fp32"
    ]
    devices.setup_model(spy)(a_batch())
    assert spy.product.dtype == torch.float32


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
    capabilities = {"cpu_name": name, "amx_bf16": amx}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    assert devices_module.has_fast_bf16() == fast


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_exact_inference_is_in_fp32_and_training_goes_on_as_before(monkeypatch, precision):
    monkeypatch.setattr(devices_module, "has_fast_bf16", lambda: True)
    devices, spy = Devices(precision, 1), Spy()
    before = torch.get_float32_matmul_precision()
    batch, found = a_batch(), {}
    for name, used in (("trained", devices), ("exact", devices.exact()), ("again", devices)):
        with used.inference(spy):
            spy(batch.to(used.device))
            during = torch.get_float32_matmul_precision()
            assert during == ("highest" if name == "exact" else before)
        found[name] = spy.product.cpu()
    values = batch.values[TARGET] @ spy.layer.weight.cpu().T + spy.layer.bias.cpu()
    torch.testing.assert_close(found["exact"], values)
    assert torch.equal(found["trained"], found["again"])
    assert (found["trained"].dtype == torch.bfloat16) == (precision == "bf16")
    assert (devices.exact().precision, devices.precision) == ("fp32", precision)
    assert torch.get_float32_matmul_precision() == before
    assert spy.training


def test_an_allocation_of_several_tasks_is_left_alone(monkeypatch):
    found = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "x", "SLURM_PROCID": "0"}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    devices = Devices("fp32", 1)
    assert (devices.processes, devices._fabric.world_size) == (1, 1)
