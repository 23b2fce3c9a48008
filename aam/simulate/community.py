"""Microbial communities that follow an environment, a body site and a host."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from aam.data.table import FeatureTable
from aam.util.scikit_bio import TreeNode
from aam.util.seeds import generator

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
