"""The models of a task, applied together to another table.

Shape suffixes: N samples, V views, R rows (V x N), F metadata columns, O outputs, U ASVs, D width.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.data.lineages import adapt_lineages, find_related
from aam.data.same_reads import sequences_as_read
from aam.data.stores import SampleStore, TokenStore
from aam.data.table import FeatureTable
from aam.distributed.inference_device import InferenceDevice
from aam.inference.asv_cache import embed_asvs_cached, encoder_digest, module_digest
from aam.inference.bundle import ModelBundle
from aam.inference.cautions import warn_of_known, warn_of_unseen
from aam.inference.embed import embed_samples
from aam.inference.nearness import check_known, check_nearness, find_near, measure_nearness
from aam.inference.outputs import (
    Outputs,
    decode_outputs,
    mean_columns,
    mean_outputs,
    raw_outputs,
)
from aam.inference.tables import rarefy_views
from aam.util.errors import first_names

logger = logging.getLogger(__name__)

FAR = 0.95
"""Novelty from which on a sample counts as far from the references."""
MANY_FAR = 0.25
"""Fraction of the samples, far from the references, that is warned of."""


def predict_table(
    bundle: ModelBundle,
    table: FeatureTable,
    sequences: Mapping[str, str],
    threads: int = 1,
    asvs: Path | None = None,
    metadata: pd.DataFrame | None = None,
    where: str = "the table",
) -> pd.DataFrame:
    """Predict another table by the models alone, without calibration.

    Parameters
    ----------
    bundle
        The models.
    table
        Reads before rarefaction.
    sequences
        Sequence of every feature, or the words of its lineage.
    threads
        Cores to use.
    asvs
        File of ASV embeddings, which is read for those encoders that made it.
    metadata
        Covariates as text, by sample ID.
    where
        What messages call the table.

    Returns
    -------
    pandas.DataFrame
        By sample ID `predicted`, the quantiles or the probabilities of classes, and: `sd`, over the
        models, of the number or of the probability of the predicted class; `unseen_asvs`, the
        fraction of reads whose ASV the models never saw; `near_reads`, that of reads whose ASV they
        saw, or that are near one; `novelty`, that of `Reference.novelty`, 0
        for reads that a training sample has; `in_training`, that of `KnownSamples.marks`.

    Raises
    ------
    InputError
        No sample is deep enough, hardly any read is near an ASV of training, a prediction is not
        finite, or `asvs` cannot be read.
    """
    facts = bundle.facts
    if not facts.has_sequences:
        sequences = adapt_lineages(bundle.seen_asvs, sequences, facts.noun)
    tokens, store = rarefy_views(
        table,
        sequences,
        depth=bundle.depth,
        views=bundle.views,
        seed=bundle.seed,
        max_length_bp=bundle.max_length_bp,
        where=where,
    )
    if facts.has_sequences:
        is_near_U = find_near(tokens, bundle.seen_asvs)
    else:
        is_near_U = find_related([sequences[n] for n in tokens.feature_ids], bundle.seen_asvs)
    nearness = measure_nearness(store, tokens, bundle.seen_asvs, is_near_U, bundle.depth)
    if facts.has_sequences:
        check_nearness(nearness, table, sequences, bundle.seen_asvs, where)
    else:
        check_known(nearness, table, facts, where)
    covariates = _covariates(bundle, store.sample_ids, metadata, where)
    devices = InferenceDevice.claim(threads)
    outputs, novelty_N = _outputs(bundle, store, tokens, devices, asvs, covariates)
    result = mean_columns(bundle.target, outputs, bundle.shares)
    result.index = pd.Index(store.sample_ids, name="sample-id")
    result[nearness.columns] = nearness
    if bundle.reference is not None:
        as_read = sequences_as_read(table, sequences, bundle.max_length_bp)
        marks = bundle.reference.samples.marks(table, as_read).loc[store.sample_ids]
        if novelty_N is not None:
            # Under another ID the same reads are drawn otherwise, but they are not new.
            result["novelty"] = np.where(marks["same_reads"], 0.0, novelty_N)
        result["in_training"] = marks["in_training"].to_numpy()
        warn_of_known(result["in_training"], where)
    warn_of_unseen(nearness, where, facts)
    _warn_of_novelty(result, where)
    return result


def predict_store(
    bundle: ModelBundle,
    store: SampleStore,
    tokens: TokenStore,
    devices: InferenceDevice,
    asvs: Path | None,
    covariates: pd.DataFrame,
) -> NDArray[np.float64]:
    """Return the weighted mean of what the models say of samples in a store.

    Parameters
    ----------
    bundle
        The models.
    store, tokens
        The samples, drawn in V views, and their ASVs.
    devices
        Where the models run.
    asvs
        File of ASV embeddings, which is read for those encoders that made it.
    covariates
        Categories of the samples, text.

    Returns
    -------
    numpy.ndarray
        Numbers in the units of the columns, or probabilities of the classes, [N, C].

    Raises
    ------
    InputError
        A prediction is not finite, or `asvs` cannot be read.
    """
    outputs, _ = _outputs(bundle, store, tokens, devices, asvs, covariates)
    return mean_outputs(outputs, bundle.shares).point_NC


def _covariates(
    bundle: ModelBundle, sample_ids: list[str], metadata: pd.DataFrame | None, where: str
) -> pd.DataFrame:
    """Return the categories that any of the models knows, text, empty where missing or unknown."""
    names_by_column = _categories(bundle)
    given = pd.DataFrame(index=sample_ids) if metadata is None else metadata
    covariates = pd.DataFrame("", index=sample_ids, columns=list(names_by_column))
    shown = []
    never = []
    for column, names in names_by_column.items():
        number = len(sample_ids)
        if column in given.columns:
            text = given[column].reindex(sample_ids)
            is_known = text.isin(list(names))
            covariates[column] = text.where(is_known, "")
            number = int((~is_known).sum())
            strange = sorted(set(text[~is_known].dropna()) - {""})
            if strange:
                never.append(f"{column} {first_names(strange)}")
        if number:
            shown.append(f"{column} in {number}")
    if shown:
        logger.warning(
            "%s: of %d samples, a category is missing or was not in training, and counts as "
            "unknown: %s%s. The models use these columns: %s",
            where,
            len(sample_ids),
            ", ".join(shown),
            f" (training never had {'; '.join(never)})" if never else "",
            "give the metadata that hold them"
            if metadata is None
            else "fill them in the metadata, for every sample and in the words of training",
        )
    return covariates


def _categories(bundle: ModelBundle) -> dict[str, set[str]]:
    """Return the categories that any of the models knows, by column."""
    names_by_column: dict[str, set[str]] = {}
    for predictor in bundle.predictors:
        vocabulary = predictor.vocabulary
        if vocabulary is not None:
            for column, names in zip(vocabulary.columns, vocabulary.categories, strict=True):
                names_by_column.setdefault(column, set()).update(names)
        if bundle.transform_by is not None:
            scaled = names_by_column.setdefault(bundle.transform_by, set())
            scaled.update(dict(predictor.target.categories))
    return names_by_column


def _outputs(
    bundle: ModelBundle,
    store: SampleStore,
    tokens: TokenStore,
    devices: InferenceDevice,
    asvs: Path | None,
    covariates: pd.DataFrame,
) -> tuple[list[Outputs], NDArray[np.float64] | None]:
    """Return what each model says of samples in a store; what models share runs once.

    Parameters
    ----------
    bundle, store, tokens, devices, asvs, covariates
        As for `predict_store`.

    Returns
    -------
    outputs : list of Outputs
        In the order of the models.
    novelty_N : numpy.ndarray or None
        How new the samples are; None: the bundle has no reference.
    """
    outputs: dict[int, Outputs] = {}
    rows = np.arange(len(store.row_view))
    novelty_N = None
    covariates_R = pd.concat([covariates] * store.views)
    by_R = None if bundle.transform_by is None else [*covariates_R[bundle.transform_by]]
    # Models with a partial encoder share its ASV part, and models with a frozen one share all of
    # it. In the order of the digests, models that share follow each other, and each part runs once.
    encoders = [predictor.encoder for predictor in bundle.predictors]
    keys = [(encoder_digest(each, devices.precision), module_digest(each)) for each in encoders]
    last = ("", "")
    for number in sorted(range(len(keys)), key=keys.__getitem__):
        predictor = bundle.predictors[number]
        asv_digest, digest = keys[number]
        if asv_digest != last[0]:
            asv_UD = embed_asvs_cached(predictor.encoder, tokens, devices, asvs)
        if (asv_digest, digest) != last:
            embedding_RD = embed_samples(predictor.encoder, store, tokens, rows, devices, asv_UD)
        last = (asv_digest, digest)
        if number == bundle.reference_model and bundle.reference is not None:
            novelty_N = bundle.reference.novelty(embedding_RD[: len(store.sample_ids)].numpy())
        category_RF = None
        if predictor.vocabulary is not None:
            text_RF = covariates_R[[*predictor.vocabulary.columns]].to_numpy()
            category_RF = predictor.vocabulary.encode(text_RF)
        output_RO = raw_outputs(
            predictor,
            store,
            tokens,
            rows,
            devices,
            embedding_RD=embedding_RD,
            asv_UD=asv_UD,
            category_RF=category_RF,
        )
        outputs[number] = decode_outputs(predictor.target, output_RO, store.views, by_R)
    return [outputs[number] for number in range(len(keys))], novelty_N


def _warn_of_novelty(result: pd.DataFrame, where: str) -> None:
    """Warn of a table many samples of which lie far from those of training."""
    far = (result["novelty"] > FAR).mean() if "novelty" in result else 0.0
    if far > MANY_FAR:
        logger.warning(
            "%s: %.0f %% of the samples are farther from the samples of training than %.0f %% of "
            "those are from each other: predictions may be worse than those of cross-validation",
            where,
            100 * far,
            100 * FAR,
        )
