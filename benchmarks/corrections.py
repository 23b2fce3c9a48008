"""Corrections of batches that can meet a batch that nothing was learned from.

A correction makes log-ratios of reads. What it learns, it learns of training samples: their reads
and batches, and with `factors` their labels. A sample of a training batch is corrected by what the
training samples of the batch say. A sample of a batch never seen is either left as it is, which a
single sample can be, or, with `adapt`, corrected by the reads of all samples of its batch, without
any label. Batches with fewer than `LEAST_SAMPLES` samples are left as they are, since a sample that
is compared with itself alone says nothing.

| name | what is equal in all batches | source |
|---|---|---|
| none | nothing | |
| centring | means of log-ratios | `removeBatchEffect` of limma without a design |
| location_scale | means and variances, shrunk | Johnson, Li & Rabinovic 2007, section 3 |
| quantiles | distributions of reads | quantile normalization, feature by feature |
| percentiles | distributions of reads of controls | Gibbons, Duvallet & Alm 2018 |
| factors | mean log-reads, by factors that also help to predict labels | the idea of DEBIAS-M |

Johnson, Li & Rabinovic (2007), Adjusting batch effects in microarray expression data using
empirical Bayes methods, doi:10.1093/biostatistics/kxj037. Gibbons, Duvallet & Alm (2018),
Correcting for batch effects in case-control microbiome studies, doi:10.1371/journal.pcbi.1006102.
DEBIAS-M (2025), doi:10.1038/s41564-025-01954-4: a factor for each microbe in each batch is learned
by the loss of a linear prediction and by how similar batches become; a batch never seen gets
factors by similarity alone.

Shape suffixes: N samples, T training samples, R reference samples of a batch, M samples that are
moved, P features, B batches, C columns of the target, Z reads that are not 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from aam.learners.baselines.linear_and_nearest import centred_log_ratios
from aam.util.errors import problem

LEAST_SAMPLES = 2
"""Samples of a batch below which it is left as it is."""
SHRINKAGE_STEPS = 30
"""Steps in which shrunk means and variances settle, at most."""
SIMILARITY = 10.0
"""Weight of the distance between batches, against that of the squared errors of the prediction."""
FACTOR_PENALTY = 0.1
"""Weight of the squared logarithm of a factor, for one sample."""
SLOPE_PENALTY = 30.0
"""Penalty of the slopes of the linear prediction, as that of a ridge."""
FACTOR_STEPS = 40
"""Steps of the search for factors, at most."""

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Samples:
    """Reads of samples of several batches."""

    reads_NP: csr_array
    """Rarefied reads."""
    batch_N: NDArray[np.str_]
    """Batch of each sample."""
    target_NC: Floats
    """Numbers, or 1 and -1 for each class; only those of training samples are looked at."""
    is_control_N: NDArray[np.bool_] | None = None
    """Controls that are known without the label, in new batches, too; None: none are named."""
    pseudocount: float = 0.5
    """What is added to reads before logarithms are taken."""

    @cached_property
    def log_ratios_NP(self) -> Floats:
        """Centred log-ratios."""
        return self.log_ratios_of(self.reads_NP)

    def log_ratios_of(self, reads_NP: csr_array) -> Floats:
        """Return centred log-ratios of other reads of these samples, [N, P]."""
        return centred_log_ratios(reads_NP, added=self.pseudocount)

    def references(self, train: Rows, *, adapt: bool) -> Iterator[tuple[Rows, Rows]]:
        """Yield the samples of each batch, and those that say how the batch is corrected.

        Parameters
        ----------
        train
            Training samples.
        adapt
            Whether the samples of a batch without training samples say it themselves.

        Yields
        ------
        tuple
            All rows of a batch, and its reference rows, at least `LEAST_SAMPLES`.
        """
        for name in np.unique(self.batch_N):
            rows = np.flatnonzero(self.batch_N == name)
            references = np.intersect1d(rows, train)
            if not len(references) and adapt:
                references = rows
            if len(references) >= LEAST_SAMPLES:
                yield rows, references


def refuse_coinciding(target_N: NDArray, batch_N: NDArray[np.str_], column: str) -> None:
    """Raise an error where labels differ between batches alone.

    No correction can tell them from the batches: it would take out the label with the batch, or,
    knowing the labels, call a difference between batches one between labels.

    Parameters
    ----------
    target_N, batch_N
        Label and batch of each labelled sample.
    column
        Metadata column of the batches, for the message.

    Raises
    ------
    aam.util.errors.InputError
        If no batch has two different labels.
    """
    if any(len(np.unique(target_N[batch_N == name])) > 1 for name in np.unique(batch_N)):
        return
    raise problem(
        column,
        actual="a single label in every value",
        expected="values with several labels; where batch and label coincide, nothing tells "
        "them apart",
        hint="leave the correction out, or sequence both labels in one batch",
    )


def keep(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return the centred log-ratios as they are, [N, P]."""
    return samples.log_ratios_NP


def centre(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return log-ratios whose means are the same in all batches.

    Parameters
    ----------
    samples
        All samples.
    train
        Rows of the training samples.
    adapt
        Whether the reads of a batch without training samples are used for it.

    Returns
    -------
    numpy.ndarray
        Log-ratios less the mean of the batch, plus that of all training samples, [N, P].
    """
    log_ratios_NP = samples.log_ratios_NP
    corrected_NP = log_ratios_NP.copy()
    mean_P = log_ratios_NP[train].mean(axis=0)
    for rows, references in samples.references(train, adapt=adapt):
        corrected_NP[rows] += mean_P - log_ratios_NP[references].mean(axis=0)
    return corrected_NP


def shrink_location_scale(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return log-ratios whose means and variances are nearly the same in all batches.

    The model is that of ComBat without covariates. The priors of a batch's means and variances are
    estimated over its features, so that those of few samples are pulled towards them. A batch
    without training samples has priors of its own, from its reads. Parameters and results are those
    of `centre`.
    """
    log_ratios_NP = samples.log_ratios_NP
    mean_P = log_ratios_NP[train].mean(axis=0)
    within_TP = log_ratios_NP[train].copy()
    for name in np.unique(samples.batch_N[train]):
        is_batch_T = samples.batch_N[train] == name
        within_TP[is_batch_T] -= within_TP[is_batch_T].mean(axis=0)
    deviation_P = np.sqrt(np.square(within_TP).mean(axis=0))
    # A feature that varies between batches alone has no scale.
    deviation_P[deviation_P < 1e-9] = 1.0
    standard_NP = (log_ratios_NP - mean_P) / deviation_P
    corrected_NP = log_ratios_NP.copy()
    for rows, references in samples.references(train, adapt=adapt):
        location_P, scale_P = _shrunk_moments(standard_NP[references])
        moved_MP = (standard_NP[rows] - location_P) / scale_P
        corrected_NP[rows] = mean_P + deviation_P * moved_MP
    return corrected_NP


def _shrunk_moments(standard_RP: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations of a batch, given the priors of all its features."""
    samples = len(standard_RP)
    mean_P = standard_RP.mean(axis=0)
    variance_P = standard_RP.var(axis=0, ddof=1)
    prior_mean = mean_P.mean()
    prior_variance = mean_P.var()
    mean_of_variances = variance_P.mean()
    variance_of_variances = variance_P.var()
    if mean_of_variances == 0 or variance_of_variances == 0:
        return mean_P, np.ones_like(mean_P)
    # The inverse gamma distribution that has this mean and this variance.
    shape = 2 + mean_of_variances**2 / variance_of_variances
    rate = mean_of_variances * (shape - 1)
    square_P = variance_P * (samples - 1)
    scale_P = variance_P.copy()
    location_P = mean_P.copy()
    for _ in range(SHRINKAGE_STEPS):
        last_P = location_P
        total_P = samples * prior_variance + scale_P
        location_P = (samples * prior_variance * mean_P + scale_P * prior_mean) / total_P
        residual_P = square_P + samples * (mean_P - location_P) ** 2
        scale_P = (rate + residual_P / 2) / (shape - 1 + samples / 2)
        if np.abs(location_P - last_P).max() < 1e-4:
            break
    return location_P, np.sqrt(scale_P)


def match_quantiles(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return log-ratios of reads whose distribution is that of all training samples.

    Each feature by itself: a sample gets the quantile of all training samples that it has within
    its batch; samples with the same reads share the middle of their ranks. Parameters and results
    are those of `centre`.
    """
    reads_NP = samples.reads_NP.toarray()
    pooled_TP = np.sort(reads_NP[train], axis=0)
    corrected_NP = reads_NP.astype(np.float64)
    for rows, references in samples.references(train, adapt=adapt):
        rank_MP = _ranks(reads_NP[references], reads_NP[rows])
        at_MP = np.clip(rank_MP * len(train) - 0.5, 0, len(train) - 1)
        below_MP = np.floor(at_MP).astype(np.intp)
        above_MP = np.minimum(below_MP + 1, len(train) - 1)
        part_MP = at_MP - below_MP
        lower_MP = np.take_along_axis(pooled_TP, below_MP, axis=0)
        upper_MP = np.take_along_axis(pooled_TP, above_MP, axis=0)
        corrected_NP[rows] = lower_MP + part_MP * (upper_MP - lower_MP)
    return samples.log_ratios_of(csr_array(corrected_NP))


def rank_among_controls(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return the rank of a sample's reads among the controls of its batch, from 0 to 1.

    A batch without training samples is ranked among its own controls if `adapt` is set. All others
    are ranked among the controls of all training samples, as are batches with fewer than
    `LEAST_SAMPLES` controls. Samples with the same reads share the middle of their ranks.
    Parameters and results are those of `centre`.

    Raises
    ------
    aam.util.errors.InputError
        If no controls are named among the training samples.
    """
    is_control_N = samples.is_control_N
    if is_control_N is None or is_control_N[train].sum() < LEAST_SAMPLES:
        raise problem(
            "controls",
            actual="fewer than two named controls among the training samples",
            expected="controls that are known without the label, in every batch",
            hint="name them, or choose another correction",
        )
    reads_NP = samples.reads_NP.toarray()
    rank_NP = _ranks(reads_NP[train[is_control_N[train]]], reads_NP)
    for rows, references in samples.references(train, adapt=adapt):
        controls = references[is_control_N[references]]
        if len(controls) >= LEAST_SAMPLES:
            rank_NP[rows] = _ranks(reads_NP[controls], reads_NP[rows])
    return rank_NP


def _ranks(reference_RP: NDArray, moved_MP: NDArray) -> Floats:
    """Return the fraction of reference samples with fewer reads, ties counting half, [M, P].

    Half a sample on either side keeps it from 0 and 1.
    """
    sorted_RP = np.sort(reference_RP, axis=0)
    rank_MP = np.empty(moved_MP.shape)
    for column in range(moved_MP.shape[1]):
        values_M = moved_MP[:, column]
        fewer_M = np.searchsorted(sorted_RP[:, column], values_M, side="left")
        up_to_M = np.searchsorted(sorted_RP[:, column], values_M, side="right")
        rank_MP[:, column] = (fewer_M + up_to_M + 1) / 2
    return rank_MP / (len(reference_RP) + 1)


def learn_factors(samples: Samples, train: Rows, *, adapt: bool) -> Floats:
    """Return log-ratios of reads that are multiplied by a factor per batch and feature.

    Log-reads u = log(1 + r f / pseudocount), with reads r whose sum stays the same and factors f,
    are scaled to a variance of 1 in all. The factors and a linear prediction of the labels minimize

        sum of squared errors + `SLOPE_PENALTY` |slopes|^2
        + `SIMILARITY` sum over samples of |mean of u in the batch - mean of u|^2
        + `FACTOR_PENALTY` sum over samples of |log f|^2.

    The factors of a batch without training samples minimize the last two terms, with the mean of
    the training samples. Reads that are 0 stay 0. Parameters and results are those of `centre`.
    """
    reads_NP = csr_array(samples.reads_NP, dtype=np.float64)
    known = [rows for rows, _ in samples.references(train, adapt=False)]
    code_N = np.full(len(samples.batch_N), -1)
    for code, rows in enumerate(known):
        code_N[rows] = code
    learned = _Rescaled.of(reads_NP[train], code_N[train], samples.pseudocount)
    log_factor_BP = learned.search(samples.target_NC[train])
    mean_P = learned.log_reads(log_factor_BP).mean_P
    corrected = [(code_N >= 0, code_N, log_factor_BP)]
    for rows, references in samples.references(train, adapt=adapt):
        if code_N[rows[0]] < 0:
            own_N = np.full(len(code_N), -1)
            own_N[rows] = 0
            batch = _Rescaled.of(reads_NP[references], own_N[references], samples.pseudocount)
            own_BP = batch.search(
                np.zeros((len(references), 0)), mean_P=mean_P, scale=learned.scale
            )
            corrected.append((own_N >= 0, own_N, own_BP))
    result = reads_NP.copy()
    row_Z = np.repeat(np.arange(result.shape[0]), np.diff(result.indptr))
    for is_moved_N, batch_N, factor_BP in corrected:
        is_moved_Z = is_moved_N[row_Z]
        factor_Z = factor_BP[batch_N[row_Z[is_moved_Z]], result.indices[is_moved_Z]]
        result.data[is_moved_Z] *= np.exp(factor_Z)
    # The sum of a sample's reads stays what it was.
    total_N = np.asarray(reads_NP.sum(axis=1))
    moved_N = np.asarray(result.sum(axis=1))
    result.data *= (total_N / np.where(moved_N > 0, moved_N, 1.0))[row_Z]
    return samples.log_ratios_of(result)


@dataclass(frozen=True, eq=False)
class _LogReads:
    """Scaled log-reads of a choice of factors, and what their slopes are made of."""

    values: csr_array
    """u, [N, P]."""
    slope_Z: Floats
    """du / d log r."""
    share_Z: Floats
    """Part of its sample that each feature is."""
    mean_BP: Floats
    mean_P: Floats


@dataclass(frozen=True, eq=False)
class _Rescaled:
    """Reads of the samples of some batches, and what factors make of them."""

    reads: csr_array
    row_Z: Rows
    at_Z: Rows
    """Batch and feature of each read, flat; behind all of them where a batch is left alone."""
    batch_N: NDArray[np.intp]
    pseudocount: float

    @classmethod
    def of(cls, reads_NP: csr_array, batch_N: NDArray[np.intp], pseudocount: float) -> "_Rescaled":
        """Return the reads of samples with the codes of their batches; -1: left as they are."""
        reads_NP = csr_array(reads_NP)
        row_Z = np.repeat(np.arange(reads_NP.shape[0]), np.diff(reads_NP.indptr))
        batches = int(batch_N.max(initial=-1)) + 1
        features = reads_NP.shape[1]
        batch_Z = batch_N[row_Z]
        at_Z = np.where(batch_Z < 0, batches * features, batch_Z * features + reads_NP.indices)
        return cls(reads_NP, row_Z, at_Z, batch_N, pseudocount)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of batches and features."""
        return int(self.batch_N.max(initial=-1)) + 1, self.reads.shape[1]

    @cached_property
    def size_B(self) -> NDArray[np.intp]:
        """Numbers of samples of the batches."""
        return np.bincount(self.batch_N[self.batch_N >= 0], minlength=self.shape[0])

    @cached_property
    def scale(self) -> float:
        """What log-reads are divided by: the root of the sum of their variances."""
        logs = self.reads.copy()
        logs.data = np.log1p(logs.data / self.pseudocount)
        mean_P = np.asarray(logs.mean(axis=0))
        squares_P = np.asarray((logs * logs).mean(axis=0))
        return float(np.sqrt((squares_P - mean_P**2).sum())) or 1.0

    def log_reads(self, log_factor_BP: Floats, scale: float | None = None) -> _LogReads:
        """Return the log-reads with some factors; `scale` stands for that of the samples."""
        scale = self.scale if scale is None else scale
        samples = self.reads.shape[0]
        moved_Z = self.reads.data * np.exp(np.append(log_factor_BP, 0.0)[self.at_Z])
        total_N = np.bincount(self.row_Z, weights=moved_Z, minlength=samples)
        share_Z = moved_Z / total_N[self.row_Z]
        reads_Z = share_Z * np.asarray(self.reads.sum(axis=1))[self.row_Z]
        value_Z = np.log1p(reads_Z / self.pseudocount) / scale
        sum_BP = self.sums_of_batches(value_Z)
        return _LogReads(
            values=csr_array((value_Z, self.reads.indices, self.reads.indptr), self.reads.shape),
            slope_Z=reads_Z / (reads_Z + self.pseudocount) / scale,
            share_Z=share_Z,
            mean_BP=sum_BP / self.size_B[:, None],
            mean_P=sum_BP.sum(axis=0) / max(self.size_B.sum(), 1),
        )

    def search(
        self, target_NC: Floats, *, mean_P: Floats | None = None, scale: float | None = None
    ) -> Floats:
        """Return the logarithms of the factors, [B, P].

        Parameters
        ----------
        target_NC
            What is predicted.
        mean_P
            What the means of the batches are compared with; None: the mean of the samples.
        scale
            What log-reads are divided by; None: what the samples say.
        """
        features = self.shape[1]
        columns = target_NC.shape[1]
        centred_NC = target_NC - target_NC.mean(axis=0)
        deviation_C = np.sqrt(np.square(centred_NC).mean(axis=0))
        standard_NC = centred_NC / np.where(deviation_C > 0, deviation_C, 1.0)

        def loss(flat: Floats) -> tuple[float, Floats]:
            factor, slope = np.split(flat, [len(flat) - features * columns])
            log_factor_BP = factor.reshape(-1, features)
            slope_PC = slope.reshape(features, columns)
            logs = self.log_reads(log_factor_BP, scale)
            far_BP = logs.mean_BP - (logs.mean_P if mean_P is None else mean_P)
            predicted_NC = logs.values @ slope_PC
            error_NC = predicted_NC - predicted_NC.mean(axis=0) - standard_NC
            value = (
                np.square(error_NC).sum()
                + SLOPE_PENALTY * np.square(slope_PC).sum()
                + SIMILARITY * (self.size_B @ np.square(far_BP)).sum()
                + FACTOR_PENALTY * (self.size_B @ np.square(log_factor_BP)).sum() / features
            )
            by_slope_PC = logs.values.T @ error_NC + SLOPE_PENALTY * slope_PC
            by_value_Z = SIMILARITY * np.append(far_BP, 0.0)[self.at_Z]
            by_value_Z += (error_NC[self.row_Z] * slope_PC[self.reads.indices]).sum(axis=1)
            by_factor_BP = self.slopes_of_factors(logs, by_value_Z)
            by_factor_BP += FACTOR_PENALTY * self.size_B[:, None] * log_factor_BP / features
            slopes = np.concatenate([by_factor_BP.ravel(), by_slope_PC.ravel()])
            return float(value), 2 * slopes

        start = np.zeros(np.prod(self.shape) + features * columns)
        options = {"maxiter": FACTOR_STEPS}
        solved = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
        return np.asarray(solved.x[: np.prod(self.shape)]).reshape(self.shape)

    def slopes_of_factors(self, logs: _LogReads, by_value_Z: Floats) -> Floats:
        """Return slopes by the logarithms of the factors, [B, P], given those by the log-reads."""
        samples = self.reads.shape[0]
        by_log_Z = by_value_Z * logs.slope_Z
        # A larger factor of one feature leaves less to the others of the sample.
        by_sum_N = np.bincount(self.row_Z, weights=by_log_Z, minlength=samples)
        return self.sums_of_batches(by_log_Z - logs.share_Z * by_sum_N[self.row_Z])

    def sums_of_batches(self, value_Z: Floats) -> Floats:
        """Return sums over the samples of each batch, [B, P]."""
        batches, features = self.shape
        sums = np.bincount(self.at_Z, weights=value_Z, minlength=batches * features + 1)
        return np.asarray(sums[:-1], np.float64).reshape(batches, features)


Correction = Callable[..., Floats]
"""Takes samples, training rows and `adapt`, and returns features of all samples, [N, P]."""
CORRECTIONS: dict[str, Correction] = {
    "none": keep,
    "centring": centre,
    "location_scale": shrink_location_scale,
    "quantiles": match_quantiles,
    "percentiles": rank_among_controls,
    "factors": learn_factors,
}
