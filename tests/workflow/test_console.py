"""All that one sees of `aam`, and of a mistake, in real runs."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import Checkout

pytestmark = pytest.mark.workflow
SAMPLES = [f"s{row}" for row in range(20)]
MINE: Mapping[str, Any] = {
    "datasets": {"mine": {"table": "table.tsv", "metadata": "metadata.tsv"}},
    "rarefaction": {"depth": 100},
    "tasks": {
        "city": {
            "dataset": "mine",
            "column": "city",
            "kind": "classification",
            "folds": {"k": 2, "groups": "patient"},
        }
    },
}
DEPTH = (
    "rarefaction.depth: got 9000; expected at most 290, the reads of the deepest sample ('s19'); "
    "quartiles of the 20 samples' reads are 140, 190, 240. "
    "Hint: lower rarefaction.depth: 140 keeps about three quarters of the samples"
)
COLUMN = (
    "metadata column 'town': got no such column; expected one of the metadata's columns, "
    "'city', 'patient', 'plate'. "
    "Hint: correct the name in the configuration, or add the column to the metadata"
)
GROUP = (
    "metadata column 'plate': got the one value 'first' in all 20 samples; expected at least two "
    "groups, each of which lies in one fold. "
    "Hint: name the column that says which samples belong together, or set folds.groups: false "
    "where every sample is of another person, animal or site"
)
FAILED = "Reading the files of mine\n\n{}\n"
KEY = (
    "configuration key tasks.city.folds: got 5; expected keys of a section: "
    "column, k, groups, stratified, test, seed. Hint: write folds: {k: 5}\n"
)


def study(root: Path, **changes: Any) -> str:
    """Write a study of one table, with sections changed, and return its configuration's name."""
    reads = "\t".join(str(50 + 10 * row) for row in range(len(SAMPLES)))
    fifty = "\t".join(["50"] * len(SAMPLES))
    rows = f"{'ACGT' * 10}\t{reads}\n{'TTGA' * 10}\t{fifty}\n"
    (root / "table.tsv").write_text("#OTU ID\t" + "\t".join(SAMPLES) + f"\n{rows}")
    lines = [
        f"{name}\t{'north' if row % 2 else 'south'}\tp{row // 4}\tfirst"
        for row, name in enumerate(SAMPLES)
    ]
    (root / "metadata.tsv").write_text("\n".join(["sample-id\tcity\tpatient\tplate", *lines]))
    (root / "mine.yaml").write_text(yaml.safe_dump({**MINE, **changes}, sort_keys=False))
    return "mine.yaml"


def city(**changes: Any) -> dict[str, Any]:
    return {"city": {**MINE["tasks"]["city"], **changes}}


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"rarefaction": {"depth": 9000}}, FAILED.format(DEPTH)),
        ({"tasks": city(column="town")}, FAILED.format(COLUMN)),
        ({"tasks": city(folds={"k": 2, "groups": "plate"})}, FAILED.format(GROUP)),
        ({"tasks": city(folds=5)}, KEY),
    ],
    ids=["too deep", "no column", "one group", "no section"],
)
def test_a_mistake_is_one_message(fresh: Checkout, changes: dict[str, Any], output: str) -> None:
    done = fresh.aam("check", study(fresh.root, **changes))
    assert (done.returncode, done.stdout) == (1, output)


def test_a_target_that_is_taken_for_a_configuration_is_one_message(fresh: Checkout) -> None:
    config = study(fresh.root)
    done = fresh.snakemake("--logger", "aam", "--cores", "2", "--configfile", config, "data")
    profile = "Using workflow specific profile profiles/default for setting default command line"
    assert (done.returncode, done.stdout) == (
        1,
        f"{profile} arguments.\ndata: got no such file; expected a configuration, because "
        "--configfile takes every word after it. Hint: if data is a target, write -- before it: "
        "--configfile FILE -- data\n",
    )


def test_snakemake_itself_says_a_mistake_once_without_its_settings(fresh: Checkout) -> None:
    """Whoever knows Snakemake sees its blocks, and puts targets first, or `--` before them."""
    arguments = ("results/mine/rarefied/view0.biom", "--cores", "2", "--configfile")
    done = fresh.snakemake(*arguments, study(fresh.root))
    assert done.returncode == 0, done.stdout
    done = fresh.snakemake(*arguments, study(fresh.root, rarefaction={"depth": 9000}))
    assert done.returncode == 1
    assert done.stdout.count(DEPTH) == 1
    assert "Params have changed" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 1000
    assert "Host:" not in done.stdout


def test_check_says_what_it_keeps_and_a_run_lists_its_jobs(fresh: Checkout) -> None:
    config = study(fresh.root)
    first = fresh.aam("check", config)
    text = (fresh.root / "results/mine/check.txt").read_text(encoding="utf-8")
    assert (first.returncode, first.stdout) == (
        0,
        f"Reading the files of mine\n\n{text}\nAll files can be read\n",
    )
    assert "Everything: about" in text
    assert "Task city: 20 labelled samples in 2 folds." in text
    target = "results/mine/inputs/metadata.parquet"
    run = fresh.aam("run", config, "--cores", "1", "--rerun-incomplete", target)
    assert (run.returncode, run.stdout) == (
        0,
        "[1 of 2] Reading the table of mine\n[2 of 2] Reading the metadata of mine\n",
    )
    assert "aam.data.importing" in (fresh.root / "results/mine/logs/import_metadata.log").read_text(
        encoding="utf-8"
    )
    (log, *_) = sorted((fresh.root / ".snakemake/log").iterdir(), reverse=True)
    assert "Finished jobid: 0 (Rule: import_metadata)" in log.read_text(encoding="utf-8")
    for options, words in (
        (["--", target], "Nothing to be done"),
        (["--touch", "--forceall", target], "\nNothing was made: results that exist are now"),
        (["--verbose", "--forceall", target], "Job 0: Reading the metadata of mine\n"),
    ):
        done = fresh.aam("run", config, *options)
        assert done.returncode == 0, done.stdout
        assert words in done.stdout


def test_without_a_home_a_study_is_read_all_the_same(fresh: Checkout) -> None:
    config = study(fresh.root)
    # Below a file nobody can write, root included.
    homeless = replace(fresh, environment={"HOME": str(fresh.root / config / "home")})
    done = homeless.aam("run", config, "results/mine/inputs/table.biom")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"Caches are kept in {fresh.root}/.snakemake/cache, because ")


def test_a_misspelt_target_names_near_ones(fresh: Checkout) -> None:
    config = study(fresh.root)
    for options in ([], ["-n"]):
        done = fresh.aam("run", config, "frist", *options)
        assert done.returncode == 1
        assert done.stdout.endswith("Hint: did you mean first?\n")
        assert "MissingRuleException" not in done.stdout
