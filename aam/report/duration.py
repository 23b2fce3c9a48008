"""About how long a run takes, from shapes alone, and how fast a core of this machine is."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from aam.config.baselines import MOST_COMPARED
from aam.config.names import name_models
from aam.config.sections.finetuning import BUDGET_CORES, Finetuning
from aam.config.sections.model import EncoderShape
from aam.config.sections.training import Pretraining
from aam.config.settings.describe import PlannedModel, PlannedTask, RunPlan
from aam.data.nested_folds import ring_size
from aam.data.rarefaction import (
    expected_prevalence,
    features_left,
    features_of_rows,
    too_deep,
)
from aam.data.table import FeatureTable
from aam.util.flops import trained_flops
from aam.util.log import format_duration

PRODUCT = 768
"""Rows of a square product in fp32, which is timed here to learn how fast a core is."""
PRODUCT_SPEED = 1e11
"""Operations per second of a core of the machine of reference in such a product."""
STEP = 0.176
"""Core-seconds of a step, idle cores counted, from ten runs on seven studies."""
OPERATION = 2.5e-11
"""Core-seconds of an operation of the blocks, from the same runs."""
START = 5.0
"""Seconds before the first step of a training run."""
BASELINES = 0.004
"""Seconds of the default baselines per labelled sample, with `BASELINE_FOLDS` folds; these and the
following figures are from first answers of 33 to 2537 samples (docs/results.md)."""
BASELINE_PAIRS = 5e-6
"""Seconds of the same per pair of labelled samples."""
BASELINE_FOLDS = 5
EXPLAINED = 1.0
"""Core-seconds, idle cores counted, that explain a sample: 0.5 to 2.3 in studies of 87, 202 and 441
samples, half of it where the recipe is `kernel`."""
OTHERS = 5.0
"""Seconds of reading, rarefaction, distances, scores and figures: with one task 8 to 12."""
OTHERS_PER_TASK = 5.0
"""Seconds of the same that each task adds."""
FEW_PASSES = Pretraining().passes(steps_per_epoch=Pretraining.least_steps)
"""Passes of a pretraining where the samples are many."""
LEAST_SAVED = 0.2
"""Share of the time that a change has to save to be worth a word."""
LEAST_SAVED_S = 30.0
"""Seconds that it has to save, too."""
FIRST_PARTS = ("baselines", "others")
"""Kinds of parts that lead to the first answer."""
NETWORK_PARTS = ("pretraining", "fine-tuning", "explaining")
"""Kinds of parts that a run without networks lacks."""


@dataclass(frozen=True)
class Part:
    """A part of a run."""

    kind: Literal["pretraining", "fine-tuning", "explaining", "baselines", "others"]
    what: str
    """What it is called."""
    seconds: float
    """On two cores like these."""


def core_speed() -> float:
    """Return the speed of a core here over the one of reference, by the best of five products."""
    one_PP = np.ones((PRODUCT, PRODUCT), dtype=np.float32)
    times = [time.thread_time()]
    with threadpool_limits(1):
        for _ in range(5):
            one_PP @ one_PP
            times.append(time.thread_time())
    return 2.0 * PRODUCT**3 / min(np.diff(times)) / PRODUCT_SPEED


def expected_parts(
    plan: RunPlan, work: "Work", labels: Mapping[str, tuple[int, int]]
) -> list[Part]:
    """Return the parts of a run, from the one that takes longest on.

    Parameters
    ----------
    plan
        What the time of the run depends on.
    work
        What the table and this machine make of it.
    labels
        The labelled samples and the folds, by task.
    """
    parts = [Part("others", "reading, distances, scores and figures", _others_s(labels))]
    for task, (labelled, folds) in labels.items():
        # Of many samples, pairs are those of landmarks.
        pairs = min(labelled, MOST_COMPARED) ** 2
        fits_s = BASELINES * labelled + BASELINE_PAIRS * pairs
        seconds = START + fits_s * folds / BASELINE_FOLDS
        parts.append(Part("baselines", f"baselines of {task}", seconds))
    labels_of_models = name_models(plan.models)
    for name, model in plan.models.items():
        label = labels_of_models[name]
        pretraining_s = work.pretraining_s(model)
        parts.append(Part("pretraining", f"pretraining of {label}", pretraining_s))
        for task, folds in _folds_with_encoders(plan, labels).items():
            what = f"pretraining of {label} without each of {folds} folds of {task}"
            parts.append(Part("pretraining", what, folds * pretraining_s))
        for task, section in plan.tasks.items():
            named = f"{task} with {label}"
            finetuning_s = work.finetuning_s(model.model, section.finetuning, *labels[task])
            parts.append(Part("fine-tuning", f"fine-tuning of {named}", finetuning_s))
            if section.explained:
                explaining_s = work.explaining_s(section, *labels[task])
                parts.append(Part("explaining", f"important ASVs of {named}", explaining_s))
    return sorted(parts, key=lambda part: -part.seconds)


def describe_time(parts: Sequence[Part]) -> Iterator[str]:
    """Yield how long a run takes in all, and its first answer where networks follow.

    Parameters
    ----------
    parts
        What `expected_parts` returns.
    """
    first_s = sum(part.seconds for part in parts if part.kind in FIRST_PARTS)
    total_s = sum(part.seconds for part in parts)
    if first_s < total_s:
        yield f"First answer (`aam run FILE first`): about {round_time(first_s)}."
    yield f"Everything: about {round_time(total_s)}."


def round_time(seconds: float) -> str:
    """Return an expected time in steps of five seconds, and in half minutes from two on.

    Parameters
    ----------
    seconds
        The time; it is rounded up.
    """
    step_s = 5.0 if seconds < 120 else 30.0
    return format_duration(step_s * math.ceil(seconds / step_s))


def _folds_with_encoders(plan: RunPlan, labels: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Return the folds of the inductive tasks, by the first of those that share their encoders."""
    folds: dict[str, int] = {}
    for task, section in plan.tasks.items():
        owner = section.encoders_of
        if owner is not None:
            _, folds[owner] = labels[task]
    return folds


def propose_faster(plan: RunPlan, work: "Work") -> tuple[list[str], RunPlan]:
    """Return lines of configuration that make a run faster, and the plan that they lead to.

    Parameters
    ----------
    plan
        What the time of the run depends on.
    work
        What the table and this machine make of it.

    Returns
    -------
    lines : list of str
        Lines of YAML, none where nothing would be faster.
    changed : RunPlan
        The plan with these changes.
    """
    lines = []
    models = dict(plan.models)
    tasks = dict(plan.tasks)
    for name, model in plan.models.items():
        pretraining = model.pretraining
        if pretraining.epochs is None and work.pretraining_passes(pretraining) > FEW_PASSES:
            shorter = pretraining.model_copy(update={"epochs": FEW_PASSES})
            models[name] = model.model_copy(update={"pretraining": shorter})
    if models != plan.models:
        lines.append(f"pretraining: {{epochs: {FEW_PASSES}}}")
    if tasks and all(map(_can_be_kernel, tasks.values())):
        lines.append("finetuning: {recipe: kernel}")
        for name, task in plan.tasks.items():
            kernel = task.finetuning.model_copy(update={"recipe": "kernel"})
            tasks[name] = task.model_copy(update={"finetuning": kernel})
    return lines, plan.model_copy(update={"models": models, "tasks": tasks})


def is_worth_it(seconds: float, faster_s: float) -> bool:
    """Return whether a faster run saves enough to be worth a word.

    Parameters
    ----------
    seconds, faster_s
        Expected seconds of the run as it is, and of the faster one.
    """
    return seconds - faster_s >= max(LEAST_SAVED * seconds, LEAST_SAVED_S)


def _can_be_kernel(task: PlannedTask) -> bool:
    """Return whether a kernel head alone can take the place of what `auto` trains."""
    obstacle = task.finetuning.kernel_obstacle(task.kind, task.columns, task.categories)
    return task.finetuning.has_budget and obstacle is None


def _others_s(labels: Mapping[str, tuple[int, int]]) -> float:
    return OTHERS + OTHERS_PER_TASK * len(labels)


@dataclass(frozen=True, eq=False)
class Work:
    """What the time of a training run follows from: the table and this machine."""

    prevalence_F: NDArray[np.float64]
    """Share of the samples that have each ASV."""
    subsampled_prevalence_F: NDArray[np.float64]
    """The same share in the middle one of the subsampled steps of pretraining."""
    samples: int
    """Samples with enough reads."""
    length_bp: int
    """Bases of the longest ASV that are read."""
    cores: float
    """Cores in those of the machine of reference."""

    @classmethod
    def from_table(cls, plan: RunPlan, table: FeatureTable, longest_bp: int) -> "Work":
        """Return the work that a table makes on this machine, whose speed is measured.

        Parameters
        ----------
        plan
            What the time of the run depends on.
        table
            Raw counts, before rarefaction.
        longest_bp
            Length of the longest sequence.

        Returns
        -------
        Work
            That of a table of amounts has no features, because no network is trained on it.

        Raises
        ------
        InputError
            No sample has as many reads as the rarefaction depth.
        """
        depth = plan.depth
        if not table.facts.is_counted:
            nothing = np.zeros(0)
            cores = BUDGET_CORES * core_speed()
            return cls(nothing, nothing, len(table.sample_ids), longest_bp, cores)
        rows = np.flatnonzero(table.reads >= depth)
        if not rows.size:
            raise too_deep(table.sample_ids, table.reads, depth)
        return cls(
            prevalence_F=expected_prevalence(table.counts[rows], depth),
            subsampled_prevalence_F=expected_prevalence(
                table.counts[rows], Pretraining.subsampled_reads(depth, done=0.5)
            ),
            samples=len(rows),
            length_bp=min(longest_bp, plan.max_length_bp),
            cores=BUDGET_CORES * core_speed(),
        )

    def training_s(
        self,
        shape: EncoderShape,
        passes: float,
        rows: float,
        batch_size: int,
        *,
        is_subsampled: bool = False,
    ) -> float:
        """Return the seconds that train a whole model.

        Parameters
        ----------
        shape
            Architecture of the encoder.
        passes
            Passes over the rows; a part of one counts as that part.
        rows
            Rows of a pass.
        batch_size
            Rows of a step.
        is_subsampled
            Whether the rows are subsampled.
        """
        prevalence_F = self.subsampled_prevalence_F if is_subsampled else self.prevalence_F
        steps = passes * math.ceil(rows / batch_size)
        # An ASV is encoded once per step, however many rows of the batch have it.
        encoded_asvs = features_of_rows(prevalence_F, min(batch_size, rows)) * steps
        tokens_per_asv = math.ceil(self.length_bp / shape.patch_bp)
        asvs_of_rows = prevalence_F.sum() * passes * rows
        size = shape.width, shape.ffn_ratio
        asv_tokens = shape.asv_layers * tokens_per_asv * encoded_asvs
        sample_tokens = shape.sample_layers * asvs_of_rows
        operations = trained_flops(shape.encoder, *size) * asv_tokens
        operations += trained_flops("transformer", *size) * sample_tokens
        return float(STEP * steps + OPERATION * operations) / self.cores

    def pretraining_s(self, model: PlannedModel) -> float:
        """Return the seconds of a pretraining."""
        settings = model.pretraining
        learned = self.samples * (1 - settings.held_out)
        # A validation, and the embedding of all samples, are forward passes: a third of a step.
        validated = settings.validations * (self.samples - learned)
        scored = (self.samples + validated) / 3 / learned
        passes = self.pretraining_passes(settings)
        size = settings.planned_batch_size
        left = features_left(self.subsampled_prevalence_F, self.prevalence_F, min(size, learned))
        part = settings.subsampled_part(left)
        whole = scored + (1 - part) * passes
        subsampled = part * passes
        seconds = self.training_s(model.model, whole, learned, size)
        seconds += self.training_s(model.model, subsampled, learned, size, is_subsampled=True)
        return START + seconds

    def pretraining_passes(self, settings: Pretraining) -> int:
        """Return the passes of a pretraining over its training samples."""
        learned = self.samples * (1 - settings.held_out)
        return settings.passes(math.ceil(learned / settings.planned_batch_size))

    def finetuning_s(
        self, shape: EncoderShape, settings: Finetuning, labelled: int, folds: int
    ) -> float:
        """Return the seconds of a fine-tuning: its budget, where it has one.

        Parameters
        ----------
        shape
            Architecture of the encoder.
        settings
            The section `finetuning` of the task.
        labelled, folds
            Numbers of labelled samples and of folds.
        """
        if settings.has_budget:
            return START + settings.budget_s(folds, labelled)
        # From scratch, `auto` trains the whole encoder.
        recipe = "full" if settings.recipe == "auto" else settings.recipe
        if recipe not in ("full", "partial"):
            return START
        if recipe == "partial":
            # Nothing below the layers over samples is trained. A copy is not validated: no encoder
            # that is built has 0 layers.
            shape = shape.model_copy(update={"asv_layers": 0})
        # Nested predictions are made by some more models.
        passes = (folds * settings.networks + ring_size(folds)) * settings.epochs
        rows = labelled * (1 - 1 / folds)
        return START + self.training_s(shape, passes, rows, settings.batch_size)

    def explaining_s(self, task: PlannedTask, labelled: int, folds: int) -> float:
        """Return the seconds that explain a task."""
        samples = min(labelled, folds * task.explained)
        share = 0.5 if task.finetuning.recipe == "kernel" else 1.0
        return START + share * EXPLAINED * samples / self.cores
