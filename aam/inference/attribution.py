"""Which ASVs a prediction rests on: attention, integrated gradients, and removal as their check.

Shape suffixes: N samples, U distinct ASVs of these, A ASVs of one sample, S copies of it, D width,
O outputs of the head, C explained outputs, F columns of categories, P ASVs of a kernel machine.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from aam.data.samples import SampleStore
from aam.data.target import MEDIAN, QUANTILES, Target
from aam.data.tokens import TokenStore
from aam.inference.embed import asvs_of, embed_asvs
from aam.model.batch import Batch, SampleBlock
from aam.model.kernel_head import ABSENT, KernelHead, log_reads
from aam.model.predictor import Predictor
from aam.train.distributed.devices import Devices
from aam.util.seeds import seed_of

STEPS = 24
"""Points of the path that gradients are averaged over."""
PAIRS = 1 << 20
"""Pairs of ASVs, over all copies of a sample, that attention compares at a time."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """One sample, explained."""

    attention_A: NDArray[np.float64]
    """Weight of each ASV in the pooling; they sum to 1."""
    gradients_AC: NDArray[np.float64]
    """Integrated gradients of each output."""
    change_C: NDArray[np.float64]
    """Output of the sample less that of the path's start: what the gradients should sum to."""
    removed_AC: NDArray[np.float64] | None = None
    """Output of the sample less that without the ASV."""


def explain(
    predictor: Predictor,
    asv_AD: Tensor,
    counts_A: Tensor,
    categories: Mapping[str, str] | None = None,
    column_A: NDArray[np.int64] | None = None,
    *,
    steps: int = STEPS,
    remove: bool = False,
) -> Explanation:
    """Explain the outputs of `explained` by the sample's embedded ASVs, reads and covariates.

    The predictor is in evaluation mode. `column_A` are the columns of the ASVs in a kernel machine.
    With `remove` the sample is also predicted without each ASV.
    """
    copies = _Copies(predictor, asv_AD, categories or {}, column_A)
    with torch.no_grad():
        whole = copies.run(counts_A[None])
    gradients_AC, change_C = _gradients(copies, counts_A, whole, steps)
    parts = [whole.attention_SA[0], gradients_AC, change_C]
    if remove:
        parts.append(_removed(copies, counts_A, whole.output_SC[0]))
    return Explanation(*(part.detach().cpu().double().numpy() for part in parts))


@dataclass(frozen=True, eq=False)
class _Pass:
    """Vectors that entered the sample encoder, weights of the pooling, and explained outputs."""

    vector_SAD: Tensor
    attention_SA: Tensor
    output_SC: Tensor


class _Copies:
    """Predictions for copies of one sample that differ in their reads or their vectors."""

    def __init__(
        self,
        predictor: Predictor,
        asv_AD: Tensor,
        categories: Mapping[str, str],
        column_A: NDArray[np.int64] | None,
    ) -> None:
        self.predictor, self.asv_AD = predictor, asv_AD
        self.column_A = None if column_A is None else torch.from_numpy(column_A).to(asv_AD.device)
        self.category_1F: Tensor | None = None
        if predictor.vocabulary is not None:
            values = [categories.get(column, "") for column in predictor.vocabulary.columns]
            numbers_1F = torch.from_numpy(predictor.vocabulary.encode([values]))
            self.category_1F = numbers_1F.to(asv_AD.device)

    def run(
        self, counts_SA: Tensor, vector_SAD: Tensor | None = None, log_SA: Tensor | None = None
    ) -> _Pass:
        """Predict: an ASV without reads is absent.

        `vector_SAD` enters the sample encoder and `log_SA` a kernel machine, not what is their own.
        """
        seen: dict[str, Tensor] = {}

        def enter(_: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
            seen["vector"] = inputs[0]
            return None if vector_SAD is None else (vector_SAD, *inputs[1:])

        def scored(_: Any, __: Any, output: Tensor) -> None:
            seen["score"] = output.squeeze(-1)

        sample = self.predictor.encoder.sample
        hooks = [
            sample.entry.register_forward_pre_hook(enter),
            sample.pooling.score.register_forward_hook(scored),
        ]
        try:
            output_SO = self._output(counts_SA, log_reads(counts_SA) if log_SA is None else log_SA)
        finally:
            for hook in hooks:
                hook.remove()
        attention_SA = seen["score"].masked_fill(counts_SA == 0, float("-inf")).softmax(dim=-1)
        return _Pass(seen["vector"], attention_SA, explained(output_SO, self.predictor.target))

    def _output(self, counts_SA: Tensor, log_SA: Tensor) -> Tensor:
        device, copies = self.asv_AD.device, len(counts_SA)
        place_SA = torch.arange(len(self.asv_AD), device=device).expand(copies, -1)
        block = SampleBlock(place_SA, counts_SA > 0, counts_SA)
        batch = Batch([], [block], torch.arange(copies, device=device), {}, {})
        sample_SD, states = self.predictor.encoder.encode_samples(self.asv_AD, batch, asvs=True)
        category_SF = None if self.category_1F is None else self.category_1F.expand(copies, -1)
        log_SP, head = None, self.predictor.head
        if isinstance(head, KernelHead):
            assert self.column_A is not None, "columns of the ASVs are missing"
            known_A = self.column_A != ABSENT
            log_SP = torch.zeros(copies, len(head.asv_PS), device=device)
            log_SP = log_SP.index_add(1, self.column_A[known_A], log_SA[:, known_A])
        return self.predictor.predict(
            sample_SD, category_SF, asvs=states, batch=batch, log_BP=log_SP
        )


def _gradients(
    copies: _Copies, counts_A: Tensor, whole: _Pass, steps: int
) -> tuple[Tensor, Tensor]:
    """Return integrated gradients [A, C] (Sundararajan et al. 2017, arXiv:1703.01365).

    The path begins where every ASV has the mean vector of the sample's ASVs. It does not begin
    at vectors of zero, because a norm follows: the output jumps there, close to the start,
    and no sum over steps finds the jump. Log-reads begin at those of an ASV that is absent.
    """
    log_A = log_reads(counts_A)
    vector_AD = whole.vector_SAD[0]
    start_AD = vector_AD.mean(dim=0, keepdim=True).expand_as(vector_AD)
    alpha_S = (torch.arange(steps, device=vector_AD.device) + 0.5) / steps
    total_CAD = torch.zeros(whole.output_SC.shape[1], *vector_AD.shape, device=vector_AD.device)
    total_CA = torch.zeros(total_CAD.shape[:2], device=vector_AD.device)
    for part_S in alpha_S.split(_at_a_time(len(counts_A))):
        path_SAD = torch.lerp(start_AD, vector_AD, part_S[:, None, None]).requires_grad_()
        log_SA = (part_S[:, None] * log_A).requires_grad_()
        with torch.enable_grad():
            output_SC = copies.run(counts_A.expand(len(part_S), -1), path_SAD, log_SA).output_SC
            for c, output in enumerate(output_SC.sum(dim=0)):
                slope_SAD, slope_SA = torch.autograd.grad(
                    output, (path_SAD, log_SA), retain_graph=True, materialize_grads=True
                )
                total_CAD[c] += slope_SAD.sum(dim=0)
                total_CA[c] += slope_SA.sum(dim=0)
    gradients_CA = ((vector_AD - start_AD) * total_CAD / steps).sum(dim=-1)
    gradients_CA = gradients_CA + log_A * total_CA / steps
    with torch.no_grad():
        first = copies.run(counts_A[None], start_AD[None], torch.zeros_like(log_A)[None])
    return gradients_CA.T, (whole.output_SC - first.output_SC)[0]


@torch.no_grad()
def _removed(copies: _Copies, counts_A: Tensor, output_C: Tensor) -> Tensor:
    """Return the output less that without each ASV, [A, C]; a lone ASV cannot be removed."""
    if len(counts_A) == 1:
        return torch.zeros(1, len(output_C), device=output_C.device)
    parts = []
    for gone_S in torch.arange(len(counts_A)).split(_at_a_time(len(counts_A))):
        counts_SA = counts_A.repeat(len(gone_S), 1)
        counts_SA[torch.arange(len(gone_S)), gone_S] = 0
        parts.append(output_C - copies.run(counts_SA).output_SC)
    return torch.cat(parts)


def _at_a_time(asvs: int) -> int:
    return max(1, PAIRS // asvs**2)


def explained(output_SO: Tensor, target: Target) -> Tensor:
    """Return the explained outputs [S, C] of a predictor's raw ones.

    Transformed numbers (medians of quantiles), or log-odds: of each class, or of a higher one.
    """
    if target.loss == "ordinal":
        # They differ by constants, so all have the same gradients.
        return output_SO.mean(dim=1, keepdim=True)
    if target.loss == "quantile":
        output_SCQ = output_SO.unflatten(1, (len(target.columns), len(QUANTILES)))
        return output_SCQ.sort(dim=-1).values[..., MEDIAN]
    return log_odds(output_SO) if target.classes else output_SO


def explained_names(target: Target) -> list[str]:
    """Return the names of the C explained outputs of a model for a target."""
    return list(target.columns if target.loss == "ordinal" else target.classes or target.columns)


def log_odds(logit_SC: Tensor) -> Tensor:
    """Return log p / (1 - p) of each class, [S, C], from logits."""
    classes = logit_SC.shape[1]
    others_SCC = logit_SC[:, None, :].expand(-1, classes, -1)
    own_CC = torch.eye(classes, dtype=torch.bool, device=logit_SC.device)
    return logit_SC - others_SCC.masked_fill(own_CC, float("-inf")).logsumexp(dim=-1)


def chosen_samples(names: Iterable[str], number: int, seed: int) -> list[str]:
    """Return at most `number` of some samples, whatever their order."""
    return sorted(names, key=lambda name: (seed_of("explain", seed, name), name))[:number]


def explain_samples(
    predictors: Mapping[Predictor, float],
    store: SampleStore,
    tokens: TokenStore,
    samples: Sequence[int],
    devices: Devices,
    *,
    checked: int,
    categories: Sequence[Mapping[Any, str]],
) -> Iterator[tuple[NDArray[np.int64], Explanation]]:
    """Explain samples by their reads in view 0 alone, with the weighted models of their fold.

    The first `checked` samples are predicted without each of their ASVs, too; `categories` are the
    covariates of each. Yields the rows of a sample's ASVs in `tokens`, [A], and their explanation.
    """
    asvs_U = asvs_of(store, np.array(samples, np.int64), len(tokens.lengths))
    tables = []
    for predictor in predictors:
        predictor.to(devices.device).eval().requires_grad_(False)
        tables.append(embed_asvs(predictor.encoder, tokens, asvs_U, devices))
    for number, sample in enumerate(samples):
        held = slice(store.offsets[sample], store.offsets[sample + 1])
        asvs_A = store.asvs[held].astype(np.int64)
        place_A = torch.from_numpy(np.searchsorted(asvs_U, asvs_A))
        counts_A = torch.from_numpy(store.counts[held].astype(np.float32)).to(devices.device)
        explanations, known = [], categories[number]
        for predictor, asv_UD in zip(predictors, tables, strict=True):
            head, own_AD = predictor.head, asv_UD[place_A].to(devices.device)
            column_A = head.columns(tokens.tokens[asvs_A]) if isinstance(head, KernelHead) else None
            explanations.append(
                explain(predictor, own_AD, counts_A, known, column_A, remove=number < checked)
            )
        yield asvs_A, _mean(explanations, [*predictors.values()])


def _mean(explanations: Sequence[Explanation], weights: Sequence[float]) -> Explanation:
    """Return the explanation of the weighted mean output."""
    names = [name for name, value in vars(explanations[0]).items() if value is not None]
    parts = [[vars(each)[name] for each in explanations] for name in names]
    return Explanation(*(np.average(part, axis=0, weights=weights) for part in parts))
