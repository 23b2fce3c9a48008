"""How time and memory of every stage grow with a study, and where that leads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aam.bench.page import facts, markdown_table
from aam.evaluate.labels import plain, quantity
from aam.util.errors import problem
from aam.util.worklog import read_work

TARGETS = (100_000, 307_000)
"""Samples that the fitted growth is worked out for."""
PUBLISHED = (
    (25_000, "16 cores", 475.0),
    (25_000, "one V100", 50.0),
    (113_000, "16 cores", 18_668.0),
    (113_000, "one V100", 1700.0),
    (307_000, "one V100", 18_242.0),
)
"""Samples, hardware and seconds of unweighted UniFrac: Sfiligoi et al. 2022, mSystems,
doi:10.1128/msystems.00028-22."""
LEAST_WORK_S, LEAST_MEMORY_MB = 0.001, 1.0
"""Below that nothing is measured: a logarithm needs something."""
COLUMNS = ["stage", "dataset", "samples", "jobs", "work_s", "cores_s", "first_mb", "peak_mb"]
NOTES = """Seconds are those in which a stage was at work, without the start of Python and its
imports; seconds of cores are what the processor did for it meanwhile; memory is the highest of the
process, or of the largest that it started, and what grows is its part above what the imports took.
Growth is fitted as a power of the number of samples, by least squares of the logarithms; `worst` is
the largest factor between a figure and the fit, and the last exponent is that between the two
largest studies: where it is larger than the other, the fit promises too much. A study has as many
ASVs as samples. Pretraining is one epoch."""
PUBLISHED_NOTES = """The published times are of real studies, with far more ASVs than samples, on
other hardware; the stage here also reads, checks, and writes."""
LEADS_HEAD = (
    "stage",
    "exponent of time",
    "of the cores' time",
    "of memory",
    *(f"time, {target:,}" for target in TARGETS),
    *(f"memory, {target:,}" for target in TARGETS),
)
SECONDS, CORES, MEMORY = "seconds", "cores_s", "memory_mb"


@dataclass(frozen=True)
class Power:
    """A quantity that grows as `constant + factor * samples ** exponent`.

    Attributes
    ----------
    exponent, factor, constant
        Of the formula.
    last_exponent
        Between the two largest sizes.
    worst
        The largest factor between what was measured above the constant and the formula.
    """

    exponent: float
    factor: float
    constant: float
    last_exponent: float
    worst: float

    def at(self, samples: float) -> float:
        """Return the quantity for a number of samples."""
        return self.constant + self.factor * samples**self.exponent


def fit_power(
    samples: Sequence[float], values: Sequence[float], constant: float = 0.0, least: float = 1e-3
) -> Power:
    """Fit a power law by least squares of logarithms.

    Parameters
    ----------
    samples
        At least two different sizes.
    values
        What was measured at each.
    constant
        What does not grow: taken off before.
    least
        Stands for smaller values, whose logarithms are noise.
    """
    order = np.argsort(samples)
    x = np.log(np.asarray(samples, dtype=float)[order])
    y = np.log(np.maximum(np.asarray(values, dtype=float)[order] - constant, least))
    slope, height = np.polyfit(x, y, 1)
    return Power(
        exponent=float(slope),
        factor=float(np.exp(height)),
        constant=constant,
        last_exponent=float((y[-1] - y[-2]) / (x[-1] - x[-2])),
        worst=float(np.exp(np.abs(y - height - slope * x).max())),
    )


def measured(logs: Iterable[Path], samples: Mapping[str, int]) -> pd.DataFrame:
    """Return what every stage took on every dataset.

    Parameters
    ----------
    logs
        `<results>/<dataset>/logs/<stage>...log` of finished jobs.
    samples
        Size of each dataset.

    Returns
    -------
    pandas.DataFrame
        Columns `COLUMNS`, one row per stage and dataset: seconds summed over the stage's jobs, the
        memory of the largest.
    """
    rows = []
    for log in logs:
        folder, _, name = log.as_posix().rpartition("/logs/")
        dataset, stage = folder.rpartition("/")[2], name.partition("/")[0].removesuffix(".log")
        work = read_work(log)
        if work is None:
            got, wanted = "no line on when the stage was at work", "the log of this version's stage"
            raise problem(log, got, wanted, f"run it once more: --forcerun {stage}")
        measures = (1, work.seconds, work.cores_s, work.first_mb, work.peak_mb)
        rows.append((stage, dataset, samples[dataset], *measures))
    summed = dict.fromkeys(("jobs", "work_s", "cores_s"), "sum")
    table = pd.DataFrame(rows, columns=COLUMNS)
    grouped = table.groupby(COLUMNS[:3], sort=False, as_index=False)
    return grouped.agg(summed | {"first_mb": "max", "peak_mb": "max"})[COLUMNS]


def fits(table: pd.DataFrame) -> dict[tuple[str, str], Power]:
    """Return the growth of `seconds`, `cores_s` and `memory_mb`, by stage and quantity.

    Parameters
    ----------
    table
        What `measured` returned; a stage that ran on one size has no growth.
    """
    found: dict[tuple[str, str], Power] = {}
    for stage, part in table.groupby("stage", sort=False):
        if part["samples"].nunique() < 2:
            continue
        sizes = part["samples"].tolist()
        seconds, memory = part["work_s"].tolist(), part["peak_mb"].tolist()
        constant = float(part["first_mb"].min())
        found[str(stage), SECONDS] = fit_power(sizes, seconds, 0.0, LEAST_WORK_S)
        cores = part["cores_s"].tolist()
        found[str(stage), CORES] = fit_power(sizes, cores, 0.0, LEAST_WORK_S)
        found[str(stage), MEMORY] = fit_power(sizes, memory, constant, LEAST_MEMORY_MB)
    return found


def fits_table(powers: Mapping[tuple[str, str], Power]) -> pd.DataFrame:
    """Return what `fits` returned as a table: `stage`, `quantity`, and the fields of `Power`."""
    rows = [{"stage": s, "quantity": q, **asdict(power)} for (s, q), power in powers.items()]
    return pd.DataFrame(rows)


def growth_page(
    table: pd.DataFrame, powers: Mapping[tuple[str, str], Power], about: Mapping[str, str]
) -> str:
    """Return the page of a growth table.

    Parameters
    ----------
    table, powers
        What `measured` and `fits` returned.
    about
        What it was measured on, words by name.
    """
    sizes = sorted(set(table["samples"]))
    head = ("stage", *(f"{size:,} samples" for size in sizes))
    parts = [
        "# Growth",
        NOTES,
        "## Measured: seconds of work, seconds of cores, peak MB",
        markdown_table(head, [_measured_cells(stage, table, sizes) for stage in _stages(table)]),
        "## Fitted, and where it leads",
        markdown_table(LEADS_HEAD, _leads_rows(table, powers)),
    ]
    if ("unifrac", SECONDS) in powers:
        head = ("samples", "published on", "published, s", "the fit above, s")
        rows = _published_rows(powers["unifrac", SECONDS])
        parts += ["## Unweighted UniFrac beside published times", PUBLISHED_NOTES]
        parts.append(markdown_table(head, rows))
    return "\n\n".join([*parts, "## Measured on", facts(about)]) + "\n"


def _stages(table: pd.DataFrame) -> list[str]:
    """Return the stages, those that take longest on the largest study first."""
    largest = table[table["samples"] == table["samples"].max()]
    ordered = largest.sort_values("work_s", ascending=False, kind="stable")["stage"]
    return list(dict.fromkeys([*ordered, *table["stage"]]))


def _measured_cells(stage: str, table: pd.DataFrame, sizes: Sequence[int]) -> list[str]:
    cells = [plain(stage)]
    for size in sizes:
        row = table[(table["stage"] == stage) & (table["samples"] == size)]
        measures = (quantity(row["work_s"].sum()), quantity(row["cores_s"].sum()))
        cells.append(", ".join((*measures, f"{row['peak_mb'].max():.0f}")) if len(row) else "")
    return cells


def _leads_rows(table: pd.DataFrame, powers: Mapping[tuple[str, str], Power]) -> list[list[str]]:
    rows = []
    for stage in _stages(table):
        if (stage, SECONDS) not in powers:
            continue
        seconds, cores, memory = (powers[stage, name] for name in (SECONDS, CORES, MEMORY))
        rows.append(
            [
                plain(stage),
                *(_exponent(power) for power in (seconds, cores, memory)),
                *(duration(seconds.at(target)) for target in TARGETS),
                *(f"{memory.at(target) / 1024:.3g} GiB" for target in TARGETS),
            ]
        )
    return rows


def _exponent(power: Power) -> str:
    return f"{power.exponent:.2f}, last {power.last_exponent:.2f}, worst {power.worst:.2g}x"


def _published_rows(power: Power) -> list[list[str]]:
    return [
        [f"{samples:,}", hardware, f"{seconds:,.0f}", f"{power.at(samples):,.0f}"]
        for samples, hardware, seconds in PUBLISHED
    ]


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    for unit, length in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{quantity(seconds / length)} {unit}"
    return f"{quantity(seconds)} s"
