"""A compiled layer in a process of its own: `compiled.py <cache> <result> [empty]`.

Writes what the layer returned, its gradient, and whether it ran compiled. With `empty` the files
that its compilation has left in the cache are emptied, as those of a compiler that is killed are.
"""

import json
import sys
from pathlib import Path

import torch

from aam.model.layers.blocks import Layer
from aam.train.compilation import compile_blocks, is_compiled


class Scaled(Layer):
    """The least that has a forward and a backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return x * self.scale


def main(cache: Path, result: Path, *, empty: bool) -> None:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(Scaled(), Scaled())
    assert compile_blocks(model, "default", torch.device("cpu"), cache)
    before = set(cache.rglob("*.so"))
    out = model(torch.ones(3, 4))
    out.sum().backward()
    values = {"out": out.tolist(), "gradient": model[0].scale.grad.tolist()}
    result.write_text(json.dumps({**values, "compiled": is_compiled(model)}))
    for path in set(cache.rglob("*.so")) - before if empty else ():
        # Another file in its place: this process has mapped the old one.
        path.unlink()
        path.touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), empty="empty" in sys.argv[3:])
