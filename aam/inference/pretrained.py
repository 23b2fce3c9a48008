"""A pretrained encoder, applied to tables that it has not seen.

Shape suffixes: N samples, D width of an embedding.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import torch

from aam.config.metrics import METRICS
from aam.config.references import REFERENCES
from aam.data.table import FeatureTable
from aam.distributed.inference_device import InferenceDevice
from aam.inference.embed import embed_samples, load_encoder
from aam.inference.tables import rarefy_views
from aam.model.encoder import Encoder
from aam.model.heads import DistanceHead, distance_head
from aam.model.known_asvs import KnownAsvs
from aam.model.store import AGAIN, load_config, rebuild
from aam.util.digests import fitting
from aam.util.errors import problem

ROWS_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class TableEmbedder:
    """An encoder with the heads of the distances that it learned."""

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
        TableEmbedder
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
        directory = Path(directory).expanduser()
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
