import logging

import pytest
import torch

from aam.nn.attention import rotary_tables
from aam.nn.bdh import Bdh, enter, neuron_tables
from aam.nn.block import Block
from aam.nn.recurrent import BiLstm
from aam.train import compilation
from aam.train.compilation import compile_blocks, graphs_compiled

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def results(layer, tables, sequences: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(sequences)
    x = enter(torch.randn(sequences, 6, 16, generator=rng)).requires_grad_()
    layer.zero_grad()
    out = layer(x, rotary=tables)
    out[..., :5].square().sum().backward()
    return [out.detach(), x.grad, *(p.grad.clone() for p in layer.parameters())]


def test_compiled_layers_give_the_same_for_any_number_of_sequences_with_few_graphs():
    torch.manual_seed(0)
    layers = torch.nn.ModuleList([Block(16, 2, 2), Bdh(16, 2, 24), BiLstm(16)])
    tables = rotary_tables(6, 8), neuron_tables(6, 12)
    pairs = list(zip(layers, tables, strict=False))
    expected = {n: [results(*pair, n) for pair in pairs] for n in (5, 9, 40)}
    before = graphs_compiled()
    assert compile_blocks(layers, "default", CPU)
    for number, values in expected.items():
        for pair, wanted in zip(pairs, values, strict=True):
            for found, value in zip(results(*pair, number), wanted, strict=True):
                torch.testing.assert_close(found, value, atol=1e-4, rtol=1e-3)
    assert 2 <= graphs_compiled() - before <= 4
    assert layers[2]._compiled_call_impl is None


@pytest.mark.parametrize("mode", ["default", "off"])
def test_off_or_without_a_compiler_nothing_is_compiled(mode, monkeypatch, caplog):
    def broken(function):
        raise torch._dynamo.exc.BackendCompilerFailed(broken, RuntimeError("no g++"), None)

    monkeypatch.setattr(compilation.torch, "compile", broken)
    block = Block(16, 2, 2)
    with caplog.at_level(logging.WARNING):
        assert not compile_blocks(block, mode, CPU)
    assert caplog.text.count("training runs uncompiled") == (mode == "default")
    assert block._compiled_call_impl is None
