"""The simulated study of the demo: a phylogeny, DNA that evolves along it, and communities.

The tree is of a birth-death process whose branches evolve at different rates. The sequences have
conserved and variable stretches as 16S V4 has. Communities follow an environment, a body site and a
host.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from aam.data.table import FeatureTable
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

# The phylogeny and its sequences.
DEATH = 0.5
"""Rate of extinction, relative to that of speciation."""
AGE = 7.0
"""Age of the root, in units of 1 / rate of speciation."""
TREE_DEPTH = 0.35
"""Mean distance of the tips from the root, in substitutions per site."""
CLOCK_SD = 0.4
"""Standard deviation of the logarithm of a branch's rate."""
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

# What follows describes communities: traits of the ASVs, hosts and samples, and their reads.
SITES = ("gut", "oral", "skin")
NOVEL_FRACTION = 0.15
"""ASVs that only the second study has."""
CLADES = 40
"""Clades that a site may prefer."""
SITE_SD = 0.85
"""Standard deviation of the preferences of a site, on the log scale."""
NICHE_WIDTH = 1.0
"""Width of the response to the environment, in standard deviations of the optima."""
NICHE_NOISE = 0.35
"""Part of a niche optimum that is not inherited, in the same unit."""
BASE_SD = 1.0
"""Standard deviation of log abundance between ASVs."""
HOST_SD = 1.2
"""Standard deviation of log abundance between hosts."""
SAMPLE_SD = 0.9
"""Standard deviation of log abundance between samples of a host."""
EVENNESS = 45.0
"""Concentration of the Dirichlet distribution that the fractions of a sample are drawn from."""
DEPTH_MEDIAN = 3500.0
"""Median of the reads of a sample, which are log-normal."""
DEPTH_SD = 0.45
"""Standard deviation of the logarithm of the reads."""
DEPTH_RANGE = (1500, 8000)
"""Least and largest number of reads."""
SHALLOW_FRACTION = 0.0125
"""Fraction of the samples of the main study that have too few reads."""
SHALLOW_RANGE = (200, 900)
"""Least number of their reads, and the one after the largest."""
MISSING_FRACTION = 0.03
"""Samples whose environment was not noted."""


def birth_death_tree(tips: int, rng: np.random.Generator) -> TreeNode:
    """Draw a rooted binary tree with positive branch lengths, in substitutions per site.

    The reconstructed tree of a birth-death process is a coalescent point process: the ages of
    the splits between neighbouring tips are independent draws of one distribution (Lambert and
    Stadler 2013, doi:10.1016/j.tpb.2013.10.002). The lengths are then multiplied by log-normal
    rates. The root has none, and tips have no names.

    Parameters
    ----------
    tips
        Number of tips, at least 2.
    rng
        Source of the draws.
    """
    # P(age > a) = 1 / (1 + (exp(r a) - 1) / r), truncated at the age of the root, is inverted.
    rate = 1.0 - DEATH
    oldest = 1.0 - 1.0 / (1.0 + np.expm1(rate * AGE) / rate)
    drawn = rng.uniform(0.0, oldest, size=tips - 1)
    ages = np.log1p(rate * drawn / (1.0 - drawn)) / rate
    root = coalescent_tree(ages)
    nodes = list(root.preorder(include_self=False))
    # With this mean of the logarithm the mean rate is 1.
    rates = np.exp(rng.normal(-0.5 * CLOCK_SD**2, CLOCK_SD, size=len(nodes)))
    scale = TREE_DEPTH / ages.max()
    for node, factor in zip(nodes, rates, strict=True):
        node.length = float(node.length * factor * scale)
    return root


def coalescent_tree(ages: NDArray[np.float64]) -> TreeNode:
    """Return the tree of a coalescent point process.

    Parameters
    ----------
    ages
        Age at which neighbours i and i + 1 split, [tips - 1]; tips have age 0.
    """
    open_nodes: list[tuple[TreeNode, float]] = [(TreeNode(), 0.0)]
    open_splits: list[float] = []
    for age in [*ages.tolist(), np.inf]:
        # A split of neighbours joins all that is younger on its left: the open nodes are a stack of
        # ever older clades.
        while open_splits and open_splits[-1] <= age:
            split = open_splits.pop()
            parent = TreeNode()
            children = [open_nodes.pop(), open_nodes.pop()]
            for node, node_age in reversed(children):
                node.length = split - node_age
                parent.append(node)
            open_nodes.append((parent, split))
        open_splits.append(age)
        open_nodes.append((TreeNode(), 0.0))
    return open_nodes[0][0]


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


@dataclass(frozen=True)
class Biology:
    """What is true of the ASVs, whatever the study; F ASVs in the order of the tree's tips."""

    sequences: list[str]
    base: NDArray[np.float64]
    """Mean log abundance, [F]."""
    optimum: NDArray[np.float64]
    """Preferred environment, standardized, [F]."""
    preference: NDArray[np.float64]
    """Log effect of each site, [3, F]."""
    novel: NDArray[np.bool_]
    """ASVs that only the second study has, [F]."""


def draw_biology(tree: TreeNode, sequences: list[str], seed: int) -> Biology:
    """Draw the traits of the ASVs.

    Optima follow Brownian motion along the tree; the preferences of a site are those of clades.

    Parameters
    ----------
    tree
        Phylogeny of the ASVs, lengths in substitutions per site.
    sequences
        Sequence of each ASV, in the order of `tree.tips()`.
    seed
        Seed of the draws.
    """
    rng = generator(seed, "biology")
    features = len(sequences)
    optimum = brownian_motion(tree, rng)
    optimum += rng.normal(0.0, NICHE_NOISE, size=features)
    novel = np.zeros(features, dtype=np.bool_)
    novel[rng.choice(features, size=round(NOVEL_FRACTION * features), replace=False)] = True
    wanted = min(CLADES, features)
    by_clade = rng.normal(0.0, SITE_SD, size=(len(SITES), wanted))
    return Biology(
        sequences=sequences,
        base=rng.normal(0.0, BASE_SD, size=features),
        optimum=(optimum - optimum.mean()) / optimum.std(),
        preference=by_clade[:, clades(tree, wanted)],
        novel=novel,
    )


def brownian_motion(tree: TreeNode, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a trait of the tips, [F], that evolved along the tree, with mean 0 and variance 1."""
    values = {id(tree): 0.0}
    for node in tree.preorder(include_self=False):
        values[id(node)] = values[id(node.parent)] + rng.normal(0.0, np.sqrt(node.length))
    trait = np.array([values[id(tip)] for tip in tree.tips()])
    return (trait - trait.mean()) / trait.std()


def clades(tree: TreeNode, wanted: int) -> NDArray[np.int64]:
    """Return the clade of every tip, [F]: the largest one is split until there are enough."""
    size: dict[int, int] = {}
    for node in tree.postorder():
        size[id(node)] = sum(size[id(child)] for child in node.children) or 1
    parts = [tree]
    while len(parts) < wanted:
        largest = max(range(len(parts)), key=lambda index: size[id(parts[index])])
        parts[largest : largest + 1] = parts[largest].children
    return np.repeat(np.arange(len(parts)), [size[id(part)] for part in parts])


def draw_study(
    biology: Biology, *, name: str, samples: int, hosts: int, seed: int, newcomers: bool
) -> tuple[FeatureTable, pd.DataFrame]:
    """Sample a number of hosts, several times each.

    Parameters
    ----------
    biology
        Traits of the F ASVs.
    name
        Beginning of the IDs of samples and hosts, each of which draws from a seed of its own.
    samples, hosts
        Numbers of samples and of hosts.
    seed
        Seed of the draws.
    newcomers
        Whether this is the second study: with the novel ASVs, without shallow samples.

    Returns
    -------
    table : FeatureTable
        Reads; the feature IDs are the sequences.
    metadata : pandas.DataFrame
        `host`, `site`, `environment` (NaN where it was not noted) and `host_age` by sample ID.
    """
    metadata = _draw_metadata(name, samples, hosts, seed)
    depths = _draw_depths(name, samples, 0.0 if newcomers else SHALLOW_FRACTION, seed)
    absent = np.where(biology.novel & (not newcomers), -np.inf, 0.0)
    rows = [
        csr_array(_draw_sample(biology, str(sample), row, int(depth), absent, seed)[None])
        for (sample, row), depth in zip(metadata.iterrows(), depths, strict=True)
    ]
    table = FeatureTable(list(metadata.index), biology.sequences, csr_array(vstack(rows, "csr")))
    return table.select_samples(np.arange(samples)), _with_gaps(metadata, seed, name)


def metadata_tsv(metadata: pd.DataFrame) -> str:
    """Return the metadata as a QIIME 2 file, types in its second line, nothing where missing.

    Parameters
    ----------
    metadata
        The metadata of `draw_study`.
    """
    kinds = {"host": "categorical", "site": "categorical"}
    types = {column: kinds.get(str(column), "numeric") for column in metadata}
    shown = metadata.assign(
        environment=[f"{x:.2f}" if np.isfinite(x) else "" for x in metadata["environment"]]
    )
    shown = pd.concat([pd.DataFrame(types, index=["#q2:types"]), shown])
    return shown.to_csv(sep="\t", index_label="sample-id", lineterminator="\n")


def _draw_metadata(name: str, samples: int, hosts: int, seed: int) -> pd.DataFrame:
    """Give every host an age without effect, every sample a site and an environment."""
    rng = generator(seed, name, "metadata")
    width = len(str(max(samples, hosts)))
    host = rng.permutation(np.arange(samples) % hosts)
    first_site = rng.integers(0, len(SITES), size=hosts)
    visit = pd.Series(host).groupby(host).cumcount().to_numpy()
    environment = rng.normal(0.0, 0.6, size=hosts)[host] + rng.normal(0.0, 1.0, size=samples)
    return pd.DataFrame(
        {
            "host": [f"{name}-host-{number + 1:0{width}d}" for number in host],
            "site": [SITES[code] for code in (first_site[host] + visit) % len(SITES)],
            "environment": np.round(5.0 + 1.5 * environment, 2),
            "host_age": rng.integers(18, 86, size=hosts)[host],
        },
        index=pd.Index([f"{name}-{number + 1:0{width}d}" for number in range(samples)]),
    )


def _with_gaps(metadata: pd.DataFrame, seed: int, name: str) -> pd.DataFrame:
    rng = generator(seed, name, "gaps")
    size = max(1, round(MISSING_FRACTION * len(metadata)))
    gaps = metadata.index[rng.choice(len(metadata), size=size, replace=False)]
    return metadata.assign(environment=metadata["environment"].drop(gaps))


def _draw_depths(name: str, samples: int, shallow_fraction: float, seed: int) -> NDArray[np.int64]:
    rng = generator(seed, name, "depths")
    drawn = DEPTH_MEDIAN * np.exp(rng.normal(0.0, DEPTH_SD, size=samples))
    depths = np.clip(drawn, *DEPTH_RANGE).astype(np.int64)
    if shallow_fraction > 0:
        shallow = rng.choice(samples, size=max(1, round(shallow_fraction * samples)), replace=False)
        depths[shallow] = rng.integers(*SHALLOW_RANGE, size=len(shallow))
    return depths


def _draw_sample(
    biology: Biology,
    sample: str,
    row: pd.Series,
    depth: int,
    absent: NDArray[np.float64],
    seed: int,
) -> NDArray[np.int64]:
    """Draw the reads of a sample: a multinomial of Dirichlet fractions around the expectation.

    Parameters
    ----------
    biology
        Traits of the F ASVs.
    sample
        ID of the sample, which its draws depend on.
    row
        Its metadata: `host`, `site` and `environment`.
    depth
        Number of reads.
    absent
        Added to the log abundance, [F]: minus infinity for ASVs that the study lacks, else 0.
    seed
        Seed of the study.

    Returns
    -------
    numpy.ndarray
        Reads of every ASV, int64 [F].
    """
    features = len(biology.base)
    host = generator(seed, "host", row["host"]).normal(0.0, HOST_SD, size=features)
    rng = generator(seed, "sample", sample)
    # This undoes the unit that `_draw_metadata` gives the environment.
    distance = ((row["environment"] - 5.0) / 1.5 - biology.optimum) / NICHE_WIDTH
    log_abundance = (
        biology.base
        + host
        + biology.preference[SITES.index(row["site"])]
        - 0.5 * distance**2
        + rng.normal(0.0, SAMPLE_SD, size=features)
        + absent
    )
    expected = np.exp(log_abundance - log_abundance.max())
    concentration = EVENNESS * expected / expected.sum()
    fractions = np.zeros(features)
    # The Dirichlet distribution is not defined for ASVs that the study lacks.
    fractions[concentration > 0] = rng.dirichlet(concentration[concentration > 0])
    return rng.multinomial(depth, fractions)
