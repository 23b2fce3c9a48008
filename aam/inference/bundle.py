"""The model directory of a task: a folder per model, and what predicting another table takes."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from aam.data.folds import TEST
from aam.data.predictions import CROSS_VALIDATION, write_predictions
from aam.data.sequences import untokenize
from aam.data.stores import TokenStore
from aam.data.table import ASV_READS, FeatureTable, TableFacts
from aam.data.target import Target
from aam.inference.cautions import warn_of_long_branches
from aam.inference.outputs import Share
from aam.inference.reference import Reference, write_reference
from aam.model.predictor import FORMAT, OLDEST_FORMAT, Predictor, load_predictor
from aam.model.store import AGAIN, CONFIG, REFERENCE, SEEN_ASVS, load_config
from aam.util.atomic import atomic_path, read_json, write_json, write_text
from aam.util.digests import check_manifest, fitting, write_manifest
from aam.util.errors import problem

EXPECTED = f"a fine-tuned model, format {OLDEST_FORMAT} to {FORMAT}"
SHARES = "shares.json"
"""File with `models`: the `folder` of each, and the fields of its `Share`."""
FACTS = "facts"
"""What the table of training held, in that file; absent: reads of ASVs."""
SHARED = (SHARES, SEEN_ASVS, REFERENCE, CROSS_VALIDATION)
"""Files next to the models."""
GIVE = "give finetune/<model>/<task>/model, or answers/<task>/<answer>/super_learner"


@dataclass(frozen=True, eq=False)
class ModelBundle:
    """The models of one task, and how other tables are drawn for them.

    Attributes
    ----------
    predictors
        Predictors of one target.
    shares
        What each counts for.
    depth
        Reads of a sample in every view.
    seed
        Seed of the draws.
    max_length_bp
        Nucleotides of a sequence that the models read.
    seen_asvs
        Sequences of the table of training, cut to this length.
    views
        Draws of a table.
    reference
        The training samples; None: nothing is said of how new samples are.
    reference_model
        Number of the predictor whose encoder made the embeddings of the reference.
    transform_by
        Column whose categories have scales of their own; None: there is one scale.
    facts
        What the table of training held.
    folds
        Fold that each predictor has not seen; `TEST` where that is not known.
    """

    predictors: list[Predictor]
    shares: list[Share]
    depth: int
    seed: int
    max_length_bp: int
    seen_asvs: frozenset[str]
    views: int = 1
    reference: Reference | None = None
    reference_model: int = 0
    transform_by: str | None = None
    facts: TableFacts = ASV_READS
    folds: tuple[int, ...] = ()

    @classmethod
    def load(cls, directory: Path) -> "ModelBundle":
        """Rebuild all models, in the order of `shares.json`, which is that of the folds.

        Parameters
        ----------
        directory
            Folder of `write_bundle`.

        Returns
        -------
        ModelBundle
            Its models are in evaluation mode.

        Raises
        ------
        InputError
            Something is missing, damaged or of another version.
        """
        if not directory.is_dir():
            raise problem(directory, "no such directory", EXPECTED, GIVE)
        has_shares = (directory / SHARES).is_file()
        check_manifest(directory, AGAIN if has_shares else GIVE)
        if not has_shares:
            raise problem(directory, f"a folder without {SHARES}", EXPECTED, GIVE)
        with fitting(directory, EXPECTED, AGAIN):
            return cls._load(directory)

    @classmethod
    def _load(cls, directory: Path) -> "ModelBundle":
        shares = _shares(directory)
        loaded = [_load_model(directory / name) for name in shares]
        predictors = [predictor for predictor, _ in loaded]
        config = loaded[0][1]
        rarefaction = config["rarefaction"]
        reference = Reference.open(directory / REFERENCE)
        warn_of_long_branches(rarefaction)
        return cls(
            predictors=predictors,
            shares=[*shares.values()],
            depth=rarefaction["depth"],
            seed=rarefaction["seed"],
            max_length_bp=config["architecture"]["max_length_bp"],
            seen_asvs=frozenset((directory / SEEN_ASVS).read_text(encoding="utf-8").split()),
            views=max(1, rarefaction.get("views", 1)),
            reference=reference,
            reference_model=[*shares].index(reference.model),
            transform_by=config["settings"].get("transform_by"),
            facts=TableFacts(**read_json(directory / SHARES).get(FACTS, {})),
            folds=tuple(config.get("fold", TEST) for _, config in loaded),
        )

    def of_fold(self, fold: int) -> "ModelBundle":
        """Return the models that have not seen a fold, which say nothing of how new samples are.

        Parameters
        ----------
        fold
            Number of the fold.
        """
        numbers = [number for number, unseen in enumerate(self.folds) if unseen == fold]
        return replace(
            self,
            predictors=[self.predictors[number] for number in numbers],
            shares=[self.shares[number] for number in numbers],
            folds=(fold,) * len(numbers),
            reference=None,
        )

    @property
    def target(self) -> Target:
        """What is predicted; the scales are those of the first model."""
        return self.predictors[0].target


def write_bundle(
    directory: Path,
    models: Mapping[str, Path],
    shares: Mapping[str, Share],
    tokens: TokenStore,
    trained_on: FeatureTable,
    reference_ND: torch.Tensor,
    reference_model: str,
    predictions: pd.DataFrame,
) -> None:
    """Write a model directory, atomically, in place of any that was there.

    Parameters
    ----------
    directory
        Folder to write.
    models, shares
        Directory and share of every model, by its name.
    tokens
        All ASVs of the table of training.
    trained_on
        Reads of the samples that any model was trained on, before rarefaction.
    reference_ND
        Embeddings of view 0 of these samples, in the same order.
    reference_model
        Name of the model whose encoder made these embeddings.
    predictions
        The cross-validated ones, which intervals are learned from.
    """
    with atomic_path(directory) as partial:
        partial.mkdir()
        for name, source in models.items():
            shutil.copytree(source, partial / name)
        content: dict[str, Any] = {
            "models": [{"folder": name, **asdict(share)} for name, share in shares.items()]
        }
        if trained_on.facts != ASV_READS:
            content[FACTS] = asdict(trained_on.facts)
        write_json(partial / SHARES, content)
        # Other tables are cut to what the models read, too.
        shape = load_config(next(iter(models.values())))["architecture"]
        read = tokens.cut(shape["max_length_bp"])
        sequences = untokenize(read.tokens, read.lengths)
        write_text(partial / SEEN_ASVS, "".join(f"{sequence}\n" for sequence in sorted(sequences)))
        sequence_by_id = dict(zip(tokens.feature_ids, sequences, strict=True))
        write_reference(
            partial / REFERENCE,
            reference_ND.numpy(),
            trained_on,
            [sequence_by_id[name] for name in trained_on.feature_ids],
            reference_model,
        )
        write_predictions(partial / CROSS_VALIDATION, predictions)
        write_manifest(partial)


def fold_models(directory: Path, fold: int) -> dict[Predictor, float]:
    """Rebuild the models of one fold.

    Parameters
    ----------
    directory
        Folder of `write_bundle`.
    fold
        Number of the fold.

    Returns
    -------
    dict
        Weight of the outputs by model. Scaling probabilities by the temperature T divides their
        log-odds by T, which the weights allow for.

    Raises
    ------
    InputError
        The fold has no models, or something is missing, damaged or of another version.
    """
    check_manifest(directory, AGAIN)
    with fitting(directory, EXPECTED, AGAIN):
        weights = {}
        for name, share in _shares(directory).items():
            if load_config(directory / name)["fold"] == fold:
                predictor, _ = load_predictor(directory / name)
                weights[predictor] = share.weight / share.temperature
    if not weights:
        hint = "fine-tune again: the folds have changed since"
        raise problem(directory, f"no model of fold {fold}", "a model of every fold", hint)
    return weights


def _shares(directory: Path) -> dict[str, Share]:
    """Return the share of every model by the name of its folder, in the order of the file."""
    rows = read_json(directory / SHARES)["models"]
    return {row.pop("folder"): Share(**row) for row in rows}


def _load_model(folder: Path) -> tuple[Predictor, dict[str, Any]]:
    """Rebuild one model of this version."""
    config = load_config(folder)
    path = folder / CONFIG
    written = config.get("format")
    kind = config.get("kind")
    if written not in range(OLDEST_FORMAT, FORMAT + 1):
        is_newer = isinstance(written, int) and written > FORMAT
        hint = "install the version of aam that wrote it" if is_newer else AGAIN
        raise problem(path, f"format {written}", EXPECTED, hint)
    if kind != "predictor":
        raise problem(path, f"a model of kind {kind}", EXPECTED, GIVE)
    return load_predictor(folder)
