"""About how long training takes, from shapes alone, and how fast a core of this machine is."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from aam.config.sections.training import Pretraining
from aam.data.nested_folds import ring_size
from aam.data.rarefaction import too_deep
from aam.data.table import FeatureTable

CORES, PRODUCT, PRODUCT_SPEED = 2, 768, 1e11
"""The machine of reference: its cores, the rows of a square product in fp32, and the operations per
second of a core in such a product, which is timed here to tell how fast a core is."""
STEP, OPERATION, START, BASELINES = 0.176, 2.5e-11, 5.0, 0.17
"""Core-seconds, idle cores counted, of a step and of an operation of the blocks (by ten runs on
seven studies); seconds before a training, and of all baselines per labelled sample, five folds."""
FOLDS, SAMPLES = 5, 500
"""What `finetuning.budget_minutes` is for; it grows with both, for fewer samples it stays."""


def core_speed() -> float:
    """Return the speed of a core here over the one of reference, by the best of five products."""
    one_PP, times = np.ones((PRODUCT, PRODUCT), dtype=np.float32), [time.thread_time()]
    with threadpool_limits(1):
        for _ in range(5):
            one_PP @ one_PP
            times.append(time.thread_time())
    return 2.0 * PRODUCT**3 / min(np.diff(times)) / PRODUCT_SPEED


def budget_seconds(minutes: float, folds: int, samples: int) -> float:
    """Return the seconds that fine-tuning by `auto` may take, for so many folds and labels."""
    return 60.0 * minutes * folds / FOLDS * max(1.0, samples / SAMPLES)


def expected_seconds(
    cfg: Mapping[str, Any],
    table: FeatureTable,
    longest_bp: int,
    labels: Mapping[str, Sequence[int]],
) -> Iterator[tuple[str, float]]:
    """Yield each training of a study, and the seconds that two cores like these will take for it.

    `cfg` is `aam.config.slices.describe`; `labels` has the labelled samples and the folds by task.
    """
    prevalence_F, samples = _prevalence(table, cfg["depth"])
    cores, length_bp = CORES * core_speed(), min(longest_bp, cfg["max_length_bp"])

    def learning(shape: Mapping[str, Any], passes: float, rows: float, batch_size: int) -> float:
        """Return the seconds that train a whole model, for passes over so many samples."""
        steps = passes * math.ceil(rows / batch_size)
        distinct = (1 - (1 - prevalence_F) ** min(batch_size, rows)).sum() * steps
        tokens = shape["asv_layers"] * math.ceil(length_bp / shape["patch_bp"]) * distinct
        tokens += shape["sample_layers"] * prevalence_F.sum() * passes * rows
        operations = 6.0 * 12 * shape["width"] ** 2 * tokens
        return float(STEP * steps + OPERATION * operations) / cores

    for name, model in cfg["models"].items():
        settings, shape = Pretraining.model_validate(model["pretraining"]), model["model"]
        learned = samples * (1 - settings.held_out)
        # A validation, and the embedding of all samples, are forward passes: a third of a step.
        validated = settings.validations * (samples - learned)
        passes = (samples + validated) / 3 / learned
        passes += settings.passes(math.ceil(learned / settings.batch_size))
        seconds = learning(shape, passes, learned, settings.batch_size)
        yield f"pretraining of {name}", START + seconds
        for task, section in cfg["tasks"].items():
            (labelled, folds), own = labels[task], section["finetuning"]
            found = START + BASELINES * labelled * folds / FOLDS
            if own["encoder"] == "auto":
                found += budget_seconds(own["budget_minutes"], folds, labelled)
            elif own["encoder"] in ("full", "partial"):
                trained = shape if own["encoder"] == "full" else {**shape, "asv_layers": 0}
                # Nested predictions take some models more.
                models = folds * own["models"] + ring_size(folds)
                passes = models * own["epochs"]
                found += learning(trained, passes, labelled * (1 - 1 / folds), own["batch_size"])
            yield f"{task} with {name} and its baselines", found


def _prevalence(table: FeatureTable, depth: int) -> tuple[NDArray[np.float64], int]:
    """Return the part of the samples that have each ASV at a depth, [F], and their number."""
    rows = np.flatnonzero(table.reads >= depth)
    if not rows.size:
        raise too_deep(table.sample_ids, table.reads, depth)
    kept = table.counts[rows].astype(np.float64)
    # As if reads were put back after each draw, which is near enough.
    reads = np.repeat(kept.sum(axis=1), np.diff(kept.indptr))
    kept.data = 1 - np.exp(-depth * kept.data / reads)
    return np.asarray(kept.sum(axis=0)) / len(rows), len(rows)
