"""The models of a task, applied together to another table.

Shape suffixes: N samples, C outputs, F members.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.augment.views import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.data.target import QUANTILES, Target
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize, untokenize
from aam.inference.asv_cache import embed_asvs_cached, encoder_digest, module_digest
from aam.inference.bundle import load_bundle, seen_asvs
from aam.inference.embed import embed_samples
from aam.inference.outputs import Outputs, decoded, raw_outputs
from aam.inference.reference import Reference
from aam.model.predictor import Predictor
from aam.model.store import REFERENCE
from aam.train.distributed.devices import Devices
from aam.util.errors import first_names, problem

logger = logging.getLogger(__name__)

MUCH_UNSEEN = 0.2
"""Share of the reads, of ASVs never seen, that is warned of."""
FAR = 0.95
"""Novelty from which on a sample counts as far from the references."""
MANY_FAR = 0.25
"""Share of the samples, far from the references, that is warned of."""


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Predictors of the same target, and what they know of the table they were trained on.

    Attributes
    ----------
    predictors
        One per fold, or several of different seeds.
    depth, seed
        Of the rarefaction that a table gets before it is predicted.
    max_length_bp
        Longer sequences are cut to this length.
    seen_asvs
        Sequences of the table that the models were trained on.
    views
        Rarefaction draws that a prediction is the mean of.
    reference
        Samples that the models were trained on; None: novelty is not known.
    transform_by
        Metadata column whose categories have scales of their own.
    """

    predictors: list[Predictor]
    depth: int
    seed: int
    max_length_bp: int
    seen_asvs: frozenset[str]
    views: int = 1
    reference: Reference | None = None
    transform_by: str | None = None

    @classmethod
    def load(cls, directory: Path) -> "Ensemble":
        """Rebuild all models from the directory that fine-tuning wrote.

        Raises
        ------
        InputError
            When the directory holds no fine-tuned models, or one of its parts is missing,
            damaged or of another version.
        """
        predictors, config = load_bundle(directory)
        rarefaction = config["rarefaction"]
        return cls(
            predictors=predictors,
            depth=rarefaction["depth"],
            seed=rarefaction["seed"],
            max_length_bp=config["architecture"]["max_length_bp"],
            seen_asvs=seen_asvs(directory),
            views=max(1, rarefaction.get("views", 1)),
            reference=_reference(directory, predictors[0]),
            transform_by=config["settings"].get("transform_by"),
        )

    @property
    def target(self) -> Target:
        """What is predicted; the scales are those of the first member."""
        return self.predictors[0].target

    def predict(
        self,
        table: FeatureTable,
        sequences: Mapping[str, str],
        threads: int = 1,
        asvs: Path | None = None,
        metadata: pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Predict every sample that is deep enough; the others are named in a warning.

        Parameters
        ----------
        table
            Counts of another table; its ASVs may be new.
        sequences
            Sequence of every feature of `table`.
        threads
            Cores granted.
        asvs
            File of ASV embeddings that a frozen or partial encoder has made before
            (`aam.inference.asv_cache`); what it lacks is computed.
        metadata
            Text by sample ID, with the categories that the models are told; what is missing counts
            as unknown.

        Returns
        -------
        pandas.DataFrame
            Index `sample-id`; `predicted`; `sd` over the models, of the number or of the
            probability of the predicted class; `probability:<class>` in the order of the classes,
            or `quantile:<level>`; `unseen_asvs`, the share of reads whose ASV the models never saw;
            `novelty`, how far from the samples of training
            (`aam.inference.reference.Reference.novelty`). Where there are several targets, the
            columns of each end with a colon and its name.

        Raises
        ------
        InputError
            When no sample has enough reads, or `asvs` is no such file.
        """
        tokens, store = self._store(table, sequences)
        self._say_shallow(table, store)
        told = self._told(store.sample_ids, metadata)
        outputs, novelty_N = self._outputs(
            store, tokens, Devices("fp32", threads).exact(), asvs, told
        )
        result = _columns(self.target, outputs)
        sequences_U = untokenize(tokens.tokens, tokens.lengths)
        is_new_U = np.array([name not in self.seen_asvs for name in sequences_U], float)
        result["unseen_asvs"] = _reads(store, is_new_U) / self.depth
        if novelty_N is not None:
            result["novelty"] = novelty_N
        result.index = pd.Index(store.sample_ids, name="sample-id")
        _warn_of_strangers(result)
        return result

    def _store(
        self, table: FeatureTable, sequences: Mapping[str, str]
    ) -> tuple[TokenStore, SampleStore]:
        """Draw the views, by the seed of training."""
        draws = [rarefy(table, self.depth, self.seed, view) for view in range(self.views)]
        drawn = {name for draw in draws for name in draw.feature_ids}
        names = [name for name in table.feature_ids if name in drawn]
        letters_US, length_U = tokenize([sequences[name] for name in names], self.max_length_bp)
        nothing = Augmentation(
            rarefaction_draws=0, asv_dropout=0, cutmix=0, seed=0, depth=self.depth
        )
        store = build_store(names, table, draws, nothing)
        return TokenStore(names, length_U, letters_US), store

    def _say_shallow(self, table: FeatureTable, store: SampleStore) -> None:
        shallow = sorted(set(table.sample_ids) - set(store.sample_ids))
        if shallow:
            logger.warning(
                "of %d samples these have fewer than %d reads and are not predicted: %s",
                *(len(table.sample_ids), self.depth, first_names(shallow, limit=20)),
            )

    def _told(self, sample_ids: list[str], metadata: pd.DataFrame | None) -> pd.DataFrame:
        """Return the categories that the models are told, text, empty where missing or unknown."""
        given = pd.DataFrame(index=sample_ids) if metadata is None else metadata
        known = self._known_categories()
        told = pd.DataFrame("", index=sample_ids, columns=list(known))
        for column in told.columns.intersection(given.columns):
            text = given[column].reindex(sample_ids)
            told[column] = text.where(text.isin(list(known[column])), "")
        unknown = {column: int((told[column] == "").sum()) for column in told}
        if any(unknown.values()):
            shown = (f"{column} in {number}" for column, number in unknown.items() if number)
            logger.warning(
                "of %d samples, a category is missing or was not in training, and counts as "
                "unknown: %s",
                *(len(sample_ids), ", ".join(shown)),
            )
        return told

    def _known_categories(self) -> dict[str, set[str]]:
        """Return the categories that any of the models knows, by metadata column."""
        known: dict[str, set[str]] = {}
        for predictor in self.predictors:
            if predictor.vocabulary is not None:
                vocabulary = predictor.vocabulary
                for column, names in zip(vocabulary.columns, vocabulary.categories, strict=True):
                    known.setdefault(column, set()).update(names)
            if self.transform_by is not None:
                scaled = dict(predictor.target.categories)
                known.setdefault(self.transform_by, set()).update(scaled)
        return known

    def _outputs(
        self,
        store: SampleStore,
        tokens: TokenStore,
        devices: Devices,
        asvs: Path | None,
        told: pd.DataFrame,
    ) -> tuple[list[Outputs], NDArray[np.float64] | None]:
        """Return the outputs of each member and the novelty [N]; what is shared runs once."""
        outputs: dict[int, Outputs] = {}
        rows, novelty_N = np.arange(len(store.row_view)), None
        told_R = pd.concat([told] * store.views)
        for sharing in self._sharing(devices.precision):
            first = self.predictors[sharing[0][0]].encoder
            asv_UD = embed_asvs_cached(first, tokens, devices, asvs)
            for members in sharing:
                encoder = self.predictors[members[0]].encoder
                embedding_RD = embed_samples(encoder, store, tokens, rows, devices, asv_UD)
                if 0 in members and self.reference is not None:
                    first_view = embedding_RD[: len(store.sample_ids)]
                    novelty_N = self.reference.novelty(first_view.numpy())
                for member in members:
                    predictor = self.predictors[member]
                    output_RO = raw_outputs(
                        predictor,
                        store,
                        tokens,
                        rows,
                        devices,
                        embedding_RD=embedding_RD,
                        asv_UD=asv_UD,
                        category_RF=_encoded(predictor, told_R),
                    )
                    by_R = None if self.transform_by is None else [*told_R[self.transform_by]]
                    outputs[member] = decoded(predictor.target, output_RO, store.views, by_R)
        return [outputs[member] for member in range(len(self.predictors))], novelty_N

    def _sharing(self, precision: str) -> list[list[list[int]]]:
        """Return the members that share an encoder, together with those that share its ASV part.

        All models of a partial encoder have the ASV part that pretraining left.
        """
        shared: dict[str, dict[str, list[int]]] = {}
        for member, predictor in enumerate(self.predictors):
            encoder = predictor.encoder
            alike = shared.setdefault(encoder_digest(encoder, precision), {})
            alike.setdefault(module_digest(encoder), []).append(member)
        return [[*alike.values()] for alike in shared.values()]


def _encoded(predictor: Predictor, told: pd.DataFrame) -> NDArray[np.int64] | None:
    """Return the categories by their numbers, [R, F]."""
    if predictor.vocabulary is None:
        return None
    return predictor.vocabulary.encode(told[[*predictor.vocabulary.columns]].to_numpy())


def _columns(target: Target, outputs: list[Outputs]) -> pd.DataFrame:
    """Return the columns of the mean over the members, and of their spread."""
    point_FNC = np.stack([output.point_NC for output in outputs])
    mean_NC, sd_NC = point_FNC.mean(axis=0), point_FNC.std(axis=0)
    if target.classes:
        best_N = mean_NC.argmax(axis=1)
        shares = {f"probability:{name}": mean_NC[:, i] for i, name in enumerate(target.classes)}
        sd_N = np.take_along_axis(sd_NC, best_N[:, None], axis=1)[:, 0]
        return pd.DataFrame({"predicted": np.array(target.classes)[best_N], "sd": sd_N, **shares})
    columns: dict[str, NDArray[np.float64]] = {}
    for place, column in enumerate(target.columns):
        suffix = f":{column}" if len(target.columns) > 1 else ""
        columns[f"predicted{suffix}"] = mean_NC[:, place]
        columns[f"sd{suffix}"] = sd_NC[:, place]
        quantiles = [out.quantile_NCQ[:, place] for out in outputs if out.quantile_NCQ is not None]
        if quantiles:
            for level, value_N in zip(QUANTILES, np.mean(quantiles, axis=0).T, strict=True):
                columns[f"quantile:{level:g}{suffix}"] = value_N
    return pd.DataFrame(columns)


def _reference(directory: Path, predictor: Predictor) -> Reference | None:
    path = directory / REFERENCE
    if not path.exists():
        logger.warning("%s is missing: the novelty of the samples is left out", path)
        return None
    reference = Reference.open(path)
    found, width = reference.embedding_RD.shape[1], predictor.encoder.shape.width
    if found != width:
        hint = "copy the model directory again: folders of several are mixed"
        raise problem(path, f"embeddings of width {found}", f"width {width}", hint)
    return reference


def _reads(store: SampleStore, weight_U: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weighted reads of the samples, the mean of the views, [N]."""
    views = [store.view_matrix(view, len(weight_U)) @ weight_U for view in range(store.views)]
    return np.mean(views, axis=0)


def _warn_of_strangers(result: pd.DataFrame) -> None:
    unseen = result["unseen_asvs"].mean()
    if unseen > MUCH_UNSEEN:
        logger.warning(
            "%.0f %% of the reads are of ASVs that the models never saw: predictions may be worse "
            "than those of cross-validation",
            100 * unseen,
        )
    if "novelty" not in result:
        return
    far = (result["novelty"] > FAR).mean()
    if far > MANY_FAR:
        logger.warning(
            "%.0f %% of the samples are farther from the samples of training than %.0f %% of "
            "those are from each other: predictions may be worse than those of cross-validation",
            *(100 * far, 100 * FAR),
        )
