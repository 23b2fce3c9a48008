import logging
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from aam.model.batch import TARGET, Batch
from aam.train.distributed.devices import Devices

pytestmark = pytest.mark.usefixtures("one_thread")


class Spy(nn.Module):
    """Keeps the batch and the type of its products."""

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


@pytest.mark.parametrize(
    ("precision", "product"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_layers_compute_in_the_precision_and_batches_are_not_rounded(precision, product):
    devices, spy = Devices(precision, 1), Spy()
    wrapped, _ = devices.setup(spy, torch.optim.SGD(spy.parameters(), lr=0.1))
    batch = a_batch()
    wrapped(batch)
    assert spy.product.dtype == product
    assert torch.equal(spy.batch.distances["unweighted"], batch.distances["unweighted"])
    assert torch.equal(spy.batch.values[TARGET], batch.values[TARGET])
    assert next(spy.parameters()).dtype == torch.float32


@pytest.mark.skipif(torch.cuda.is_available(), reason="an accelerator has fp16")
def test_fp16_without_an_accelerator_is_bf16_and_said_so(caplog):
    with caplog.at_level(logging.WARNING):
        assert Devices("fp16", 1).precision == "bf16"
    assert caplog.text.count("precision fp16 needs an accelerator") == 1


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("name", ["tf32", "fp32", "bf16"])
def test_switches_of_torch_follow_the_settings(name, deterministic):
    Devices(name, 1, deterministic=deterministic)
    assert torch.get_float32_matmul_precision() == ("high" if name == "tf32" else "highest")
    assert torch.are_deterministic_algorithms_enabled() == deterministic


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_exact_inference_is_in_fp32_and_training_goes_on_as_before(precision):
    devices, spy = Devices(precision, 1), Spy()
    before = torch.get_float32_matmul_precision()
    batch, found = a_batch(), {}
    for name, used in (("trained", devices), ("exact", devices.exact()), ("again", devices)):
        with used.inference(spy):
            if name == "exact":
                assert torch.get_float32_matmul_precision() == "highest"
            spy(batch.to(used.device))
        found[name] = spy.product.cpu()
    values = batch.values[TARGET] @ spy.layer.weight.cpu().T + spy.layer.bias.cpu()
    torch.testing.assert_close(found["exact"], values)
    assert found["exact"].dtype == torch.float32
    assert torch.equal(found["trained"], found["again"])
    assert (found["trained"].dtype == torch.bfloat16) == (precision == "bf16")
    assert devices.exact().precision == "fp32"
    assert devices.precision == precision
    assert torch.get_float32_matmul_precision() == before
    assert spy.training


def test_an_allocation_of_several_tasks_is_left_alone():
    found = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "x", "SLURM_PROCID": "0"}
    devices = (
        "from aam.train.distributed.devices import Devices; print(Devices('fp32', 1).processes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", devices],
        env={**os.environ, **found},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
