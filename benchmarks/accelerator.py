"""The speed table without the workflow, on a machine that has little more than torch.

Run as `python -m benchmarks.accelerator <specification.json> <folder>` from the repository, after
`results/<dataset>/{tokens,views,unifrac}` was copied there. It needs the packages that
docs/how-to/gpu.md lists for a machine without a network, and those that `make wheels` collects.

A specification, in which everything but `configuration` may be left out:

    {
      "configuration": ["config/oral_age.yaml", "config/gpu.yaml"],
      "changes": {"benchmark": {"repeats": 1}},
      "models": {"width128": {}, "width512": {"width": 512, "heads": 8}},
      "dataset": "oral",
      "results": "results/oral",
      "groups": ["order", "alone", "batch", "option"],
      "options": ["precision", "compile", "attention", "checkpointing"],
      "leave_out": ["compile: max-autotune"],
      "threads": 16,
      "workers": 8
    }
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from aam.config import slices
from aam.config.configuration import Config, load, resolved
from aam.config.sections.base import Section
from aam.config.settings.training import SpeedSettings
from aam.util.atomic import read_json
from aam.util.errors import problem
from aam.util.run_options import RunOptions
from benchmarks.speed.ablation import run_ablation
from benchmarks.speed.subprocess_runner import Measure, SubprocessRunner
from benchmarks.speed.tables import about_run
from benchmarks.speed.variants import (
    ALONE,
    BATCH,
    NAIVE,
    ORDER,
    Hardware,
    Variant,
    format_option,
    usual,
    variants,
)

logger = logging.getLogger(__name__)
OPTION = "option"
"""Group of what the configuration does not ask for."""
OPTIONS: dict[str, tuple[Any, ...]] = {
    "precision": ("fp32", "tf32", "bf16", "fp16"),
    "compile": ("off", "default", "reduce-overhead", "max-autotune"),
    "attention": ("auto", "flash", "memory_efficient", "math"),
    "fused_optimizer": (False, True),
    "optimizer": ("adamw", "muon"),
    "checkpointing": (False, True),
    "deterministic": (False, True),
    "workers": (0, 2, 4, 8),
    "pinned": (False, True),
}
WANTS_ACCELERATOR = ("workers", "pinned")
"""Options that a CPU does without: it assembles its batches itself."""
EVERY_OPTION = (NAIVE, *OPTIONS)
"""The naive step is an option, too: speed-ups are over it."""


class Specification(Section):
    """What is timed."""

    configuration: list[Path] = Field(min_length=1)
    """YAML files, the later ones laid over the earlier ones."""
    changes: dict[str, Any] = {}
    """Laid over all of them."""
    models: dict[str, dict[str, Any]] = {"base": {}}
    """Per name, and folder of figures, what differs from the configuration's first model."""
    dataset: str | None = None
    """Name of a dataset of the configuration; null: its first."""
    results: Path | None = None
    """Folder of the dataset's results; null: where the configuration has it."""
    groups: list[str] = [ORDER, ALONE, BATCH, OPTION]
    """Groups of modes that are timed (see `benchmarks.speed.variants`); speed-ups need `order`."""
    options: list[str] = list(EVERY_OPTION)
    """What the group `option` changes, one by one; `naive`: the naive step at the largest batch."""
    leave_out: list[str] = []
    """Modes of the group `option` that are not timed, such as `compile: max-autotune`."""
    threads: int | None = None
    """Cores; null: all that this process may use."""
    workers: int = 8
    """Processes that assemble batches."""


class Study:
    """What a specification asks for: `config`, `dataset`, and `runtime`, with a `work` folder."""

    def __init__(self, specification: Specification, work: Path | None = None) -> None:
        self.specification = specification
        self.config = _configuration(specification)
        self.dataset = specification.dataset or next(iter(self.config.datasets))
        self.results = specification.results or Path(self.config.results_dir, self.dataset)
        threads = specification.threads or len(os.sched_getaffinity(0))
        self.runtime = RunOptions(threads=threads, workers=specification.workers, work=work)

    def inputs_for(self, model: str) -> tuple[SpeedSettings, dict[str, Any]]:
        """Return the settings of the speed table and the inputs of one model."""
        inputs = inputs_of(self.config, self.dataset, model, self.results)
        return slices.benchmark(self.config, self.dataset, model), inputs


def run(specification: Specification, folder: Path) -> None:
    """Time every model; write `speed.tsv`, `speed.md` and `roofline.json` into its folder."""
    study = Study(specification)
    for model in study.config.models:
        logger.info("model %s", model)
        with SubprocessRunner() as measure:
            time_steps(study, model, specification.groups, measure, folder / model)


def time_steps(
    study: Study,
    model: str,
    groups: Sequence[str],
    measure: Measure,
    folder: Path,
) -> None:
    """Time some groups of modes of one model, and write the figures."""

    def choose(settings: SpeedSettings, hardware: Hardware) -> list[Variant]:
        further = options(settings, hardware, specification.options)
        asked = [one for one in further if one.name not in specification.leave_out]
        return [one for one in [*variants(settings, hardware), *asked] if one.group in groups]

    specification = study.specification
    settings, inputs = study.inputs_for(model)
    ablation = run_ablation(measure, settings, inputs, study.runtime, choose)
    files = {"table": "speed.tsv", "text": "speed.md", "roofline": "roofline.json"}
    outputs = {name: folder / file for name, file in files.items()}
    ablation.write(
        outputs, about_run(settings.plain(), inputs, ablation.device, study.runtime.threads)
    )


def inputs_of(config: Config, dataset: str, model: str, results: Path) -> dict[str, Any]:
    """Return the files that a model is trained with, in a dataset's folder of results.

    Raises InputError where the workflow has not made them yet.
    """
    files: dict[str, Any] = {"tokens": results / "tokens" / "asvs.arrow"}
    files["samples"] = results / "views" / "samples.arrow"
    computes_targets = slices.computes_targets(config, dataset, model)
    if computes_targets or slices.subsamples_rows(config, dataset, model):
        files["tree"] = results / "inputs" / "tree.nwk"
    if not computes_targets:
        # Metric by metric, as training reads them.
        files["distances"] = [
            results / "unifrac" / metric / f"view{view}.parquet"
            for metric in slices.distances(config, dataset, model)
            for view in range(resolved(config, "rarefaction", dataset=dataset).views)
        ]
    wanted = [path for path in files.values() if isinstance(path, Path)]
    absent = [path for path in wanted + files.get("distances", []) if not path.exists()]
    if absent:
        hint = f"run the workflow first: snakemake ... -- {' '.join(map(str, absent))}"
        raise problem(absent[0], "no such file", "what a training reads", hint)
    return files


def options(settings: SpeedSettings, hardware: Hardware, names: Sequence[str]) -> list[Variant]:
    """Return modes that differ by one option from the configured one, at the largest batch.

    Modes that `variants` lists already are left out.
    """
    first, *others = variants(settings, hardware)
    base = usual(settings.training, hardware)
    size = max(settings.batch_sizes)
    seen = {variant.mode for variant in (first, *others) if variant.batch_size == size}
    added = []
    if NAIVE in names and first.mode not in seen:
        added.append(Variant(OPTION, NAIVE, size, first.mode))
    for key in names:
        for value in OPTIONS.get(key, ()):
            mode = replace(base, **{key: value})
            wants_accelerator = value == "fp16" or key in WANTS_ACCELERATOR
            if mode in seen or (wants_accelerator and not hardware.accelerator):
                continue
            seen.add(mode)
            added.append(Variant(OPTION, format_option(key, value), size, mode))
    return added


def _configuration(specification: Specification) -> Config:
    raw = laid_over(laid_together(specification.configuration), specification.changes)
    first: dict[str, Any] = next(iter(raw.get("models", {}).values()), {})
    models = {name: laid_over(first, change) for name, change in specification.models.items()}
    return load({**raw, "models": models})


def laid_together(paths: Sequence[Path]) -> dict[str, Any]:
    """Return the content of YAML files, the later ones laid over the earlier ones."""
    raw: dict[str, Any] = {}
    for path in paths:
        raw = laid_over(raw, yaml.safe_load(path.read_text(encoding="utf-8")))
    return raw


def laid_over(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with another laid over it, level by level."""
    result = dict(base)
    for key, value in change.items():
        nested = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = laid_over(result[key], value) if nested else value
    return result


def main(arguments: Sequence[str]) -> None:
    """Time what a file specifies."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    specification, folder = arguments
    run(Specification.model_validate(read_json(Path(specification))), Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
