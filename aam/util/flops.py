"""Multiplications of an encoder's layers, from shapes alone: what training costs before it starts.

`aam.model.flops` counts a step with them, a fine-tuning chooses by them what its budget pays for,
and `aam check` says how long a run takes. Nothing here needs PyTorch.
"""

BDH_NEURONS = 4
"""Neurons of all heads of a BDH layer, as a multiple of the width."""
WITH_BACKWARD = 3
"""A product's own cost and two of the same size backward: for its input and for its weights."""


def layer_weights(kind: str, width: int, ffn_ratio: float) -> int:
    """Return how many weights a layer multiplies every position with.

    Parameters
    ----------
    kind
        ``transformer``, which the layers over the ASVs of a sample are too, ``bilstm``, ``bdh``, or
        ``lineage``, which has no layers.
    width
        Numbers of a position.
    ffn_ratio
        Width of the feed-forward layers of a transformer as a multiple of `width`.
    """
    if kind == "transformer":
        return 4 * width**2 + 2 * width * int(width * ffn_ratio)
    if kind == "bilstm":
        # There are four gates in each of two directions, which are half as wide and take position
        # and state.
        direction = width // 2
        return 2 * 4 * direction * (width + direction)
    if kind == "bdh":
        return 3 * BDH_NEURONS * width**2
    if kind == "lineage":
        return 0
    raise KeyError(kind)


def mixing(kind: str, width: int, heads: int, length: int) -> int:
    """Return the multiplications of a position with the other ones of its sequence in a layer.

    Parameters
    ----------
    kind, width
        As in `layer_weights`.
    heads
        Attention heads.
    length
        Positions of the sequence.
    """
    if kind in {"bilstm", "lineage"}:
        return 0
    if kind == "bdh":
        neurons = BDH_NEURONS * width // heads
        # The layer takes the cheaper one: all pairs of positions, or a state that sums them up.
        return heads * min(length * (neurons + width), 2 * neurons * width)
    return 2 * length * width


def layer_flops(
    kind: str, *, width: int, heads: int, ffn_ratio: float, sequences: int, length: int
) -> int:
    """Return the additions and multiplications of all products of a layer, forward alone.

    Parameters
    ----------
    kind, width, heads, ffn_ratio
        Shape of the layer.
    sequences, length
        Number of sequences, and the positions of each.
    """
    products = layer_weights(kind, width, ffn_ratio) + mixing(kind, width, heads, length)
    return 2 * sequences * length * products


def trained_flops(kind: str, width: int, ffn_ratio: float) -> int:
    """Return the operations that a layer is trained with per position, mixing left out.

    The constants of the estimates of time were fitted with this count. What mixing adds is a few
    percent for sequences of nucleotides.

    Parameters
    ----------
    kind, width, ffn_ratio
        As in `layer_weights`.
    """
    return 2 * WITH_BACKWARD * layer_weights(kind, width, ffn_ratio)
