"""A bidirectional LSTM layer.

Shape suffixes: B batch, S positions, D width, H width of a direction, G four gates of it.
"""

import torch
from torch import Tensor, nn

from aam.model.layers.layer import Layer


class BiLstm(Layer):
    """LSTM cells (Gers et al. 2000) in both directions, behind a norm and next to a residual.

    Each direction is half as wide as the positions. All sequences have one length: nothing is
    padded or packed.

    Parameters
    ----------
    width
        Width D of a position, an even number.
    """

    is_compiled = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x_BSD: Tensor) -> Tensor:
        """Return the positions behind the layer.

        Parameters
        ----------
        x_BSD
            Positions.

        Returns
        -------
        torch.Tensor
            [B, S, D].
        """
        states_BSD, _ = self.lstm(self.norm(x_BSD))
        return x_BSD + self.dropout(states_BSD)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw recurrent matrices orthogonal per gate, and let the forget gates begin open.

        A bias of 1 keeps the state over many positions (Jozefowicz et al. 2015).
        """
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("weight_hh"):
                for gate_HH in parameter.chunk(4):
                    nn.init.orthogonal_(gate_HH)
            elif name.startswith("weight_ih"):
                nn.init.xavier_normal_(parameter)
            else:
                parameter.zero_()
                if name.startswith("bias_ih"):
                    # The order of the gates is input, forget, cell, output.
                    parameter.chunk(4)[1].fill_(1.0)
