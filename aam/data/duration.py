"""About how long training takes, from shapes alone, and how fast a core of this machine is."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from aam.config.sections.training import Pretraining
from aam.data.rarefaction import expected_richness
from aam.data.table import FeatureTable

CORES, SPEED, SAMPLE_BLOCK, DISTINCT = 2, 1.3e11, 3.3, 0.4
"""Of the machine that costs are estimated for: cores, and operations per second of each; how many
times as long those of a block over a sample's ASVs take; the part of the ASVs of a batch's samples
that are met for the first time in it. Measured on the mackerels, infant guts and oral samples of
the leaderboard."""
PRODUCT, PRODUCT_SPEED = 768, 1e11
"""Rows of the matrices that are multiplied to learn how fast a core is, and the operations per
second, in fp32, of a core of that machine."""
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
    depth, length_bp = cfg["depth"], min(longest_bp, cfg["max_length_bp"])
    rows, cores = np.flatnonzero(table.reads >= depth), CORES * core_speed()
    counts = (table.counts[[row]].data for row in rows)
    asvs = sum(expected_richness(own, np.array([depth]))[0] for own in counts) / max(len(rows), 1)
    for name, model in cfg["models"].items():
        settings, shape = Pretraining.model_validate(model["pretraining"]), model["model"]
        sizes = {
            "width": shape["width"],
            "sample_blocks": shape["sample_layers"],
            "tokens": math.ceil(length_bp / shape["patch_bp"]),
            "asvs": asvs,
        }
        learned = len(rows) * (1 - settings.held_out)
        passes = settings.passes(math.ceil(learned / settings.batch_size))
        seen = len(rows) + settings.validations * (len(rows) - learned) * (passes > 0)
        samples, asv_blocks = passes * learned + FORWARD * seen, shape["asv_layers"]
        found = training_seconds(**sizes, asv_blocks=asv_blocks, samples=samples)
        yield f"pretraining of {name}", START_SECONDS + found / cores
        for task, section in cfg["tasks"].items():
            (samples, folds), own = labels[task], section["finetuning"]
            found = START_SECONDS + BASELINE_SECONDS * samples * folds / FOLDS
            if own["encoder"] == "auto":
                found += budget_seconds(own["budget_minutes"], folds, samples)
            elif own["encoder"] in ("full", "partial"):
                blocks = asv_blocks if own["encoder"] == "full" else 0
                seen = samples * (folds - 1) * own["epochs"] * own["models"]
                found += training_seconds(**sizes, asv_blocks=blocks, samples=seen) / cores
            yield f"{task} with {name} and its baselines", found
