"""About how long training takes, from shapes alone, and how fast a core of this machine is."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from aam.config.sections.training import Pretraining
from aam.data.rarefaction import too_deep
from aam.data.table import FeatureTable

CORES, SPEED, SAMPLE_BLOCK, DISTINCT = 2, 1.3e11, 3.3, 0.4
"""Of the machine that costs are estimated for: cores, and operations per second of each; how many
times as long those of a block over a sample's ASVs take; the part of the ASVs of a batch's samples
that are met for the first time in it. Measured on the mackerels, infant guts and oral samples of
the leaderboard."""
PRODUCT, PRODUCT_SPEED = 768, 1e11
"""Rows of the matrices that are multiplied to learn how fast a core is, and the operations per
second, in fp32, of a core of that machine."""
STEP, ASV_OPERATION = 0.33, 2.4e-11
"""Seconds of a core of that machine for a step, whatever its size, and for an operation of the
blocks over nucleotides, with all that goes with it: fitted to pretrainings of seven studies."""
FORWARD = 1 / 3
"""Part of the operations that a validation needs, and an embedding: they go one way."""
START_SECONDS = 10.0
"""Of any job that trains, for its imports and the measured step."""
BASELINE_SECONDS = 0.1
"""Of all baselines, on both cores, per sample and five folds."""
FOLDS, SAMPLES = 5, 500
"""What `finetuning.budget_minutes` is for; it grows in proportion with both, for fewer samples it
stays."""


def training_seconds(
    *, width: int, asv_blocks: int, sample_blocks: int, tokens: int, asvs: float, samples: float
) -> float:
    """Return the seconds of a core that go through so many samples, forward and backward.

    Parameters
    ----------
    width
        That of the model.
    asv_blocks, sample_blocks
        Trained blocks over the nucleotides of an ASV, and over the ASVs of a sample.
    tokens
        Tokens of an ASV.
    asvs
        ASVs of a sample, in the mean.
    samples
        Samples, times the passes over them.
    """
    blocks = SAMPLE_BLOCK * sample_blocks + asv_blocks * tokens * DISTINCT
    return samples * asvs * 6.0 * 12 * width**2 * blocks / SPEED


def core_speed() -> float:
    """Return how many times as fast a core of this machine is, by the best of five products."""
    one_PP = np.ones((PRODUCT, PRODUCT), dtype=np.float32)
    best = math.inf
    with threadpool_limits(1):
        for _ in range(5):
            t0 = time.thread_time()
            one_PP @ one_PP
            best = min(best, time.thread_time() - t0)
    return 2.0 * PRODUCT**3 / best / PRODUCT_SPEED


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
        tokens = math.ceil(length_bp / shape["patch_bp"])
        operations = 6.0 * 12 * shape["width"] ** 2 * shape["asv_layers"] * tokens
        return float(STEP * steps + ASV_OPERATION * operations * distinct) / cores

    for name, model in cfg["models"].items():
        settings, shape = Pretraining.model_validate(model["pretraining"]), model["model"]
        learned = samples * (1 - settings.held_out)
        epochs = settings.passes(math.ceil(learned / settings.batch_size))
        seen = samples + settings.validations * (samples - learned) * (epochs > 0)
        passes = epochs + FORWARD * seen / max(learned, 1)
        seconds = learning(shape, passes, learned, settings.batch_size)
        yield f"pretraining of {name}", START_SECONDS + seconds
        for task, section in cfg["tasks"].items():
            (labelled, folds), own = labels[task], section["finetuning"]
            found = START_SECONDS + BASELINE_SECONDS * labelled * folds / FOLDS
            if own["encoder"] == "auto":
                found += budget_seconds(own["budget_minutes"], folds, labelled)
            elif own["encoder"] in ("full", "partial"):
                trained = shape if own["encoder"] == "full" else {**shape, "asv_layers": 0}
                passes = folds * own["epochs"] * own["models"]
                found += learning(trained, passes, labelled * (1 - 1 / folds), own["batch_size"])
            yield f"{task} with {name} and its baselines", found


def _prevalence(table: FeatureTable, depth: int) -> tuple[NDArray[np.float64], int]:
    """Return the part of the samples that have each ASV at a depth, [F], and their number.

    Reads are drawn with replacement here, which is near enough.
    """
    rows = np.flatnonzero(table.reads >= depth)
    if not rows.size:
        raise too_deep(table.sample_ids, table.reads, depth)
    kept = table.counts[rows].astype(np.float64)
    reads = np.repeat(kept.sum(axis=1), np.diff(kept.indptr))
    kept.data = 1 - np.exp(-depth * kept.data / reads)
    return np.asarray(kept.sum(axis=0)) / len(rows), len(rows)
