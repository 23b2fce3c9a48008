import logging

import pytest
import torch

from aam.nn.attention import rotary_tables
from aam.nn.block import Block
from aam.train import compilation
from aam.train.compilation import compile_blocks, graphs_compiled

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


def results(block: Block, sequences: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(sequences)
    x = torch.randn(sequences, 6, 16, generator=rng, requires_grad=True)
    block.zero_grad()
    out = block(x, rotary=rotary_tables(6, 8))
    out.square().sum().backward()
    return [out.detach(), x.grad, *(p.grad.clone() for p in block.parameters())]


def test_compiled_blocks_give_the_same_for_any_number_of_sequences_with_few_graphs():
    torch.manual_seed(0)
    block = Block(16, 2, 2)
    expected = {number: results(block, number) for number in (5, 9, 12, 40)}
    before = graphs_compiled()
    assert compile_blocks(block, "default", CPU)
    for number, values in expected.items():
        for found, wanted in zip(results(block, number), values, strict=True):
            torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)
    assert 1 <= graphs_compiled() - before <= 2


def test_without_a_compiler_one_warning_and_nothing_is_compiled(monkeypatch, caplog):
    def broken(function):
        raise torch._dynamo.exc.BackendCompilerFailed(broken, RuntimeError("no g++"), None)

    monkeypatch.setattr(compilation.torch, "compile", broken)
    block = Block(16, 2, 2)
    with caplog.at_level(logging.WARNING):
        assert not compile_blocks(block, "default", CPU)
    assert caplog.text.count("training runs uncompiled") == 1
    assert block._compiled_call_impl is None


def test_off_is_off():
    block = Block(16, 2, 2)
    assert not compile_blocks(block, "off", CPU)
    assert block._compiled_call_impl is None
