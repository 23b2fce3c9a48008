"""Which workflow and which configuration a run follows, and how its mistakes are told."""

import os
import random
import shutil
import signal
import subprocess
import time
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


def test_the_demo_is_the_default_and_takes_single_keys(fresh: Any) -> None:
    keys = ("--config", "rarefaction={views: 3}")
    output = fresh.dry_run(*keys)
    assert "Rarefying demo, view 2" in output
    for task in ("environment", "site"):
        assert f"Predicting {task} of newcomers with AAM" in output
    jobs = output.partition("Job stats:")[2].partition("\n\n")[0]
    output = fresh.dry_run("--snakefile", "workflow/Snakefile", *keys)
    assert output.partition("Job stats:")[2].partition("\n\n")[0] == jobs


def test_another_workflow_may_have_this_one_as_a_module(cold: Any) -> None:
    """Its rules may get other names, and the package need not be installed."""
    (cold.root / "other.smk").write_text(
        'configfile: "config/config.yaml"\n'
        "module aam:\n"
        '    snakefile: "workflow/Snakefile"\n'
        "    config: config\n"
        "use rule * from aam as aam_*\n"
    )
    target = "results/demo/inputs/table.biom"
    done = cold.snakemake("--snakefile", "other.smk", "--cores", "1", "--", target)
    assert done.returncode == 0, done.stdout
    assert "aam_import_table" in done.stdout


def test_a_configuration_of_the_user_stands_alone(fresh: Any) -> None:
    config = user_config(fresh.root, data_dir="nowhere")
    assert "nowhere/table.tsv" in fresh.dry_run("--configfile", config, fails=True)
    output = fresh.dry_run("--configfile", config, "--config", "data_dir=.")
    assert "mine" in output
    assert "demo" not in output
    assert "simulate" not in output


def test_what_needs_no_tree_does_not_wait_for_one(fresh: Any) -> None:
    config = user_config(fresh.root)
    for target, change, waits in (
        ("unifrac/bray_curtis/view0.parquet", "keep", False),
        ("unifrac/unweighted/view0.parquet", "keep", True),
        ("rarefied/view0.biom", "keep", False),
        ("rarefied/view0.biom", "drop", True),
    ):
        settings = f"rarefaction={{long_branches: {change}}}"
        command = ("--configfile", config, "--config", settings, "--", f"results/mine/{target}")
        assert ("import_tree" in fresh.dry_run(*command)) == waits


def test_targets_of_the_batch_wait_for_the_tree_and_for_no_distances(fresh: Any) -> None:
    target = "results/demo/pretrain/base/scores.json"
    for targets, waits in (("stored", "unifrac"), ("batch", "import_tree")):
        change = fresh.configured(pretraining={"targets": targets})
        output = fresh.dry_run(*change, "--", target)
        assert f"rule {waits}:" in output or f"\n{waits} " in output
        assert ("unifrac" in output) == (targets == "stored")


def test_a_task_is_explained_unless_it_says_no(fresh: Any) -> None:
    change = {"tasks": {"site": {"importance": False}}, "outputs": {"qza": True}}
    messages = fresh.messages(**change)
    what = "Finding the important ASVs for {}, AAM ({})"
    assert {what.format("environment", model) for model in ("base", "other")} <= messages
    assert not {what.format("site", model) for model in ("base", "other")} & messages
    assert not any("importance" in message and "site" in message for message in messages)
    assert "Scoring the answer base to site" in messages


def test_a_mistake_is_one_message_and_nothing_else(fresh: Any) -> None:
    keys = ("rarefaction={deph: 10}", "pretraining={epochs: many}")
    done = fresh.snakemake("--cores", "1", "--config", *keys)
    assert done.returncode == 1
    assert "rarefaction.deph: got an unknown key" in done.stdout
    assert "pretraining.epochs: got 'many'" in done.stdout
    assert done.stdout.count("Hint:") == 2
    assert "Traceback" not in done.stdout
    assert ".smk" not in done.stdout
    assert not (fresh.root / "results").exists()


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
    command = ("--cores", "1", "--configfile", config, "--", "results/mine/inputs/table.biom")
    done = fresh.snakemake(*command)
    assert done.returncode == 0, done.stdout
    table.touch()
    assert "Nothing to be done" in fresh.dry_run(*command)
    table.write_text(table.read_text().replace("\t1\n", "\t2\n"), encoding="utf-8")
    os.utime(table, (1, 1))
    assert "import_table" in fresh.dry_run(*command)
    # Under another path Snakemake would say that nothing is to be done.
    absolute = ("--config", f"results_dir={fresh.root / 'results'}")
    assert "write results_dir" in fresh.dry_run(*absolute, *command, fails=True)
    shutil.rmtree(fresh.root / ".snakemake")
    refused = fresh.snakemake("-n", *command)
    assert (refused.returncode, "Hint: put it back" in refused.stdout) == (1, True)


def test_metadata_tell_the_samples_of_a_table_whatever_their_age(fresh: Any) -> None:
    dataset = {"table": "table.tsv", "metadata": "metadata.tsv"}
    config = user_config(fresh.root, datasets={"mine": dataset})
    metadata = fresh.root / "metadata.tsv"
    metadata.write_text("sample-id\tage\ns1\t1\ns2\t2\ns3\t3\n", encoding="utf-8")
    command = ("--cores", "1", "--configfile", config, "--", "results/mine/inputs/table.biom")
    assert fresh.snakemake(*command).returncode == 0
    assert "Nothing to be done" in fresh.dry_run(*command)
    metadata.write_text("sample-id\tage\ns1\t4\ns2\t5\ns3\t6\n", encoding="utf-8")
    os.utime(metadata, (1, 1))
    assert "import_table" in fresh.dry_run(*command)


def test_a_duplicate_key_is_refused_before_anything_runs(fresh: Any) -> None:
    config = Path(user_config(fresh.root))
    config.write_text(config.read_text() + "datasets: {}\n")
    refused = fresh.snakemake("-n", "--cores", "1", "--configfile", str(config))
    assert (refused.returncode, "datasets" in refused.stdout) == (1, True)
    assert "Traceback" not in refused.stdout


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_goes_on(fresh: Any) -> None:
    target = "results/demo/rarefied/view0.biom"
    with fresh.started(*fresh.configured(), "--", target, stdout=subprocess.DEVNULL) as first:
        while first.poll() is None and not any(fresh.root.glob(".snakemake/locks/*")):
            time.sleep(0.02)
        assert first.poll() is None, "the first run ended too early"
        first.send_signal(signal.SIGSTOP)
        second = fresh.run(target)
        first.send_signal(signal.SIGCONT)
    assert second.returncode
    assert "cannot be locked" in second.stdout
    assert first.returncode == 0
    assert (fresh.root / target).is_file()


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


def test_a_file_that_is_not_there_stops_a_run_that_had_its_answer(fresh: Any) -> None:
    config = user_config(fresh.root)
    target = "results/mine/inputs/table.biom"
    done = fresh.snakemake("--cores", "1", "--configfile", config, "--", target)
    assert done.returncode == 0, done.stdout
    # With the file that is gone, Snakemake would take the results for current.
    for changes, said in (
        ({"datasets": {"mine": {"table": "tabel.tsv"}}}, "mean 'table.tsv'"),
        ({"datasets": {"mine": {"table": "table.tsv"}}, "data_dir": "nowhere"}, "mean table.tsv"),
    ):
        (fresh.root / "mine.yaml").write_text(yaml.safe_dump(changes))
        output = fresh.dry_run("--configfile", config, "--", target, fails=True)
        assert said in output
        assert "Traceback" not in output
        assert "Exception" not in output
    # Jobs do not look again: the table may be deleted while others run.
    (fresh.root / "mine.yaml").write_text(
        yaml.safe_dump({"datasets": {"mine": {"table": "t.tsv"}}})
    )
    modes = ("--mode", "subprocess", "--cores", "1", "--allowed-rules", "simulate")
    output = fresh.snakemake(*modes, "--configfile", config, "--", target).stdout
    assert "configuration key" not in output
