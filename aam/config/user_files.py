"""The files that a configuration names: where they are, and whether they are there."""

import os
from collections.abc import Iterator
from pathlib import Path

from aam.config.configuration import Config
from aam.config.references import (
    GET_GREENGENES,
    is_gene_reference,
    is_on_machine,
    is_reference,
    references_folder,
)
from aam.config.sections.dataset import WITH_THE_TABLE, Dataset
from aam.config.sections.task import Prediction
from aam.util.errors import InputError, problem, problems
from aam.util.missing_files import expand_home, suggest_file

FILES = ("table", *WITH_THE_TABLE)
"""Keys of a section that may name a file."""


def user_files(config: Config, section: Dataset | Prediction) -> dict[str, Path]:
    """Return the user's files of a section by their keys.

    Parameters
    ----------
    config
        The whole configuration.
    section
        A dataset or a table to predict for; a simulated one has no files.

    Returns
    -------
    dict
        Paths, relative to the working directory as `data_dir` is. A tree or a taxonomy that is a
        reference, or is said not to exist, is no file of the user.
    """
    folder = expand_home(config.data_dir)
    files = {}
    for key in FILES:
        name = getattr(section, key, None)
        is_named = {"tree": is_reference, "taxonomy": is_gene_reference}.get(key)
        if name and not (is_named and is_named(name)):
            files[key] = folder / expand_home(name)
    return files


def predicted_files(config: Config, dataset: str) -> dict[str, dict[str, Path]]:
    """Return the user's files of the tables that tasks of a dataset are to predict.

    Parameters
    ----------
    config
        The whole configuration.
    dataset
        Name of the dataset.

    Returns
    -------
    dict
        By the name of the table its files by their keys; new samples of a simulated dataset have
        none.
    """
    files = {}
    for name, section in config.predictions.items():
        is_of_dataset = any(config.tasks[task].dataset == dataset for task in section.tasks)
        if is_of_dataset and section.table is not None:
            files[name] = user_files(config, section)
    return files


def require_files(config: Config) -> None:
    """Check that every file and reference is there which the configuration names.

    It does not matter what a run would use.

    Snakemake takes a result for current whose input is gone, so that a misspelt path would give
    the answer of the file before.

    Parameters
    ----------
    config
        The whole configuration.

    Raises
    ------
    InputError
        Files or references are missing or cannot be read; all of them are named in one message.
    """
    errors = list(_file_problems(config))
    if errors:
        raise problems(errors)


def _file_problems(config: Config) -> Iterator[InputError]:
    results = Path(os.path.normpath(Path(config.results_dir).absolute()))
    made = [results / name for name in config.datasets]
    named: dict[str, Dataset | Prediction] = {
        **{f"datasets.{name}": section for name, section in config.datasets.items()},
        **{f"predictions.{name}": section for name, section in config.predictions.items()},
    }
    for name, dataset in config.datasets.items():
        references = {"tree": dataset.reference, "taxonomy": dataset.naming_reference}
        for key, reference in references.items():
            if reference is not None and not is_on_machine(reference):
                yield problem(
                    f"configuration key datasets.{name}.{key}",
                    f"{reference}, which is not in {references_folder()}",
                    "a reference of this machine",
                    f"get it: {GET_GREENGENES}",
                )
    for where, section in named.items():
        for key, path in user_files(config, section).items():
            # Another rule may write what lies among the results of a dataset.
            absolute = Path(os.path.normpath(path.absolute()))
            is_result = any(absolute.is_relative_to(folder) for folder in made)
            actual = "" if is_result else _find_fault(path)
            if actual:
                written = getattr(section, key)
                yield problem(
                    f"configuration key {where}.{key}",
                    f"'{written}': {actual}",
                    f"a file, relative to data_dir: '{config.data_dir}'",
                    suggest_file(path, Path(written)),
                )


def _find_fault(path: Path) -> str:
    """Return why a path cannot be read as a file; empty: it can."""
    if path.is_symlink() and not path.exists():
        return f"{path} is a link to {path.readlink()}, which is not there"
    if path.is_dir():
        return f"{path} is a folder"
    if not path.exists():
        return f"there is no {path}"
    if not os.access(path, os.R_OK):
        return f"{path} may not be read"
    return ""
