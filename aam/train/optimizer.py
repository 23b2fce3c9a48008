"""The optimizer and its parameter groups."""

from torch import nn, optim


def adamw(
    model: nn.Module, *, learning_rate: float, weight_decay: float, fused: bool
) -> optim.AdamW:
    """Return AdamW (Loshchilov & Hutter 2019, arXiv:1711.05101) over the trainable parameters.

    Only matrices are decayed: biases, norms and scales are not.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [p for p in trainable if p.ndim >= 2], "weight_decay": weight_decay},
        {"params": [p for p in trainable if p.ndim < 2], "weight_decay": 0.0},
    ]
    return optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), fused=fused, foreach=False)
