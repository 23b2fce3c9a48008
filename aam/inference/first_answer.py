"""The first answer to a task, of its baselines alone, applied to another table: no network."""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from aam.config.losses import LOSSES
from aam.data.same_reads import (
    Fingerprints,
    KnownSamples,
    longest_bp,
    sequences_as_read,
)
from aam.data.sequences import tokenize, untokenize
from aam.data.table import FeatureTable
from aam.data.target import Target
from aam.inference.calibrated import with_intervals
from aam.inference.cautions import warn_of_known, warn_of_long_branches, warn_of_unseen
from aam.inference.nearness import check_nearness, measure_nearness
from aam.inference.tables import name_table, rarefy_views, read_table
from aam.inference.with_baselines import SuperLearner
from aam.learners.conformal import Calibration, load_calibration
from aam.learners.kept_mixture import FINGERPRINTS, MODEL, SETTINGS
from aam.util.digests import fitting
from aam.util.errors import problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class FirstAnswer:
    """The baselines of one task, mixed: what predicts where no network was trained."""

    super_learner: SuperLearner
    samples: KnownSamples
    """The samples that the baselines learn from."""
    target: Target
    calibration: Calibration | None
    """What turns predictions into intervals or sets of classes; None: neither is given."""

    @staticmethod
    def is_in(directory: Path) -> bool:
        """Return whether a directory holds a super learner without models.

        Parameters
        ----------
        directory
            Any folder.

        Returns
        -------
        bool
            Judged by the names of files alone.
        """
        return (directory / SETTINGS).is_file() and not (directory / MODEL).is_dir()

    @classmethod
    def load(cls, directory: str | Path) -> "FirstAnswer":
        """Read a folder `first/<task>/super_learner`.

        Parameters
        ----------
        directory
            The folder.

        Returns
        -------
        FirstAnswer
            Ready to predict.

        Raises
        ------
        InputError
            It is none, or a part is missing, damaged or of another version.
        """
        folder = Path(directory).expanduser()
        expected = "the super learner of a first answer"
        hint = "give first/<task>/super_learner, with all of its files"
        if not folder.is_dir():
            raise problem(folder, "no such directory", expected, hint)
        super_learner = SuperLearner.load(folder)
        if super_learner is None or super_learner.models is not None:
            raise problem(folder, "no super learner without models", expected, hint)
        settings = super_learner.settings
        with fitting(folder, expected, hint):
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
        calibration = load_calibration(folder, target, quantiles=False)
        return cls(super_learner, samples, target, calibration)

    def predict(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        metadata: str | Path | pd.DataFrame | None = None,
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
            Taken so that every directory is asked in the same way, and not read: baselines know no
            covariates, so none can be missing.

        Returns
        -------
        pandas.DataFrame
            Index `sample-id`, in the order of the table. `predicted` is the number, or the class
            with all classes counting alike. Behind it stand, for classes, `probability:<class>`,
            calibrated to how frequent classes are in training, then what the calibration adds:
            `lower` and `upper` of numbers, `likeliest` and `prediction_set` of classes.
            `unseen_asvs` is the fraction of the reads whose ASV the table of training lacks, and
            `near_reads` that of the reads whose ASV it has, or that differ from one of its ASVs in
            at most 3 % of the bases. Samples with less than half of such reads have no bounds, and
            a set of all classes.
            `in_training` is "id" where a training sample has this ID, "reads" where one has the
            same reads under another ID, and empty for new samples. Where a task has several
            targets, the columns of each end with a colon and its name. There is neither `sd` nor
            `novelty`, which take networks.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, no sample is deep enough, or hardly
            any read is near an ASV of training.
        """
        if metadata is not None:
            logger.info("the baselines know no covariates: the metadata are not read")
        where = name_table(table)
        counts, texts = read_table(table, sequences)
        rarefaction = self.super_learner.settings["rarefaction"]
        depth = rarefaction["depth"]
        kept_sequences = self.super_learner.reads.sequences
        length_bp = longest_bp(kept_sequences)
        tokens, store = rarefy_views(
            counts,
            texts,
            depth=depth,
            views=rarefaction["views"],
            seed=rarefaction["seed"],
            max_length_bp=length_bp,
            where=where,
        )
        reads = self.super_learner.reads
        features = reads.nearest_features(counts, texts)
        seen_tokens, seen_lengths = tokenize([*kept_sequences.values()], length_bp)
        nearness = measure_nearness(
            store,
            tokens,
            seen_asvs=frozenset(untokenize(seen_tokens, seen_lengths)),
            is_near_U=np.array([name in features for name in tokens.feature_ids], bool),
            depth=depth,
        )
        check_nearness(nearness, counts, texts, reads.feature_sequences, where)
        # More threads would wait, because baselines are fitted one after the other.
        result = self.super_learner.predict(counts, features, store.sample_ids, threads=1)
        as_read = sequences_as_read(counts, texts, length_bp)
        marks = self.samples.marks(counts, as_read).loc[store.sample_ids, "in_training"]
        result[nearness.columns] = nearness
        result["in_training"] = marks.to_numpy()
        warn_of_known(result["in_training"], where)
        warn_of_unseen(nearness, where)
        return with_intervals(result, self.calibration, self.target)
