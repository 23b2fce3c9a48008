"""How time and memory of every stage grow with a study, and where that leads.

Run the stages on studies of several sizes, then `python -m benchmarks.growth results/<study> ...`
(see `benchmarks/config/growth.yaml`): it reads their logs and writes tables, a page and a figure.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from scipy.optimize import nnls

from aam.report.figures.style import GREY, colors, saved_figure
from aam.report.labels import format_quantity, to_words
from aam.util.atomic import write_text, write_tsv
from aam.util.errors import problem
from aam.util.log import read_work
from benchmarks.speed.tables import machine, markdown_table, page

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
SECONDS = "seconds"
CORES = "cores_s"
MEMORY = "memory_mb"
FITTED = {SECONDS: ("work_s", 0.001), CORES: ("cores_s", 0.001), MEMORY: ("peak_mb", 1.0)}
"""Column of each fitted quantity, and the least value: below that nothing is measured."""
SHOWN = 10
"""Stages that have a colour: those that take longest on the largest study."""
MARKERS = "osD^v<>PX*"
NOTES = """Seconds are those in which a stage was at work, without the start of Python and its
imports; seconds of cores are what the processor did for it meanwhile; memory is the highest of the
process, or of the largest that it started, and what grows is its part above what the imports took.
Growth is fitted as a power of the number of samples, by least squares of the logarithms; `worst` is
the largest factor between a figure and the fit, and the last exponent is that between the two
largest studies: where it is larger than the other, the fit promises too much. For larger studies
two figures stand: by the power, and by a term of samples and one of their square, which says more
where something that is small at these sizes is of all pairs. A study has as many ASVs as samples.
Pretraining is one epoch."""
PUBLISHED_NOTES = """The published times are of real studies, with far more ASVs than samples, on
other hardware; the stage here also reads, checks, and writes."""
EXPONENTS_HEAD = ("exponent of time", "of the cores' time", "of memory")


@dataclass(frozen=True)
class Power:
    """A quantity that grows as `constant + factor * samples ** exponent`."""

    exponent: float
    factor: float
    constant: float
    last_exponent: float
    """Between the two largest sizes."""
    worst: float
    """The largest factor between what was measured above the constant and the formula."""
    linear: float
    squared: float
    """Factors of another formula, `constant + linear * samples + squared * samples ** 2`."""

    def at(self, samples: float) -> float:
        """Return the quantity for a number of samples."""
        return self.constant + self.factor * samples**self.exponent

    def with_squares(self, samples: float) -> float:
        """Return the same by the other formula, in which all pairs outgrow all else."""
        return self.constant + self.linear * samples + self.squared * samples**2

    def __str__(self) -> str:
        return f"{self.exponent:.2f}, last {self.last_exponent:.2f}, worst {self.worst:.2g}x"


Powers = dict[tuple[str, str], Power]
"""By stage and quantity."""


def fit_power(
    samples: Sequence[float], values: Sequence[float], constant: float = 0.0, least: float = 1e-3
) -> Power:
    """Fit a power law to what was measured at several sizes, by least squares of logarithms.

    The constant is taken off before; `least` stands for smaller values, whose logarithms are noise.
    The term of samples and that of their square are fitted by least squares of relative errors.
    """
    order = np.argsort(samples)
    size = np.asarray(samples, dtype=float)[order]
    value = np.maximum(np.asarray(values, dtype=float)[order] - constant, least)
    x = np.log(size)
    y = np.log(value)
    slope, height = np.polyfit(x, y, 1)
    (linear, squared), _ = nnls(np.stack([size, size**2], axis=1) / value[:, None], np.ones_like(x))
    return Power(
        exponent=float(slope),
        factor=float(np.exp(height)),
        constant=constant,
        last_exponent=float((y[-1] - y[-2]) / (x[-1] - x[-2])),
        worst=float(np.exp(np.abs(y - height - slope * x).max())),
        linear=float(linear),
        squared=float(squared),
    )


def measured(studies: Sequence[Path]) -> pd.DataFrame:
    """Return what every stage took on every study, by the logs in its folder of results.

    The seconds of a stage's `jobs` are added up; of their memory before the work, `first_mb`, and
    at the most, `peak_mb`, the largest counts. InputError where a log does not say it.
    """
    rows = []
    for study in studies:
        samples = pq.read_metadata(study / "inputs" / "metadata.parquet").num_rows
        for log in sorted((study / "logs").rglob("*.log")):
            stage = log.relative_to(study / "logs").parts[0].removesuffix(".log")
            work = read_work(log.read_text(encoding="utf-8"))
            if work is None:
                raise problem(
                    log,
                    "no line on when the stage was at work",
                    "a finished stage's log",
                    f"run it once more: --forcerun {stage}",
                )
            rows.append(
                {
                    "stage": stage,
                    "dataset": study.name,
                    "samples": samples,
                    "jobs": 1,
                    "work_s": work.seconds,
                    "cores_s": work.cores_s,
                    "first_mb": work.first_mb,
                    "peak_mb": work.peak_mb,
                }
            )
    columns = ["stage", "dataset", "samples", "jobs", "work_s", "cores_s", "first_mb", "peak_mb"]
    table = pd.DataFrame(rows, columns=columns)
    grouped = table.groupby(["stage", "dataset", "samples"], sort=False, as_index=False)
    return grouped.agg(
        dict.fromkeys(["jobs", "work_s", "cores_s"], "sum")
        | dict.fromkeys(["first_mb", "peak_mb"], "max")
    )


def fits(table: pd.DataFrame) -> Powers:
    """Return the growth of the quantities of `FITTED`; a stage of one size has none."""
    powers: Powers = {}
    for stage, part in table.groupby("stage", sort=False):
        if part["samples"].nunique() < 2:
            continue
        sizes = part["samples"].tolist()
        for name, (column, least) in FITTED.items():
            constant = float(part["first_mb"].min()) if name == MEMORY else 0.0
            powers[str(stage), name] = fit_power(sizes, part[column].tolist(), constant, least)
    return powers


def growth_page(table: pd.DataFrame, powers: Powers, about: Mapping[str, str]) -> str:
    """Return the Markdown page of what `measured` and `fits` returned."""
    sizes = sorted(set(table["samples"]))
    stages = _slowest_first(table)
    parts = [
        NOTES,
        "## Measured: seconds of work, seconds of cores, peak MB",
        markdown_table(
            ["stage", *(f"{size:,} samples" for size in sizes)],
            [[to_words(stage), *(_cell(table, stage, size) for size in sizes)] for stage in stages],
        ),
        "## Fitted, and where it leads",
        markdown_table(
            [
                *("stage", *EXPONENTS_HEAD),
                *(f"{what}, {target:,}" for what in ("time", "memory") for target in TARGETS),
            ],
            [_leads(stage, powers) for stage in stages if (stage, SECONDS) in powers],
        ),
    ]
    if ("unifrac", SECONDS) in powers:
        head = ["samples", "published on", "published, s", "the fit above, s"]
        power = powers["unifrac", SECONDS]
        rows = [
            [f"{samples:,}", hardware, f"{seconds:,.0f}", f"{power.at(samples):,.0f}"]
            for samples, hardware, seconds in PUBLISHED
        ]
        parts += ["## Unweighted UniFrac and published times", PUBLISHED_NOTES]
        parts.append(markdown_table(head, rows))
    return page("Growth", *parts, about=about)


def _slowest_first(table: pd.DataFrame) -> list[str]:
    """Return the stages, those that take longest on the largest study first."""
    largest = table[table["samples"] == table["samples"].max()]
    ordered = largest.sort_values("work_s", ascending=False, kind="stable")["stage"]
    return list(dict.fromkeys([*ordered, *table["stage"]]))


def _cell(table: pd.DataFrame, stage: str, size: int) -> str:
    row = table[(table["stage"] == stage) & (table["samples"] == size)]
    if row.empty:
        return ""
    seconds = format_quantity(row["work_s"].sum())
    cores = format_quantity(row["cores_s"].sum())
    return f"{seconds}, {cores}, {row['peak_mb'].max():.0f}"


def _leads(stage: str, powers: Powers) -> list[str]:
    """Return the row of a stage: its fits, and by them the seconds and memory of larger studies."""
    cells = [to_words(stage)]
    cells += [str(powers[stage, name]) for name in FITTED]
    seconds = powers[stage, SECONDS]
    for samples in TARGETS:
        by_fit = duration(seconds.at(samples))
        by_squares = duration(seconds.with_squares(samples))
        cells.append(f"{by_fit}; {by_squares}")
    memory_mb = powers[stage, MEMORY]
    for samples in TARGETS:
        by_fit_gib = memory_mb.at(samples) / 1024
        by_squares_gib = memory_mb.with_squares(samples) / 1024
        cells.append(f"{by_fit_gib:.3g}; {by_squares_gib:.3g} GiB")
    return cells


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    for unit, length in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{format_quantity(seconds / length)} {unit}"
    return f"{format_quantity(seconds)} s"


def draw_growth(table: pd.DataFrame, powers: Powers, path: Path) -> None:
    """Draw seconds and peak memory with their fits, to twice the largest study."""
    stages = [stage for stage in _slowest_first(table) if (stage, SECONDS) in powers][:SHOWN]
    with saved_figure(path, 6.2, columns=2) as (_, (seconds, memory)):
        _draw(seconds, table, powers, stages, SECONDS, 1.0)
        _draw(memory, table, powers, stages, MEMORY, 1 / 1024)
        seconds.set_ylabel("seconds of work")
        memory.set_ylabel("peak memory (GiB)")
        memory.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        seconds.set_title("Time, and exponent of the fit")
        memory.set_title("Memory, and exponent above the imports")
        for axes in (seconds, memory):
            axes.set_xlabel("samples, and as many ASVs")
            axes.legend(loc="upper center", bbox_to_anchor=(0.45, -0.14), ncols=2, fontsize=7)


def _draw(
    axes: Axes, table: pd.DataFrame, powers: Powers, stages: Sequence[str], name: str, unit: float
) -> None:
    """Draw points and fits of one quantity, times its unit."""
    column = FITTED[name][0]
    others = table[~table["stage"].isin(stages)]
    axes.plot(others["samples"], others[column] * unit, ".", color=GREY, label="all others")
    largest = table["samples"].max()
    sizes = np.geomspace(table["samples"].min(), 2 * largest, 50)
    for stage, color, marker in zip(stages, colors(len(stages)), MARKERS, strict=False):
        rows = table[table["stage"] == stage]
        power = powers[stage, name]
        label = f"{to_words(stage)} {power.exponent:.2f}"
        points = rows[column].to_numpy(dtype=float) * unit
        axes.plot(rows["samples"], points, marker, color=color, markersize=4, label=label)
        fitted = [power.at(size) * unit for size in sizes]
        axes.plot(sizes, fitted, color=color, linewidth=1.0)
    axes.set(xscale="log", yscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(_format_tick)
    axes.yaxis.set_major_formatter(_format_tick)
    axes.minorticks_off()


def _format_tick(value: float, _: float) -> str:
    """Return a number as it stands at an axis, thousands as `k`."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Write `growth.tsv`, `fits.tsv`, `growth.md` and `figures/growth.png`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("studies", nargs="+", type=Path, help="results/<study>")
    parser.add_argument("--output", type=Path, default=Path("results/growth"))
    given = parser.parse_args(arguments)
    table = measured(given.studies)
    if table["samples"].nunique() < 2:
        got = f"{len(given.studies)} of {sorted(set(table['samples']))} samples"
        raise problem("studies", got, "at least two sizes", "name more folders of results")
    powers = fits(table)
    rows = [{"stage": s, "quantity": q, **asdict(power)} for (s, q), power in powers.items()]
    write_tsv(given.output / "growth.tsv", table)
    write_tsv(given.output / "fits.tsv", pd.DataFrame(rows))
    write_text(given.output / "growth.md", growth_page(table, powers, machine()))
    draw_growth(table, powers, given.output / "figures" / "growth.png")


if __name__ == "__main__":
    main()
