"""Learning rates as pure functions of the step."""

import math


def warmup_cosine(step: int, total: int, warmup: float) -> float:
    """Return the share of the peak learning rate at a step.

    It rises linearly during the first `warmup` share of the `total` steps and then falls to zero
    on half a cosine.
    """
    rising = max(1, round(warmup * total))
    if step < rising:
        return (step + 1) / rising
    return 0.5 * (1.0 + math.cos(math.pi * (step - rising) / max(1, total - rising)))
