"""Everything that a GPU has to show, within minutes: `make gpu`.

Run as `python -m benchmarks.gpu FOLDER` from the repository, where
`results/oral/{inputs,tokens,views,unifrac}` lie (docs/how-to/gpu.md). Each measurement is kept in
the folder as soon as it is there (`benchmarks.kept`), so that a call that was cut is called again,
and goes on. Then the page is written whole from what is there. `--dry` does the same with tiny
models, for a machine without.
"""

import argparse
import logging
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from aam.config.sections.training import Pretraining
from aam.report.figures.bars import draw_speed
from aam.report.labels import format_quantity
from aam.train.compilation import CACHE
from aam.train.monitoring.roofline import median_iqr
from aam.util.atomic import read_json, write_json, write_text, write_tsv
from aam.util.errors import InputError
from benchmarks import kept_tests
from benchmarks.accelerator import OPTION, Specification, Study, laid_over, time_steps
from benchmarks.kept import KeptResults
from benchmarks.speed.ablation import NOTES, medians, probe_hardware, steps_request
from benchmarks.speed.subprocess_runner import SubprocessRunner
from benchmarks.speed.tables import about_run, markdown_table
from benchmarks.speed.variants import ALONE, BATCH, ORDER, usual

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[1]
SPECIFICATION = ROOT / "benchmarks" / "config" / "accelerator.json"
SIZES = [64 * 2**doubling for doubling in range(12)]
"""Samples per step, tried until memory or samples end."""
CONFIGURED = "as configured"
TRAINING_RUNS: dict[str, dict[str, Any]] = {
    CONFIGURED: {},
    "as configured, again": {},
    "deterministic": {"optimization": {"deterministic": True}},
    "deterministic, again": {"optimization": {"deterministic": True}},
    "fp32": {"optimization": {"precision": "fp32"}},
    "tf32": {"optimization": {"precision": "tf32"}},
    "fp16": {"optimization": {"precision": "fp16"}},
    "level basic, fp32": {"optimization": {"level": "basic", "precision": "fp32"}},
    "compile default": {"optimization": {"compile": "default"}},
    "compile max-autotune": {"optimization": {"compile": "max-autotune"}},
    "precision and batch size auto": {
        "optimization": {"precision": "auto"},
        "pretraining": {"batch_size": "auto", "learning_rate": 5e-4},
    },
    "rows of fewer reads at first": {"pretraining": {"subsampled": Pretraining.usual_subsampled}},
    "no loader workers": {"runtime": {"workers": 0}},
    "two processes, DDP": {"runtime": {"devices": 2, "strategy": "ddp"}},
    "two processes, FSDP": {"runtime": {"devices": 2, "strategy": "fsdp"}},
}
"""Whole training runs: what differs from the configuration, and from how it is run."""
AGAIN = {"as configured": "as configured, again", "deterministic": "deterministic, again"}
"""Training runs and their reruns, whose weights are compared to the bit."""
DRY: dict[str, Any] = {
    "changes": {
        "pretraining": {"epochs": 1, "batch_size": 64},
        "benchmark": {"repeats": 1, "seconds": 0.1, "batch_sizes": [4, 8], "alone_batch_size": 2},
    },
    "models": {"narrow": {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1}},
    "workers": 0,
    "leave_out": ["compile: reduce-overhead", "compile: max-autotune"],
}
"""What a dry run lays over the specification."""
DRY_TRAINING_RUNS = (CONFIGURED, "two processes, DDP")
DRY_SIZES = SIZES[:2]
SHOWN = {
    "samples/s": ("samples_per_s",),
    "peak memory, MB": ("peak_memory_mb",),
    "batch": ("batch_size",),
    "steps": ("steps",),
    "time, s": ("wall_s",),
    "waiting for batches": ("loading_share",),
    "model FLOP utilisation": ("model_flop_utilisation",),
    "GPU busy, % (peak)": ("gpu_utilisation", "gpu_utilisation_peak"),
    "GPU memory, peak, MB": ("gpu_memory_mb_peak",),
    "power, W (peak)": ("gpu_power_w", "gpu_power_w_peak"),
    "held-out r": ("unifrac_pearson",),
    "error": ("unifrac_mae",),
}
"""Columns of the table of training runs, and their keys in `scores.json`: a mean, and a peak."""
UNMEASURED = "Not measured yet"
WAITS = "`make gpu` fills in these sections when it runs on a GPU:"
LEFT = "Some rows had no time yet: `make gpu` again."
NO_DRIVER = "The driver (NVML) reported neither how busy the GPU was, nor its memory or power."


@dataclass(frozen=True)
class Lease:
    """What the parts share."""

    study: Study
    """The models, and the dataset that they are trained on."""
    results: KeptResults
    """Does a measurement, unless it is kept already or the time is up."""
    folder: Path
    """Folder of the figures."""
    sizes: Sequence[int]
    """Samples per step that are tried."""

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return list(self.study.config.models)


def run_tests(lease: Lease) -> None:
    """Run the tests of `tests/gpu` that have no outcome yet, and write all: `tests.json`."""
    kept = lease.folder / "tests.jsonl"
    final = lease.folder / "tests.json"
    if final.exists():
        return
    command = [sys.executable, "-m", "pytest", "tests/gpu", "-k", "cuda", "-p", "no:cacheprovider"]
    command += ["-p", "benchmarks.kept_tests", f"--kept={kept.absolute()}"]
    left_s = lease.results.until - time.time()
    is_over = False
    if left_s > 0:
        with suppress(subprocess.TimeoutExpired):
            code = subprocess.run(command, cwd=ROOT, check=False, timeout=left_s).returncode
            # All passed, some failed, or all had an outcome already; a crash is another code.
            is_over = code in (0, 1, 5)
    if is_over:
        write_json(final, kept_tests.outcomes(kept))
    else:
        lease.results.waiting.add("tests.json")


def time_modes(lease: Lease, model: str, groups: Sequence[str]) -> None:
    """Time some groups of modes of a model."""
    time_steps(lease.study, model, groups, lease.results, lease.folder / f"{model}-{groups[0]}")


def double_batches(lease: Lease, model: str) -> None:
    """Double the batch until memory, samples or time end: `batches-<model>.tsv`."""
    settings, inputs = lease.study.inputs_for(model)
    hardware, _ = probe_hardware(lease.results, [settings.training], lease.study.runtime)
    mode = usual(settings.training, hardware)
    rows = []
    for size in lease.sizes:
        request = steps_request(
            settings.training, inputs, mode, size, settings.seconds, lease.study.runtime
        )
        results = lease.results(request)
        if results is None or max(results["sizes"]) < size / 2:
            break
        rows.append({"batch_size": size, **medians([results])})
    if rows:
        write_tsv(lease.folder / f"batches-{model}.tsv", pd.DataFrame(rows))


def try_graphs(lease: Lease, model: str) -> None:
    """Do the same steps as CUDA graphs and kernel by kernel: `graphs-<model>.json`."""
    timed, inputs = lease.study.inputs_for(model)
    settings = timed.training.from_scratch()
    size = settings.pretraining.planned_batch_size
    settings = settings.with_pretraining(batch_size=size)
    results = lease.results(
        {
            "kind": "graphs",
            "settings": settings.plain(),
            "inputs": inputs,
            "threads": lease.study.runtime.threads,
        }
    )
    final = lease.folder / f"graphs-{model}.json"
    if results is not None:
        write_json(final, results)
    elif final.name not in lease.results.waiting:
        write_json(final, {"failed": "see the log of `make gpu`"})


def train(lease: Lease, model: str, name: str) -> None:
    """Pretrain a model as the workflow does, or with a change: `training-<model>-<name>.json`."""
    timed, inputs = lease.study.inputs_for(model)
    settings = timed.training
    change = TRAINING_RUNS[name]
    optimization = settings.optimization.model_copy(update=change.get("optimization", {}))
    changed = settings.from_scratch().model_copy(update={"optimization": optimization})
    changed = changed.with_pretraining(**change.get("pretraining", {}))
    runtime = lease.study.runtime
    granted = {"threads": runtime.threads, "workers": runtime.workers, **change.get("runtime", {})}
    final = training_file(lease.folder, model, name)
    hardware, _ = probe_hardware(lease.results, [settings], runtime)
    if granted.get("devices", 1) > max(1, hardware.devices):
        write_json(final, {"failed": f"not run, GPUs here: {hardware.devices}"})
        return
    results = lease.results(
        {
            "kind": "training",
            "settings": changed.plain(),
            "inputs": inputs,
            "folder": final.with_suffix(""),
            "runtime": granted,
        }
    )
    if results is not None:
        write_json(final, results)
    elif final.name not in lease.results.waiting:
        write_json(final, {"failed": "failed, see the log of `make gpu`"})


def training_file(folder: Path, model: str, name: str) -> Path:
    """Return the file with the figures of a training run."""
    return folder / f"training-{model}-{re.sub('[^a-z0-9]+', '-', name.lower())}.json"


def describe(lease: Lease) -> None:
    """Write what the figures were measured on: `about.json`."""
    settings, inputs = lease.study.inputs_for(lease.models[0])
    _, device = probe_hardware(lease.results, [settings.training], lease.study.runtime)
    final = lease.folder / "about.json"
    if not final.exists():
        write_json(final, about_run(settings.plain(), inputs, device, lease.study.runtime.threads))


def parts(
    models: Sequence[str], training_runs: Sequence[str]
) -> dict[str, Callable[[Lease], None]]:
    """Return the parts by the file that each leaves, what matters most first."""

    def training(model: str, name: str) -> tuple[str, Callable[[Lease], None]]:
        file = training_file(Path(), model, name)
        return str(file), partial(train, model=model, name=name)

    parts: dict[str, Callable[[Lease], None]] = {"about.json": describe}
    parts |= dict(training(model, CONFIGURED) for model in models)
    timed = partial(time_modes, groups=[ORDER, BATCH])
    for model in models:
        parts[f"{model}-{ORDER}/speed.md"] = partial(timed, model=model)
        parts[f"batches-{model}.tsv"] = partial(double_batches, model=model)
        parts[f"graphs-{model}.json"] = partial(try_graphs, model=model)
    parts["tests.json"] = run_tests
    parts |= dict(training(models[0], name) for name in training_runs if name != CONFIGURED)
    for group in (OPTION, ALONE):
        for model in models:
            parts[f"{model}-{group}/speed.md"] = partial(time_modes, model=model, groups=[group])
    return parts


def measure_all(
    specification: Specification,
    folder: Path,
    minutes: float,
    only: Sequence[str],
    training_runs: Sequence[str],
    sizes: Sequence[int],
) -> list[str]:
    """Do what is not there of all parts, or of some, until the time is up; return the models."""
    study = Study(specification, work=folder)
    # What a call that was killed has left there may be broken.
    shutil.rmtree(folder / CACHE, ignore_errors=True)
    until = time.time() + 60 * minutes
    with SubprocessRunner("benchmarks.training_requests") as measure:
        results = KeptResults(folder / "measurements.jsonl", measure, until)
        lease = Lease(study=study, results=results, folder=folder, sizes=sizes)
        for file, part in parts(lease.models, training_runs).items():
            if not file.startswith(tuple(only)):
                continue
            if results.is_late and not (folder / file).exists():
                logger.warning("%s: no time is left; call this again", file)
                results.waiting.add(file)
                continue
            logger.info("%s", file)
            results.begin(file)
            part(lease)
        write_json(folder / "waiting.json", {"parts": sorted(results.waiting)})
    return lease.models


def page(folder: Path, models: Sequence[str]) -> str:
    """Return the Markdown page of what a folder holds.

    Parts without a measurement are listed at the end, under `WAITS`.
    """
    state = folder / "waiting.json"
    waiting = read_json(state)["parts"] if state.exists() else []

    def table(part: str, text: str) -> str:
        return f"{text}\n\n{LEFT}" if part in waiting and text != WAITS else text

    sections = {
        "Machine": _facts(folder / "about.json"),
        "Tests": table("tests.json", _tests(folder)),
        "Training": _table_of_training_runs(folder, models),
        "Reruns": _reruns(folder, models[0]),
    }
    timed = {}
    for model in models:
        batches = f"batches-{model}.tsv"
        timed[f"Batches of {model}"] = table(batches, _batches(folder / batches))
        graphs = f"graphs-{model}.json"
        timed[f"A step of {model} as one CUDA graph"] = table(graphs, _graphs(folder / graphs))
        for group, words in (
            (ORDER, "from naive to configured"),
            (OPTION, "one option changed"),
            (ALONE, "each change alone"),
        ):
            text = table(f"{model}-{group}/speed.md", _speed(folder / f"{model}-{group}"))
            if model == models[0] and group == ORDER and (folder / f"{model}-{ORDER}").is_dir():
                text += "\n\n![Samples per second of each mode](images/gpu.png)"
            timed[f"Steps of {model}, {words}"] = text
    if any(text != WAITS for text in timed.values()):
        sections["Notes on the steps"] = NOTES
    sections |= timed
    parts_left = [heading for heading, text in sections.items() if text == WAITS]
    written = [f"## {heading}\n\n{text}" for heading, text in sections.items() if text != WAITS]
    if parts_left:
        lines = "\n".join(f"- {heading}" for heading in parts_left)
        written.append(f"## {UNMEASURED}\n\n{WAITS}\n\n{lines}")
    head = ["# On a GPU", "`make gpu` measures and writes this page ([how](how-to/gpu.md))."]
    return "\n\n".join([*head, *written]) + "\n"


def _facts(file: Path) -> str:
    if not file.exists():
        return WAITS
    facts = {name: said for name, said in read_json(file).items() if not name.startswith("aam.")}
    return "\n".join(f"- {name}: {said}" for name, said in facts.items())


def _tests(folder: Path) -> str:
    """Return how many tests passed, and what became of the others."""
    outcomes = kept_tests.outcomes(folder / "tests.jsonl")
    if not outcomes:
        return WAITS
    others = {test: said for test, said in outcomes.items() if said != "passed"}
    lines = [f"- passed: {len(outcomes) - len(others)} of {len(outcomes)}"]
    lines += [f"- {test.rpartition('::')[2]}: {said}" for test, said in others.items()]
    return "\n".join(lines)


def _trained(folder: Path, models: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the figures of the training runs that have finished, by model and name."""
    files = {(m, name): training_file(folder, m, name) for m in models for name in TRAINING_RUNS}
    return {key: read_json(file) for key, file in files.items() if file.exists()}


def _table_of_training_runs(folder: Path, models: Sequence[str]) -> str:
    trained = _trained(folder, models)
    if not trained:
        return WAITS

    def cell(figures: Mapping[str, Any], names: Sequence[str]) -> str:
        values = [figures[name] for name in names if figures.get(name) is not None]
        if not values:
            return ""
        mean, *peak = [format_quantity(float(value)) for value in values]
        return f"{mean} ({peak[0]})" if peak else mean

    rows = []
    for (model, name), figures in trained.items():
        if "failed" in figures:
            rows.append([model, name, figures["failed"]])
            continue
        lacking = figures["optimization"].get("lacking", [])
        note = f" (lacking: {', '.join(lacking)})" if lacking else ""
        rows.append([model, name + note, *(cell(figures, names) for names in SHOWN.values())])
    text = markdown_table(["model", "training", *SHOWN], rows)
    has_driver = any(figures.get("gpu_utilisation") is not None for figures in trained.values())
    return text if has_driver else f"{text}\n\n{NO_DRIVER}"


def _reruns(folder: Path, model: str) -> str:
    """Return whether training runs that were repeated ended with the same weights."""
    runs = _trained(folder, [model])
    weights = {name: figures.get("weights") for (_, name), figures in runs.items()}
    lines = []
    for name, again in AGAIN.items():
        both = [weights.get(name), weights.get(again)]
        if None not in both:
            same = "the same weights, to the bit" if both[0] == both[1] else "other weights"
            lines.append(f"- {name}: the rerun has {same}")
    return "\n".join(lines) or WAITS


def _batches(file: Path) -> str:
    if not file.exists():
        return WAITS
    table = pd.read_csv(file, sep="\t")
    columns = ["batch_size", "step_ms_median", "samples_per_s", "peak_memory_mb", "loading_share"]
    rows = [[format_quantity(row[key]) for key in columns] for row in table.to_dict("records")]
    head = ["samples", "step, ms", "samples/s", "peak memory, MB", "share waiting"]
    return markdown_table(head, rows) + "\n\nThe next larger batch had no memory, or no samples."


def _graphs(file: Path) -> str:
    """Return whether steps as graphs learn the same, and how fast they are."""
    if not file.exists():
        return WAITS
    found = read_json(file)
    if "failed" in found:
        return f"Failed: {found['failed']}"
    rows = []
    for mode in ("kernels", "graphs"):
        own = found[mode]
        median, iqr = median_iqr(own["step_s"])
        cells = [1e3 * median, 1e3 * iqr, own["model_flop_utilisation"], own["peak_memory_mb"]]
        rows.append([mode, *map(format_quantity, cells)])
    head = ["steps as", "step, ms", "IQR", "model FLOP utilisation", "peak memory, MB"]
    pairs = zip(found["kernels"]["losses"], found["graphs"]["losses"], strict=True)
    gap = max(abs(one - other) / abs(one) for one, other in pairs)
    said = (
        f"The same {len(found['graphs']['losses'])} steps in {found['precision']}, with batches "
        f"padded to {found['shapes']} shapes for {found['batches']} batches, dropout off, and a "
        f"constant rate. Their losses differ by at most {format_quantity(100 * gap)} %."
    )
    if not found["is_graph"]:
        said += " Without CUDA nothing was recorded: both are the same steps."
    return f"{markdown_table(head, rows)}\n\n{said}"


def _speed(folder: Path) -> str:
    """Return the tables of a page of speed: of the modes, and of the machine at its best."""
    file = folder / "speed.md"
    if not file.exists():
        return WAITS
    tables = file.read_text(encoding="utf-8").partition("| group")
    return "".join(tables[1:]).split("## Measured on")[0].replace("\n## ", "\n### ").strip()


def draw(folder: Path, models: Sequence[str], path: Path) -> None:
    """Draw the first model's modes from naive to configured, where they were timed."""
    file = folder / f"{models[0]}-{ORDER}" / "speed.tsv"
    if file.exists():
        draw_speed(pd.read_csv(file, sep="\t"), path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and write the page and the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--minutes", type=float, default=9, help="after which nothing more is begun"
    )
    parser.add_argument("--dry", action="store_true", help="tiny models; the page stays in FOLDER")
    parser.add_argument("--only", nargs="+", default=[""], help="how names of parts begin")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asked = read_json(SPECIFICATION)
    over = DRY if given.dry else {}
    changes = laid_over(asked.get("changes", {}), over.get("changes", {}))
    asked |= {**over, "changes": changes}
    given.folder.mkdir(parents=True, exist_ok=True)
    specification = Specification.model_validate(asked)
    training_runs = DRY_TRAINING_RUNS if given.dry else tuple(TRAINING_RUNS)
    sizes = DRY_SIZES if given.dry else SIZES
    try:
        models = measure_all(
            specification,
            given.folder,
            minutes=given.minutes,
            only=given.only,
            training_runs=training_runs,
            sizes=sizes,
        )
    except InputError as error:
        raise SystemExit(str(error)) from error
    docs = given.folder if given.dry else ROOT / "docs"
    write_text(docs / "gpu.md", page(given.folder, models))
    draw(given.folder, models, docs / "images" / "gpu.png")


if __name__ == "__main__":
    main()
