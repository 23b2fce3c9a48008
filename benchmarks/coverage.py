"""How often the 95 % interval of a score holds the true score, by number of groups and method.

Run as `python -m benchmarks.coverage`, or with `--quick` for a tenth of the draws; the table goes
to standard output. Predictions are simulated with errors that groups share: groups of five samples,
or of very unequal sizes; numbers, and three ordered classes that lie in one group or vary within
it, the rarest in a fifth of the groups. Drawn again and again, they tell how often each way to make
an interval is right:

- `percentile`: the percentile bootstrap of groups
- `expanded`: the same with wider percentiles for few groups (Hesterberg 2015)
- `t, bootstrap`: t interval over groups with the standard error of the bootstrap
- `t, jackknife`: the same with the standard error of the jackknife
- `report`: `aam.evaluate.bootstrap`, what reports hold

Shape suffixes: B resamples, N samples, G groups, C classes.
"""

import argparse
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from aam.data.predictions import PROBABILITY
from aam.evaluate.bootstrap import (
    LEVEL,
    LIMITS,
    effective_units,
    resampled_scores,
    resampled_weights,
    t_interval,
)
from aam.evaluate.scores import HEADLINE

GROUPS = (10, 12, 15, 20, 40)
CORRELATIONS = (0.0, 0.4, 0.8)
"""Correlations of the errors of two samples of one group, before they are made absolute."""
SIZES = ("equal", "unequal")
KINDS = ("regression", "ordinal")
CLASSES = ("low", "mid", "high")
SHARES = (0.2, 0.3, 0.5)
"""Shares of the classes."""
FOLDS = 5
GROUP_SIZE = 5
RESAMPLES = 400
"""Resamples of an interval here: enough for a standard error, and for the percentiles compared."""
DRAWS = 200
"""Simulated data sets of each design."""
QUICK_DRAWS = 20
"""Simulated data sets of each design with `--quick`."""
MANY = 200_000
"""Independent samples whose scores are taken as the true ones."""
METHODS = ("percentile", "expanded", "t, bootstrap", "t, jackknife", "report")

Interval = tuple[float, float] | list[float] | None


@dataclass(frozen=True)
class Design:
    """What a simulated data set is like."""

    kind: str
    groups: int
    sizes: str
    correlation: float
    class_of_group: bool
    """All samples of a group have one class."""


def designs() -> Iterator[Design]:
    """Yield all designs: classes lie in one group at equal sizes, and vary within it otherwise."""
    for kind, groups, sizes, correlation in itertools.product(KINDS, GROUPS, SIZES, CORRELATIONS):
        yield Design(kind, groups, sizes, correlation, class_of_group=sizes == "equal")


def simulate(design: Design, rng: np.random.Generator) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Return predictions of a simulated data set, and the group of each sample, [N]."""
    sizes_G = np.full(design.groups, GROUP_SIZE)
    if design.sizes == "unequal":
        # One group in six has more than 13 samples, as many less than two.
        drawn_G = rng.lognormal(mean=np.log(GROUP_SIZE), sigma=1.0, size=design.groups)
        sizes_G = np.maximum(1, drawn_G.round()).astype(np.int64)
    group_N = np.repeat(np.arange(design.groups), sizes_G)

    def normal() -> NDArray[np.float64]:
        """Return standard normal numbers, [N], that samples of one group share in part."""
        shared_N = rng.normal(size=design.groups)[group_N]
        alone_N = rng.normal(size=len(group_N))
        return np.asarray(
            np.sqrt(design.correlation) * shared_N + np.sqrt(1 - design.correlation) * alone_N
        )

    fold_N = (group_N + rng.integers(FOLDS)) % FOLDS
    if design.kind == "regression":
        observed_N = normal()
        table = pd.DataFrame(
            {"observed": observed_N, "predicted": 0.6 * observed_N + 0.6 * normal()}
        )
    else:
        code_N = _classes(design, group_N, rng)
        table = _classified(code_N, [normal() for _ in CLASSES])
    return table.assign(fold=fold_N), group_N


def _classes(
    design: Design, group_N: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the class of each sample, in fixed shares."""
    count = design.groups if design.class_of_group else len(group_N)
    edges = np.round(np.cumsum(SHARES) * count).astype(np.int64)
    code = rng.permutation(np.searchsorted(edges, np.arange(count), side="right"))
    return code[group_N] if design.class_of_group else code


def _classified(code_N: NDArray[np.int64], noise: list[NDArray[np.float64]]) -> pd.DataFrame:
    """Return predictions of classes: the logit of the true one is higher, and noise is added."""
    logit_NC = np.stack(noise, axis=1)
    logit_NC[np.arange(len(code_N)), code_N] += 1.2
    share_NC = np.exp(logit_NC) / np.exp(logit_NC).sum(axis=1, keepdims=True)
    names = np.array(CLASSES)
    columns = {PROBABILITY + name: share_NC[:, column] for column, name in enumerate(CLASSES)}
    guess_N = names[share_NC.argmax(axis=1)]
    return pd.DataFrame({"observed": names[code_N], "predicted": guess_N, **columns})


def true_score(kind: str, rng: np.random.Generator) -> float:
    """Return the headline score that the simulated predictions have in the long run.

    It is the same for all designs of a kind: a sample by itself is always drawn alike.
    """
    design = Design(kind, groups=MANY, sizes="equal", correlation=0.0, class_of_group=True)
    table, group_N = simulate(design, rng)
    table = table[::GROUP_SIZE]
    return float(resampled_scores(kind, table, np.ones((1, len(table))))[0])


def intervals(
    kind: str, table: pd.DataFrame, group_N: NDArray[np.int64], seed: int
) -> dict[str, Interval]:
    """Return the interval of the headline score by each method; None where one gives none."""
    groups = int(group_N.max()) + 1
    weights = resampled_weights(group_N, RESAMPLES, seed)
    resampled_B = resampled_scores(kind, table, np.concatenate(list(weights)))
    score = float(resampled_scores(kind, table, np.ones((1, len(table))))[0])
    without_GN = 1.0 - (group_N == np.arange(groups)[:, None])
    jackknife_G = resampled_scores(kind, table, without_GN)
    units = effective_units(kind, table, group_N)
    t = float(stats.t.ppf((1 + LEVEL) / 2, df=groups - 1))
    tail = float(stats.norm.cdf(-np.sqrt(groups / (groups - 1)) * t))
    values_B = resampled_B[np.isfinite(resampled_B)]
    left_G = jackknife_G[np.isfinite(jackknife_G)]
    by_bootstrap = values_B.std() * np.sqrt(groups / (groups - 1))
    by_jackknife = left_G.std() * np.sqrt(groups - 1)
    report = None
    if units is not None:
        report = t_interval(score, resampled_B, units=units, limits=LIMITS[kind])
    return {
        "percentile": _quantiles(values_B, (1 - LEVEL) / 2),
        "expanded": _quantiles(values_B, tail),
        "t, bootstrap": (score - t * by_bootstrap, score + t * by_bootstrap),
        "t, jackknife": (score - t * by_jackknife, score + t * by_jackknife),
        "report": report,
    }


def _quantiles(values_B: NDArray[np.float64], tail: float) -> tuple[float, float]:
    low, high = np.quantile(values_B, (tail, 1 - tail))
    return float(low), float(high)


def coverage(
    draws: int, seed: int, chosen: Callable[[Design], bool] = lambda _: True
) -> pd.DataFrame:
    """Return how often intervals hold the true score, a row per design, score and method.

    Parameters
    ----------
    draws
        Data sets of each design.
    seed
        Seed of all draws.
    chosen
        Which designs take part.

    Returns
    -------
    pandas.DataFrame
        The fields of `Design`, `score`, `method`, `intervals` (how many there were) and `covered`
        (how many held the true score).
    """
    rng = np.random.default_rng(seed)
    truth = {kind: true_score(kind, rng) for kind in KINDS}
    rows = []
    for design in filter(chosen, designs()):
        made: dict[str, list[bool]] = {}
        for _ in range(draws):
            table, group_N = simulate(design, rng)
            seed_of_draw = int(rng.integers(2**32))
            for method, ends in intervals(design.kind, table, group_N, seed_of_draw).items():
                holds = made.setdefault(method, [])
                if ends is not None:
                    holds.append(ends[0] <= truth[design.kind] <= ends[1])
        rows += [
            {
                **vars(design),
                "score": HEADLINE[design.kind],
                "method": method,
                "intervals": len(holds),
                "covered": sum(holds),
            }
            for method, holds in made.items()
        ]
    return pd.DataFrame(rows)


def markdown(measured: pd.DataFrame) -> str:
    """Return two tables: the methods by number of groups, and the interval of reports by score.

    Each entry is a coverage in percent and its standard error. The last column of the first table
    has the designs of the highest correlation alone.
    """
    lines = [*_header("groups", "score", *METHODS, f"report, correlation {max(CORRELATIONS)}")]
    for (groups, score), rows in measured.groupby(["groups", "score"], sort=True):
        report = rows[(rows["method"] == "report") & (rows["correlation"] == max(CORRELATIONS))]
        cells = [_percent(rows[rows["method"] == method]) for method in METHODS]
        lines.append(_row(groups, score, *cells, _percent(report)))
    lines += ["", *_header("score", *(f"{groups} groups" for groups in GROUPS))]
    for score, rows in measured[measured["method"] == "report"].groupby("score", sort=False):
        cells = [_percent(rows[rows["groups"] == groups]) for groups in GROUPS]
        lines.append(_row(score, *cells))
    return "\n".join(lines)


def _header(*cells: object) -> Iterator[str]:
    yield _row(*cells)
    yield "|" + "---|" * len(cells)


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _percent(rows: pd.DataFrame) -> str:
    count = rows["intervals"].sum()
    share = rows["covered"].sum() / count
    error = np.sqrt(share * (1 - share) / count)
    return f"{100 * share:.1f} ± {100 * error:.1f}"


def main() -> None:
    """Print the table of coverage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws")
    arguments = parser.parse_args()
    print(markdown(coverage(QUICK_DRAWS if arguments.quick else DRAWS, seed=0)))


if __name__ == "__main__":
    main()
