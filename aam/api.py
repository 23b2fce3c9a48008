"""Models in Python: `aam.load(directory).predict(table)`, `aam.encoder(directory).embed(table)`."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from aam.data.importing.metadata import load_metadata
from aam.data.table import FeatureTable
from aam.inference.bundle import ModelBundle
from aam.inference.calibrated import with_intervals
from aam.inference.ensemble import predict_table
from aam.inference.pretrained import TableEmbedder
from aam.inference.tables import name_table, read_table
from aam.inference.with_baselines import SuperLearner
from aam.learners.conformal import Calibration, load_calibration
from aam.util.errors import first_names, problem


@dataclass(frozen=True, eq=False)
class Model:
    """The fine-tuned models of one task, with what calibrates their intervals."""

    bundle: ModelBundle
    calibration: Calibration | None = None
    """What turns predictions into intervals or sets of classes; None: neither is given."""
    super_learner: SuperLearner | None = None
    """What mixes the models with baselines; None: they predict alone."""

    @classmethod
    def load(cls, directory: str | Path) -> "Model":
        """Rebuild the models of a task.

        Parameters
        ----------
        directory
            A folder `model`, or `super_learner`, whose models are mixed with baselines.

        Returns
        -------
        Model
            Ready to predict.

        Raises
        ------
        InputError
            The folder holds no model, or one of its files is missing, damaged or of a version that
            this package cannot read.
        """
        folder = Path(directory).expanduser()
        mixed = SuperLearner.load(folder)
        models = folder if mixed is None else mixed.models
        if models is None:
            raise problem(
                folder,
                "the super learner of a first answer, which has no model",
                "fine-tuned models",
                "read it with aam.load",
            )
        bundle = ModelBundle.load(models)
        calibration = load_calibration(folder, bundle.target, quantiles=mixed is None)
        return cls(bundle, calibration, mixed)

    def predict(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        metadata: str | Path | pd.DataFrame | None = None,
        *,
        threads: int | None = None,
        asvs: str | Path | None = None,
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
            The covariates of the models, where they have any: a file in the QIIME 2 format, or
            text by sample ID. What is missing counts as unknown.
        threads
            Cores to use; None: as many as torch takes by itself.
        asvs
            File of ASV embeddings that a frozen encoder made before; others are computed.

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
            samples. A super learner gives neither `sd` nor quantiles. Where a task has several
            targets, the columns of each end with a colon and its name. Samples of which less than
            half of the reads are near an ASV of training (`near_reads`) have neither bounds nor
            quantiles, and a set of all classes.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, no sample is deep enough, or hardly
            any read is near an ASV of training.
        """
        counts, texts = read_table(table, sequences)
        cores = threads or torch.get_num_threads()
        result = predict_table(
            self.bundle,
            counts,
            texts,
            cores,
            asvs=None if asvs is None else Path(asvs),
            metadata=_text(metadata),
            where=name_table(table),
        )
        if self.super_learner is not None:
            result = self.super_learner.mix(result, counts, texts, cores)
        return with_intervals(result, self.calibration, self.bundle.target)


class PretrainedEncoder(TableEmbedder):
    """A pretrained encoder, for tables of any study of its region."""

    def embed(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        *,
        depth: int | None = None,
        threads: int | None = None,
    ) -> pd.DataFrame:
        """Embed every sample.

        Parameters
        ----------
        table
            Read counts: BIOM, TSV or .qza, or a table in memory. ASVs may be new.
        sequences
            FASTA or .qza, where the feature IDs are not the sequences.
        depth
            Reads that are drawn of every sample first; shallower ones are left out. None: all are
            taken as they are, and samples of unlike depth differ by that, too.
        threads
            Cores to use; None: as many as torch takes by itself.

        Returns
        -------
        pandas.DataFrame
            Index `sample-id`, one column per number of the embedding.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, or no sample is deep enough.
        """
        counts, texts = read_table(table, sequences)
        cores = threads or torch.get_num_threads()
        names, sample_ND = self.embed_table(counts, texts, depth, cores)
        return pd.DataFrame(sample_ND.numpy(), index=pd.Index(names, name="sample-id"))

    def distances(
        self,
        table: str | Path | FeatureTable,
        sequences: str | Path | None = None,
        metric: str = "unweighted",
        *,
        depth: int | None = None,
        threads: int | None = None,
    ) -> pd.DataFrame:
        """Predict the distance between every two samples. No tree is needed.

        Parameters
        ----------
        table
            Read counts: BIOM, TSV or .qza, or a table in memory. ASVs may be new.
        sequences
            FASTA or .qza, where the feature IDs are not the sequences.
        metric
            One of the distances that the encoder learned, a name in `aam.config.metrics.METRICS`.
        depth
            Reads that are drawn of every sample first; shallower ones are left out. None: all are
            taken as they are, and samples of unlike depth differ by that, too.
        threads
            Cores to use; None: as many as torch takes by itself.

        Returns
        -------
        pandas.DataFrame
            Symmetric, zero on the diagonal, samples by samples.

        Raises
        ------
        InputError
            A file cannot be read, features have no sequence, no sample is deep enough, or the
            encoder did not learn the metric.
        """
        self.head(metric)
        frame = self.embed(table, sequences, depth=depth, threads=threads)
        distance_NN = self.pairwise_distances(torch.tensor(frame.to_numpy()), metric)
        return pd.DataFrame(distance_NN.numpy(), index=frame.index, columns=frame.index)


def _text(metadata: str | Path | pd.DataFrame | None) -> pd.DataFrame | None:
    """Return metadata as text by sample ID, missing values as None."""
    if metadata is None:
        return None
    if not isinstance(metadata, pd.DataFrame):
        return load_metadata(Path(metadata))
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
