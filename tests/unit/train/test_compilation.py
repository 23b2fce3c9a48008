import json
import logging
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from aam.model.layers.attention import rotary_tables
from aam.model.layers.bdh import Bdh, neuron_tables, normalize
from aam.model.layers.blocks import BiLstm, Block
from aam.train import compilation
from aam.train.compilation import compile_blocks, graphs_compiled

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def results(layer, tables, sequences: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(sequences)
    x = normalize(torch.randn(sequences, 6, 16, generator=rng)).requires_grad_()
    out = layer(x, rotary=tables)
    loss = out[..., :5].square().sum()
    return [out.detach(), *torch.autograd.grad(loss, [x, *layer.parameters()])]


@pytest.mark.parametrize(
    ("layer", "tables", "backend"),
    [
        # All of the compiler but machine code; for the other layer what it reads alone.
        (Block(16, 2, 2), rotary_tables(6, 8, heads=4), "aot_eager"),
        (Bdh(16, 2, 24), neuron_tables(6, 12), "eager"),
    ],
)
def test_a_compiled_layer_gives_the_same_for_any_number_of_sequences_with_one_graph(
    layer, tables, backend, monkeypatch
):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    expected = {n: results(layer, tables, n) for n in (5, 9, 40)}
    before, kernel = graphs_compiled(), BiLstm(16)
    assert compile_blocks(torch.nn.ModuleList([layer, kernel]), "default", CPU)
    for number, wanted in expected.items():
        torch.testing.assert_close(results(layer, tables, number), wanted, atol=1e-4, rtol=1e-3)
    assert graphs_compiled() - before == 1
    assert kernel._compiled_call_impl is None


@pytest.mark.parametrize("mode", ["default", "off"])
def test_off_or_without_a_compiler_nothing_is_compiled(mode, monkeypatch, caplog):
    def fail(function):
        raise torch._dynamo.exc.BackendCompilerFailed(fail, RuntimeError("no g++"), None)

    monkeypatch.setattr(compilation.torch, "compile", fail)
    block = Block(16, 2, 2)
    with caplog.at_level(logging.WARNING):
        assert not compile_blocks(block, mode, CPU)
    assert caplog.text.count("training runs uncompiled") == (mode == "default")
    assert block._compiled_call_impl is None


def forward_fails(graph, inputs):
    raise RuntimeError("no room")


def backward_fails(graph, inputs):
    return aot_autograd(fw_compiler=lambda graph, _: graph, bw_compiler=forward_fails)(
        graph, inputs
    )


@pytest.mark.parametrize("backend", [forward_fails, backward_fails])
def test_a_run_whose_compilation_fails_goes_on_uncompiled(
    backend, train, whole, monkeypatch, tmp_path, caplog
):
    """And ends with the weights of one that was never compiled."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    monkeypatch.setattr(compilation, "_why_not", lambda device: None)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    work = tmp_path / "work"
    (work / compilation.CACHE).mkdir(parents=True)
    weights, progress = train(compile="default", runtime={"work": work})
    assert weights == whole
    assert caplog.text.count("training goes on uncompiled: no room") == 1
    optimization = progress.facts["optimization"]
    assert (optimization["compile"], optimization["lacking"]) == ("off", ["compile: default"])
    assert not (work / compilation.CACHE).exists()


def test_a_cache_that_a_killed_compilation_has_left_is_removed(tmp_path):
    """An empty shared library is what a linker leaves that was killed."""
    script = Path(__file__).with_name("compiled.py")
    outcomes = []
    for number, more in enumerate((["empty"], [])):
        command = [sys.executable, script, tmp_path / "cache", tmp_path / str(number), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        outcomes.append(json.loads((tmp_path / str(number)).read_text()))
    assert [outcome.pop("compiled") for outcome in outcomes] == [True, False]
    assert outcomes[0] == outcomes[1]
    assert done.stderr.count("training goes on uncompiled") == 1
    assert not (tmp_path / "cache").exists()
