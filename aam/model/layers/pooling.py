"""Pooling of a set of positions into one vector.

Shape suffixes: B batch, S positions, D width.
"""

import torch
from torch import Tensor, nn


class AttentionPooling(nn.Module):
    """A learned query's attention over the positions, then a norm.

    Parameters
    ----------
    width
        Width D of a position.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1, bias=False)
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BSD: Tensor, present_BS: Tensor | None = None) -> Tensor:
        """Pool the positions of each sequence.

        Parameters
        ----------
        x_BSD
            Positions.
        present_BS
            Whether a position exists, and has a weight; None: all do.

        Returns
        -------
        torch.Tensor
            [B, D], fp32.
        """
        score_BS = self.score(x_BSD).squeeze(-1).float()
        if present_BS is not None:
            score_BS = score_BS.masked_fill(~present_BS, float("-inf"))
        weight_BS = torch.softmax(score_BS, dim=-1).to(x_BSD.dtype)
        return self.norm(torch.bmm(weight_BS[:, None, :], x_BSD).squeeze(1).float())
