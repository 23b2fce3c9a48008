"""Random generators that depend on names only, never on the order of calls."""

import hashlib

import numpy as np


def seed_of(*parts: object) -> int:
    """Return a 63-bit seed, the same on every machine.

    Parameters
    ----------
    *parts
        What the seed depends on: the SHA-256 of their text is taken.
    """
    # The separator keeps ("ab", "c") apart from ("a", "bc").
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(*parts: object) -> np.random.Generator:
    """Return a random generator of NumPy whose draws depend on its name alone.

    Parameters
    ----------
    *parts
        What the draws depend on, see `seed_of`.
    """
    return np.random.default_rng(seed_of(*parts))
