"""The layer of the Baby Dragon Hatchling, made bidirectional.

Shape suffixes: B batch, S positions, D width, H heads, N neurons of a head, E neurons of all heads.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, relu

from aam.model.layers.attention import arithmetic, rotary_tables, rotate
from aam.model.layers.blocks import Layer

BASE = 2.0**16
"""Base of the rotary angles, as in the authors' code."""


class Bdh(Layer):
    """One iteration of BDH-GPU (Kosowski et al. 2025, arXiv:2509.26507), without its causal mask.

    Per head, with the norm LN that has no weights and the rotation R of the positions::

        x = relu(W_x v)                 the neurons that fire, sparse and positive
        a = LN(sum_t <R x_s, R x_t> v_t)      queries are keys; the values are the positions
        z = x * relu(W_y a)             a neuron passes on what it is asked for

    and over all heads v = LN(v + LN(W_z z)). The same weights serve every iteration.

    Parameters
    ----------
    width
        Width D of a position.
    heads
        Number of heads.
    neurons
        Neurons of all heads together, a multiple of twice the heads.
    """

    def __init__(self, width: int, heads: int, neurons: int) -> None:
        super().__init__()
        self.heads = heads
        self.neurons = nn.Linear(width, neurons, bias=False)
        self.gates = nn.Linear(width, neurons, bias=False)
        self.out = nn.Linear(neurons, width, bias=False)
        self.dropout = nn.Dropout(0.0)

    def forward(self, v_BSD: Tensor, *, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """Return the positions behind the layer.

        Parameters
        ----------
        v_BSD
            Positions as `normalize` returns them.
        rotary
            What `neuron_tables` returns, for S positions.

        Returns
        -------
        torch.Tensor
            [B, S, D], with mean 0 and variance 1 at each position.
        """
        width = v_BSD.shape[-1]
        low_BSD = v_BSD.to(arithmetic(v_BSD))
        # Each head is computed by itself: its products stay in the processor's cache, and none is
        # copied.
        neurons_HND = self.neurons.weight.unflatten(0, (self.heads, -1))
        gates_HND = self.gates.weight.unflatten(0, (self.heads, -1))
        outputs = []
        for neurons_ND, gates_ND in zip(neurons_HND.unbind(), gates_HND.unbind(), strict=True):
            x_BSN = relu(linear(low_BSD, neurons_ND))
            mixed_BSD = mix(rotate(x_BSN, *rotary), low_BSD)
            y_BSN = relu(linear(layer_norm(mixed_BSD, (width,)), gates_ND))
            outputs.append(x_BSN * y_BSN)
        z_BSE = self.dropout(torch.cat(outputs, dim=-1))
        return normalize(v_BSD + normalize(self.out(z_BSE)))


def normalize(v_BSD: Tensor) -> Tensor:
    """Return positions of mean 0 and variance 1, which every iteration takes.

    Parameters
    ----------
    v_BSD
        Positions, in any type.

    Returns
    -------
    torch.Tensor
        [B, S, D], fp32.
    """
    return layer_norm(v_BSD.float(), v_BSD.shape[-1:])


def mix(x_BSN: Tensor, v_BSD: Tensor) -> Tensor:
    """Return the sum over all positions t of <x_s, x_t> v_t.

    Parameters
    ----------
    x_BSN
        Neurons of a head, turned by their positions.
    v_BSD
        Values, the positions themselves.

    Returns
    -------
    torch.Tensor
        [B, S, D].
    """
    if compares_positions(x_BSN.shape[-2], x_BSN.shape[-1], v_BSD.shape[-1]):
        return (x_BSN @ x_BSN.transpose(-1, -2)) @ v_BSD
    return x_BSN @ (x_BSN.transpose(-1, -2) @ v_BSD)


def compares_positions(positions: int, neurons: int, width: int) -> bool:
    """Return whether every pair of positions is compared, or all are summed in a state [N, D].

    Both give the same; the state is for long sequences.

    Parameters
    ----------
    positions
        Number of positions S.
    neurons
        Neurons N of a head.
    width
        Width D of a position.

    Returns
    -------
    bool
        True where comparing takes no more operations.
    """
    return positions * (neurons + width) <= 2 * neurons * width


def neuron_tables(positions: int, neurons: int) -> tuple[Tensor, Tensor]:
    """Return the tables that turn the neurons of a head, as `attention.rotate` takes them.

    Queries and keys are both turned, so that scores, divided by the root of `neurons`, stay within
    fp16.

    Parameters
    ----------
    positions
        Number of positions S.
    neurons
        Neurons N of a head.

    Returns
    -------
    cos_SN, sin_SN : torch.Tensor
        Scaled cosines and signed sines, fp32.
    """
    cos_SN, sin_SN = rotary_tables(positions, neurons, base=BASE)
    scale = neurons**-0.25
    return cos_SN * scale, sin_SN * scale
