"""Steps and processor time to a held-out correlation, for variants of the pretraining.

Run as `python -m benchmarks.optimizers CONFIGURATION DATASET FOLDER` once the workflow has made the
inputs of the pretraining. Every variant is trained with every seed, in a process and on a core of
its own; a run whose curve is in the folder is not repeated. Prints a table and writes it as
`optimizers.tsv`.
"""

import argparse
import logging
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.batches.dataset import BatchDataset
from aam.config import slices
from aam.config.configuration import load
from aam.config.settings.training import PretrainSettings
from aam.distributed.devices import Devices
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.tasks.pretrain.model import PretrainingModel
from aam.tasks.pretrain.preparation import prepare
from aam.tasks.pretrain.run import pretraining_devices, train
from aam.tasks.pretrain.validation import HeldOut
from aam.train import optimizer as optimizers
from aam.train.checkpoint import Checkpoints
from aam.util.atomic import write_tsv
from aam.util.run_options import RunOptions
from aam.util.seeds import seed_of
from benchmarks.accelerator import inputs_of, laid_together
from benchmarks.speed.tables import markdown_table

CORRELATION = 0.95
"""Held-out correlation that the variants are compared at."""
HEADS_PER_BLOCK = 2
STRONGER_DECAY = 0.1
"""Weight decay where it is cautious: the usual 0.01 would take 7 % of a weight in 720 steps."""
SECOND_MOMENT = 0.95
"""Decay of the mean squares of NorMuon's neurons."""
T = TypeVar("T")
PHASES = ((1 / 3, 0.5), (1 / 3, 1.0), (1 / 3, 2.0))
"""Fractions of the epochs, and the batch size in each as a multiple of the configured one."""


@dataclass(frozen=True)
class Variant:
    """What differs from the optimizer of the package."""

    is_decay_cautious: bool = False
    """Weights decay only where the decay and the update have the same sign, and by
    `STRONGER_DECAY` (Chen et al. 2025, arXiv:2510.12402)."""
    is_decay_stronger: bool = False
    """Weights decay by `STRONGER_DECAY`."""
    is_rate_linear: bool = False
    """The rate falls to zero on a straight line: `pretraining.learning_rate_decay`."""
    is_batch_growing: bool = False
    """The batch grows by `PHASES` (Smith et al. 2018, arXiv:1711.00489)."""
    is_split_by_heads: bool = False
    """Queries, keys and values of each pair of heads are orthogonalized by themselves."""
    is_normalized: bool = False
    """Neurons are normalized after the orthogonalization (NorMuon; Li et al. 2025,
    arXiv:2510.05491)."""
    subsampled: float = 0.0
    """Fraction of the steps in which rows have fewer reads: `pretraining.subsampled`."""
    epochs_fraction: float = 1.0
    """Epochs as a fraction of the configured ones."""


VARIANTS = {
    "base": Variant(),
    "cautious": Variant(is_decay_cautious=True),
    "stronger_decay": Variant(is_decay_stronger=True),
    "linear": Variant(is_rate_linear=True),
    "growing": Variant(is_batch_growing=True),
    "heads": Variant(is_split_by_heads=True),
    "normuon": Variant(is_normalized=True),
    "seven_tenths": Variant(epochs_fraction=0.7),
    "half": Variant(epochs_fraction=0.5),
    "subsampled": Variant(subsampled=0.8),
    "subsampled_for_longer": Variant(subsampled=0.9),
}


class VariantMuon(optimizers.BatchedMuon):
    """Muon with the changes of a variant; without any, its updates are those of the package.

    Attributes
    ----------
    variant
        What is changed.
    head_width
        Rows of a head in the matrix of queries, keys and values.
    """

    variant = Variant()
    head_width = 1

    def _update(self, tall: list[Tensor], wide: list[Tensor], group: dict[str, Any]) -> None:
        for matrices in (tall, wide):
            if matrices:
                self._move(matrices, self._directions(matrices, group), group)

    def _directions(self, matrices: list[Tensor], group: dict[str, Any]) -> Tensor:
        """Return the orthogonal directions [M, R, C] of matrices of one shape."""
        momenta_MRC = self._update_momenta(matrices, group)
        rows, columns = momenta_MRC.shape[1:]
        if self.variant.is_split_by_heads and rows == 3 * columns:
            blocks = momenta_MRC.reshape(-1, HEADS_PER_BLOCK * self.head_width, columns)
            directions = optimizers.orthogonalize(blocks, group).reshape(momenta_MRC.shape)
            # Six blocks of 64 rows have the norm of one block of 128 columns times sqrt(3), and the
            # movement of a tall matrix is multiplied by sqrt(rows / columns).
            return directions / math.sqrt(rows / columns)
        if rows > columns:
            return optimizers.orthogonalize(momenta_MRC.mT, group).mT
        return optimizers.orthogonalize(momenta_MRC, group)

    def _move(self, matrices: list[Tensor], directions: Tensor, group: dict[str, Any]) -> None:
        rows, columns = matrices[0].shape
        directions_MRC = directions.to(matrices[0].dtype)
        if self.variant.is_normalized:
            directions_MRC = self._normalize(matrices, directions_MRC)
        scale = math.sqrt(max(1.0, rows / columns))
        is_strong = self.variant.is_decay_cautious or self.variant.is_decay_stronger
        decay = STRONGER_DECAY if is_strong else group["weight_decay"]
        for matrix, direction_RC in zip(matrices, directions_MRC, strict=True):
            decayed_RC = matrix
            if self.variant.is_decay_cautious:
                decayed_RC = matrix * (matrix * direction_RC > 0)
            change_RC = decay * decayed_RC + scale * direction_RC
            matrix.sub_(change_RC, alpha=group["lr"])

    def _normalize(self, matrices: list[Tensor], directions_MRC: Tensor) -> Tensor:
        """Divide each row by the root of its mean square over the steps, at the same norm."""
        squares_MR = directions_MRC.square().mean(dim=2)
        means = []
        for matrix, squares_R in zip(matrices, squares_MR, strict=True):
            state = self.state[matrix]
            if "mean_squares" not in state:
                state["mean_squares"] = torch.zeros_like(squares_R)
            means.append(state["mean_squares"].lerp_(squares_R, 1 - SECOND_MOMENT))
        normalized_MRC = directions_MRC / (torch.stack(means).sqrt() + 1e-8).unsqueeze(2)
        before_M11 = torch.linalg.vector_norm(directions_MRC, dim=(1, 2), keepdim=True)
        after_M11 = torch.linalg.vector_norm(normalized_MRC, dim=(1, 2), keepdim=True)
        return normalized_MRC * (before_M11 / after_M11)


class GrowingBatches(BatchDataset):
    """The samples of every epoch, in batches that are larger in later epochs."""

    def _phases(self) -> list[tuple[int, BatchDataset]]:
        """Return the first step of every phase, and its batches."""
        phases = []
        first_step = 0
        first_epoch = 0
        for number, (_, multiple) in enumerate(PHASES):
            fractions = [fraction for fraction, _ in PHASES[: number + 1]]
            last_epoch = round(self.epochs * sum(fractions))
            part = replace(
                as_class(BatchDataset, self),
                batch_size=round(self.batch_size * multiple),
                epochs=last_epoch - first_epoch,
                seed=seed_of("phase", self.seed, number),
            )
            phases.append((first_step, part))
            first_step += len(part)
            first_epoch = last_epoch
        return phases

    def __len__(self) -> int:
        """Return the steps of all phases."""
        first_step, part = self._phases()[-1]
        return first_step + len(part)

    def rows(self, step: int) -> tuple[NDArray[np.int64], int]:
        """Return the rows of a step of the whole run."""
        begun = [phase for phase in self._phases() if phase[0] <= step]
        first_step, part = begun[-1]
        return part.rows(step - first_step)


@dataclass(frozen=True, eq=False)
class TimedHeldOut(HeldOut):
    """A validation that notes the processor seconds which training took before it."""

    seconds: list[float] = field(default_factory=list)
    """At every validation, without the validations before."""
    paused: list[float] = field(default_factory=list)
    """Processor seconds of every validation."""
    start_s: float = field(default_factory=time.process_time)

    def score(self, model: PretrainingModel, devices: Devices) -> dict[str, float]:
        """Score a model, see `HeldOut.score`."""
        before_s = time.process_time()
        self.seconds.append(before_s - self.start_s - sum(self.paused))
        values = super().score(model, devices)
        self.paused.append(time.process_time() - before_s)
        return values


def as_class(wanted: type[T], instance: Any) -> T:
    """Return the dataclass `wanted` with the fields that an instance of a related class has."""
    names = [field_.name for field_ in fields(wanted) if hasattr(instance, field_.name)]  # type: ignore[arg-type]
    return wanted(**{name: getattr(instance, name) for name in names})


def train_variant(
    settings: PretrainSettings, inputs: PretrainInputs, variant: Variant
) -> pd.DataFrame:
    """Pretrain with a variant.

    Parameters
    ----------
    settings, inputs
        Those of the stage, with the tree of the dataset.
    variant
        What is changed.

    Returns
    -------
    pandas.DataFrame
        A row per validation: the step, the scores, and the processor `seconds` of training.
    """
    runtime = RunOptions(threads=1, checkpoint_every_s=math.inf)
    devices = pretraining_devices(settings.optimization, runtime)
    changes: dict[str, Any] = {"subsampled": variant.subsampled}
    if variant.is_rate_linear:
        changes["learning_rate_decay"] = "linear"
    training = settings.pretraining.model_copy(update=changes)
    settings = settings.model_copy(update={"pretraining": training})
    prepared = prepare(settings, inputs)
    epochs = round(variant.epochs_fraction * prepared.dataset.epochs)
    prepared = replace(prepared, dataset=replace(prepared.dataset, epochs=epochs))
    if variant.is_batch_growing:
        prepared = replace(prepared, dataset=as_class(GrowingBatches, prepared.dataset))
    validation = as_class(TimedHeldOut, prepared.validation)
    prepared = replace(prepared, validation=validation)
    VariantMuon.variant = variant
    VariantMuon.head_width = settings.model.width // settings.model.heads
    with patch.object(optimizers, "BatchedMuon", VariantMuon):
        checkpoints = Checkpoints(None, "variant")
        progress = train(settings, prepared, devices, checkpoints, runtime, "variant")
    history = pd.DataFrame(progress.history)
    history = history[history["split"] == "validation"]
    curve = history.pivot(index="step", columns="name", values="value").reset_index()
    return curve.assign(seconds=validation.seconds)


def crossing(curve: pd.DataFrame, column: str, metric: str) -> float:
    """Return where a curve first reaches `CORRELATION`, on a line between two validations.

    NaN where it never does.
    """
    scores = curve[f"{metric}_pearson"].to_numpy()
    reached = np.flatnonzero(scores >= CORRELATION)
    if not len(reached):
        return math.nan
    around = slice(max(0, reached[0] - 1), reached[0] + 1)
    return float(np.interp(CORRELATION, scores[around], curve[column][around]))


def summarize(curves: Mapping[str, Sequence[pd.DataFrame]], metric: str) -> pd.DataFrame:
    """Return per variant the means over the seeds, with least and most."""

    def describe(values: Sequence[float], digits: int) -> str:
        low = np.min(values)
        mean = np.mean(values)
        high = np.max(values)
        return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    rows = []
    for name, runs in curves.items():
        reached = {
            column: [crossing(run, column, metric) for run in runs]
            for column in ("step", "seconds")
        }
        last = [run.iloc[-1] for run in runs]
        rows.append(
            {
                "variant": name,
                "steps": describe(reached["step"], 0),
                "processor seconds": describe(reached["seconds"], 0),
                "r at the end": describe([row[f"{metric}_pearson"] for row in last], 4),
                "processor seconds to the end": describe([row["seconds"] for row in last], 0),
            }
        )
    return pd.DataFrame(rows)


def main() -> None:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configuration", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="patches_of_10")
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="training runs side by side")
    parser.add_argument("--one", nargs=2, metavar=("VARIANT", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    config = load(laid_together([arguments.configuration]))
    settings = slices.pretrain(config, arguments.dataset, arguments.model)
    results = Path("results") / arguments.dataset
    files = inputs_of(config, arguments.dataset, arguments.model, results)
    files["tree"] = results / "inputs" / "tree.nwk"
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.one is not None:
        name, seed = arguments.one
        seeded = settings.pretraining.model_copy(update={"seed": int(seed)})
        inputs = PretrainInputs.model_validate(files)
        curve = train_variant(
            settings.model_copy(update={"pretraining": seeded}),
            inputs,
            VARIANTS[name],
        )
        write_tsv(arguments.folder / f"{name}-{seed}.tsv", curve)
        return

    def train_in_process(name: str, seed: int) -> None:
        if not (arguments.folder / f"{name}-{seed}.tsv").exists():
            command = [sys.executable, "-m", "benchmarks.optimizers", *sys.argv[1:]]
            with (arguments.folder / f"{name}-{seed}.log").open("w") as log:
                subprocess.run([*command, "--one", name, str(seed)], check=True, stderr=log)

    runs = [(name, seed) for seed in arguments.seeds for name in arguments.variants]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(lambda run: train_in_process(*run), runs))
    curves = {
        name: [
            pd.read_csv(arguments.folder / f"{name}-{seed}.tsv", sep="\t")
            for seed in arguments.seeds
        ]
        for name in arguments.variants
    }
    table = summarize(curves, settings.metrics[0])
    write_tsv(arguments.folder / "optimizers.tsv", table)
    print(markdown_table(table.columns.tolist(), table.to_numpy().tolist()))


if __name__ == "__main__":
    main()
