"""The speed table: from the naive step to the optimized one, one change at a time."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from aam.bench import roofline
from aam.bench.subprocess_runner import Measure
from aam.bench.tables import markdown_table, page, spread, write_tsv
from aam.bench.timing import medians
from aam.bench.variants import NAIVE, ORDER, Hardware, Mode, Variant, asks_for_compilation, variants
from aam.evaluate.labels import quantity
from aam.util.atomic import write_json, write_text

logger = logging.getLogger(__name__)
COLUMNS = """name batch_size step_ms_median step_ms_iqr samples_per_s peak_memory_mb speedup
loss_after_steps group gflop_per_step gflop_per_s roofline_share loading_share recompilations
loss_step timed_steps parameters""".split()
OF_TRAINING = ("precision", "optimizer")
OF_OPTIMIZATION = ("attention", "fused_optimizer", "compile", "checkpointing")
"""What a mode sets in the sections `pretraining` and `optimization`."""
CELLS: dict[str, Callable[[Mapping[Hashable, Any]], str]] = {
    "step, ms (IQR)": lambda row: spread(row["step_ms_median"], row["step_ms_iqr"]),
    "samples/s": lambda row: quantity(row["samples_per_s"]),
    "peak memory, MB": lambda row: f"{row['peak_memory_mb']:.0f}",
    "speed-up": lambda row: "" if pd.isna(row["speedup"]) else f"{row['speedup']:.1f}x",
    "GFLOP/step": lambda row: quantity(row["gflop_per_step"]),
    "GFLOP/s": lambda row: quantity(row["gflop_per_s"]),
    "of the roofline": lambda row: f"{100 * row['roofline_share']:.0f} %",
    "loading": lambda row: f"{100 * row['loading_share']:.1f} %",
    "recompilations": lambda row: f"{row['recompilations']:.0f}",
    "loss (step)": lambda row: f"{row['loss_after_steps']:.4f} ({row['loss_step']:.0f})",
}
NOTES = """\
- Groups: `order` adds one change after the other; `alone` puts each change alone into the naive
  step, at a smaller batch; `batch` has the last modes at larger batches.
- Naive: every sample padded to one number of ASVs, each copy of an ASV encoded, in chunks that are
  computed a second time backward, for want of memory; with distinct ASVs everything is kept.
- Speed-up: samples per second over those of the naive step of the same group, without one over
  those of `order`.
- GFLOP: the model's matrix products, forward and backward, nothing counted twice. Of the roofline:
  over what matrix products alone reached in the same precision in the same run.
- Loading: share of the step spent waiting for its batch.
- Each repeat of a mode ran in a process of its own, whose peak memory this is."""
K = TypeVar("K")


@dataclass(frozen=True)
class Ablation:
    """What was measured.

    Attributes
    ----------
    table
        One row per variant, with `COLUMNS`.
    rates
        Per precision, and for ``copy``, the best that the machine did.
    device
        Words by name: device, driver, versions.
    """

    table: pd.DataFrame
    rates: dict[str, roofline.Rate]
    device: dict[str, str]

    def write(self, outputs: Mapping[str, Path], about: Mapping[str, str]) -> None:
        """Write `table` (TSV), `text` (Markdown) and `roofline` (JSON: the rates)."""
        write_tsv(outputs["table"], self.table)
        write_text(outputs["text"], self.page(about))
        rates = {name: asdict(rate) for name, rate in self.rates.items()}
        write_json(outputs["roofline"], {**rates, "about": dict(about)})

    def page(self, about: Mapping[str, str]) -> str:
        """Return the Markdown page."""
        rows = []
        for row in self.table.to_dict("records"):
            measured = not pd.isna(row["step_ms_median"])
            cells = [cell(row) for cell in CELLS.values()] if measured else ["not run"]
            rows.append([str(row[name]) for name in ("group", "name", "batch_size")] + cells)
        table = markdown_table(("group", "mode", "batch", *CELLS), rows)
        best = "\n".join(_rate_line(name, rate) for name, rate in self.rates.items())
        title = "Speed of a training step"
        return page(title, NOTES, table, "## The machine at its best", best, about=about)


def _rate_line(name: str, rate: roofline.Rate) -> str:
    what, unit = f"matrix products, {name}", "GFLOP/s"
    if name == "copy":
        what, unit = "copies", "GB/s"
    return (
        f"- {what}: {rate.median / 1e9:.3g} {unit}, IQR {rate.iqr / 1e9:.3g} {unit}, "
        f"{rate.count} measurements of {rate.what}"
    )


def run_ablation(
    measure: Measure,
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    *,
    threads: int,
    workers: int,
    choose: Callable[[Mapping[str, Any], Hardware], list[Variant]] = variants,
) -> Ablation:
    """Time every variant and what the machine can do at best, the repeats interleaved.

    So the machine's moods meet all alike.

    Parameters
    ----------
    measure
        Does a request in a process of its own.
    cfg
        Slice `aam.config.slices.benchmark`.
    inputs
        `tokens`, `samples`, `distances`.
    threads, workers
        Cores granted; processes that assemble batches for an accelerator.
    choose
        Returns the variants from `cfg` and what the machine has.

    Returns
    -------
    Ablation
        The columns of its table are explained in `NOTES`; `loss_after_steps` stands at `loss_step`,
        the last step that all variants of the group and the batch size reached. A variant that
        could not run, for want of memory for instance, has no figures.

    Raises
    ------
    RuntimeError
        When not even the device could be used.
    """
    hardware, device = probe_hardware([cfg], measure, threads=threads, workers=workers)
    chosen = choose(cfg, hardware)
    modes = {variant: variant.mode for variant in chosen if variant.mode is not None}
    requests = {
        variant: steps_request(cfg, inputs, mode, variant.batch_size, threads=threads)
        for variant, mode in modes.items()
    }
    at_best = {
        "kind": "roofline",
        "precisions": sorted({mode.precision for mode in modes.values()}),
        "threads": threads,
        **{key: cfg["model"][key] for key in ("width", "ffn_ratio")},
    }
    rates: list[dict[str, Any]] = []

    def measure_roofline() -> None:
        rates.append(_answered(measure(at_best), "roofline"))

    results = interleaved(measure, requests, cfg["repeats"], before=measure_roofline)
    best = roofline.merge(rates)
    return Ablation(_table({v: results.get(v, []) for v in chosen}, best), best, device)


def probe_hardware(
    cfgs: Iterable[Mapping[str, Any]], measure: Measure, *, threads: int, workers: int
) -> tuple[Hardware, dict[str, str]]:
    """Return what the machine has, and words by name on what models run on.

    Where one of the slices of pretraining, `cfgs`, asks for the compiler, that is tried.

    Raises
    ------
    RuntimeError
        When not even the device could be used.
    """
    compiled = any(map(asks_for_compilation, cfgs))
    request = {"kind": "device", "threads": threads, "compile": compiled}
    device = _answered(measure(request), "device")
    return Hardware(device["accelerator"], device["compiles"], workers), device["about"]


def _answered(result: dict[str, Any] | None, what: str) -> dict[str, Any]:
    if result is None:
        raise RuntimeError(f"the {what} could not be measured, see above")
    return result


def interleaved(
    measure: Measure,
    requests: Mapping[K, Mapping[str, Any]],
    repeats: int,
    before: Callable[[], None] = lambda: None,
) -> dict[K, list[dict[str, Any]]]:
    """Return the results of every request for steps, which are done in turns.

    One that could not run, for want of memory for instance, is not tried again. `before` is called
    before each of the `repeats`.
    """
    results: dict[K, list[dict[str, Any]]] = {name: [] for name in requests}
    failed: set[K] = set()
    for repeat in range(repeats):
        before()
        for name, request in requests.items():
            if name in failed:
                continue
            result = measure(request)
            if result is None:
                failed.add(name)
                logger.warning("repeat %d, %s: could not run, see above", repeat + 1, name)
                continue
            results[name].append(result)
            seconds = np.median(result["step_s"])
            logger.info("repeat %d, %s: %.3g s a step", repeat + 1, name, seconds)
    return results


def steps_request(
    cfg: Mapping[str, Any],
    inputs: Mapping[str, Any],
    mode: Mode,
    batch_size: int,
    *,
    threads: int,
    **pool: int,
) -> dict[str, Any]:
    """Return the request that times a mode.

    Parameters
    ----------
    cfg
        Slice of pretraining, and `steps` and `seconds` of the benchmark: no further step is begun
        after so many seconds once two are timed, or one where a step takes longer than that.
    inputs
        `tokens`, `samples`, `distances`.
    mode, batch_size, threads
        What is timed, on how many cores.
    **pool
        Nothing, or `pool` and `richness` of `aam.bench.batches.PooledDataset`.
    """
    plain = asdict(mode)
    batch = {key: plain[key] for key in ("copies", "asvs_per_sample")}
    is_naive = mode.copies or mode.asvs_per_sample is not None
    training, optimization = (
        {key: plain[key] for key in keys} for keys in (OF_TRAINING, OF_OPTIMIZATION)
    )
    return {
        "kind": "steps",
        "cfg": {
            "model": {**cfg["model"], "patch_bp": mode.patch_bp},
            "pretraining": {**cfg["pretraining"], **training, "batch_size": batch_size},
            "optimization": {**cfg["optimization"], **optimization},
        },
        "inputs": inputs,
        "batch": pool or (batch if is_naive else {}),
        "workers": mode.workers,
        "steps": cfg["steps"],
        "seconds": cfg["seconds"],
        "threads": threads,
    }


def _table(
    results: Mapping[Variant, list[dict[str, Any]]], best: Mapping[str, roofline.Rate]
) -> pd.DataFrame:
    steps: dict[tuple[str, int], list[int]] = {}
    for variant, repeats in results.items():
        of_kind = steps.setdefault((variant.group, variant.batch_size), [])
        of_kind += [len(result["losses"]) for result in repeats]
    rows = []
    for variant, repeats in results.items():
        row: dict[str, Any] = {"group": variant.group, "name": variant.name}
        row["batch_size"] = variant.batch_size
        if repeats:
            row |= medians(repeats)
            at_best = best[repeats[0]["precision"]].median
            row["roofline_share"] = 1e9 * row["gflop_per_s"] / at_best
            row["loss_step"] = min(steps[variant.group, variant.batch_size])
            row["loss_after_steps"] = repeats[0]["losses"][row["loss_step"] - 1]
        rows.append(row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    naive = table[table["name"] == NAIVE].set_index("group")["samples_per_s"].dropna()
    compared = table["group"].map(naive).fillna(naive.get(ORDER, np.nan))
    table["speedup"] = table["samples_per_s"] / compared
    return table
