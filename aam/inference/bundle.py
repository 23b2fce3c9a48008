"""The model directory that fine-tuning writes: a folder per model, and what they share.

`fold<k>` holds the model of fold k, `fold<k>-<s>` a further one of it, of another seed.
"""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from aam.data.target import Target
from aam.model.predictor import Predictor, load_predictor
from aam.model.store import CONFIG, SEEN_ASVS, load_config
from aam.util.errors import InputError, problem

FORMAT = 1
"""Of the model directories that are read here."""
NEEDED = ("rarefaction", "architecture", "settings", "target")
"""Keys of `config.json` that predicting another table takes."""
AGAIN = "copy the model directory again, with all of its files, or fine-tune again"


def load_bundle(directory: Path) -> tuple[list[Predictor], dict[str, Any]]:
    """Rebuild all models of a directory.

    Returns
    -------
    list, dict
        The models in the order of their folders, fold0, fold0-1, fold1, …, fold10, and the
        configuration of the first.

    Raises
    ------
    InputError
        When there is no model, or one is damaged, of another version or of another target.
    """
    loaded = [_load_model(folder) for folder in _folders(directory)]
    predictors = [predictor for predictor, _ in loaded]
    _one_target(directory, predictors)
    return predictors, loaded[0][1]


def seen_asvs(directory: Path) -> frozenset[str]:
    """Return the sequences of the table that the models were trained on.

    Raises
    ------
    InputError
        When their file is missing.
    """
    path = directory / SEEN_ASVS
    if not path.is_file():
        raise problem(path, "no such file", "the ASVs that the models were trained on", AGAIN)
    return frozenset(path.read_text(encoding="utf-8").split())


def _folders(directory: Path) -> list[Path]:
    found = [path for path in directory.glob("fold*") if path.is_dir()]
    if not found:
        got = "no folder fold0" if directory.is_dir() else "no such directory"
        hint = "give finetune/<model>/<task>/model"
        raise problem(directory, got, "a fine-tuned model directory", hint)

    def place(path: Path) -> tuple[list[int], str]:
        return [int(number) for number in re.findall(r"\d+", path.name)], path.name

    return sorted(found, key=place)


def _load_model(folder: Path) -> tuple[Predictor, dict[str, Any]]:
    """Rebuild one model, or say what is wrong with its folder."""
    _check_config(folder)
    try:
        return load_predictor(folder)
    except InputError:
        raise
    except (SafetensorError, OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        got = f"files that are missing, damaged or do not fit ({error or type(error).__name__})"
        raise problem(folder, got, f"a fine-tuned model, format {FORMAT}", AGAIN) from error


def _check_config(folder: Path) -> None:
    path = folder / CONFIG
    expected = f"a fine-tuned model, format {FORMAT}"
    try:
        config = load_config(folder)
    except json.JSONDecodeError as error:
        raise problem(path, f"no JSON ({error})", expected, AGAIN) from error
    found = config.get("format")
    if found != FORMAT:
        newer = isinstance(found, int) and found > FORMAT
        hint = "install the version of aam that wrote it" if newer else AGAIN
        raise problem(path, f"format {found}", expected, hint)
    if config.get("kind") != "predictor":
        hint = "give finetune/<model>/<task>/model"
        raise problem(path, f"a model of kind {config.get('kind')}", expected, hint)
    missing = [key for key in NEEDED if key not in config]
    if missing:
        raise problem(path, f"no key {', '.join(missing)}", expected, AGAIN)


def _one_target(directory: Path, predictors: list[Predictor]) -> None:
    first = predictors[0].target
    if any(_what(predictor.target) != _what(first) for predictor in predictors):
        hint = "copy the model directory again: folders of several are mixed"
        raise problem(directory, "models of different targets", "the models of one task", hint)


def _what(target: Target) -> tuple[Any, ...]:
    return target.kind, target.columns, target.classes, target.loss
