"""All methods of a task, ready for other tables: what `aam.load` returns.

The module imports PyTorch only where a directory holds networks.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from aam.config.losses import LOSSES
from aam.config.references import default_genes, gene_reference_folder
from aam.data.importing.metadata import load_metadata
from aam.data.predictions import FEW_NEAR, NEAR_READS, PROBABILITY, QUANTILE, join_classes
from aam.data.rarefaction import scale_to_one
from aam.data.same_reads import Fingerprints, KnownSamples, longest_bp, sequences_as_read
from aam.data.sequences import tokenize, untokenize
from aam.data.table import FeatureTable, TableFacts
from aam.data.target import Target
from aam.inference.cautions import (
    warn_of_known,
    warn_of_long_branches,
    warn_of_nothing_learned,
    warn_of_unseen,
)
from aam.inference.clade_effects import explain_by_clades
from aam.inference.nearness import (
    check_known,
    check_nearness,
    check_ways,
    is_of_other_region,
    measure_known,
    measure_nearness,
    warn_of_serial_ids,
    warn_of_unknown,
)
from aam.inference.tables import (
    draw_views,
    like_training,
    name_table,
    rarefy_views,
    read_table,
    texts_for,
)
from aam.inference.with_baselines import SuperLearner
from aam.learners.conformal import QUANTILE_COLUMNS, Calibration, load_calibration
from aam.learners.kept_mixture import FINGERPRINTS
from aam.reference_tree.genes import GeneReference
from aam.util.digests import fitting
from aam.util.errors import first_names, problem
from aam.util.missing_files import expand_home

if TYPE_CHECKING:
    from aam.inference.bundle import ModelBundle

logger = logging.getLogger(__name__)

ADDED = ("lower", "upper", "likeliest", "prediction_set")
"""Columns that the calibration adds, as far as the kind of target has them."""


@dataclass(frozen=True)
class _Matched:
    """What the features of a table are among those of training."""

    features: Mapping[str, int]
    """Number of the known feature by name; absent are those that are near none."""
    nearness: pd.DataFrame
    """How much of each sample is known, by the IDs of those that are deep enough."""


@dataclass(frozen=True, eq=False, repr=False)
class TaskPredictor:
    """The networks of a task, its baselines, or both mixed, with what calibrates predictions."""

    target: Target
    networks: "ModelBundle | None" = None
    """None: baselines predict alone."""
    super_learner: SuperLearner | None = None
    """What mixes the methods; None: networks predict alone."""
    calibration: Calibration | None = None
    """What turns predictions into intervals or sets of classes; None: neither is given."""
    samples: KnownSamples | None = None
    """The samples that baselines alone learn from; networks know theirs themselves. None, too,
    where the folder was shared without samples."""

    def __repr__(self) -> str:
        """Return what predicts what; without the samples of training, which are the study's own."""
        methods = [] if self.networks is None else ["networks"]
        methods += [] if self.super_learner is None else ["baselines"]
        # A super learner of one target knows its task, and not its column.
        columns = ", ".join(filter(None, self.target.columns))
        if not columns and self.super_learner is not None:
            columns = self.super_learner.settings["facts"].get("task", "one column")
        return f"TaskPredictor({self.target.kind} of {columns} by {' and '.join(methods)})"

    @property
    def facts(self) -> TableFacts:
        """What the table of training held."""
        if self.networks is not None:
            return self.networks.facts
        assert self.super_learner is not None
        return self.super_learner.reads.facts

    @classmethod
    def load(cls, directory: str | Path) -> "TaskPredictor":
        """Read what a task was answered with.

        Parameters
        ----------
        directory
            A folder `model` of networks, or a `super_learner`, of networks and baselines or of
            baselines alone.

        Returns
        -------
        TaskPredictor
            Ready to predict.

        Raises
        ------
        InputError
            The folder is none of these, or one of its files is missing, damaged or of a version
            that this package cannot read.
        """
        folder = expand_home(directory)
        super_learner = SuperLearner.load(folder)
        if super_learner is not None and super_learner.models is None:
            return cls._of_baselines(folder, super_learner)
        # Networks alone take PyTorch, which takes seconds to import.
        from aam.inference.bundle import ModelBundle

        models = folder if super_learner is None else super_learner.models
        assert models is not None
        networks = ModelBundle.load(models)
        calibration = load_calibration(folder, networks.target, quantiles=super_learner is None)
        return cls(networks.target, networks, super_learner, calibration)

    @classmethod
    def _of_baselines(cls, folder: Path, super_learner: SuperLearner) -> "TaskPredictor":
        """Return the answer of a folder without networks."""
        settings = super_learner.settings
        with fitting(folder, "a super learner", "copy the directory again, with all of its files"):
            samples = None
            if super_learner.folds is not None:
                samples = KnownSamples(
                    sample_ids=frozenset(super_learner.folds.index),
                    fingerprints=Fingerprints.open(folder / FINGERPRINTS),
                )
            target = Target(
                kind=settings["kind"],
                columns=tuple(settings["mixtures"]),
                classes=tuple(settings["classes"]),
                loss=LOSSES[settings["kind"]][0],
                bounds=tuple(settings["bounds"]),
            )
        warn_of_long_branches(settings["rarefaction"])
        calibration = None
        if samples is None:
            logger.warning(
                "%s was shared without samples: probabilities are not calibrated, there are no "
                "intervals, and samples that were in training are not recognized",
                folder,
            )
        else:
            calibration = load_calibration(folder, target, quantiles=False)
        return cls(target, None, super_learner, calibration, samples)

    def predict(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        metadata: str | Path | pd.DataFrame | None = None,
        *,
        threads: int | None = None,
        asvs: str | Path | None = None,
        reference: str | None = None,
    ) -> pd.DataFrame:
        """Predict every sample that is deep enough; the others are named in a warning.

        Samples that were in training are named in a warning, too: how well these are predicted says
        nothing about new ones.

        Parameters
        ----------
        table
            Read counts: BIOM, TSV or .qza, or a table in memory. ASVs may be new, and the depth
            another: every sample is rarefied to the depth of training.
        sequences
            FASTA or .qza, where the feature IDs are not the sequences.
        metadata
            The covariates of the networks, where they have any: a file in the QIIME 2 format, or
            text by sample ID. What is missing counts as unknown. Baselines know no covariates and
            do not read them.
        threads
            Cores to use; None: as many as torch takes by itself. Baselines are fitted one after
            the other.
        asvs
            File of ASV embeddings that a frozen encoder made before; others are computed.
        reference
            Name of a reference of whole genes (`aam reference list`), in whose tree baselines
            without networks place reads of another region of 16S than that of training, with a
            warning; None: `greengenes`, if it is on this machine.

        Returns
        -------
        pandas.DataFrame
            Index `sample-id`, in the order of the table. The columns of
            `aam.inference.ensemble.predict_table`, and before `unseen_asvs` what the calibration
            adds (see `aam.learners.conformal.Calibration`): of numbers `lower` and `upper`; of
            classes `likeliest` and `prediction_set`, classes joined by "|". `predicted` is the
            class chosen with all classes counting alike; probabilities are calibrated to how
            frequent classes are in training, and `likeliest` has the highest of them. `sd` is of
            the probabilities before. The last column is `in_training`: "id" where a training sample
            has this ID, "reads" where one has the same reads under another ID, empty for new
            samples. A super learner gives neither `sd` nor quantiles, and baselines alone
            give no `novelty`, either. Where a task has several
            targets, the columns of each end with a colon and its name. Samples of which less than
            half of the reads are near an ASV of training (`near_reads`) have neither bounds nor
            quantiles, and a set of all classes.

        Raises
        ------
        InputError
            A file cannot be read or is not there, features have no sequence, no sample is deep
            enough, or hardly any read is near an ASV of training.
        """
        if isinstance(metadata, str | Path) and not Path(metadata).is_file():
            raise problem(metadata, "no such file", "metadata in a file", "correct the path")
        given = read_table(table, sequences, self.facts, self._features)
        where = name_table(table)
        facts = self.facts
        counts = like_training(given.table, facts, where)
        texts = texts_for(given, facts)
        if self.networks is None:
            if metadata is not None:
                logger.info("the baselines know no covariates: the metadata are not read")
            result = self._predict_by_baselines(counts, texts, where, reference)
        else:
            result = self._predict_by_networks(
                counts,
                texts,
                _read_text(metadata, given.table.sample_ids),
                where,
                threads=threads,
                asvs=asvs,
            )
        if self.calibration is not None and self.calibration.has_learned_nothing:
            warn_of_nothing_learned(where)
        return with_intervals(result, self.calibration, self.target)

    def explain(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        *,
        reference: str | None = None,
    ) -> pd.DataFrame:
        """Return by how much each clade that the label depends on moved the prediction of a sample.

        Parameters
        ----------
        table, sequences, reference
            See `predict`.

        Returns
        -------
        pandas.DataFrame
            See `aam.inference.clade_effects.explain_by_clades`.

        Raises
        ------
        InputError
            As `predict`, or networks are among the methods, which are explained by themselves
            (`importance.tsv` of their task).
        """
        if self.networks is not None or self.super_learner is None:
            raise problem(
                repr(self),
                "networks are among its methods",
                "a super learner of baselines alone",
                "load the folder answers/<task>/first/super_learner",
            )
        if self.samples is None:
            raise problem(
                repr(self),
                "shared without samples, which stand in for a clade",
                "the folder that it was shared from",
                "explain by that, where the samples are",
            )
        given = read_table(table, sequences, self.facts, self._features)
        where = name_table(table)
        counts = like_training(given.table, self.facts, where)
        matched = self._match(counts, texts_for(given, self.facts), where, reference)
        sample_ids = [*matched.nearness.index]
        drawn = self.super_learner.reads.draw(counts, matched.features, sample_ids)
        return explain_by_clades(self.super_learner, drawn, sample_ids)

    @property
    def _features(self) -> Sequence[str]:
        """IDs of the features of training, where baselines keep them."""
        return () if self.super_learner is None else self.super_learner.reads.features

    def _predict_by_networks(
        self,
        counts: FeatureTable,
        texts: Mapping[str, str],
        metadata: pd.DataFrame | None,
        where: str,
        *,
        threads: int | None,
        asvs: str | Path | None,
    ) -> pd.DataFrame:
        """Return what networks predict, mixed with the baselines where there are some.

        Parameters
        ----------
        counts, texts
            Reads, and the sequence of every feature.
        metadata
            Covariates as text, by sample ID.
        where
            What messages call the table.
        threads, asvs
            See `predict`.
        """
        import torch

        from aam.inference.ensemble import predict_table

        assert self.networks is not None
        cores = threads or torch.get_num_threads()
        result = predict_table(
            self.networks,
            counts,
            texts,
            cores,
            asvs=None if asvs is None else Path(asvs),
            metadata=metadata,
            where=where,
        )
        if self.super_learner is None:
            return result
        return self.super_learner.mix(result, counts, texts, cores)

    def _predict_by_baselines(
        self,
        counts: FeatureTable,
        texts: Mapping[str, str],
        where: str,
        reference: str | None,
    ) -> pd.DataFrame:
        """Return what baselines predict; the parameters are those of `predict`."""
        assert self.super_learner is not None
        reads = self.super_learner.reads
        matched = self._match(counts, texts, where, reference)
        sample_ids = [*matched.nearness.index]
        # More threads would wait, because baselines are fitted one after the other.
        result = self.super_learner.predict(counts, matched.features, sample_ids, threads=1)
        result[matched.nearness.columns] = matched.nearness
        if self.samples is None:
            return result
        as_read = [
            reads.features[matched.features[name]] if name in matched.features else name
            for name in counts.feature_ids
        ]
        if reads.facts.has_sequences:
            as_read = sequences_as_read(counts, texts, longest_bp(reads.texts))
        compared = counts if reads.facts.is_counted else scale_to_one(counts)
        marks = self.samples.marks(compared, as_read).loc[sample_ids, "in_training"]
        result["in_training"] = marks.to_numpy()
        warn_of_known(result["in_training"], where)
        return result

    def _match(
        self, counts: FeatureTable, texts: Mapping[str, str], where: str, reference: str | None
    ) -> _Matched:
        """Return what the features of a table are among those of training, and check that."""
        assert self.super_learner is not None
        if not (self.facts.has_sequences and self.facts.is_counted):
            return self._match_names(counts, texts, where)
        rarefaction = self.super_learner.settings["rarefaction"]
        depth = rarefaction["depth"]
        reads = self.super_learner.reads
        length_bp = longest_bp(reads.texts)
        tokens, store = rarefy_views(
            counts,
            texts,
            depth=depth,
            views=rarefaction["views"],
            seed=rarefaction["seed"],
            max_length_bp=length_bp,
            where=where,
        )
        features = reads.nearest_features(counts, texts)
        seen_tokens, seen_lengths = tokenize([*reads.texts.values()], length_bp)
        nearness = measure_nearness(
            store,
            tokens,
            seen_asvs=frozenset(untokenize(seen_tokens, seen_lengths)),
            is_near_U=np.array([name in features for name in tokens.feature_ids], bool),
            depth=depth,
        )
        genes = default_genes() if reference is None else reference
        known = (nearness, counts, texts, reads.feature_texts)
        if genes is not None and is_of_other_region(*known):
            opened = GeneReference.open(gene_reference_folder(genes))
            features, ways = reads.features_in_genes(counts, texts, opened)
            check_ways(counts, ways, where, genes)
        else:
            check_nearness(*known, where)
        warn_of_unseen(nearness, where)
        return _Matched(features, nearness)

    def _match_names(self, counts: FeatureTable, texts: Mapping[str, str], where: str) -> _Matched:
        """Return what `_match` does of a table of amounts, or of features without sequences."""
        assert self.super_learner is not None
        rarefaction = self.super_learner.settings["rarefaction"]
        reads = self.super_learner.reads
        draws = draw_views(
            counts,
            depth=rarefaction["depth"],
            views=rarefaction["views"],
            seed=rarefaction["seed"],
            where=where,
        )
        features = reads.nearest_features(counts, texts)
        nearness = measure_known(draws, features.keys())
        check_known(nearness, counts, reads.facts, where)
        warn_of_unknown(counts, features.keys(), where)
        if not self.facts.has_sequences:
            warn_of_serial_ids(counts, where)
        return _Matched(features, nearness)


def with_intervals(
    predictions: pd.DataFrame, calibration: Calibration | None, target: Target
) -> pd.DataFrame:
    """Put the intervals, or sets, of every target behind its predictions.

    Samples with less than `FEW_NEAR` near reads are unlike those that intervals and sets are
    calibrated by: their bounds and quantiles are left empty, and their sets hold all classes.

    Parameters
    ----------
    predictions
        What is predicted, then `unseen_asvs`, `near_reads` and what follows them. Where there are
        several targets, the columns of each end with a colon and its name.
    calibration
        What turns them into intervals; None: they are returned as they are.
    target
        What is predicted.

    Returns
    -------
    pandas.DataFrame
        The same columns, and `ADDED` before `unseen_asvs`.
    """
    if calibration is None:
        return _without_confidence(predictions, target)
    end = predictions.columns.get_loc("unseen_asvs")
    parts = [predictions.iloc[:, :end]]
    for column in target.columns:
        name = column if len(target.columns) > 1 else ""
        suffix = f":{name}" if name else ""
        plain = {f"{base}{suffix}": base for base in ("predicted", *QUANTILE_COLUMNS)}
        calibrated = calibration.apply(predictions.rename(columns=plain), name, target.bounds)
        added = calibrated[[base for base in ADDED if base in calibrated]]
        # Calibrated probabilities stand in the place of the method's own.
        parts[0] = parts[0].assign(**calibrated.filter(like=PROBABILITY))
        # Too few samples to calibrate by give no bounds, and QIIME 2 takes no empty column.
        parts.append(added.dropna(axis=1, how="all").add_suffix(suffix))
    return _without_confidence(pd.concat([*parts, predictions.iloc[:, end:]], axis=1), target)


def _without_confidence(predictions: pd.DataFrame, target: Target) -> pd.DataFrame:
    """Return predictions whose samples with few near reads have no interval, or a set of all."""
    is_few = predictions[NEAR_READS] < FEW_NEAR
    if not is_few.any():
        return predictions
    result = predictions.copy()
    bounds = [name for name in result if str(name).startswith(("lower", "upper", QUANTILE))]
    result.loc[is_few, bounds] = np.nan
    if "prediction_set" in result:
        result.loc[is_few, "prediction_set"] = join_classes(target.classes)
    # QIIME 2 takes no empty column.
    return result.drop(columns=bounds) if is_few.all() else result


def _read_text(
    metadata: str | Path | pd.DataFrame | None, sample_ids: Sequence[str]
) -> pd.DataFrame | None:
    """Return metadata as text by sample ID, missing values as None.

    The IDs of the table's samples tell which column of a file has them.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, pd.DataFrame):
        return load_metadata(Path(metadata), sample_ids)
    text = metadata.astype(object).map(str, na_action="ignore")
    text = text.where(text.notna(), None).set_axis(metadata.index.map(str))
    duplicates = text.index[text.index.duplicated()]
    if len(duplicates):
        raise problem(
            "metadata",
            f"sample IDs that occur more than once: {first_names(duplicates)}",
            "every ID once",
            "rename or remove the others",
        )
    return text
