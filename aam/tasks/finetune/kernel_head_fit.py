"""Support vectors on the embeddings of an encoder that stays as it is, and on the study's reads.

Log-reads keep what an encoder trained on few samples loses; embeddings add what reads lack.
Costs, kernels and the weight of the embeddings are chosen inside of the training samples.

Shape suffixes: T training samples, L labelled samples, R rows of the store, E encoded values of a
target, D embedding, P known ASVs, S positions, O outputs, N samples left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from aam.data.predictions import mean_recall
from aam.data.target import Target
from aam.inference.outputs import known_reads
from aam.learners.temperature import fit_logit_temperature
from aam.model.kernel_head import KernelHead
from aam.model.predictor import Predictor
from aam.tasks.finetune.fold_model import FoldModel
from aam.tasks.finetune.setup import Part
from aam.util.errors import problem

WEIGHTS = (0.5, 0.1, 0.9)
"""Candidate weights of the embeddings; the reads have the rest. The first of equals is taken."""
COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Candidate weights of the data against the penalty; the strongest penalty first."""
CANDIDATES = len(WEIGHTS) * 2 * len(COSTS)
"""Settings that are tried: each weight and cost with both kernels."""
MOST_SAMPLES = 5000
"""Training samples up to which a machine is fitted: memory grows with the square, time faster."""
ADDED_VARIANCE = 1e-5
"""Added to the variance of each number of an embedding."""
UNSEEN = -30.0
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


def fit_kernel_head(model: FoldModel, predictor: Predictor) -> None:
    """Fit a kernel head to the means of the store's views.

    Parameters
    ----------
    model
        Which of the models of a task this is.
    predictor
        The model, whose head is filled in place.

    Raises
    ------
    InputError
        There are more than `MOST_SAMPLES` training samples.
    """
    setup = model.setup
    head = predictor.head
    store = setup.store
    labelled = setup.labelled
    assert isinstance(head, KernelHead), "another head"
    if model.is_training.sum() > MOST_SAMPLES:
        raise problem(
            "configuration key finetuning.recipe",
            f"kernel with {model.is_training.sum()} training samples",
            f"at most {MOST_SAMPLES}",
            "set it to auto, full, partial or frozen",
        )
    tokens = setup.tokens.cut(head.asv_PS.shape[1])
    asv_PS = tokens.tokens[model.prevalent_asvs]
    head.asv_PS[:, : asv_PS.shape[1]] = torch.from_numpy(asv_PS.copy())
    rows_T = labelled.samples[model.is_training]
    rows_R = (np.arange(store.views)[:, None] * len(store.sample_ids) + rows_T).reshape(-1)
    embedding_RD = model.embedded(predictor, rows_R, setup.devices.exact())
    value_LE = predictor.target.encode(labelled.observed_LC, model.scaled_by)
    samples = TrainingSamples(
        embedding_TD=embedding_RD.double().unflatten(0, (store.views, -1)).mean(dim=0).numpy(),
        log_TP=known_reads(head, store, tokens, rows_T).double().numpy(),
        value_TE=value_LE[model.is_training].astype(np.float64),
        splits=labelled.parts(model.is_training),
    )
    # On several threads BLAS adds up in another order.
    with threadpool_limits(1):
        fit_support_vectors(head, predictor.target, samples)


def fit_support_vectors(head: KernelHead, target: Target, samples: TrainingSamples) -> None:
    """Fit the head of a predictor for one column; its ASVs are set already.

    Support vectors (Cortes & Vapnik 1995; libsvm, Chang & Lin 2011) predict numbers with least
    absolute errors. Each class, all of which count alike, has a machine against all others. Logits
    are the decision values, divided by the temperature of least log loss on the parts that were
    left out (Guo et al. 2017, arXiv:1706.04599).

    Parameters
    ----------
    head
        Head that is filled in place.
    target
        What is predicted.
    samples
        What the machine is fitted to, and the parts on which kernel, cost and weight are chosen.
    """
    chosen = _choose_settings(head, target, samples)
    _set_features(head, samples, chosen.weight, gaussian=chosen.gaussian)
    likeness_TT = _likeness(head, samples)
    weight_TO, bias_O = _fit_support_vectors(likeness_TT, target, samples.value_TE, chosen.cost)
    if target.classes and chosen.held_out_TO is not None:
        temperature = _temperature(chosen.held_out_TO, samples)
        weight_TO /= temperature
        bias_O = np.where(bias_O == UNSEEN, UNSEEN, bias_O / temperature)
    head.weight_TO.copy_(torch.from_numpy(weight_TO))
    head.bias_O.copy_(torch.from_numpy(bias_O))


@dataclass(frozen=True, eq=False)
class _Settings:
    """Settings of a machine, and how it does with them on the parts left out."""

    weight: float
    """Weight of the embeddings."""
    gaussian: bool
    """Whether the likeness is a Gaussian of the distance, and not a scalar product."""
    cost: float
    """Weight of the data against the penalty."""
    score: float = -np.inf
    """Score on the parts left out, high where good."""
    held_out_TO: Floats | None = None
    """Outputs for each training sample while it was left out; None: none was."""


def _choose_settings(head: KernelHead, target: Target, samples: TrainingSamples) -> _Settings:
    """Return the settings of the best score; of equals, the first."""
    best = _Settings(weight=WEIGHTS[0], gaussian=False, cost=COSTS[0])
    if not samples.splits:
        return best
    for weight, gaussian in product(WEIGHTS, (False, True)):
        _set_features(head, samples, weight, gaussian=gaussian)
        likeness_TT = _likeness(head, samples)
        for cost in COSTS:
            score, held_out_TO = _try_cost(likeness_TT, target, samples, cost)
            if score > best.score:
                best = _Settings(weight, gaussian, cost, score, held_out_TO)
    return best


def _temperature(held_out_TO: Floats, samples: TrainingSamples) -> float:
    """Return the temperature of least log loss on the samples that were left out."""
    left_out = np.concatenate([out for _, out in samples.splits])
    logit_NO = held_out_TO[left_out]
    code_N = samples.value_TE[left_out].argmax(axis=1)
    # A class that the other parts lack has no logit, and its samples are left out here.
    is_known_N = logit_NO[np.arange(len(code_N)), code_N] != UNSEEN
    if not is_known_N.any():
        return 1.0
    logit_NO = np.where(logit_NO == UNSEEN, -np.inf, logit_NO)
    return float(fit_logit_temperature(logit_NO[is_known_N], code_N[is_known_N]))


def _set_features(
    head: KernelHead, samples: TrainingSamples, weight: float, *, gaussian: bool
) -> None:
    """Set the features of the head: centred, and scaled to a mean squared distance of 2.

    The embeddings make up the fraction `weight` of that distance, the reads the rest. All numbers
    of an embedding count alike. The reads share one factor, so that ASVs whose reads vary more
    count more.
    """
    embedding_TD = samples.embedding_TD
    log_TP = samples.log_TP
    variance_D = embedding_TD.var(axis=0)
    scale_D = 1.0 / np.sqrt(variance_D + ADDED_VARIANCE)
    scale_D *= np.sqrt(weight / ((scale_D**2 * variance_D).sum() or 1.0))
    spread = np.sqrt(log_TP.var(axis=0).sum()) or 1.0
    scale_P = np.full(log_TP.shape[1], np.sqrt(1.0 - weight) / spread)
    feature_TF = np.hstack([embedding_TD, log_TP])
    head.center_F.copy_(torch.from_numpy(feature_TF.mean(axis=0)))
    head.scale_F.copy_(torch.from_numpy(np.hstack([scale_D, scale_P])))
    head.sample_TF.copy_((torch.from_numpy(feature_TF).float() - head.center_F) * head.scale_F)
    head.gaussian.fill_(gaussian)


def _likeness(head: KernelHead, samples: TrainingSamples) -> Floats:
    feature_TF = np.hstack([samples.embedding_TD, samples.log_TP]).astype(np.float32)
    return head.likeness(torch.from_numpy(feature_TF)).double().numpy()


def _try_cost(
    likeness_TT: Floats, target: Target, samples: TrainingSamples, cost: float
) -> tuple[float, Floats]:
    """Return the score of a cost on the parts left out, high where good, and their outputs."""
    value_TE = samples.value_TE
    held_out_TO = np.zeros_like(value_TE)
    for inner, out in samples.splits:
        weight_TO, bias_O = _fit_support_vectors(
            likeness_TT[np.ix_(inner, inner)], target, value_TE[inner], cost
        )
        held_out_TO[out] = likeness_TT[np.ix_(out, inner)] @ weight_TO + bias_O
    left_out = np.concatenate([out for _, out in samples.splits])
    output_NO = held_out_TO[left_out]
    value_NE = value_TE[left_out]
    if not target.classes:
        return -float(np.abs(output_NO - value_NE).mean()), held_out_TO
    return mean_recall(value_NE.argmax(axis=1), output_NO.argmax(axis=1)), held_out_TO


def _fit_support_vectors(
    likeness_TT: Floats, target: Target, value_TE: Floats, cost: float
) -> tuple[Floats, Floats]:
    """Return the weights of the training samples and the biases, [T, O] and [O]."""
    weight_TO = np.zeros_like(value_TE)
    bias_O = np.full(value_TE.shape[1], UNSEEN)
    for number, value_T in enumerate(value_TE.T):
        center = 0.0
        deviation = 1.0
        if not target.classes:
            center = float(value_T.mean())
            deviation = float(value_T.std()) or 1.0
            fitted = SVR(kernel="precomputed", epsilon=0.0, C=cost)
            fitted.fit(likeness_TT, (value_T - center) / deviation)
        elif 0 < value_T.sum() < len(value_T):
            fitted = SVC(kernel="precomputed", class_weight="balanced", C=cost)
            fitted.fit(likeness_TT, value_T > 0)
        else:
            # All samples are of one class: it gets the largest logit, and every other the least.
            bias_O[number] = -UNSEEN if value_T.any() else UNSEEN
            continue
        weight_TO[fitted.support_, number] = deviation * fitted.dual_coef_[0]
        bias_O[number] = center + deviation * float(fitted.intercept_[0])
    return weight_TO, bias_O
