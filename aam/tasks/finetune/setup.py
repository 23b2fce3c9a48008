"""What the models of a task share: its labelled samples, its target, and how they are trained.

Shape suffixes: L labelled samples, C columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from aam.config.sections.finetuning import Finetuning
from aam.config.settings.finetuning import FinetuneSettings, TargetSettings
from aam.data.folds import CATEGORY, OBSERVED, TEST, folder_of_fold, read_folds, units_of
from aam.data.stores import SampleStore, TokenStore
from aam.distributed.devices import AUTO, Devices
from aam.inference.embed import load_encoder
from aam.model.asv_encoders import Architecture
from aam.model.encoder import Encoder, build_encoder
from aam.model.layers.attention import AttentionBackend
from aam.model.store import load_config
from aam.tasks.finetune.parallel import threads_of_a_model
from aam.train.options import StepOptions, step_options
from aam.train.precision import precision_of_encoder
from aam.util.digests import settings_digest
from aam.util.run_options import RunOptions
from aam.util.seeds import seed_of

MakeEncoder = Callable[[int, int], Encoder]
"""Returns a new encoder for a fold and the number of a model in it."""
Part = tuple[NDArray[np.intp], NDArray[np.intp]]
"""Positions in the training samples: those to train on, those left out."""
PARTS = 5
"""Parts that training samples are divided into, at most, to choose settings on."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """The labelled samples of a task."""

    samples: NDArray[np.int64]
    """Positions in the store, [L]."""
    observed_LC: NDArray[np.object_]
    """Values as the metadata have them, text."""
    fold: NDArray[np.int64]
    """Fold of each, [L]; `TEST` for those that no model is trained on."""
    units: Sequence[str]
    """Group of each, or its ID where there are no groups, [L]."""
    categories: Mapping[str, NDArray[np.object_]] = field(default_factory=dict)
    """Per metadata column the category of each, text, empty where missing, [L]."""

    @classmethod
    def read(cls, path: Path, store: SampleStore, columns: Sequence[str]) -> "Labelled":
        """Read the file of a task's folds.

        Parameters
        ----------
        path
            The file.
        store
            Samples, among which the labelled ones are.
        columns
            Columns that are predicted.

        Returns
        -------
        Labelled
            In the order of the file.
        """
        folds = read_folds(path)
        row_by_id = {name: row for row, name in enumerate(store.sample_ids)}
        observed = ["observed"] if len(columns) == 1 else [OBSERVED + name for name in columns]
        categories = {}
        for name in folds.columns:
            if name.startswith(CATEGORY):
                categories[name.removeprefix(CATEGORY)] = folds[name].to_numpy(object)
        return cls(
            samples=np.array([row_by_id[name] for name in folds.index], np.int64),
            observed_LC=folds[observed].to_numpy(object),
            fold=folds["fold"].to_numpy(np.int64),
            units=units_of(folds["group"]).tolist(),
            categories=categories,
        )

    def training(self, fold: int, fraction: float, seed: int) -> NDArray[np.bool_]:
        """Return the samples that a fold's model is trained on.

        They are those of whole units, of two at least. Where every fold is a single unit, as folds
        that are the groups are, they are single samples. A smaller fraction is part of a larger
        one.

        Parameters
        ----------
        fold
            Number of the fold; with `TEST` they are samples of all folds.
        fraction
            Fraction of the labels that may be used.
        seed
            Seed of their choice.

        Returns
        -------
        numpy.ndarray
            bool, [L].
        """
        is_training = (self.fold != fold) & (self.fold != TEST)
        unit = np.array(self.units)
        if len(np.unique(unit[is_training])) <= len(np.unique(self.fold[is_training])):
            unit = self.samples.astype(str)
        names = sorted(np.unique(unit[is_training]).tolist())
        names.sort(key=lambda name: seed_of("labels", seed, name))
        chosen = names[: max(2, round(fraction * len(names)))]
        return is_training & np.isin(unit, chosen)

    def parts(self, is_training: NDArray[np.bool_]) -> list[Part]:
        """Divide training samples into those to train on and those left out, several times.

        The parts, `PARTS` at most, are whole training folds, or whole units of a single fold. Where
        that fold is a single unit, as with two folds that are the groups, they are made of samples:
        otherwise nothing would be tuned.

        Parameters
        ----------
        is_training
            Which of the labelled samples are trained on, [L].

        Returns
        -------
        list of tuple
            Positions among the training samples; empty where these cannot be divided.
        """
        fold = self.fold[is_training]
        unit = fold.astype(str)
        if len(np.unique(unit)) == 1:
            unit = np.array(self.units)[is_training]
        if len(np.unique(unit)) == 1:
            unit = self.samples[is_training].astype(str)
        number = min(PARTS, len(np.unique(unit)))
        if number < 2:
            return []
        splits = GroupKFold(number).split(fold, groups=unit)
        # One sample alone has no spread to standardize by.
        return [split for split in splits if len(split[0]) > 1]


def encoder_maker(
    settings: FinetuneSettings,
    model: Path | None,
    max_length_bp: int,
    backend: AttentionBackend,
) -> MakeEncoder:
    """Return what makes the encoders of the models of a task.

    Parameters
    ----------
    settings
        Whether models start from scratch or pretrained, and whether folds are inductive; what an
        encoder from scratch is built from.
    model
        Folder of the pretrained model, or that of one per fold; None: encoders start from scratch.
    max_length_bp
        Nucleotides of a sequence that an encoder from scratch reads.
    backend
        Kernel of attention.

    Returns
    -------
    Callable
        Takes the fold and the number of a model. A pretrained encoder has the pretrained weights,
        one from scratch has weights of the seed and the number.
    """
    training = settings.finetuning

    def from_scratch(fold: int, number: int) -> Encoder:
        assert settings.model is not None, "an encoder from scratch has a shape"
        seed = seed_of("scratch", training.seed, *((number,) if number else ()))
        shape = Architecture(**settings.model.plain(), max_length_bp=max_length_bp)
        return build_encoder(shape, seed=seed, backend=backend)

    def pretrained(fold: int, number: int) -> Encoder:
        assert model is not None, "there is a pretrained model"
        directory = model / folder_of_fold(fold) if training.inductive else model
        return load_encoder(directory, backend)

    return from_scratch if training.from_scratch else pretrained


@dataclass(frozen=True, eq=False)
class FinetuneSetup:
    """What all models of a task share: the data, what is predicted, how and where.

    Attributes
    ----------
    store, tokens
        Samples and their ASVs.
    labelled
        The labelled samples of the task.
    task
        What is predicted.
    settings
        The section `finetuning`; of a model, as its recipe changes it.
    make_encoder
        Returns the encoder that a model starts from.
    devices
        Where models are trained.
    options
        Options of a training step.
    runtime
        Limits, deadline, and what is logged.
    work
        Folder of checkpoints and of finished models.
    fingerprint
        A digest of settings, code and inputs, by which finished models are recognized.
    asvs
        File of ASV embeddings for an encoder that keeps them (`aam.inference.asv_cache`).
    is_mixed
        Whether a super learner will mix the predictions, and asks for nested ones.
    about
        Facts that are written with each model.
    """

    store: SampleStore
    tokens: TokenStore
    labelled: Labelled
    task: TargetSettings
    settings: Finetuning
    make_encoder: MakeEncoder
    devices: Devices
    options: StepOptions
    runtime: RunOptions
    work: Path
    fingerprint: str
    asvs: Path | None = None
    is_mixed: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        settings: FinetuneSettings,
        runtime: RunOptions,
        *,
        tokens: Path,
        samples: Path,
        folds: Path,
        model: Path | None = None,
        asvs: Path | None = None,
        code: str,
        origin: Mapping[str, str] = {},
    ) -> "FinetuneSetup":
        """Open the inputs of the stage.

        Parameters
        ----------
        settings
            Target, training and optimization.
        runtime
            Threads, memory and a work folder. It never changes a result.
        tokens, samples
            Arrow files of the tokens of all ASVs, and of the samples.
        folds
            TSV file of the folds of the task.
        model
            Folder of a pretrained model, or of one per fold where the evaluation is inductive;
            None: encoders start from scratch.
        asvs
            File of ASV embeddings, for an encoder that pretraining left as it is.
        code
            Digest of the code of the stage. Checkpoints of other code are not continued.
        origin
            Which settings and files models are made of (`aam.util.digests`).

        Returns
        -------
        FinetuneSetup
            What all models of the task share.

        Raises
        ------
        InputError
            A file is damaged, or does not belong to the others.
        """
        assert runtime.work is not None, "fine-tuning needs a work folder"
        training = settings.finetuning
        options = step_options(settings.optimization)
        threads = threads_of_a_model(runtime.threads)
        store = SampleStore.open(samples)
        token_store = TokenStore.open(tokens)
        length_bp = token_store.tokens.shape[1]
        precision: str = options.precision
        if precision == AUTO and not training.from_scratch:
            assert model is not None, "there is a pretrained model"
            precision = precision_of_encoder(_training_of_encoder(model, training))
        return cls(
            store=store,
            tokens=token_store,
            labelled=Labelled.read(folds, store, settings.columns),
            task=settings,
            settings=training,
            make_encoder=encoder_maker(settings, model, length_bp, options.attention),
            devices=Devices(precision, threads, deterministic=options.deterministic),
            options=options,
            runtime=runtime,
            work=runtime.work,
            fingerprint=settings_digest({**origin, "code": code}),
            asvs=asvs,
            is_mixed=settings.is_mixed,
            about={
                "names": dict(settings.names),
                "rarefaction": dict(settings.rarefaction),
                "settings": settings.plain(),
                "provenance": dict(origin),
            },
        )


def _training_of_encoder(model: Path, settings: Finetuning) -> dict[str, Any]:
    """Return how the encoder of a task was trained: the first one, where every fold has its own."""
    directory = min(model.glob("fold*")) if settings.inductive else model
    return dict(load_config(directory)["optimization"])
