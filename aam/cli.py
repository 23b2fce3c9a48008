"""The command `aam`: write a configuration, check what it names, run it, describe the run."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import aam
from aam.config.configuration import load
from aam.config.messages import refuse_duplicate_keys
from aam.config.result_paths import is_asked_for
from aam.config.user_files import require_files, user_files
from aam.data.study.columns import columns_of, require_targets
from aam.data.study.proposal import configuration
from aam.data.study.sentences import decision_lines
from aam.data.study.study import Study
from aam.report.crate import write_crate
from aam.util.atomic import write_text
from aam.util.errors import InputError, problem

DOCUMENTS = "https://snakemake.readthedocs.io"
CONFIGURATIONS = frozenset({".yaml", ".yml"})
"""Endings of configurations behind the first one: a target may end in `.json`."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what the user can mend ends as one message and exit code 1."""
    given = _parser().parse_args(arguments)
    try:
        given.command(given)
    except InputError as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="aam", description=__doc__)
    parser.add_argument("--version", action="version", version=f"aam {aam.__version__}")
    commands = parser.add_subparsers(
        required=True, metavar="init | check | run | crate | gradients"
    )

    init = commands.add_parser("init", help="write a configuration for a table and its metadata")
    init.add_argument("table", type=Path, help="feature table: .qza, BIOM or TSV")
    init.add_argument("metadata", type=Path, help="QIIME 2 metadata")
    for name in ("sequences", "tree", "taxonomy"):
        init.add_argument(f"--{name}", type=Path, help=f"{name} of the features: .qza or text")
    init.add_argument(
        "--columns",
        help="metadata columns to predict, with commas between them; default: two that suit",
    )
    init.add_argument("--output", type=Path, required=True, help="the file to write, mine.yaml")
    init.set_defaults(command=_init)

    check = commands.add_parser(
        "check", help="read all files, say what they hold and how long a run takes"
    )
    check.set_defaults(command=_check)
    run = commands.add_parser("run", help="carry out a study, or go on with it")
    run.set_defaults(command=_run)
    for command in (check, run):
        command.add_argument("file", metavar="FILE", type=Path, help="the configuration")
        command.add_argument(
            "options",
            metavar="...",
            nargs=argparse.REMAINDER,
            help="configurations to lay over FILE, then options of Snakemake and targets: "
            f"-n shows the jobs, --cores 4 takes four cores ({DOCUMENTS})",
        )
    crate = commands.add_parser("crate", help="describe a finished run as an RO-Crate")
    crate.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="the configurations of the run, as `aam run` took them",
    )
    crate.add_argument(
        "--license",
        default="No licence is given: ask the authors of the study.",
        help="licence of the results, best as an address of https://spdx.org/licenses",
    )
    crate.set_defaults(command=_crate)
    gradients = commands.add_parser(
        "gradients", help="compare the gradients of the models with differences of their losses"
    )
    gradients.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="the configurations; no data are read"
    )
    gradients.set_defaults(command=_gradients)
    return parser


def _init(given: argparse.Namespace) -> None:
    """Write the configuration, and say how it is run."""
    if given.output.exists():
        raise InputError(f"{given.output} exists; choose another --output")
    names = ("table", "metadata", "sequences", "tree", "taxonomy")
    files = {name: path for name in names if (path := getattr(given, name)) is not None}
    study = Study.read(**files)
    depth = study.proposed_depth
    kept = study.at_depth(depth)
    columns = columns_of(kept)
    targets = None
    if given.columns is not None:
        targets = list(dict.fromkeys(name.strip() for name in given.columns.split(",")))
        require_targets(columns, targets, given.metadata)
    paths = {name: str(path) for name, path in files.items()}
    write_text(given.output, configuration(paths, columns, depth, targets))
    print(
        f"{len(kept)} of {len(study.table.sample_ids)} samples have at least {depth} reads, the "
        "proposed depth."
    )
    print(*decision_lines(study.notes), sep="\n", end="\n" if study.notes else "")
    print(f"Look at {given.output}, then run: aam check {given.output}")


def _check(given: argparse.Namespace) -> None:
    """Describe the study, even where nothing changed since it was described last."""
    _snakemake([given.file, *given.options, "--forcerun", "describe", "--", "check"])


def _run(given: argparse.Namespace) -> None:
    _snakemake([given.file, *given.options])


def _crate(given: argparse.Namespace) -> None:
    """Write the metadata of a crate into the results of each dataset."""
    config = load(_merged(given.files))
    require_files(config)
    for dataset in config.datasets:
        path = write_crate(
            Path(config.results_dir) / dataset,
            inputs=user_files(config, config.datasets[dataset]),
            configurations=given.files,
            workflow=_workflow_folder() / "workflow",
            license_text=given.license,
            is_asked_for=partial(is_asked_for, config, dataset),
        )
        print(path)


def _gradients(given: argparse.Namespace) -> None:
    """Print the error of each part's gradient."""
    config = load(_merged(given.files))
    if not config.models:
        raise problem("configuration key models", "no models", "one", "add one to check it")
    # It imports PyTorch, which no other command needs.
    from aam.bench.gradients import check_configured

    wrong = []
    for what, errors in check_configured(config):
        for error in errors:
            line = f"{what}: {error.part}"
            print(f"{line:<60} {error.relative:.1e}{', wrong' if error.is_wrong else ''}")
            if error.is_wrong:
                wrong.append(line)
    if wrong:
        raise InputError("The backward pass disagrees with differences:\n" + "\n".join(wrong))


def _merged(files: Sequence[Path]) -> dict[str, Any]:
    """Return configurations laid over each other, key by key, as Snakemake does it."""
    _require_files(files)
    merged: dict[str, Any] = {}
    for path in files:
        refuse_duplicate_keys(path)
        _lay_over(merged, yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    return merged


def _lay_over(base: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _lay_over(base[key], value)
        else:
            base[key] = value


def _require_files(files: Sequence[Path]) -> None:
    for path in files:
        if not path.is_file():
            hint = "correct the path, or write a configuration with `aam init`"
            raise problem(path, "no such file", "a configuration", hint)


def _snakemake(arguments: list[str | Path]) -> None:
    """Run Snakemake in this process; it ends the process.

    Parameters
    ----------
    arguments
        Configurations first, then what Snakemake gets.

    Raises
    ------
    InputError
        A configuration is not there, or the workflow is not.
    """
    given = [str(argument) for argument in arguments]
    number = 1
    while number < len(given) and Path(given[number]).suffix in CONFIGURATIONS:
        number += 1
    _require_files([Path(name) for name in given[:number]])
    root = _workflow_folder()
    # Snakemake looks for its plugins along the path, and an editable install is not on it.
    sys.path.insert(0, str(root))
    others = given[number:]
    defaults: list[str] = []
    if not any(one.split("=")[0] == "--workflow-profile" for one in others):
        profile = root / "profiles" / "default" / "profile.yaml"
        defaults = [*_profile_arguments(profile), "--workflow-profile", "none"]
        defaults += ["--logger", "aam", "--cores", "all"]
    # `--configfile` takes all that follows it up to the next option: not so `--snakefile`.
    files = ["--configfile", *given[:number], "--snakefile", str(root / "Snakefile")]

    from snakemake.cli import main as snakemake

    snakemake([*defaults, *files, *others])


def _workflow_folder() -> Path:
    """Return the folder of the workflow: next to the package, where it was installed, or here."""
    package_parent = Path(aam.__file__).resolve().parents[1]
    # The folder of packages is PREFIX/lib/python3.x/site-packages, or the target of `pip --target`.
    prefixes = [*package_parent.parents[2:3], package_parent]
    installed = [prefix / "share" / "aam" for prefix in prefixes]
    for folder in (package_parent, *installed, Path.cwd()):
        if (folder / "workflow" / "Snakefile").is_file():
            return folder
    raise problem(
        "aam",
        f"a package without its workflow, which is neither in {package_parent}, nor in "
        f"{installed[0]}, nor in the current folder",
        "the file workflow/Snakefile in one of them",
        "install the package again (`pip install --force-reinstall --no-deps`), or run the command "
        "in a clone of the repository; `aam init`, `aam.load` and `aam.encoder` need no workflow",
    )


def _profile_arguments(path: Path) -> Iterator[str]:
    """Yield the settings of a profile as arguments, which Snakemake does not announce."""
    for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        yield f"--{key}"
        if value is not True:
            yield from map(str, value if isinstance(value, list) else [value])
