"""The speed table: from the naive step to the optimized one, one change at a time."""

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from aam.config.sections.training import Pretraining
from aam.config.settings.training import PretrainSettings
from aam.report.labels import format_quantity
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.train.compilation import CACHE
from aam.train.monitoring import roofline
from aam.util.atomic import write_json, write_text, write_tsv
from aam.util.run_options import RunOptions
from benchmarks.speed.subprocess_runner import Measure, SubprocessRunner
from benchmarks.speed.tables import about_run, markdown_table, page, spread
from benchmarks.speed.variants import (
    BATCH_OPTIONS,
    NAIVE,
    STEP_OPTIONS,
    Hardware,
    Mode,
    SpeedSettings,
    Variant,
    usual,
    variants,
)

logger = logging.getLogger(__name__)
COLUMNS = [
    "name",
    "batch_size",
    "step_ms_median",
    "step_ms_iqr",
    "samples_per_s",
    "peak_memory_mb",
    "speedup",
    "loss_after_steps",
    "group",
    "gflop_per_step",
    "gflop_per_s",
    "roofline_share",
    "loading_share",
    "recompilations",
    "loss_step",
    "timed_steps",
    "parameters",
    "launches_per_step",
]
"""Columns of the speed table, in the order of its file."""
VARIANT_COLUMNS = ("group", "name", "batch_size")
FIGURES: dict[str, Callable[[Mapping[Hashable, Any]], str]] = {
    "step, ms (IQR)": lambda row: spread(row["step_ms_median"], row["step_ms_iqr"]),
    "samples/s": lambda row: format_quantity(row["samples_per_s"]),
    "peak memory, MB": lambda row: f"{row['peak_memory_mb']:.0f}",
    "speed-up": lambda row: "" if pd.isna(row["speedup"]) else f"{row['speedup']:.1f}x",
    "GFLOP/step": lambda row: format_quantity(row["gflop_per_step"]),
    "GFLOP/s": lambda row: format_quantity(row["gflop_per_s"]),
    "of the roofline": lambda row: f"{100 * row['roofline_share']:.0f} %",
    "launches": lambda row: format_quantity(row["launches_per_step"]),
    "loading": lambda row: f"{100 * row['loading_share']:.1f} %",
    "recompilations": lambda row: f"{row['recompilations']:.0f}",
    "loss (step)": lambda row: f"{row['loss_after_steps']:.4f} ({row['loss_step']:.0f})",
}
NOTES = """\
- All modes train one model, with one optimizer, on the same samples. Groups: `order` adds one
  change after the other; `alone` puts each change alone into the naive step, at a smaller batch;
  `batch` has the last modes at larger batches.
- Naive: every sample padded to one number of ASVs, padding and each copy of an ASV encoded, in
  chunks of 256 that the backward pass computes a second time.
- Speed-up: samples per second over those of the naive step of the same group.
- GFLOP: the model's matrix products, forward and backward, nothing counted twice. Of the roofline:
  over what matrix products alone reached in the same precision in the same run.
- Launches: operators of the first step that would start a kernel on an accelerator.
- Each repeat of a mode ran in a process of its own, whose peak memory this is."""
K = TypeVar("K")


@dataclass(frozen=True)
class Ablation:
    """What a benchmark of training steps has found."""

    table: pd.DataFrame
    """A row per variant, with `COLUMNS`."""
    rates: dict[str, roofline.Rate]
    """The machine at its best: matrix products by precision, and copies as ``copy``."""
    device: dict[str, str]
    """Words on the device, by name."""

    def write(self, outputs: Mapping[str, Path], about: Mapping[str, str]) -> None:
        """Write the results of a benchmark, atomically.

        Parameters
        ----------
        outputs
            Files to write: `table` (TSV), `text` (Markdown) and `roofline` (JSON: the rates).
        about
            What the figures were measured on, words by name.
        """
        write_tsv(outputs["table"], self.table)
        write_text(outputs["text"], self.page(about))
        rates = {name: asdict(rate) for name, rate in self.rates.items()}
        write_json(outputs["roofline"], {**rates, "about": dict(about)})

    def page(self, about: Mapping[str, str]) -> str:
        """Return the Markdown page.

        Parameters
        ----------
        about
            What the figures were measured on, words by name.
        """
        rates = "\n".join(_rate_line(name, rate) for name, rate in self.rates.items())
        cells = [_cells(row) for row in self.table.to_dict("records")]
        table = markdown_table(["group", "mode", "batch", *FIGURES], cells)
        parts = [NOTES, table, "## The machine at its best", rates]
        return page("Speed of a training step", *parts, about=about)


def _cells(row: Mapping[Hashable, Any]) -> list[str]:
    ran = not pd.isna(row["peak_memory_mb"])
    figures = [figure(row) for figure in FIGURES.values()] if ran else ["not run"]
    return [*(str(row[key]) for key in VARIANT_COLUMNS), *figures]


def _rate_line(name: str, rate: roofline.Rate) -> str:
    what = f"matrix products, {name}"
    unit = "GFLOP/s"
    if name == "copy":
        what = "copies"
        unit = "GB/s"
    return (
        f"- {what}: {rate.median / 1e9:.3g} {unit}, IQR {rate.iqr / 1e9:.3g} {unit}, "
        f"{rate.count} measurements of {rate.what}"
    )


def measure_speed(
    *,
    inputs: PretrainInputs,
    settings: SpeedSettings,
    runtime: RunOptions,
    table_out: Path,
    text_out: Path,
    roofline_out: Path,
) -> None:
    """Time every variant of a training step on the data of a study.

    Parameters
    ----------
    inputs
        Files of the pretraining that is timed: tokens, samples, and distances or a tree.
    settings
        The model that is timed, how often and at which batch sizes.
    runtime
        Threads, memory and devices.
    table_out
        TSV file to write, with a row per variant.
    text_out
        Markdown file to write.
    roofline_out
        JSON file to write: what the machine can do at best.
    """
    files = inputs.model_dump(exclude_none=True)
    with SubprocessRunner() as measure:
        ablation = run_ablation(measure, settings, files, runtime)
    about = about_run(settings.plain(), files, ablation.device, runtime.threads)
    outputs = {"table": table_out, "text": text_out, "roofline": roofline_out}
    ablation.write(outputs, about)


def run_ablation(
    measure: Measure,
    settings: SpeedSettings,
    inputs: Mapping[str, Any],
    runtime: RunOptions,
    choose: Callable[[SpeedSettings, Hardware], list[Variant]] = variants,
) -> Ablation:
    """Time every variant of a training step, and what the machine can do at best.

    Repeats are interleaved: changes of the machine's load affect all variants. `loss_step` is the
    last step that all variants of the group and the batch size reached. A variant that could not
    run, for example because memory was short, has no figures.

    Parameters
    ----------
    measure
        Runs a request in a process of its own.
    settings
        What is timed, at which batch sizes, and how often.
    inputs
        Files of the pretraining that is timed, by name.
    runtime
        Threads, workers, and a folder for compiled code.
    choose
        Returns the variants for settings and a machine.

    Returns
    -------
    Ablation
        The table, the rates that it compares with, and words on the device.

    Raises
    ------
    RuntimeError
        The process that measures the machine failed.
    """
    training = settings.training
    hardware, device = probe_hardware(measure, [training], runtime)
    chosen = choose(settings, hardware)
    requests = {}
    for variant in chosen:
        requests[variant] = steps_request(
            training, inputs, variant.mode, variant.batch_size, settings.seconds, runtime
        )
    rates = _ask(
        measure,
        "roofline",
        runtime,
        width=training.model.width,
        ffn_ratio=training.model.ffn_ratio,
        precisions=sorted({variant.mode.precision for variant in chosen}),
    )
    results = measure_in_turns(measure, requests, settings.repeats)
    best = {name: roofline.best(candidates) for name, candidates in rates.items()}
    by_variant = {variant: results.get(variant, []) for variant in chosen}
    return Ablation(_table(by_variant, best), best, device)


def probe_hardware(
    measure: Measure, training_runs: Iterable[PretrainSettings], runtime: RunOptions
) -> tuple[Hardware, dict[str, str]]:
    """Return what the machine has, and words on it.

    Parameters
    ----------
    measure
        Runs a request in a process of its own.
    training_runs
        Settings of what is timed; the compiler is tried where one of them asks for it.
    runtime
        Threads and workers.

    Returns
    -------
    hardware : Hardware
        What the machine has.
    about : dict
        Words on the device by name.

    Raises
    ------
    RuntimeError
        The measuring process failed.
    """
    with_compiler = Hardware(compiles=True)
    is_asked = any(usual(training, with_compiler).compile != "off" for training in training_runs)
    device = _ask(measure, "device", runtime, compile=is_asked)
    hardware = Hardware(
        accelerator=device["accelerator"],
        compiles=device["compiles"],
        workers=runtime.workers,
        bf16=device["bf16"],
        devices=device["devices"],
    )
    return hardware, device["about"]


def _ask(measure: Measure, kind: str, runtime: RunOptions, **more: Any) -> dict[str, Any]:
    result = measure({"kind": kind, "threads": runtime.threads, **more})
    if result is None:
        raise RuntimeError(f"the {kind} could not be measured, see above")
    return result


def measure_in_turns(
    measure: Measure, requests: Mapping[K, Mapping[str, Any]], repeats: int
) -> dict[K, list[dict[str, Any]]]:
    """Return the results of every request for steps, done in turns.

    Parameters
    ----------
    measure
        Runs a request in a process of its own.
    requests
        What `steps_request` returns, by any key.
    repeats
        How often each request is done; one that fails is not done again.

    Returns
    -------
    dict
        What `benchmarks.speed.measurements.run` returned, by key, for each repeat that could run.
    """
    results: dict[K, list[dict[str, Any]]] = {name: [] for name in requests}
    pending = dict(requests)
    for repeat in range(1, repeats + 1):
        for name, request in list(pending.items()):
            result = measure(request)
            if result is None:
                del pending[name]
                logger.warning("repeat %d, %s: could not run, see above", repeat, name)
                continue
            results[name].append(result)
            logger.info("repeat %d, %s: %.3g s a step", repeat, name, np.median(result["step_s"]))
    return results


def steps_request(
    settings: PretrainSettings,
    inputs: Mapping[str, Any],
    mode: Mode,
    batch_size: int,
    seconds: float,
    runtime: RunOptions,
) -> dict[str, Any]:
    """Return the request that times a mode of training.

    Parameters
    ----------
    settings
        Architecture, training and optimization, which the mode changes. A training run without
        epochs, which uses its start as it is, is timed with the default number of epochs.
    inputs
        Files of the pretraining, by name.
    mode
        How a step is done.
    batch_size
        Samples per step.
    seconds
        Time that a measurement may take.
    runtime
        Threads, and a folder for compiled code.

    Returns
    -------
    dict
        What `benchmarks.speed.measurements.run` takes, which JSON can hold but for paths.
    """
    training: dict[str, Any] = {"optimizer": mode.optimizer, "batch_size": batch_size}
    if settings.pretraining.epochs == 0:
        training["epochs"] = Pretraining.model_fields["epochs"].default
    optimization = {key: getattr(mode, key) for key in STEP_OPTIONS}
    timed = settings.from_scratch().model_copy(
        update={
            "model": settings.model.model_copy(update={"patch_bp": mode.patch_bp}),
            "pretraining": settings.pretraining.model_copy(update=training),
            "optimization": settings.optimization.model_copy(update=optimization),
        }
    )
    return {
        "kind": "steps",
        "settings": timed.plain(),
        "inputs": inputs,
        "batch": {key: getattr(mode, key) for key in BATCH_OPTIONS},
        "recompute": mode.recompute,
        "workers": mode.workers,
        "pinned": mode.pinned,
        "compile_cache": None if runtime.work is None else runtime.work / CACHE,
        "seconds": seconds,
        "threads": runtime.threads,
    }


def _table(
    results: Mapping[Variant, list[dict[str, Any]]], best: Mapping[str, roofline.Rate]
) -> pd.DataFrame:
    steps: dict[tuple[str, int], list[int]] = {}
    for variant, repeats in results.items():
        numbers = steps.setdefault((variant.group, variant.batch_size), [])
        numbers += [len(result["losses"]) for result in repeats]
    rows = []
    for variant, repeats in results.items():
        row: dict[str, Any] = {key: getattr(variant, key) for key in VARIANT_COLUMNS}
        if repeats:
            row |= medians(repeats)
            peak = best[repeats[0]["precision"]].median
            row["roofline_share"] = 1e9 * row["gflop_per_s"] / peak
            row["loss_step"] = min(steps[variant.group, variant.batch_size])
            row["loss_after_steps"] = repeats[0]["losses"][row["loss_step"] - 1]
        rows.append(row)
    table = pd.DataFrame(rows, columns=COLUMNS)
    naive = table[table["name"] == NAIVE].set_index("group")["samples_per_s"].dropna()
    table["speedup"] = table["samples_per_s"] / table["group"].map(naive)
    return table


def medians(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return medians of the timed steps of all repeats, and the most memory and recompilations.

    Parameters
    ----------
    results
        What `benchmarks.speed.measurements.run` returned for each repeat of a request for steps.

    Returns
    -------
    dict
        The columns of the speed table that follow from the repeats of a mode alone.
    """
    step_s = np.concatenate([result["step_s"] for result in results])
    sizes = np.concatenate([result["sizes"] for result in results])
    flops = np.concatenate([result["flops"] for result in results])
    median, iqr = roofline.median_iqr(step_s)
    return {
        "step_ms_median": 1e3 * median,
        "step_ms_iqr": 1e3 * iqr,
        "samples_per_s": np.median(sizes) / median,
        "gflop_per_step": np.median(flops) / 1e9,
        "gflop_per_s": np.median(flops) / median / 1e9,
        "loading_share": sum(sum(result["loading_s"]) for result in results) / step_s.sum(),
        "peak_memory_mb": max(result["peak_memory_mb"] for result in results),
        "recompilations": max(result["recompilations"] for result in results),
        "launches_per_step": results[0]["launches"],
        "timed_steps": len(step_s),
        "parameters": results[0]["parameters"],
    }
