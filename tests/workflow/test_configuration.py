"""Which configuration a run follows, and how its mistakes are told."""

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from aam.util.machine import accelerated

pytestmark = pytest.mark.workflow


def user_config(root: Path, **sections: Any) -> str:
    """Write a configuration with one dataset of the user, and the table that it names."""
    letters = random.Random(1)
    features = ["".join(letters.choices("ACGT", k=400)) for _ in range(3000)]
    rows = [f"{feature}\t{i % 7}\t{i % 5}\t{i % 3 + 1}\n" for i, feature in enumerate(features)]
    (root / "table.tsv").write_text("#OTU ID\ts1\ts2\ts3\n" + "".join(rows), encoding="utf-8")
    path = root / "mine.yaml"
    path.write_text(yaml.safe_dump({"datasets": {"mine": {"table": "table.tsv"}}, **sections}))
    return str(path)


def test_a_configuration_of_the_user_stands_alone(fresh: Any) -> None:
    config = user_config(fresh.root)
    done = fresh.snakemake("--dry-run", "--configfile", config)
    assert done.returncode == 0, done.stdout
    assert "mine" in done.stdout
    assert "demo" not in done.stdout
    assert "simulate" not in done.stdout


def test_the_demo_is_the_default_and_takes_single_keys(fresh: Any) -> None:
    done = fresh.snakemake("--dry-run", "--config", "rarefaction={views: 3}")
    assert done.returncode == 0, done.stdout
    assert "Rarefying demo, view 2" in done.stdout


def test_the_summary_lists_the_predictions_for_other_tables(fresh: Any) -> None:
    done = fresh.snakemake("--dry-run", "--", "results/demo/summary.md")
    assert done.returncode == 0, done.stdout
    for task in ("environment", "site"):
        assert f"Predicting {task} of newcomers with base" in done.stdout


def test_metrics_that_need_no_tree_do_not_wait_for_one(fresh: Any) -> None:
    config = user_config(fresh.root)
    for metric, waits in (("bray_curtis", False), ("unweighted", True)):
        target = f"results/mine/unifrac/{metric}/view0.parquet"
        done = fresh.snakemake("--dry-run", "--configfile", config, "--", target)
        assert done.returncode == 0, done.stdout
        assert f"Computing {metric} of mine, view 0" in done.stdout
        assert ("import_tree" in done.stdout) == waits


def test_single_keys_win_over_the_file(fresh: Any) -> None:
    config = user_config(fresh.root, data_dir="nowhere")
    assert fresh.snakemake("--dry-run", "--configfile", config).returncode == 1
    done = fresh.snakemake("--dry-run", "--configfile", config, "--config", "data_dir=.")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rarefaction={deph: 10}", "rarefaction.deph: got an unknown key"),
        ("pretraining={epochs: many}", "pretraining.epochs: got 'many'"),
    ],
)
def test_a_mistake_is_one_message_and_nothing_else(fresh: Any, override: str, words: str) -> None:
    done = fresh.snakemake("--cores", "1", "--config", override)
    assert done.returncode == 1
    assert words in done.stdout
    assert "Hint:" in done.stdout
    assert "Traceback" not in done.stdout
    assert ".smk" not in done.stdout
    assert not (fresh.root / "results").exists()


def test_a_missing_file_is_named(fresh: Any) -> None:
    config = user_config(fresh.root)
    (fresh.root / "table.tsv").unlink()
    done = fresh.snakemake("--dry-run", "--configfile", config)
    assert done.returncode == 1
    assert "table.tsv" in done.stdout


def test_a_problem_of_the_data_is_one_message(fresh: Any) -> None:
    config = user_config(fresh.root)
    table = fresh.root / "table.tsv"
    table.write_text("#OTU ID\ts1\nACGTACGT\t-3\n", encoding="utf-8")
    done = fresh.snakemake("--cores", "1", "--configfile", config, "--", "data")
    assert done.returncode == 1
    assert "Hint:" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (fresh.root / "results/mine/inputs/table.biom").exists()


def test_a_large_file_is_compared_by_content(fresh: Any) -> None:
    config = user_config(fresh.root)
    table = fresh.root / "table.tsv"
    assert table.stat().st_size > 1_000_000, "Snakemake's own limit for checksums"
    target = "results/mine/inputs/table.biom"
    command = ("--cores", "1", "--configfile", config, "--", target)
    done = fresh.snakemake(*command)
    assert done.returncode == 0, done.stdout
    table.touch()
    assert "Nothing to be done" in fresh.snakemake("--dry-run", *command).stdout
    table.write_text(table.read_text().replace("\t1\n", "\t2\n"), encoding="utf-8")
    assert "import_table" in fresh.snakemake("--dry-run", *command).stdout


def test_what_a_job_counts_for_on_this_machine(fresh: Any) -> None:
    """Jobs of a cluster ask for a GPU whatever the login node has: see the SLURM tests."""
    (fresh.root / "gpus.smk").write_text(
        'configfile: "config/config.yaml"\n'
        'include: "workflow/rules/common.smk"\n'
        "rule count:\n"
        '    output: "gpus.txt"\n'
        "    threads: all_cores\n"
        "    resources: gpu=gpus, several=lambda wildcards: gpus(wildcards, 4)\n"
        '    shell: "echo {resources.gpu} {resources.several} {threads} > {output}"\n'
    )
    done = fresh.snakemake("--snakefile", "gpus.smk", "--cores", "3", "--", "gpus.txt")
    assert done.returncode == 0, done.stdout
    counted = [accelerated(), 4 * accelerated(), 3]
    assert (fresh.root / "gpus.txt").read_text().split() == [str(int(n)) for n in counted]
