"""The command `aam`: what it writes, what it passes on to Snakemake, and what it refuses."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import snakemake.cli
import yaml

import aam
from aam import cli
from aam.cli import main
from aam.config import digest
from aam.config.configuration import load
from aam.data.study.proposal import propose_name

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS = 40


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    samples = [f"s{row}" for row in range(ROWS)]
    table = tmp_path / "table.tsv"
    counts = "\t".join(["9"] * ROWS)
    table.write_text("#OTU ID\t" + "\t".join(samples) + f"\n{'ACGT' * 10}\t{counts}\n")
    header = "sample-id\tadiponectin\tcity\tage\tpatient\thollow\tnote"
    rows = [
        f"{name}\t{row / 7}\t{'north' if row % 2 else 'south'}\t{row + 20}\tp{row // 5}\t\tn{row}"
        for row, name in enumerate(samples)
    ]
    metadata = tmp_path / "metadata.tsv"
    metadata.write_text("\n".join([header, *rows]) + "\n")
    return [str(table), str(metadata)]


def test_the_columns_that_are_named_become_the_tasks_in_their_order(
    files: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", "city, age", "--output", str(output)])
    tasks = load(yaml.safe_load(output.read_text())).tasks
    assert [(name, task.kind) for name, task in tasks.items()] == [
        ("city", "classification"),
        ("age", "regression"),
    ]
    assert {task.folds.groups for task in tasks.values()} == {"patient"}
    assert "#  adiponectin:" in output.read_text(), "what else suits is a comment"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("age, years", ["age, years"]),
        ('city,"age, years"', ["city", "age, years"]),
        ('"age, years", city', ["age, years", "city"]),
    ],
)
def test_a_column_may_have_a_comma(
    files: list[str], tmp_path: Path, columns: str, expected: list[str]
) -> None:
    metadata = Path(files[1])
    metadata.write_text(metadata.read_text().replace("\tage\t", "\tage, years\t"))
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", columns, "--output", str(output)])
    tasks = load(yaml.safe_load(output.read_text())).tasks
    assert [task.column for task in tasks.values()] == expected


def test_a_column_that_is_a_target_groups_no_samples(files: list[str], tmp_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", "patient", "--output", str(output)])
    (task,) = load(yaml.safe_load(output.read_text())).tasks.values()
    assert (task.column, task.folds.groups) == ("patient", None)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("city,Age", ["no column 'Age'", "did you mean 'age'?"]),
        ("", ["no column ''"]),
        ("hollow", ["column 'hollow'", "got no values"]),
        ("note", ["column 'note'", "40 different ones"]),
        ("town,hollow", ["no column 'town'", "column 'hollow'"]),
    ],
)
def test_a_column_that_cannot_be_predicted_is_refused_and_nothing_written(
    files: list[str], tmp_path: Path, columns: str, words: list[str]
) -> None:
    output = tmp_path / "mine.yaml"
    with pytest.raises(SystemExit) as stopped:
        main(["init", *files, "--columns", columns, "--output", str(output)])
    assert [word for word in words if word not in str(stopped.value)] == []
    assert not output.exists()


def passed_on(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Return what Snakemake gets from a command."""
    passed: list[list[str]] = []
    monkeypatch.setattr(snakemake.cli, "main", passed.append)
    monkeypatch.syspath_prepend(str(REPOSITORY))
    main([*arguments])
    return passed[0]


def parsed(arguments: list[str]) -> object:
    """Return what Snakemake makes of arguments."""
    return snakemake.cli.get_argument_parser().parse_args(arguments)


def test_a_run_has_the_settings_of_the_profile_and_all_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = (tmp_path / name for name in ("a.yaml", "b.yaml"))
    for path in (first, second):
        path.write_text("datasets: {}\n")
    given = passed_on(monkeypatch, "run", str(first), str(second), "data", "-n")
    found = parsed(given)
    assert [str(path) for path in found.configfile] == [str(first), str(second)]
    assert (list(found.targets), found.dryrun, found.logger) == (["data"], True, ["aam"])
    assert Path(found.snakefile) == REPOSITORY / "Snakefile"
    profile = snakemake.cli.get_argument_parser(profiles=[REPOSITORY / "profiles" / "default"])
    expected = profile.parse_args([])
    for key in ("rerun_triggers", "max_checksum_file_size", "rerun_incomplete", "quiet"):
        assert getattr(found, key) == getattr(expected, key), key
    assert found.resources == expected.resources
    plain = parsed(passed_on(monkeypatch, "run", str(first)))
    assert plain.cores == parsed(["--cores", "all"]).cores


@pytest.mark.parametrize(
    ("options", "targets"),
    [
        (["--rerun-incomplete", "results/x"], ["results/x"]),
        (["--cores", "3", "--", "first", "data"], ["first", "data"]),
        (["results/x/scores.json"], ["results/x/scores.json"]),
    ],
)
def test_what_stands_behind_the_file_is_snakemakes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], targets: list[str]
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("datasets: {}\n")
    found = parsed(passed_on(monkeypatch, "run", str(path), *options))
    assert list(found.targets) == targets
    assert found.cores == (3 if "3" in options else parsed(["--cores", "all"]).cores)


def test_with_a_profile_of_ones_own_nothing_is_laid_over_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("datasets: {}\n")
    profile = tmp_path / "profiles" / "mine"
    profile.mkdir(parents=True)
    (profile / "profile.yaml").write_text("cores: 2\n")
    given = passed_on(monkeypatch, "run", str(path), "--workflow-profile", str(profile))
    assert given[0] == "--configfile"
    assert not {"--cores", "--resources", "--logger"} & set(given)


def test_check_describes_each_study_with_the_keys_of_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = {"samples": 36, "features": 60, "length_bp": 40}
    sections = {"datasets": {"one": {"simulate": one}, "two": {"simulate": {**one, "seed": 2}}}}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**sections, "models": {}}))
    main(["check", "a.yaml", "--cores", "1", "--config", "rarefaction={depth: 70}"])
    printed = capsys.readouterr().out
    for dataset in sections["datasets"]:
        text = (tmp_path / "results" / dataset / "check.txt").read_text()
        assert "36 samples" in text
        assert f"Reading the files of {dataset}\n\n{text}" in printed
    with pytest.raises(SystemExit, match=r"rarefaction\.depth: got 9000"):
        main(["check", "a.yaml", "--config", "rarefaction={depth: 9000}"])


def test_what_is_not_there_is_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^nowhere.yaml: got no such file; .*aam init"):
        main(["run", "nowhere.yaml"])
    path = tmp_path / "a.yaml"
    path.write_text("datasets: {}\n")
    # As a wheel is installed: the package alone.
    monkeypatch.setattr(digest, "PACKAGE_ROOT", tmp_path / "site" / "aam")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="without its workflow.*a clone of the repository"):
        main(["run", str(path)])
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"aam {aam.__version__}\n"


def refused(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return the message with which a command ends before Snakemake starts."""
    monkeypatch.setattr(snakemake.cli, "main", lambda _: pytest.fail("Snakemake was started"))
    monkeypatch.syspath_prepend(str(REPOSITORY))
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    return str(stopped.value)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("datasets: {mine: {table: table.tsv}}\n")
    return "mine.yaml"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--profile", "nope"], ["--profile: got 'nope'", "default, slurm"]),
        (["--profile", "slurm"], ["write --workflow-profile slurm"]),
        (["--workflow-profile", "slrum"], ["got 'slrum'", "did you mean --workflow-profile slurm"]),
        (["--workflow-p", "elsewhere/mine"], ["got 'elsewhere/mine'", "default, slurm"]),
        (["--corse", "4"], ["--corse: got an unknown option", "did you mean --cores?"]),
        (["--cores", "0"], ["--cores: got 0", "a number such as 2, or all"]),
        (["--cores", "-1"], ["--cores: got -1", "at least one core"]),
        (
            ["--configfile", "b.yaml"],
            ["--configfile: got an option", "mine.yaml more.yaml"],
        ),
        (["--snakefile", "b"], ["--snakefile: got an option", "leave it out"]),
        (["--cor=4", "--s", "4"], ["ambiguous option"]),
        (["--config", "a=1", "first"], ["--config: got 'first'", "write a target before"]),
        (["--resources", "gpu=1", "first"], ["write targets before them"]),
        (["--cleanup-metadata", "x"], ["--cleanup-metadata: got", "a changed setting is noticed"]),
        (["--drop-metadata"], ["--drop-metadata: got"]),
    ],
)
def test_an_option_that_cannot_be_meant_is_one_message(
    monkeypatch: pytest.MonkeyPatch, mine: str, options: list[str], words: list[str]
) -> None:
    message = refused(monkeypatch, "run", mine, *options)
    assert [word for word in words if word not in message] == []
    assert (message.count("Hint:"), message.count("\n")) == (1, 0)


def test_an_option_before_the_file_and_a_target_of_check_are_told_where_they_belong(
    monkeypatch: pytest.MonkeyPatch, mine: str
) -> None:
    message = refused(monkeypatch, "run", "--cores", "4", mine)
    assert message.endswith("Hint: write: aam run mine.yaml --cores 4")
    message = refused(monkeypatch, "check", mine, "first", "-n")
    assert message.endswith("Hint: write: aam run mine.yaml first")


@pytest.mark.parametrize(
    ("commands", "word"), [([], "`sbatch`"), (["sbatch"], "`sacct`"), (["sbatch", "sacct"], None)]
)
def test_a_cluster_without_its_commands_is_one_message(
    monkeypatch: pytest.MonkeyPatch,
    mine: str,
    tmp_path: Path,
    commands: list[str],
    word: str | None,
) -> None:
    for name in commands:
        (tmp_path / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    options = ("--workflow-profile", "slurm")
    if word is None:
        assert passed_on(monkeypatch, "run", mine, *options)
        return
    message = refused(monkeypatch, "run", mine, *options)
    assert f"without the command {word}" in message
    assert "profile.yaml" in message
    assert passed_on(monkeypatch, "run", mine, *options, "-n"), "a dry run asks no cluster"


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME"])
def test_without_a_home_that_can_be_written_caches_are_in_the_folder_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
    mine: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    variable: str,
) -> None:
    for name in ("XDG_CACHE_HOME", "MPLCONFIGDIR", "TRITON_CACHE_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    # Below a file nobody can write, root included.
    monkeypatch.setenv(variable, str(tmp_path / mine / "home"))
    assert passed_on(monkeypatch, "run", mine)
    own = tmp_path / ".snakemake" / "cache"
    assert os.environ["XDG_CACHE_HOME"] == str(own)
    assert Path(os.environ["MPLCONFIGDIR"]).is_relative_to(own)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Caches are kept in {own}, because {tmp_path / mine / 'home'}")
    assert passed_on(monkeypatch, "run", mine)
    assert capsys.readouterr().err == "", "a folder that was taken serves again"


def test_what_touching_and_fewer_triggers_mean_is_said(
    monkeypatch: pytest.MonkeyPatch, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert passed_on(monkeypatch, "run", mine, "--touch")
    assert "declared current without being made" in capsys.readouterr().err
    assert passed_on(monkeypatch, "run", mine, "--rerun-triggers", "mtime")
    assert "changed settings and code" in capsys.readouterr().err
    assert passed_on(monkeypatch, "run", mine)
    assert capsys.readouterr().err == ""


DATASETS = "datasets: {mine: {table: table.tsv}}\n"


@pytest.mark.parametrize("command", ["check", "run", "crate"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "got a folder"),
        (b"", "got an empty file"),
        (b"# nothing yet\n", "got an empty file, or comments alone"),
        (b"datasets:\n\tmine: 1\n", "line 2: got a tab; expected spaces"),
        (b"- a\n- b\n", "line 1: got a list"),
        (DATASETS.encode("utf-16"), "text in UTF-16; expected text in UTF-8"),
        (DATASETS.encode("utf-16-le"), "text in UTF-16; expected text in UTF-8"),
        (DATASETS.encode() + "# Größe\n".encode("latin-1"), "line 2: got the byte 0xf6"),
        (DATASETS.encode() * 2, "duplicate keys in the section from line 1 on: 'datasets'"),
        (b'{"datasets": {}, "datasets": {}}', "duplicate keys: 'datasets'"),
        (b"datasets: {a: {table: b}\ntasks: 3\n", "line 2: got 'tasks: 3'"),
        (DATASETS.encode() + b"---\na: 1\n", "line 2: got a second document"),
        (b"datasets: {2020: {table: b}}\n", "got the key 2020, which YAML reads as a number"),
        (b"PK\x03\x04rest", "got a zip archive, such as a QIIME 2 artifact"),
        (b"\x89HDF\r\n", "got an HDF5 file"),
        (b"#OTU ID\ts1\nACGT\t3\n", "got a table or other text"),
        (b'{"format": "BIOM", "matrix_type": "sparse"}', "got a BIOM table"),
        (b"hello\n", "got the text 'hello'"),
    ],
)
def test_a_file_that_is_no_configuration_is_one_message_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    content: bytes | None,
    words: str,
) -> None:
    path = tmp_path / "given.yaml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    message = refused(monkeypatch, command, str(path))
    assert message.startswith(str(path))
    assert words in message
    assert (message.count("Hint:"), message.count("\n")) == (1, 0)


@pytest.mark.parametrize(
    "content",
    [
        DATASETS.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + DATASETS.encode(),
        b'{\n\t"datasets": {"mine": {"table": "table.tsv"}}\n}',
    ],
    ids=["Windows", "BOM", "JSON with tabs"],
)
def test_other_ways_to_save_a_configuration_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "given.json"
    path.write_bytes(content)
    assert passed_on(monkeypatch, "run", str(path))


def test_a_configuration_without_datasets_is_told_what_it_may_be(tmp_path: Path) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text("rarefaction: {depth: 100}\n")
    with pytest.raises(SystemExit, match="aam run mine.yaml changes.yaml"):
        main(["crate", str(path)])


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("crohn/feature-table.qza", "crohn"),
        ("data/crohn_table.tsv.gz", "crohn_table"),
        ("data/10317/exported/otu_table.biom", "10317"),
        ("data/table.qza", "mine"),
        ("../table_2.tsv", "mine"),
    ],
)
def test_a_data_set_is_named_after_the_file_or_the_folder_of_its_table(
    table: str, name: str
) -> None:
    assert propose_name(Path(table), otherwise="mine") == name


def test_a_file_that_cannot_be_written_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "mine.yaml")

    monkeypatch.setattr(cli, "_check", full)
    with pytest.raises(SystemExit) as stopped:
        main(["check", "mine.yaml"])
    assert str(stopped.value).startswith("mine.yaml: got No space left on device; expected")

    def broken(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(cli, "_check", broken)
    with pytest.raises(OSError, match="Input/output"):
        main(["check", "mine.yaml"])


def test_two_tables_never_share_a_folder_of_results(
    files: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    table, metadata = files
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        shutil.copy(table, tmp_path / folder / "oral.tsv")
    with (tmp_path / "two" / "oral.tsv").open("a", encoding="utf-8") as changed:
        changed.write("TTGA" * 10 + "\t9" * ROWS + "\n")

    def named(table: str, output: str) -> str:
        main(["init", table, metadata, "--columns", "city", "--output", output])
        (name,) = load(yaml.safe_load(Path(output).read_text())).datasets
        return name

    assert named("one/oral.tsv", "a.yaml") == "oral"
    assert named("two/oral.tsv", "b.yaml") == "oral", "there are no results yet"
    main(["check", "b.yaml"])
    main(["check", "a.yaml"])
    made = Path("results/oral/inputs/.table.biom.sha256")
    made.parent.mkdir()
    made.write_text("digest\n")
    Path(".snakemake/metadata").mkdir(parents=True)
    with pytest.raises(SystemExit) as stopped:
        main(["check", "b.yaml"])
    said = str(stopped.value)
    for words in ("datasets.oral", "two/oral.tsv", "results of one/oral.tsv", "another name"):
        assert words in said
    assert len(said.splitlines()) == 1
    assert "1 ASVs" in Path("results/oral/check.txt").read_text()
    capsys.readouterr()
    assert named("two/oral.tsv", "c.yaml") == "oral_2"
    assert "results/oral has the results of another table" in capsys.readouterr().out
    # The same table under another name, or edited in its place, is the same study.
    assert named("one/oral.tsv", "d.yaml") == "oral"
    shutil.move("one", "moved")
    assert named("moved/oral.tsv", "e.yaml") == "oral"
    shutil.move("moved", "one")
    shutil.copy("two/oral.tsv", "one/oral.tsv")
    main(["check", "a.yaml"])
    # Nor is a folder taken of which nobody knows whose it is.
    Path("results/oral/.table.json").unlink()
    assert named("one/oral.tsv", "f.yaml") == "oral_2"


@pytest.mark.parametrize(
    ("groups", "expected"), [("city", "city"), ("false", False), (None, "patient")]
)
def test_groups_that_are_asked_for_are_those_of_the_folds(
    files: list[str], tmp_path: Path, groups: str | None, expected: str | bool
) -> None:
    output = tmp_path / "mine.yaml"
    options = [] if groups is None else ["--groups", groups]
    main(["init", *files, "--columns", "age", *options, "--output", str(output)])
    (task,) = load(yaml.safe_load(output.read_text())).tasks.values()
    assert task.folds.groups == expected
    assert task.folds.k == (2 if groups == "city" else 5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--groups", "Patient"], ["no column 'Patient'", "did you mean 'patient'?"]),
        (["--groups", "age"], ["groups 'age'", "a column to predict"]),
        (["--groups", "hollow"], ["groups 'hollow'", "write `false`"]),
        (["--groups", "partly"], ["groups 'partly' of 'age'", "20 of 40 samples"]),
        (["--depth", "0"], ["--depth", "1 or more"]),
        (["--depth", "10"], ["rarefaction.depth: got 10"]),
    ],
)
def test_groups_and_depths_that_cannot_be_are_refused(
    files: list[str], tmp_path: Path, options: list[str], words: list[str]
) -> None:
    metadata = Path(files[1])
    header, *rows = metadata.read_text().splitlines()
    lines = [f"{row}\t{'' if number % 2 else number % 8}" for number, row in enumerate(rows)]
    metadata.write_text("\n".join([f"{header}\tpartly", *lines]) + "\n")
    output = tmp_path / "mine.yaml"
    with pytest.raises(SystemExit) as stopped:
        main(["init", *files, "--columns", "age", *options, "--output", str(output)])
    assert [word for word in words if word not in str(stopped.value)] == []
    assert not output.exists()


def test_a_depth_that_is_asked_for_is_that_of_the_configuration(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", "age", "--depth", "7", "--output", str(output)])
    assert load(yaml.safe_load(output.read_text())).rarefaction.depth == 7
    assert "at least 7 reads, the chosen depth" in capsys.readouterr().out


def test_a_character_that_yaml_cannot_print_is_escaped(files: list[str], tmp_path: Path) -> None:
    metadata = Path(files[1])
    text = metadata.read_text(encoding="utf-8")
    text = text.replace("north", "Crohn\x92s").replace("city", "ill\x7f")
    metadata.write_text(text, encoding="utf-8")
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", "ill\x7f", "--output", str(output)])
    (task,) = load(yaml.safe_load(output.read_text(encoding="utf-8"))).tasks.values()
    assert task.column == "ill\x7f"


def test_what_may_not_be_read_or_written_is_one_message(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "new" / "mine.yaml"

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        # Root may read and write everything.
        patched.setattr(Path, "read_bytes", refuse)
        with pytest.raises(SystemExit, match="allow yourself to read it"):
            main(["init", *files, "--output", str(output)])
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: False)
        with pytest.raises(SystemExit, match="where you may not write"):
            main(["init", *files, "--output", str(output)])
    assert not output.exists()
