"""Which ASVs a prediction rests on: attention, integrated gradients, and removal as their check.

Shape suffixes: N samples, U distinct ASVs of these, A ASVs of one sample, S copies of it, D width,
O outputs of the head, C explained outputs, F columns of categories, P ASVs of a kernel head.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.data.stores import SampleStore, TokenStore
from aam.data.target import MEDIAN, QUANTILES, Target
from aam.distributed.inference_device import InferenceDevice
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import asvs_of
from aam.model.batch import Batch, SampleBlock
from aam.model.kernel_head import ABSENT, KernelHead, KernelPart, log_reads
from aam.model.predictor import Predictor
from aam.util.seeds import seed_of

POINTS = (4, 16, 64)
"""Points of the path that gradients are taken at, and those of samples that need more."""
LARGEST_GAP = 0.01
"""Part of the change along the path by which attributions may miss it before more are taken."""
PAIRS = 1 << 20
"""Pairs of ASVs, over all copies of a sample, that attention compares at a time."""
TOKENS = 1 << 11
"""ASVs, over all copies of a sample, that are computed at a time."""
NO_ASVS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sample, explained."""

    attention_A: NDArray[np.float64]
    """Weight of each ASV in the pooling; they sum to 1."""
    gradients_AC: NDArray[np.float64]
    """Integrated gradients of each output."""
    change_C: NDArray[np.float64]
    """Output of the sample less that of the path's start: what the gradients should sum to."""
    removed_RC: NDArray[np.float64]
    """Output of the sample less that without each of some ASVs."""


def explain(
    predictor: Predictor,
    asv_AD: Tensor,
    counts_A: Tensor,
    categories: Mapping[str, str] | None = None,
    column_A: NDArray[np.int64] | None = None,
    *,
    points: Sequence[int] = POINTS,
    removed_R: NDArray[np.int64] = NO_ASVS,
) -> Explanation:
    """Explain the outputs of `explained` by the sample's embedded ASVs, reads and covariates.

    Parameters
    ----------
    predictor
        A model in evaluation mode, whose weights need no gradients.
    asv_AD, counts_A
        Embeddings and reads of the sample's ASVs, fp32, on the device of the model.
    categories
        Covariates of the sample.
    column_A
        Columns of the ASVs in a kernel head.
    points
        Points of the path that gradients are taken at: the next number is tried where the gap to
        what they should sum to is above `LARGEST_GAP`.
    removed_R
        Positions of ASVs of the sample. It is also predicted without each of these.

    Returns
    -------
    Explanation
        In fp64, on the host.
    """
    copies = _Copies(predictor, asv_AD, categories or {}, column_A)
    with torch.no_grad():
        whole = copies.run(counts_A[None])
    for number in points:
        gradients_AC, change_C = _gradients(copies, counts_A, whole, number)
        gap_C = gradients_AC.sum(dim=0) - change_C
        if gap_C.abs().max() <= LARGEST_GAP * change_C.abs().max():
            break
    removed_RC = _removed(copies, counts_A, removed_R, whole.output_SC[0])
    return Explanation(
        attention_A=_as_array(whole.attention_SA[0]),
        gradients_AC=_as_array(gradients_AC),
        change_C=_as_array(change_C),
        removed_RC=_as_array(removed_RC),
    )


def _as_array(values: Tensor) -> NDArray[np.float64]:
    return values.detach().cpu().double().numpy()


@dataclass(frozen=True, eq=False)
class _Pass:
    """Vectors that entered the sample encoder, weights of the pooling, and outputs."""

    vector_SAD: Tensor
    attention_SA: Tensor
    raw_SO: Tensor
    output_SC: Tensor


class _Copies:
    """Predictions for copies of one sample that differ in their reads or their vectors.

    Parameters
    ----------
    predictor
        A model in evaluation mode.
    asv_AD
        Embeddings of the sample's ASVs.
    categories
        Covariates of the sample.
    column_A
        Columns of the ASVs in a kernel head; None: the model is none.
    """

    def __init__(
        self,
        predictor: Predictor,
        asv_AD: Tensor,
        categories: Mapping[str, str],
        column_A: NDArray[np.int64] | None,
    ) -> None:
        self.predictor = predictor
        self.asv_AD = asv_AD
        self.kernel: KernelPart | None = None
        if isinstance(predictor.head, KernelHead):
            assert column_A is not None, "columns of the ASVs are missing"
            self.is_known_A = torch.from_numpy(column_A != ABSENT).to(asv_AD.device)
            # Sequences that are alike as far as the model reads them share a column.
            columns, number_K = np.unique(column_A[column_A != ABSENT], return_inverse=True)
            self.columns = len(columns)
            self.number_K = torch.from_numpy(number_K).to(asv_AD.device)
            self.kernel = predictor.head.part(torch.from_numpy(columns).to(asv_AD.device))
        self.category_1F: Tensor | None = None
        if predictor.vocabulary is not None:
            values = [categories.get(column, "") for column in predictor.vocabulary.columns]
            numbers_1F = torch.from_numpy(predictor.vocabulary.encode([values]))
            self.category_1F = numbers_1F.to(asv_AD.device)

    def run(
        self, counts_SA: Tensor, vector_SAD: Tensor | None = None, log_SK: Tensor | None = None
    ) -> _Pass:
        """Predict: an ASV without reads is absent.

        `vector_SAD` enters the sample encoder and `log_SK` a kernel head, not what is their own.
        """
        seen: dict[str, Tensor] = {}

        def enter(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            seen["vector"] = inputs[0]
            return None if vector_SAD is None else (vector_SAD, *inputs[1:])

        def scored(_: Any, __: Any, output: Tensor) -> None:
            seen["score"] = output

        sample = self.predictor.encoder.sample
        hooks = [
            sample.entry.register_forward_pre_hook(enter),
            sample.pooling.scores.register_forward_hook(scored),
        ]
        try:
            raw_SO = self._output(counts_SA, log_SK)
        finally:
            for hook in hooks:
                hook.remove()
        attention_SA = seen["score"].masked_fill(counts_SA == 0, float("-inf")).softmax(dim=-1)
        output_SC = explained(raw_SO, self.predictor.target)
        return _Pass(seen["vector"], attention_SA, raw_SO, output_SC)

    def column_reads(self, counts_SA: Tensor) -> Tensor:
        """Return the reads of the columns of a kernel head; an ASV without one has no part."""
        reads_SK = counts_SA.new_zeros(len(counts_SA), self.columns)
        return reads_SK.index_add(1, self.number_K, counts_SA[:, self.is_known_A])

    def divide(self, value_SK: Tensor, counts_A: Tensor) -> Tensor:
        """Return values of columns by ASV [S, A]: ASVs of one column divide it by their reads."""
        known_A = counts_A[self.is_known_A]
        share_A = known_A / self.column_reads(counts_A[None])[0, self.number_K]
        value_SA = value_SK.new_zeros(len(value_SK), len(counts_A))
        value_SA[:, self.is_known_A] = value_SK[:, self.number_K] * share_A
        return value_SA

    def _output(self, counts_SA: Tensor, log_SK: Tensor | None) -> Tensor:
        device = self.asv_AD.device
        copies = len(counts_SA)
        row_SA = torch.arange(len(self.asv_AD), device=device).expand(copies, -1)
        block = SampleBlock(asv_BA=row_SA, present_BA=counts_SA > 0, counts_BA=counts_SA)
        batch = Batch([], [block], torch.arange(copies, device=device), {}, {})
        sample_SD = self.predictor.encoder.encode_samples(self.asv_AD, batch)
        if self.kernel is not None:
            if log_SK is None:
                log_SK = log_reads(self.column_reads(counts_SA))
            return self.kernel(sample_SD, log_SK)
        category_SF = None if self.category_1F is None else self.category_1F.expand(copies, -1)
        return self.predictor.predict(sample_SD, category_SF)


def _gradients(
    copies: _Copies, counts_A: Tensor, whole: _Pass, points: int
) -> tuple[Tensor, Tensor]:
    """Return integrated gradients [A, C] (Sundararajan et al. 2017, arXiv:1703.01365).

    The path begins where every ASV has the mean vector of the sample's ASVs. It does not begin
    at vectors of zero, because a norm follows: the output jumps there, close to the start,
    and no sum over points finds the jump. Log-reads of a kernel head begin at those of no reads.
    The integral is Gauss and Legendre's sum: exact for a polynomial of a degree below twice the
    number of points.
    """
    vector_AD = whole.vector_SAD[0]
    start_AD = vector_AD.mean(dim=0, keepdim=True).expand_as(vector_AD)
    node_S, weight_S = np.polynomial.legendre.leggauss(points)
    alpha_S = torch.from_numpy((node_S + 1) / 2).to(vector_AD)
    share_S = torch.from_numpy(weight_S / 2).to(vector_AD)
    total_AC = torch.zeros(len(counts_A), whole.output_SC.shape[1], device=vector_AD.device)
    log_K = None
    if copies.kernel is not None:
        log_K = log_reads(copies.column_reads(counts_A[None])[0])
    at_a_time = _at_a_time(len(counts_A))
    for part_S, part_share_S in zip(
        alpha_S.split(at_a_time), share_S.split(at_a_time), strict=True
    ):
        path_SAD = torch.lerp(start_AD, vector_AD, part_S[:, None, None]).requires_grad_()
        inputs = [path_SAD]
        if log_K is not None:
            inputs.append((part_S[:, None] * log_K).requires_grad_())
        counts_SA = counts_A.expand(len(part_S), -1)
        with torch.enable_grad():
            raw_SO = copies.run(counts_SA, *inputs).raw_SO
            basis_SB = _basis(raw_SO, copies.predictor.target)
        slope_SAB = torch.empty(*counts_SA.shape, basis_SB.shape[1], device=vector_AD.device)
        for b, output in enumerate(basis_SB.sum(dim=0)):
            is_last = b + 1 == basis_SB.shape[1]
            slopes = torch.autograd.grad(output, inputs, retain_graph=not is_last)
            slope_SAB[..., b] = torch.einsum("sad,ad->sa", slopes[0], vector_AD - start_AD)
            if log_K is not None:
                slope_SAB[..., b] += copies.divide(slopes[1] * log_K, counts_A)
        by_basis_SCB = _slopes_by_basis(raw_SO.detach(), copies.predictor.target)
        total_AC += torch.einsum("s,sab,scb->ac", part_share_S, slope_SAB, by_basis_SCB)
    with torch.no_grad():
        log_1K = None if log_K is None else torch.zeros_like(log_K)[None]
        first = copies.run(counts_A[None], start_AD[None], log_1K)
    return total_AC, (whole.output_SC - first.output_SC)[0]


def _basis(raw_SO: Tensor, target: Target) -> Tensor:
    """Return the fewest numbers [S, B] that the explained outputs are functions of.

    Log-odds depend on the differences of logits alone, of which there is one fewer than classes.
    """
    if _are_log_odds(target):
        return raw_SO[:, :-1] - raw_SO[:, -1:]
    return explained(raw_SO, target)


def _slopes_by_basis(raw_SO: Tensor, target: Target) -> Tensor:
    """Return the derivatives [S, C, B] of the explained outputs by `_basis`."""
    if not _are_log_odds(target):
        outputs = len(explained_names(target))
        return torch.eye(outputs, device=raw_SO.device).expand(len(raw_SO), -1, -1)
    return log_odds_slopes(raw_SO)[..., :-1]


@torch.no_grad()
def _removed(
    copies: _Copies, counts_A: Tensor, removed_R: NDArray[np.int64], output_C: Tensor
) -> Tensor:
    """Return the output less that without each of some ASVs; a lone ASV cannot be removed."""
    removed = torch.from_numpy(removed_R).to(counts_A.device)
    change_RC = torch.zeros(len(removed), len(output_C), device=output_C.device)
    if len(counts_A) == 1 or len(removed) == 0:
        return change_RC
    parts = []
    for gone_S in removed.split(_at_a_time(len(counts_A))):
        counts_SA = counts_A.repeat(len(gone_S), 1)
        counts_SA[torch.arange(len(gone_S)), gone_S] = 0
        parts.append(output_C - copies.run(counts_SA).output_SC)
    return torch.cat(parts)


def _at_a_time(asvs: int) -> int:
    """Return how many copies of a sample with so many ASVs are computed at a time."""
    return max(1, min(PAIRS // asvs**2, TOKENS // asvs))


def explained(output_SO: Tensor, target: Target) -> Tensor:
    """Return the explained outputs of a predictor.

    They are transformed numbers (medians of quantiles), or log-odds: of each class, or of a higher
    one.

    Parameters
    ----------
    output_SO
        Raw outputs of S copies of a sample.
    target
        What is predicted.

    Returns
    -------
    torch.Tensor
        [S, C].
    """
    if target.loss == "ordinal":
        # The logits differ by constants, so that all of them have the same gradients.
        return output_SO.mean(dim=1, keepdim=True)
    if target.loss == "quantile":
        output_SCQ = output_SO.unflatten(1, (len(target.columns), len(QUANTILES)))
        return output_SCQ.sort(dim=-1).values[..., MEDIAN]
    return log_odds(output_SO) if _are_log_odds(target) else output_SO


def _are_log_odds(target: Target) -> bool:
    """Return whether the explained outputs are log-odds of classes."""
    return len(target.classes) > 0 and target.loss != "ordinal"


def explained_names(target: Target) -> list[str]:
    """Return the names of the C explained outputs of a model.

    Parameters
    ----------
    target
        What is predicted.

    Returns
    -------
    list of str
        Columns, or classes.
    """
    return list(target.columns if target.loss == "ordinal" else target.classes or target.columns)


def log_odds(logit_SC: Tensor) -> Tensor:
    """Return log p / (1 - p) of each class, [S, C], from logits."""
    return logit_SC - _other_logits(logit_SC).logsumexp(dim=-1)


def log_odds_slopes(logit_SC: Tensor) -> Tensor:
    """Return the derivatives [S, C, C] of `log_odds` by the logits."""
    identity_CC = torch.eye(logit_SC.shape[1], device=logit_SC.device)
    return identity_CC - _other_logits(logit_SC).softmax(dim=-1)


def _other_logits(logit_SC: Tensor) -> Tensor:
    """Return for each class the logits of the others, [S, C, C], and none of its own."""
    classes = logit_SC.shape[1]
    all_SCC = logit_SC[:, None, :].expand(-1, classes, -1)
    is_same_CC = torch.eye(classes, dtype=torch.bool, device=logit_SC.device)
    return all_SCC.masked_fill(is_same_CC, float("-inf"))


def choose_samples(names: Iterable[str], number: int, seed: int) -> list[str]:
    """Choose samples at random, whatever their order.

    Parameters
    ----------
    names
        IDs of all samples.
    number
        Most samples that are chosen.
    seed
        Seed of the choice.

    Returns
    -------
    list of str
        At most `number` of the names.
    """
    return sorted(names, key=lambda name: (seed_of("explain", seed, name), name))[:number]


def explain_samples(
    predictors: Mapping[Predictor, float],
    store: SampleStore,
    tokens: TokenStore,
    samples: Sequence[int],
    devices: InferenceDevice,
    *,
    categories: Sequence[Mapping[Any, str]],
    removed: Sequence[NDArray[np.int64]],
    asvs: Path | None = None,
) -> Iterator[tuple[NDArray[np.int64], Explanation]]:
    """Explain samples by their reads in view 0 alone, with the weighted models of their fold.

    Parameters
    ----------
    predictors
        Models with their weights.
    store, tokens
        Reads of all samples, and all ASVs.
    samples
        Rows of the samples in the store.
    devices
        Where the models run.
    categories
        Covariates of each sample.
    removed
        Positions among the ASVs of each sample. It is also predicted without each of these.
    asvs
        A file of ASV embeddings, which is read for those encoders that made it.

    Yields
    ------
    asvs_A : numpy.ndarray
        Rows of a sample's ASVs in `tokens`.
    explanation : Explanation
        The explanation of the sample.
    """
    asvs_U = asvs_of(store, np.array(samples, np.int64), len(tokens.lengths))
    sample_tokens = tokens.rows(asvs_U)
    tables = _embedded(predictors, sample_tokens, devices, asvs)
    columns = []
    for predictor in predictors:
        column_U = None
        if isinstance(predictor.head, KernelHead):
            column_U = predictor.head.columns(sample_tokens.tokens)
        columns.append(column_U)
    for sample, covariates, removed_R in zip(samples, categories, removed, strict=True):
        held = slice(store.offsets[sample], store.offsets[sample + 1])
        asvs_A = store.asvs[held].astype(np.int64)
        row_A = np.searchsorted(asvs_U, asvs_A)
        counts_A = torch.from_numpy(store.counts[held].astype(np.float32)).to(devices.device)
        explanations = []
        for predictor, asv_UD, column_U in zip(predictors, tables, columns, strict=True):
            explanation = explain(
                predictor,
                asv_UD[torch.from_numpy(row_A)].to(devices.device),
                counts_A,
                covariates,
                None if column_U is None else column_U[row_A],
                removed_R=removed_R,
            )
            explanations.append(explanation)
        yield asvs_A, _mean(explanations, [*predictors.values()])


def _embedded(
    predictors: Iterable[Predictor], tokens: TokenStore, devices: InferenceDevice, asvs: Path | None
) -> list[Tensor]:
    """Return for each model the embeddings [U, D] of ASVs; what models share runs once."""
    kept = None if asvs is None else AsvEmbeddings.open(asvs).digest
    by_digest: dict[str, Tensor] = {}
    tables = []
    for predictor in predictors:
        predictor.to(devices.device).eval().requires_grad_(False)
        digest = encoder_digest(predictor.encoder, devices.precision)
        if digest not in by_digest:
            cache = asvs if digest == kept else None
            by_digest[digest] = embed_asvs_cached(predictor.encoder, tokens, devices, cache)
        tables.append(by_digest[digest])
    return tables


def _mean(explanations: Sequence[Explanation], weights: Sequence[float]) -> Explanation:
    """Return the explanation of the weighted mean output."""

    def mean(name: str) -> NDArray[np.float64]:
        values = [getattr(explanation, name) for explanation in explanations]
        return np.average(values, axis=0, weights=weights)

    return Explanation(**{field.name: mean(field.name) for field in fields(Explanation)})
