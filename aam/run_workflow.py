"""Snakemake is called: with the options of a user, the profiles and caches that there are."""

import argparse
import difflib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import yaml

from aam.config.digest import source_folders
from aam.util.errors import InputError, first_line, problem
from aam.util.forks import FIRST_ANSWER, SERVER

DOCUMENTS = "https://snakemake.readthedocs.io"
"""Where options of Snakemake are explained."""
LONGEST_REASON = 200
"""Characters that are shown of what Snakemake says against options."""
TRIGGERS = {"params": "settings and code", "input": "sets of files"}
"""What Snakemake does not notice without a trigger."""


def run_workflow(files: Sequence[Path], others: Sequence[str]) -> None:
    """Run Snakemake in this process; it ends the process.

    Parameters
    ----------
    files
        The configurations.
    others
        What Snakemake gets besides.

    Raises
    ------
    InputError
        An option or a profile does not exist, or the workflow is not there.
    """
    root = workflow_folder()
    # Snakemake looks for its plugins along the path, and an editable install is not on it.
    sys.path.insert(0, str(root))
    options = parse_options(others)
    check_options(options, others)
    profiles = _require_profiles(options, root)
    _require_slurm(options, profiles)
    defaults: list[str] = []
    if options.workflow_profile is None:
        profile = root / "profiles" / "default" / "profile.yaml"
        defaults = [*_profile_arguments(profile), "--workflow-profile", "none"]
        defaults += ["--logger", "aam", "--cores", "all"]
    # `--configfile` takes all that follows it up to the next option: not so `--snakefile`.
    named = ["--configfile", *map(str, files), "--snakefile", str(root / "Snakefile")]
    _use_writable_caches()
    works_here = options.workflow_profile is None and not options.profile and not options.executor
    if works_here and not options.dryrun:
        # It imports what jobs need while Snakemake finds out which jobs there are.
        SERVER.start(*FIRST_ANSWER)

    from snakemake.cli import main as snakemake

    snakemake([*defaults, *named, *others])


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what Snakemake makes of options.

    Parameters
    ----------
    arguments
        The words behind the configurations.

    Raises
    ------
    InputError
        Snakemake refuses them. The message has no list of all its options.
    """
    from snakemake.cli import get_argument_parser
    from snakemake.exceptions import CliException, WorkflowError

    parser = get_argument_parser()
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return parser.parse_args(list(arguments))
    except SystemExit as end:
        if not end.code:
            raise
    except (ValueError, CliException, WorkflowError) as error:
        hint = (
            "correct the value; options such as --resources take every word up to the next "
            "option, so write targets before them or behind `--`"
        )
        expected = "options of Snakemake"
        raise problem("options of the run", first_line(error), expected, hint) from error
    reason = said.getvalue().rpartition("error: ")[2].strip()
    if len(reason) > LONGEST_REASON:
        reason = f"{reason[:LONGEST_REASON]}…"
    hint = f"`aam run FILE --help` lists all options; {DOCUMENTS} explains them"
    unknown = re.search(r"unrecognized arguments: (--[\w-]+)", reason)
    if unknown is None:
        raise problem("options of the run", reason, "options of Snakemake", hint)
    known = sorted(set(re.findall(r"--[a-z][\w-]+", parser.format_help())))
    near = difflib.get_close_matches(unknown[1], known, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
    raise problem(unknown[1], "an unknown option", "an option of Snakemake", hint)


def check_options(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Refuse options that make results wrong later, and say what others mean.

    Touching is not refused: it is how results are kept after an update of the program, by somebody
    who knows that they are right. It is said, because it keeps wrong results just as well.
    Removing a record is: the next run takes such a result for one of any settings.

    Parameters
    ----------
    options, arguments
        What `parse_options` returns and takes.

    Raises
    ------
    InputError
        An option removes records, names a configuration, another workflow or no core, or
        `--config` took a word that is no key.
    """
    for name, is_given in (
        ("--cleanup-metadata", options.cleanup_metadata),
        ("--drop-metadata", options.drop_metadata),
    ):
        if is_given:
            raise problem(
                name,
                "an option that removes the record of the settings which made a result",
                "records that stay, because a changed setting is noticed by them",
                "leave it out: half-written files are made again without it; to make a result "
                "again, delete it",
            )
    if options.configfile:
        hint = "name further configurations behind the first one: aam run mine.yaml more.yaml"
        raise problem("--configfile", "an option", "configurations as words of their own", hint)
    if options.snakefile:
        hint = "leave it out, or call snakemake itself with your Snakefile"
        raise problem("--snakefile", "an option", "the workflow of AAM", hint)
    if re.fullmatch(r"0|-\d+", str(options.cores)):
        hint = "write a number such as 2, or all"
        raise problem("--cores", str(options.cores), "at least one core", hint)
    for entry in options.config or ():
        if "=" not in entry:
            raise problem(
                "--config",
                repr(entry),
                "KEY=VALUE, because --config takes every word up to the next option",
                "write a target before --config or behind `--`, and a key as --config "
                "'rarefaction={depth: 1000}'",
            )
    if options.touch:
        _say(
            "--touch: results that exist are declared current without being made. They stay as "
            "they were, also where settings, code or files have changed since; leave --touch out "
            "to make them again."
        )
    triggers = {str(trigger) for trigger in options.rerun_triggers}
    is_given = any(word.startswith("--rerun-t") for word in arguments)
    unseen = [what for trigger, what in TRIGGERS.items() if trigger not in triggers]
    if is_given and unseen:
        _say(
            f"--rerun-triggers {' '.join(sorted(triggers))}: changed {' and '.join(unseen)} make "
            "no result again; the page may show answers of older ones. Leave the option out to "
            "have all results current."
        )


def given_keys(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keys of a configuration that the option `--config` has.

    Parameters
    ----------
    options
        What `parse_options` returns.

    Raises
    ------
    InputError
        Snakemake cannot read them.
    """
    from snakemake.cli import parse_config

    try:
        keys: dict[str, Any] = parse_config(options.config)
    except ValueError as error:
        expected = "keys of the configuration and their values"
        raise problem("--config", first_line(error), expected, "correct the key") from error
    return keys


def _require_profiles(options: argparse.Namespace, root: Path) -> list[Path]:
    """Return the files of the profiles that options name."""
    from snakemake.cli import get_profile_dir

    found = []
    folders = [Path("profiles"), root / "profiles"]
    existing = sorted({path.parent.name for folder in folders for path in folder.glob("*/*.yaml")})
    for name in options.profile or ():
        if name == "none":
            continue
        entry = get_profile_dir(name)
        if entry is None:
            hint = "correct the name"
            if name in existing:
                hint = f"write --workflow-profile {name} for the profile of the workflow"
            raise _no_profile("--profile", name, existing, hint)
        found.append(entry[1])
    name = options.workflow_profile
    if name not in (None, "none"):
        candidates = [Path(name), *(folder / name for folder in folders)]
        path = next((path for path in candidates if path.exists()), None)
        entry = None if path is None else get_profile_dir(str(path))
        if entry is None:
            raise _no_profile("--workflow-profile", name, existing, "correct the name or the path")
        found.append(entry[1])
    return found


def _no_profile(option: str, name: str, existing: Sequence[str], hint: str) -> InputError:
    near = difflib.get_close_matches(Path(name).name, existing, n=1)
    if near and near[0] != name:
        hint = f"did you mean --workflow-profile {near[0]}?"
    expected = f"a folder with profile.yaml; the workflow has {', '.join(existing)}"
    return problem(option, f"{name!r}, which is no profile", expected, hint)


def _require_slurm(options: argparse.Namespace, profiles: Sequence[Path]) -> None:
    """Check that the commands are there that the executor calls, which else fails in each job."""
    settings: dict[str, Any] = {}
    for path in profiles:
        settings |= yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    executor = options.executor or settings.get("executor")
    if executor != "slurm" or options.dryrun or options.touch or options.unlock:
        return
    where = f"executor slurm ({', '.join(map(str, profiles)) or 'command line'})"
    if shutil.which("sbatch") is None:
        raise problem(
            where,
            "a machine without the command `sbatch`",
            "a login node of a SLURM cluster",
            "run the command there, perhaps after `module load slurm`; to run on this machine, "
            "leave the profile out",
        )
    resources = f"{settings.get('default-resources')} {options.default_resources}"
    reports = settings.get("slurm-efficiency-report", False)
    if shutil.which("sacct") is None and ("slurm_account" not in resources or reports):
        raise problem(
            where,
            "a cluster without the command `sacct`",
            "`sacct`, which finds your account and makes the report on efficiency",
            "load SLURM's commands; on a cluster that has no `sacct` set slurm_account under "
            "default-resources and slurm-efficiency-report: false in a copy of the profile",
        )


def _use_writable_caches() -> None:
    """Let caches be in the folder of the run where those of the user's home cannot be written.

    Snakemake ends without one, and jobs inherit what is set here. It holds the workflow's files
    during a run, so it is in a folder that nobody else writes.
    """
    from snakemake.common import get_appdirs

    usual = Path(get_appdirs().user_cache_dir)
    # Without a home the path begins with the letter that stands for it.
    reason = f"the user has no home ({usual})"
    if usual.is_absolute():
        try:
            usual.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=usual):
                return
        except OSError as error:
            reason = f"{usual} cannot be written ({error.strerror})"
    own = Path.cwd() / ".snakemake" / "cache"
    try:
        own.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=own):
            pass
    except OSError as error:
        hint = "run the command in a folder of your own"
        expected = "one in which the run keeps its records"
        actual = f"a folder that cannot be written ({error.strerror})"
        raise problem(Path.cwd(), actual, expected, hint) from error
    os.environ["XDG_CACHE_HOME"] = str(own)
    os.environ.setdefault("MPLCONFIGDIR", str(own / "matplotlib"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(own / "triton"))
    _say(f"Caches are kept in {own}, because {reason}. XDG_CACHE_HOME names another folder.")


def workflow_folder() -> Path:
    """Return the folder of the workflow: next to the package, where it was installed, or here.

    Raises
    ------
    InputError
        There is none: the package was installed without its workflow.
    """
    neighbour, installed, *others = source_folders()
    for folder in (neighbour, installed, *others, Path.cwd()):
        if (folder / "workflow" / "Snakefile").is_file():
            return folder
    raise problem(
        "aam",
        f"a package without its workflow, which is neither in {neighbour}, nor in {installed}, nor "
        "in the current folder",
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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
