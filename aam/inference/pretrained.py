"""A pretrained encoder, applied to tables that it has not seen.

Shape suffixes: N samples, D width of an embedding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch

from aam.config.metrics import METRICS
from aam.config.references import REFERENCES
from aam.config.sections.model import LINEAGE
from aam.data.table import FeatureTable, TableFacts
from aam.distributed.inference_device import InferenceDevice
from aam.inference.embed import embed_samples, load_encoder
from aam.inference.tables import like_training, name_table, rarefy_views, read_table, texts_for
from aam.model.encoder import Encoder
from aam.model.heads import DistanceHead, distance_head
from aam.model.known_asvs import KnownAsvs
from aam.model.store import AGAIN, load_config, rebuild
from aam.util.digests import fitting
from aam.util.errors import problem
from aam.util.missing_files import expand_home

ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class PretrainedEncoder:
    """A pretrained encoder, for tables of any study of its region: what `aam.encoder` returns."""

    encoder: Encoder
    heads: Mapping[str, DistanceHead]
    known_asvs: KnownAsvs | None

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Rebuild the encoder of a pretrained model directory.

        Parameters
        ----------
        directory
            The folder.

        Returns
        -------
        PretrainedEncoder
            In evaluation mode.

        Raises
        ------
        InputError
            The directory is none of a pretrained model, or a part is damaged or of another version.
        """
        if str(directory) in REFERENCES:
            expected = "the directory of a pretrained model"
            hint = f'{directory} is a reference tree: use aam.reference("{directory}")'
            raise problem("aam.encoder", str(directory), expected, hint)
        directory = expand_home(directory)
        config = load_config(directory)
        encoder = load_encoder(directory)
        heads = {}
        with fitting(directory, "a pretrained model", AGAIN):
            for metric in config.get("distances", ()):
                if METRICS[metric].per_sample:
                    continue
                build = partial(distance_head, encoder.shape, metric)
                heads[metric] = rebuild(directory, build, f"distances.{metric}.")
            return cls(encoder, heads, KnownAsvs.from_model(directory))

    @property
    def facts(self) -> TableFacts:
        """What the tables of training held, as far as it matters to other tables."""
        reads_lineages = self.encoder.shape.encoder == LINEAGE
        return TableFacts(has_sequences=not reads_lineages)

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
        given = read_table(table, sequences)
        facts = self.facts
        counts = like_training(given.table, facts, name_table(table))
        texts = texts_for(given, facts)
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

    def head(self, metric: str) -> DistanceHead:
        """Return the head of a metric.

        Parameters
        ----------
        metric
            Name of the metric.

        Returns
        -------
        DistanceHead
            In evaluation mode.

        Raises
        ------
        InputError
            The encoder did not learn it. The message names those that it learned.
        """
        if metric not in self.heads:
            expected = f"one of {', '.join(self.heads) or 'none'}, which the encoder learned"
            raise problem("metric", metric, expected, "choose one of them")
        return self.heads[metric]

    def embed_table(
        self, table: FeatureTable, sequences: Mapping[str, str], depth: int | None, threads: int
    ) -> tuple[list[str], torch.Tensor]:
        """Embed the samples of a table.

        Parameters
        ----------
        table
            Reads.
        sequences
            Sequence of every feature.
        depth
            Reads that are drawn of every sample first; None: all are taken.
        threads
            Cores to use.

        Returns
        -------
        sample_ids : list of str
            The samples that are deep enough.
        sample_ND : torch.Tensor
            Their embeddings, fp32, on the host.

        Raises
        ------
        InputError
            No sample is deep enough.
        """
        length_bp = self.encoder.shape.max_length_bp
        tokens, store = rarefy_views(
            table, sequences, depth=depth, views=1, seed=0, max_length_bp=length_bp
        )
        if self.known_asvs is not None:
            self.known_asvs.compare(store, tokens, sequences)
        devices = InferenceDevice.claim(threads)
        rows = np.arange(len(store.sample_ids))
        return list(store.sample_ids), embed_samples(self.encoder, store, tokens, rows, devices)

    @torch.inference_mode()
    def pairwise_distances(self, sample_ND: torch.Tensor, metric: str) -> torch.Tensor:
        """Return the distances of all pairs of some samples.

        Parameters
        ----------
        sample_ND
            Their embeddings.
        metric
            Name of the metric.

        Returns
        -------
        torch.Tensor
            [N, N], symmetric, zero on the diagonal.

        Raises
        ------
        InputError
            The encoder did not learn the metric.
        """
        head = self.head(metric)
        z_ND = head.project_samples(sample_ND)
        parts = [head.pairwise_distances(part, z_ND) for part in z_ND.split(ROWS_AT_ONCE)]
        distance_NN = torch.cat(parts).fill_diagonal_(0.0)
        # Products of matrices round differently on the two sides of the diagonal.
        return (distance_NN + distance_NN.T) / 2
