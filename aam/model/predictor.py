"""An encoder with a head for one target, the losses of targets, and the model directory.

Shape suffixes: B samples, D width, F metadata columns, C numbers, Q quantiles, K classes, T = K - 1
thresholds, O raw outputs, E encoded values of a target.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.nn import functional

from aam.data.target import QUANTILES, Target
from aam.model.asv_encoders import Architecture
from aam.model.batch import CATEGORIES, EMBEDDING, TARGET, Batch
from aam.model.encoder import Encoder, build_encoder, initialize
from aam.model.fusion import UNKNOWN, Fusion, Vocabulary
from aam.model.heads import Thresholds, ValueHead
from aam.model.kernel_head import KernelHead, KernelShape
from aam.model.store import load_config, rebuild, save_model

FORMAT = 7
"""Version of the model directories that are written."""
OLDEST_FORMAT = 6
"""The oldest version that is read; its sample encoders attend without reads."""


class Predictor(nn.Module):
    """An encoder, from pretraining or from scratch, and a head for one target.

    Parameters
    ----------
    encoder
        The encoder.
    target
        What is predicted, and by which loss.
    vocabulary
        Categories of the covariates; None: there are no covariates.
    kernel
        Sizes of a kernel head, which then is the head and is not trained by steps; None: the
        head has layers.
    seed
        Seed of all weights but the encoder's.
    """

    def __init__(
        self,
        encoder: Encoder,
        target: Target,
        *,
        vocabulary: Vocabulary | None = None,
        kernel: KernelShape | None = None,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.target = target
        self.vocabulary = vocabulary
        self.kernel_shape = kernel
        shape = encoder.shape
        is_ordinal = target.loss == "ordinal"
        outputs = 1 if is_ordinal else target.outputs
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            # The order of these draws is part of every result: a new part is drawn behind the
            # others.
            self.head: ValueHead | KernelHead
            if kernel is None:
                self.head = ValueHead(shape.width, outputs)
                initialize(self.head)
            else:
                self.head = KernelHead(kernel, shape.width, outputs)
            self.fusion: Fusion | None = None
            if vocabulary is not None:
                self.fusion = Fusion(vocabulary, shape.width)
        self.thresholds = Thresholds(target.shares) if is_ordinal else None
        self.target_loss = TargetLoss(target)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of a batch.

        Embeddings that come with the batch are not computed again.

        Parameters
        ----------
        batch
            Samples with the values of the target, on the device of the model.

        Returns
        -------
        dict
            `loss`, which is minimized.
        """
        categories_BF = batch.values[CATEGORIES] if self.fusion is not None else None
        sample_BD = batch.values.get(EMBEDDING)
        if sample_BD is None:
            sample_BD = self.encoder(batch).sample_BD
        output_BO = self.predict(sample_BD, categories_BF)
        return {"loss": self.error(output_BO, batch)}

    def error(self, output_BO: Tensor, batch: Batch) -> Tensor:
        """Return the loss of raw outputs.

        Parameters
        ----------
        output_BO
            Raw outputs.
        batch
            Has the values of the target.

        Returns
        -------
        torch.Tensor
            One number.
        """
        return self.target_loss(output_BO, batch.values[TARGET])

    def predict(
        self,
        sample_BD: Tensor,
        categories_BF: Tensor | None = None,
        *,
        log_BP: Tensor | None = None,
    ) -> Tensor:
        """Return raw outputs of sample embeddings.

        Parameters
        ----------
        sample_BD
            Embeddings of the samples.
        categories_BF
            Numbers of their categories, int64; None: all are unknown.
        log_BP
            `log_reads` of the ASVs that a kernel head knows.

        Returns
        -------
        torch.Tensor
            Raw outputs [B, O] in fp32, for `Target.decode`.
        """
        if isinstance(self.head, KernelHead):
            assert log_BP is not None, "a kernel head looks at reads"
            return self.head(sample_BD, log_BP)
        standard_BD = self.head.standard(sample_BD)
        if self.fusion is not None:
            if categories_BF is None:
                samples = len(sample_BD)
                columns = len(self.fusion.tables)
                categories_BF = torch.full((samples, columns), UNKNOWN, device=sample_BD.device)
            standard_BD = self.fusion(standard_BD, categories_BF)
        output_BO = self.head.from_standard(standard_BD)
        return output_BO if self.thresholds is None else self.thresholds(output_BO)

    def save(self, directory: Path, about: Mapping[str, Any]) -> None:
        """Write a directory that rebuilds the model by itself.

        Parameters
        ----------
        directory
            Folder to write.
        about
            Facts that are added to its `config.json`.
        """
        config = {
            "format": FORMAT,
            "kind": "predictor",
            "architecture": asdict(self.encoder.shape),
            "target": asdict(self.target),
            "vocabulary": None if self.vocabulary is None else asdict(self.vocabulary),
            "kernel": None if self.kernel_shape is None else asdict(self.kernel_shape),
            **about,
        }
        save_model(directory, self, config)


def load_predictor(directory: Path) -> tuple[Predictor, dict[str, Any]]:
    """Rebuild a predictor from its directory; for use in `aam.util.digests.fitting`.

    Parameters
    ----------
    directory
        Folder of `Predictor.save`.

    Returns
    -------
    predictor : Predictor
        The model in evaluation mode.
    config : dict
        Content of its `config.json`.

    Raises
    ------
    InputError
        There is no `config.json`, a file was changed, or a weight is not finite.
    ValueError
        The weights are not those that `config.json` describes.
    """
    config = load_config(directory)
    shape = TypeAdapter(Architecture).validate_python(config["architecture"])

    def build() -> Predictor:
        return Predictor(
            build_encoder(shape, seed=0, backend="auto"),
            TypeAdapter(Target).validate_python(config["target"]),
            vocabulary=TypeAdapter(Vocabulary | None).validate_python(config["vocabulary"]),
            kernel=TypeAdapter(KernelShape | None).validate_python(config["kernel"]),
            seed=0,
        )

    return rebuild(directory, build), config


class TargetLoss(nn.Module):
    """The loss of a target, a name in `LOSSES`.

    Levels of quantiles and class weights move to the device with the model, because copying them in
    a step would wait for it. They are not among the saved weights: the target is saved with the
    model.

    Parameters
    ----------
    target
        Has the name of the loss and the classes' weights.
    """

    constant: Tensor | None
    """Levels of the quantiles, or weights of the classes; None: the loss needs neither."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.loss = target.loss
        values = QUANTILES if target.loss == "quantile" else target.class_weights
        self.register_buffer("constant", torch.tensor(values) if values else None, persistent=False)

    def forward(self, output_BO: Tensor, true_BE: Tensor) -> Tensor:
        """Return the mean loss.

        Parameters
        ----------
        output_BO
            Raw outputs.
        true_BE
            Encoded values of the target.

        Returns
        -------
        torch.Tensor
            One number.
        """
        return LOSSES[self.loss](output_BO, true_BE, self.constant)


def pinball_error(predicted_BCQ: Tensor, true_BC: Tensor, level_Q: Tensor) -> Tensor:
    """Return the mean pinball loss of several quantiles (Koenker & Bassett 1978).

    Parameters
    ----------
    predicted_BCQ
        Quantiles in any order: they are sorted, so that none can cross another.
    true_BC
        True numbers.
    level_Q
        Levels of the quantiles, ascending.

    Returns
    -------
    torch.Tensor
        One number.
    """
    missing_BCQ = true_BC[..., None] - predicted_BCQ.sort(dim=-1).values
    return torch.maximum(level_Q * missing_BCQ, (level_Q - 1) * missing_BCQ).mean()


def class_error(logits_BK: Tensor, true_BK: Tensor, weight_K: Tensor | None) -> Tensor:
    """Return the mean cross-entropy against class probabilities.

    Parameters
    ----------
    logits_BK
        Raw outputs.
    true_BK
        Probabilities of the classes.
    weight_K
        Weights of the classes; None: all are equal. The mean is over samples, not over weights.

    Returns
    -------
    torch.Tensor
        One number.
    """
    return functional.cross_entropy(logits_BK, true_BK, weight=weight_K)


def ordinal_error(logits_BT: Tensor, true_BK: Tensor, weight_K: Tensor | None) -> Tensor:
    """Return the mean binary cross-entropy of "above class k", one question per threshold.

    This is the loss of CORAL (Cao, Mirjalili & Raschka 2020, arXiv:1901.07884).

    Parameters
    ----------
    logits_BT
        Logits of lying above each class but the highest.
    true_BK
        Probabilities of the classes, the lowest first.
    weight_K
        Weights of the classes; None: all are equal. A sample has the mean weight of its classes.

    Returns
    -------
    torch.Tensor
        One number.
    """
    # On an accelerator a running sum has no deterministic algorithm.
    below_BT = true_BK[:, None].expand(-1, true_BK.shape[1] - 1, -1).tril().sum(dim=2)
    above_BT = (1 - below_BT).clamp(0, 1)
    error_BT = functional.binary_cross_entropy_with_logits(logits_BT, above_BT, reduction="none")
    if weight_K is not None:
        error_BT = error_BT * (true_BK @ weight_K)[:, None]
    return error_BT.mean()


LOSSES: dict[str, Callable[[Tensor, Tensor, Any], Tensor]] = {
    "mae": lambda output, true, _: functional.l1_loss(output, true),
    "huber": lambda output, true, _: functional.huber_loss(output, true),
    "mse": lambda output, true, _: functional.mse_loss(output, true),
    "quantile": lambda output, true, level_Q: pinball_error(
        output.unflatten(1, (-1, len(QUANTILES))), true, level_Q
    ),
    "cross_entropy": class_error,
    "ordinal": ordinal_error,
}
"""Losses of raw outputs [B, O] by encoded values [B, E]; `aam.config.losses` says which fits what.
The third argument is the `constant` of `TargetLoss`: levels of quantiles, weights of classes (None:
all are equal), or nothing."""
