"""Support vectors on the embeddings of an encoder that stays as it is, and on the study's reads.

What an encoder of few samples loses, log-reads keep; what these do not know, the tree for one, is
in the embeddings. Costs, kernels and the weight of the embeddings are chosen inside of the training
samples.

Shape suffixes: T training samples, L labelled samples, R rows of the store, E encoded values of a
target, D embedding, P known ASVs, S positions, O outputs, N samples left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import balanced_accuracy_score
from sklearn.svm import SVC, SVR

from aam.data.target import Target
from aam.inference.outputs import known_reads
from aam.model.kernel_head import KernelHead
from aam.model.predictor import Predictor
from aam.tasks.finetune.fold_model import FoldModel
from aam.tasks.finetune.setup import PARTS, Part

COMPARED = 2000
"""Training samples, counted per part left out, that settings are chosen on."""
WEIGHTS = (0.5, 0.1, 0.9)
"""Candidate weights of the embeddings; the reads have the rest. The first of equals is taken."""
COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate weights of the data against the penalty; the strongest penalty first."""
TEMPERATURES = (-5.0, 5.0)
"""Least and largest logarithm of a temperature."""
NEVER = -30.0
"""Logit of a class without training samples."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TrainingSamples:
    """What a machine is fitted to."""

    embedding_TD: Floats
    log_TP: Floats
    value_TE: Floats
    """Encoded numbers, or 1 for the class of a sample and 0 for the others."""
    splits: Sequence[Part]
    """Parts that settings are chosen on; none: the first of each is taken."""


@dataclass(frozen=True)
class _Settings:
    weight: float
    gaussian: bool
    cost: float


def fit_machine(model: FoldModel, predictor: Predictor) -> None:
    """Fit a head that is a kernel machine to the means of the store's views."""
    setup, head = model.setup, predictor.head
    store, labelled = setup.store, setup.labelled
    assert isinstance(head, KernelHead), "another head"
    tokens = setup.tokens.cut(head.asv_PS.shape[1])
    asv_PS = tokens.tokens[model.prevalent_asvs]
    head.asv_PS[:, : asv_PS.shape[1]] = torch.from_numpy(asv_PS.copy())
    rows_T = labelled.samples[model.is_training]
    rows_R = (np.arange(store.views)[:, None] * len(store.sample_ids) + rows_T).reshape(-1)
    embedding_RD = model.embedded(predictor, rows_R, setup.devices.exact())
    value_LE = predictor.target.encode(labelled.observed_LC, model.scaled_by)
    samples = TrainingSamples(
        embedding_RD.double().unflatten(0, (store.views, -1)).mean(dim=0).numpy(),
        known_reads(head, store, tokens, rows_T).double().numpy(),
        value_LE[model.is_training].astype(np.float64),
        labelled.parts(model.is_training, max(1, min(PARTS, COMPARED // len(rows_T)))),
    )
    fit_kernel_machine(head, predictor.target, samples)


def fit_kernel_machine(head: KernelHead, target: Target, samples: TrainingSamples) -> None:
    """Fit the head of a predictor for one column; its ASVs are set already.

    Numbers are predicted with least absolute errors. Of classes, which count alike, each has a
    machine against all others; logits are their decision values, divided by the temperature of
    least log loss on the parts left out.
    """
    candidates = []
    for weight in WEIGHTS:
        for gaussian in (False, True):
            _set_features(head, samples, weight, gaussian=gaussian)
            likeness_TT = _likeness(head, samples)
            for cost in COSTS if samples.splits else COSTS[:1]:
                score, held_out_TO = _tried(likeness_TT, target, samples, cost)
                candidates.append((score, _Settings(weight, gaussian, cost), held_out_TO))
            if not samples.splits:
                break
    _, best, held_out_TO = max(candidates, key=lambda one: one[0])
    _set_features(head, samples, best.weight, gaussian=best.gaussian)
    machine = _machine(_likeness(head, samples), target, samples.value_TE, best.cost)
    weight_TO, bias_O = machine
    if target.classes and samples.splits:
        left_out = np.concatenate([out for _, out in samples.splits])
        scale = _temperature(held_out_TO[left_out], samples.value_TE[left_out])
        weight_TO, bias_O = weight_TO / scale, bias_O / scale
    head.weight_TO.copy_(torch.from_numpy(weight_TO))
    head.bias_O.copy_(torch.from_numpy(bias_O))


def _set_features(
    head: KernelHead, samples: TrainingSamples, weight: float, *, gaussian: bool
) -> None:
    """Centre and scale: the mean squared distance of two samples is 2, `weight` of it embeddings'.

    The numbers of an embedding count alike; reads that vary more count more.
    """
    embedding_TD, log_TP = samples.embedding_TD, samples.log_TP
    deviation_D = embedding_TD.std(axis=0)
    own_D = np.sqrt(weight / max(1, (deviation_D > 0).sum()))
    own_D = np.divide(own_D, deviation_D, out=np.zeros_like(deviation_D), where=deviation_D > 0)
    spread = np.sqrt(log_TP.var(axis=0).sum()) or 1.0
    reads_P = np.full(log_TP.shape[1], np.sqrt(1.0 - weight) / spread)
    feature_TF = np.hstack([embedding_TD, log_TP])
    head.center_F.copy_(torch.from_numpy(feature_TF.mean(axis=0)))
    head.scale_F.copy_(torch.from_numpy(np.hstack([own_D, reads_P])))
    head.sample_TF.copy_((torch.from_numpy(feature_TF).float() - head.center_F) * head.scale_F)
    head.gaussian.fill_(gaussian)


def _likeness(head: KernelHead, samples: TrainingSamples) -> Floats:
    feature_TF = np.hstack([samples.embedding_TD, samples.log_TP]).astype(np.float32)
    return head.likeness(torch.from_numpy(feature_TF)).double().numpy()


def _tried(
    likeness_TT: Floats, target: Target, samples: TrainingSamples, cost: float
) -> tuple[float, Floats]:
    """Return the score of a cost on the parts left out, high where good, and their outputs."""
    value_TE = samples.value_TE
    held_out_TO = np.zeros_like(value_TE)
    for inner, out in samples.splits:
        weight_TO, bias_O = _machine(
            likeness_TT[np.ix_(inner, inner)], target, value_TE[inner], cost
        )
        held_out_TO[out] = likeness_TT[np.ix_(out, inner)] @ weight_TO + bias_O
    if not samples.splits:
        return 0.0, held_out_TO
    left_out = np.concatenate([out for _, out in samples.splits])
    found_LO, value_LE = held_out_TO[left_out], value_TE[left_out]
    if not target.classes:
        return -float(np.abs(found_LO - value_LE).mean()), held_out_TO
    score = balanced_accuracy_score(value_LE.argmax(axis=1), found_LO.argmax(axis=1))
    return float(score), held_out_TO


def _temperature(logit_NO: Floats, value_NE: Floats) -> float:
    """Return what logits are divided by for the least log loss.

    Guo et al. (2017), On calibration of modern neural networks, arXiv:1706.04599.
    """

    def log_loss(log_temperature: float) -> float:
        return -float((value_NE * log_softmax(logit_NO / np.exp(log_temperature), axis=1)).sum())

    return float(np.exp(minimize_scalar(log_loss, bounds=TEMPERATURES, method="bounded").x))


def _machine(
    likeness_TT: Floats, target: Target, value_TE: Floats, cost: float
) -> tuple[Floats, Floats]:
    """Return the weights of the training samples and the biases, [T, O] and [O]."""
    columns = [*_machines(likeness_TT, target, value_TE, cost)]
    weight_OT, bias_O = zip(*columns, strict=True)
    return np.stack(weight_OT, axis=1), np.array(bias_O)


def _machines(
    likeness_TT: Floats, target: Target, value_TE: Floats, cost: float
) -> Iterator[tuple[Floats, float]]:
    none_T = np.zeros(len(value_TE))
    if not target.classes:
        number_T = value_TE[:, 0]
        center, deviation = float(number_T.mean()), float(number_T.std()) or 1.0
        fitted = SVR(kernel="precomputed", epsilon=0.0, C=cost)
        fitted.fit(likeness_TT, (number_T - center) / deviation)
        weight_T, bias = _dense(fitted, none_T)
        yield deviation * weight_T, center + deviation * bias
        return
    for is_own_T in value_TE.T > 0:
        if is_own_T.all() or not is_own_T.any():
            yield none_T, -NEVER if is_own_T.all() else NEVER
            continue
        fitted = SVC(kernel="precomputed", class_weight="balanced", C=cost)
        yield _dense(fitted.fit(likeness_TT, is_own_T), none_T)


def _dense(fitted: SVC | SVR, none_T: Floats) -> tuple[Floats, float]:
    weight_T = none_T.copy()
    weight_T[fitted.support_] = fitted.dual_coef_[0]
    return weight_T, float(fitted.intercept_[0])
