"""The command `aam`: what it writes, what it passes on to Snakemake, and what it refuses."""

from pathlib import Path

import pytest
import snakemake.cli
import yaml

import aam
from aam.cli import main
from aam.config.configuration import load

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


def test_a_column_that_is_a_target_groups_no_samples(files: list[str], tmp_path: Path) -> None:
    output = tmp_path / "mine.yaml"
    main(["init", *files, "--columns", "patient", "--output", str(output)])
    (task,) = load(yaml.safe_load(output.read_text())).tasks.values()
    assert (task.column, task.folds.groups) == ("patient", None)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("city,Age", ["no column 'Age'", "did you mean 'age'?"]),
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
        path.touch()
    given = passed_on(monkeypatch, "run", str(first), str(second), "check", "-n")
    found = parsed(given)
    assert [str(path) for path in found.configfile] == [str(first), str(second)]
    assert (list(found.targets), found.dryrun, found.logger) == (["check"], True, ["aam"])
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
        (["--cores", "3", "--", "check", "data"], ["check", "data"]),
        (["results/x/metrics.json"], ["results/x/metrics.json"]),
    ],
)
def test_what_stands_behind_the_file_is_snakemakes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: list[str], targets: list[str]
) -> None:
    path = tmp_path / "a.yaml"
    path.touch()
    found = parsed(passed_on(monkeypatch, "run", str(path), *options))
    assert list(found.targets) == targets
    assert found.cores == (3 if "3" in options else parsed(["--cores", "all"]).cores)


def test_with_a_profile_of_ones_own_nothing_is_laid_over_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.touch()
    given = passed_on(monkeypatch, "run", str(path), "--workflow-profile", "profiles/mine")
    assert given[0] == "--configfile"
    assert not {"--cores", "--resources", "--logger"} & set(given)


def test_check_describes_the_study_even_if_nothing_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "a.yaml"
    path.touch()
    found = parsed(passed_on(monkeypatch, "check", str(path), "-n"))
    assert (list(found.targets), set(found.forcerun)) == (["check"], {"describe"})
    assert found.dryrun


def test_what_is_not_there_is_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^nowhere.yaml: got no such file; .*aam init"):
        main(["run", "nowhere.yaml"])
    path = tmp_path / "a.yaml"
    path.touch()
    # As a wheel is installed: the package alone.
    monkeypatch.setattr(aam, "__file__", str(tmp_path / "site" / "aam" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="without its workflow.*a clone of the repository"):
        main(["check", str(path)])
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"aam {aam.__version__}\n"
