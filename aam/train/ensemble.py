"""The models of a task's folds, applied together to another table.

Letters: N samples, C outputs, F folds.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aam.augment.views import Augmentation, build_store
from aam.data.rarefaction import rarefy
from aam.data.samples import SampleStore
from aam.data.table import FeatureTable
from aam.data.tokens import TokenStore
from aam.data.vocabulary import tokenize, untokenize
from aam.model.predictor import Predictor, load_predictor
from aam.model.store import SEEN_ASVS
from aam.train.crossvalidation import predict_samples
from aam.train.devices import Devices
from aam.train.embeddings import embed_asvs_cached, module_digest
from aam.train.inference import embed_samples
from aam.util.errors import problem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Predictors of the same target, and what they know of the table they were trained on.

    Attributes
    ----------
    predictors
        One per fold.
    depth, seed
        Of the rarefaction that a table gets before it is predicted.
    max_length_bp
        Longer sequences are cut to this length.
    seen_asvs
        Sequences of the table that the models were trained on.
    precision
        Arithmetic that they were trained in.
    """

    predictors: list[Predictor]
    depth: int
    seed: int
    max_length_bp: int
    seen_asvs: frozenset[str]
    precision: str

    @classmethod
    def load(cls, directory: Path) -> "Ensemble":
        """Rebuild all models from the directory that fine-tuning wrote.

        Raises
        ------
        InputError
            When the directory holds no fine-tuned models.
        """
        folders = sorted(
            directory.glob("fold*"), key=lambda path: int(path.name.removeprefix("fold"))
        )
        if not folders:
            hint = "give finetune/<model>/<task>/model"
            raise problem(directory, "no folder fold0", "a fine-tuned model directory", hint)
        loaded = [load_predictor(folder) for folder in folders]
        config = loaded[0][1]
        return cls(
            predictors=[predictor for predictor, _ in loaded],
            depth=config["rarefaction"]["depth"],
            seed=config["rarefaction"]["seed"],
            max_length_bp=config["architecture"]["max_length_bp"],
            seen_asvs=frozenset((directory / SEEN_ASVS).read_text(encoding="utf-8").split()),
            precision=config["settings"]["finetuning"]["precision"],
        )

    def predict(
        self,
        table: FeatureTable,
        sequences: dict[str, str],
        threads: int = 1,
        asvs: Path | None = None,
    ) -> pd.DataFrame:
        """Predict every sample that is deep enough.

        Parameters
        ----------
        table
            Counts of another table; its ASVs may be new.
        sequences
            Sequence of every feature of `table`.
        threads
            Cores granted.
        asvs
            File of ASV embeddings that a frozen encoder has made before
            (`aam.train.embeddings`); what it lacks is computed.

        Returns
        -------
        pandas.DataFrame
            Index `sample-id`; `predicted`; `sd` over the folds' models of a number, or
            `probability:<class>`; `unseen_asvs`, the share of reads whose ASV the models never saw.

        Raises
        ------
        InputError
            When no sample has enough reads, or `asvs` is no such file.
        """
        view = rarefy(table, self.depth, self.seed, 0)
        letters_US, length_U = tokenize(
            [sequences[name] for name in view.feature_ids], self.max_length_bp
        )
        tokens = TokenStore(view.feature_ids, length_U, letters_US)
        nothing = Augmentation(
            rarefaction_draws=0, asv_dropout=0, cutmix=0, seed=0, depth=self.depth
        )
        store = build_store(view.feature_ids, view, [view], nothing)
        devices = Devices(self.precision, threads)
        result = self._columns(self._outputs(store, tokens, devices, asvs))
        is_new = [name not in self.seen_asvs for name in untokenize(letters_US, length_U)]
        result["unseen_asvs"] = (view.counts @ np.array(is_new, float)) / self.depth
        result.index = pd.Index(view.sample_ids, name="sample-id")
        return result

    def _outputs(
        self, store: SampleStore, tokens: TokenStore, devices: Devices, asvs: Path | None
    ) -> NDArray[np.float64]:
        """Return the outputs [F, N, C]; an encoder that folds share runs once."""
        samples = np.arange(len(store.sample_ids))
        sharing: dict[str, list[int]] = {}
        for fold, predictor in enumerate(self.predictors):
            sharing.setdefault(module_digest(predictor.encoder), []).append(fold)
        if asvs is not None and len(sharing) > 1:
            logger.warning("the folds have encoders of their own: %s is not used", asvs)
            asvs = None
        outputs: dict[int, NDArray[np.float64]] = {}
        for folds in sharing.values():
            encoder = self.predictors[folds[0]].encoder
            asv_UD = embed_asvs_cached(encoder, tokens, devices, asvs)
            embedding_ND = embed_samples(encoder, store, tokens, samples, devices, asv_UD)
            for fold in folds:
                outputs[fold] = predict_samples(
                    self.predictors[fold], store, tokens, samples, devices, embedding_ND
                )
        return np.stack([outputs[fold] for fold in range(len(self.predictors))])

    def _columns(self, outputs_FNC: NDArray[np.float64]) -> pd.DataFrame:
        mean_NC, classes = outputs_FNC.mean(axis=0), self.predictors[0].target.classes
        if not classes:
            return pd.DataFrame({"predicted": mean_NC[:, 0], "sd": outputs_FNC.std(axis=0)[:, 0]})
        best = np.array(classes)[mean_NC.argmax(axis=1)]
        shares = {f"probability:{name}": mean_NC[:, i] for i, name in enumerate(classes)}
        return pd.DataFrame({"predicted": best, **shares})
