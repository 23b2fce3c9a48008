"""DNA that evolves along a tree, with conserved and variable stretches as in 16S V4."""

import numpy as np
from numpy.typing import NDArray

from aam.util.scikit_bio import TreeNode

KAPPA = 2.5
"""Rate of transitions relative to that of transversions (Kimura 1980, doi:10.1007/BF01731581)."""
STRETCH_BP = 9
"""Mean length of a conserved or variable stretch."""
CONSERVED = 0.15
"""Mean rate of the sites of a conserved stretch."""
VARIABLE = 1.85
"""Mean rate of the sites of a variable stretch."""
GAMMA_SHAPE = 1.5
"""Shape of the gamma distribution of the rates within a kind of stretch."""

_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)


def evolve(tree: TreeNode, length_bp: int, rng: np.random.Generator) -> list[str]:
    """Evolve one sequence per tip, all distinct.

    Sites change under Kimura's model, each at a rate of its own. Where two tips come out equal, the
    later one is given one more substitution, and its branch the length of one.

    Parameters
    ----------
    tree
        Phylogeny with lengths in substitutions per site, which may be changed in place.
    length_bp
        Length of the sequences.
    rng
        Source of the draws.

    Returns
    -------
    list of str
        Sequences in the order of `tree.tips()`.
    """
    rates = site_rates(length_bp, rng)
    states = {id(tree): rng.integers(0, 4, size=length_bp)}
    for node in tree.preorder(include_self=False):
        states[id(node)] = _mutate(states[id(node.parent)], node.length * rates, rng)
    seen: set[bytes] = set()
    sequences = []
    for tip in tree.tips():
        state = states[id(tip)]
        while state.tobytes() in seen:
            state = state.copy()
            site = rng.choice(length_bp, p=rates / rates.sum())
            state[site] ^= rng.choice([2, 1, 3], p=np.array([KAPPA, 1.0, 1.0]) / (KAPPA + 2.0))
            tip.length += 1.0 / length_bp
        seen.add(state.tobytes())
        sequences.append(_LETTERS[state].tobytes().decode("ascii"))
    return sequences


def site_rates(length_bp: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw relative rates, [length_bp], mean 1, of conserved and variable stretches in turn."""
    stretches = rng.geometric(1.0 / STRETCH_BP, size=length_bp)
    kind = np.repeat(np.arange(length_bp) % 2, stretches)[:length_bp]
    means = np.where(kind == 0, CONSERVED, VARIABLE)
    rates = means * rng.gamma(GAMMA_SHAPE, 1.0 / GAMMA_SHAPE, size=length_bp)
    return rates / rates.mean()


def _mutate(
    state: NDArray[np.int64], distances: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the end of a branch under Kimura's model; bases are 0 to 3, so a transition is ^ 2."""
    beta = distances / (KAPPA + 2.0)
    slow = np.exp(-4.0 * beta)
    fast = np.exp(-2.0 * (KAPPA + 1.0) * beta)
    transition = 0.25 + 0.25 * slow - 0.5 * fast
    transversion = 0.25 - 0.25 * slow
    drawn = rng.random(len(state))
    ends = [transition, transition + transversion, transition + 2 * transversion]
    return state ^ np.select([drawn < end for end in ends], [2, 1, 3], default=0)
