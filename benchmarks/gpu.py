"""Everything that a GPU has to show, within minutes: `make gpu`.

Run as `python -m benchmarks.gpu FOLDER` from the repository, where
`results/oral/{tokens,views,unifrac}` lie (docs/how-to/gpu.md). Each part leaves its files in the
folder; a part that is there is not done again, so that a second call goes on. Then the page is
written whole from what is there. `--dry` does the same with tiny models, for a machine without.
"""

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd

from aam.bench.ablation import NOTES, probe_hardware, steps_request
from aam.bench.subprocess_runner import Measure, SubprocessRunner
from aam.bench.tables import about_run, markdown_table
from aam.bench.timing import medians
from aam.bench.variants import ALONE, BATCH, ORDER, usual
from aam.evaluate.figures import speed
from aam.evaluate.labels import quantity
from aam.stages import pretrain
from aam.util.atomic import read_json, write_json, write_text, write_tsv
from aam.util.errors import InputError
from benchmarks import predicted
from benchmarks.accelerator import OPTION, Specification, Study, laid_over, time_steps

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[1]
SPECIFICATION = ROOT / "config" / "accelerator.json"
SIZES = [64 * 2**doubling for doubling in range(12)]
"""Samples per step, tried until memory or samples end."""
DRY: dict[str, Any] = {
    "changes": {
        "pretraining": {"epochs": 1, "batch_size": 64},
        "benchmark": {"repeats": 1, "seconds": 0.1, "batch_sizes": [4, 8], "alone_batch_size": 2},
    },
    "models": {"narrow": {"width": 16, "heads": 2, "asv_layers": 1, "sample_layers": 1}},
    "workers": 0,
}
"""What a dry run lays over the specification."""
SHOWN = {
    "samples/s": "samples_per_s",
    "peak memory, MB": "peak_memory_mb",
    "steps": "steps",
    "time, s": "wall_s",
    "waiting for batches": "loading_share",
    "model FLOP utilisation": "model_flop_utilisation",
    "GPU busy, %": "gpu_utilisation",
    "power, W": "gpu_power_w",
    "held-out r": "unifrac_pearson",
    "error": "unifrac_mae",
}
"""Columns of the table of trainings, and their keys in `metrics.json`."""
WAITS = "Waits for a device: `make gpu`."


@dataclass(frozen=True)
class Lease:
    """What the parts share: a study, measurements until the time is up, and a folder."""

    study: Study
    measure: Measure
    folder: Path
    until: float

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return list(self.study.config.models)

    def steps(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Do a request; None where it failed, or where it is one for steps and time is up."""
        if request["kind"] == "steps" and time.monotonic() > self.until:
            logger.warning("no time is left for a measurement")
            return None
        return self.measure(request)


def run_tests(lease: Lease) -> None:
    """Run `tests/gpu` and write what became of each test: `tests.json`."""
    report = lease.folder / "tests.xml"
    command = [sys.executable, "-m", "pytest", "tests/gpu", "-p", "no:cacheprovider"]
    subprocess.run([*command, f"--junitxml={report}"], cwd=ROOT, check=False)
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        said = "; ".join(f"{b.tag}: {b.get('message', '').splitlines()[0]}" for b in bad)
        outcomes[case.get("name", "")] = said or "passed"
    write_json(lease.folder / "tests.json", outcomes)


def time_modes(lease: Lease, model: str, groups: Sequence[str]) -> None:
    """Time some groups of modes of a model."""
    time_steps(lease.study, model, groups, lease.steps, lease.folder / f"{model}-{groups[0]}")


def double_batches(lease: Lease, model: str) -> None:
    """Double the batch until memory, samples or time end: `batches-<model>.tsv`."""
    cfg, inputs = lease.study.of(model)
    hardware, _ = probe_hardware(lease.measure, [cfg], lease.study.runtime)
    mode, rows = usual(cfg, hardware), []
    for size in SIZES:
        request = steps_request(cfg, inputs, mode, size, lease.study.runtime)
        found = lease.steps(request)
        if found is None or max(found["sizes"]) < size / 2:
            break
        rows.append({"batch_size": size, **medians([found])})
    write_tsv(lease.folder / f"batches-{model}.tsv", pd.DataFrame(rows))


def train(lease: Lease, model: str) -> None:
    """Pretrain a model as the workflow does, into `training-<model>`."""
    cfg, inputs = lease.study.of(model)
    folder = lease.folder / f"training-{model}"
    names = {"model": "model", "embeddings": "embeddings.parquet", "asvs": "asvs.safetensors"}
    names |= {"pairs": "pairs.parquet", "history": "history.parquet", "metrics": "metrics.json"}
    own = {key: cfg[key] for key in ("model", "pretraining", "optimization")}
    runtime = replace(lease.study.runtime, work=folder / "work")
    outputs = {name: folder / file for name, file in names.items()}
    pretrain.run(own, inputs=inputs, outputs=outputs, runtime=runtime)


def predict(lease: Lease) -> None:
    """Write what a step should take on named GPUs: `predicted.md`."""
    cfg, inputs = lease.study.of(lease.models[0])
    threads = lease.study.runtime.threads
    works = [
        predicted.work_of_a_step(cfg, inputs, size, threads) for size in cfg["batch_sizes"][-2:]
    ]
    write_text(lease.folder / "predicted.md", predicted.table(works) + "\n")


def describe(lease: Lease) -> None:
    """Write what the figures were measured on: `about.json`."""
    cfg, inputs = lease.study.of(lease.models[0])
    _, device = probe_hardware(lease.measure, [cfg], lease.study.runtime)
    write_json(
        lease.folder / "about.json", about_run(cfg, inputs, device, lease.study.runtime.threads)
    )


def parts(models: Sequence[str]) -> dict[str, Callable[[Lease], None]]:
    """Return the parts by the file that each leaves, what matters most first."""
    found: dict[str, Callable[[Lease], None]] = {
        "about.json": describe,
        "tests.json": run_tests,
        "predicted.md": predict,
    }
    for model in models:
        found[f"training-{model}/metrics.json"] = partial(train, model=model)
    timed = partial(time_modes, groups=[ORDER, BATCH])
    for model in models:
        found[f"{model}-{ORDER}/speed.md"] = partial(timed, model=model)
        found[f"batches-{model}.tsv"] = partial(double_batches, model=model)
    for group in (OPTION, ALONE):
        for model in models:
            found[f"{model}-{group}/speed.md"] = partial(time_modes, model=model, groups=[group])
    return found


def measure_all(
    specification: Specification, folder: Path, minutes: float, only: Sequence[str]
) -> list[str]:
    """Do the parts that are not there, or only some, until the time is up; return the models."""
    until = time.monotonic() + 60 * minutes
    study = Study(specification)
    with SubprocessRunner() as measure:
        lease = Lease(study, measure, folder, until)
        for file, part in parts(lease.models).items():
            if (folder / file).exists() or not file.startswith(tuple(only)):
                continue
            if time.monotonic() > until:
                logger.warning("%s: no time is left; call this again", file)
                continue
            logger.info("%s", file)
            part(lease)
    return lease.models


def page(folder: Path, models: Sequence[str]) -> str:
    """Return the Markdown page of what a folder holds."""
    text = [
        "# On a GPU",
        "Written by `make gpu` ([how](how-to/gpu.md)); what was not measured yet says so.",
        "## Machine",
        _facts(folder / "about.json"),
        "## Tests",
        _facts(folder / "tests.json"),
        "## Training",
        _trainings(folder, models),
        "## Notes on the steps",
        NOTES,
    ]
    for model in models:
        text += [f"## Batches of {model}", _batches(folder / f"batches-{model}.tsv")]
        for group, words in ((ORDER, "from naive to configured"), (OPTION, "one option changed"),
                             (ALONE, "each change alone")):  # fmt: skip
            text += [f"## Steps of {model}, {words}", _speed(folder / f"{model}-{group}")]
            if model == models[0] and group == ORDER and (folder / f"{model}-{ORDER}").is_dir():
                text.append("![Samples per second of each mode](images/gpu.png)")
    counted = folder / "predicted.md"
    text += ["## What named GPUs should reach", predicted.NOTES]
    text.append(counted.read_text(encoding="utf-8").strip() if counted.exists() else WAITS)
    return "\n\n".join(text) + "\n"


def _facts(file: Path) -> str:
    if not file.exists():
        return WAITS
    facts = {name: said for name, said in read_json(file).items() if not name.startswith("aam.")}
    return "\n".join(f"- {name}: {said}" for name, said in facts.items())


def _trainings(folder: Path, models: Sequence[str]) -> str:
    files = {model: folder / f"training-{model}" / "metrics.json" for model in models}
    found = {model: read_json(file) for model, file in files.items() if file.exists()}
    if not found:
        return WAITS

    def cell(value: Any) -> str:
        return "" if value is None else quantity(float(value))

    rows = [[m, *(cell(own.get(key)) for key in SHOWN.values())] for m, own in found.items()]
    return markdown_table(["model", *SHOWN], rows)


def _batches(file: Path) -> str:
    if not file.exists():
        return WAITS
    table = pd.read_csv(file, sep="\t")
    columns = ["batch_size", "step_ms_median", "samples_per_s", "peak_memory_mb", "loading_share"]
    rows = [[quantity(row[key]) for key in columns] for row in table.to_dict("records")]
    head = ["samples", "step, ms", "samples/s", "peak memory, MB", "share waiting"]
    return markdown_table(head, rows) + "\n\nThe next larger batch had no memory, or no samples."


def _speed(folder: Path) -> str:
    """Return the tables of a page of speed: of the modes, and of the machine at its best."""
    file = folder / "speed.md"
    if not file.exists():
        return WAITS
    found = file.read_text(encoding="utf-8").partition("| group")
    return "".join(found[1:]).split("## Measured on")[0].replace("\n## ", "\n### ").strip()


def draw(folder: Path, models: Sequence[str], path: Path) -> None:
    """Draw the first model's modes from naive to configured, where they were timed."""
    file = folder / f"{models[0]}-{ORDER}" / "speed.tsv"
    if file.exists():
        speed.draw(pd.read_csv(file, sep="\t"), path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, and write the page and the figure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=9, help="after which nothing is begun")
    parser.add_argument("--dry", action="store_true", help="tiny models; the page stays in FOLDER")
    parser.add_argument("--only", nargs="+", default=[""], help="how names of parts begin")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asked, over = read_json(SPECIFICATION), DRY if given.dry else {}
    changes = laid_over(asked.get("changes", {}), over.get("changes", {}))
    asked |= {**over, "changes": changes}
    given.folder.mkdir(parents=True, exist_ok=True)
    specification = Specification.model_validate(asked)
    try:
        models = measure_all(specification, given.folder, given.minutes, given.only)
    except InputError as error:
        raise SystemExit(str(error)) from error
    docs = given.folder if given.dry else ROOT / "docs"
    write_text(docs / "gpu.md", page(given.folder, models))
    draw(given.folder, models, docs / "images" / "gpu.png")


if __name__ == "__main__":
    main()
