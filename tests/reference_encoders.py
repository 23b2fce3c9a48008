"""ASV encoders without any saving: what their optimized forms are tested against.

All in fp32 and with PyTorch's elementary operations: LSTM cells go from position to position, BDH
computes its rotary angles in every iteration and keeps queries and keys apart.

Shape suffixes: U ASVs, S positions, T patches, D width, H heads, N neurons of a head, G gates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from aam.data.sequences import VOCABULARY_SIZE
from aam.model.asv_encoders import AsvBdh, AsvEncoder
from aam.model.layers.bdh import BASE, Bdh
from aam.model.layers.blocks import BiLstm


def reference_asvs(encoder: AsvEncoder, tokens_US: Tensor) -> Tensor:
    """Return the embeddings [U, D] that an encoder `bilstm` or `bdh` gives."""
    asvs, length = tokens_US.shape
    padded_US = nn.functional.pad(tokens_US.long(), (0, -length % encoder.patch_bp))
    one_hot_USV = nn.functional.one_hot(padded_US, VOCABULARY_SIZE).float()
    x_UTD = encoder.stem(one_hot_USV.reshape(asvs, -1, encoder.patch_bp * VOCABULARY_SIZE))
    x_UTD = x_UTD + encoder.position_TD[: x_UTD.shape[1]]
    if isinstance(encoder, AsvBdh):
        x_UTD = normal(x_UTD)
    for _ in range(encoder.passes):
        for layer in encoder.blocks:
            if isinstance(layer, Bdh):
                x_UTD = plain_bdh(layer, x_UTD)
            else:
                assert isinstance(layer, BiLstm), "a transformer has no plain form here"
                x_UTD = plain_lstm(layer, x_UTD)
    weight_UT = torch.softmax(encoder.pooling.score(x_UTD).squeeze(-1), dim=-1)
    return encoder.pooling.norm((weight_UT[..., None] * x_UTD).sum(dim=1))


def plain_bdh(layer: Bdh, v_BSD: Tensor) -> Tensor:
    """Return one iteration of BDH, all heads at once."""
    width, heads = v_BSD.shape[-1], layer.heads
    into_HND, ask_HND = (
        part.weight.reshape(heads, -1, width) for part in (layer.neurons, layer.gates)
    )
    x_BHSN = torch.relu(v_BSD[:, None] @ into_HND.transpose(1, 2))
    query_BHSN, key_BHSN = turned(x_BHSN), turned(x_BHSN)
    score_BHSS = query_BHSN @ key_BHSN.transpose(2, 3) / x_BHSN.shape[-1] ** 0.5
    mixed_BHSD = score_BHSS @ v_BSD[:, None]
    gate_BHSN = torch.relu(normal(mixed_BHSD) @ ask_HND.transpose(1, 2))
    z_BSE = (x_BHSN * gate_BHSN).transpose(1, 2).flatten(2)
    return normal(v_BSD + normal(layer.out(z_BSE)))


def plain_lstm(layer: BiLstm, x_BSD: Tensor) -> Tensor:
    """Return one LSTM layer, position by position in each direction."""
    normal_BSD, weights = layer.norm(x_BSD), list(layer.lstm.parameters())
    forward = _direction(weights[:4], normal_BSD)
    backward = _direction(weights[4:], normal_BSD.flip(1)).flip(1)
    return x_BSD + torch.cat([forward, backward], dim=-1)


def _direction(weights: Sequence[Tensor], x_BSD: Tensor) -> Tensor:
    in_GD, state_GH, bias_in_G, bias_state_G = weights
    state_BH = cell_BH = x_BSD.new_zeros(len(x_BSD), state_GH.shape[1])
    states = []
    for x_BD in x_BSD.unbind(dim=1):
        gates_BG = x_BD @ in_GD.T + bias_in_G + state_BH @ state_GH.T + bias_state_G
        enter, forget, fresh, leave = gates_BG.chunk(4, dim=-1)
        cell_BH = torch.sigmoid(forget) * cell_BH + torch.sigmoid(enter) * torch.tanh(fresh)
        state_BH = torch.sigmoid(leave) * torch.tanh(cell_BH)
        states.append(state_BH)
    return torch.stack(states, dim=1)


def normal(x_BSD: Tensor) -> Tensor:
    """Return positions of mean 0 and variance 1, step by step."""
    centered = x_BSD - x_BSD.mean(dim=-1, keepdim=True)
    return centered / torch.sqrt(centered.square().mean(dim=-1, keepdim=True) + 1e-5)


def turned(x_BHSN: Tensor) -> Tensor:
    """Return neurons turned by the angles of their positions, computed here and now."""
    positions, neurons = x_BHSN.shape[-2:]
    frequency = BASE ** (-torch.arange(0, neurons, 2) / neurons)
    angle = torch.arange(positions)[:, None] * frequency
    cosines, sines = torch.cat([angle.cos()] * 2, dim=-1), torch.cat([angle.sin()] * 2, dim=-1)
    first, second = x_BHSN.chunk(2, dim=-1)
    return x_BHSN * cosines + torch.cat([-second, first], dim=-1) * sines
