"""Files that a configuration names: all are looked for, and the likely ones named."""

import re
from pathlib import Path, PurePath
from typing import Any

import pytest

from aam.config import slices
from aam.config.configuration import Config, load
from aam.config.references import GENES
from aam.config.result_paths import is_asked_for, left_over_answers, older_answers
from aam.config.user_files import require_files, user_files
from aam.util.atomic import write_json, write_text
from aam.util.digests import MANIFEST
from aam.util.errors import InputError

TASK = {"dataset": "mine", "column": "age", "kind": "regression", "folds": {"k": 2}}


def config_of(**files: str) -> Config:
    return load({"data_dir": "data", "datasets": {"mine": {"table": "table.biom", **files}}})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder, with a table and metadata in `data/`."""
    monkeypatch.chdir(tmp_path)
    for name in ("data/table.biom", "data/metadata.tsv", "taxonomy.qza"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


def test_files_are_those_of_the_user_below_the_data_folder(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    config = config_of(tree="v4", metadata="~/data/metadata.tsv")
    expected = {"table": Path("data/table.biom"), "metadata": folder / "data" / "metadata.tsv"}
    assert user_files(config, config.datasets["mine"]) == expected
    require_files(config)
    simulated = load({"datasets": {"demo": {"simulate": {"samples": 40}}}})
    assert user_files(simulated, simulated.datasets["demo"]) == {}


def test_a_tilde_without_a_user_is_part_of_a_name(folder):
    (folder / "data" / "~$labels.tsv").touch()
    config = config_of(metadata="~$labels.tsv")
    require_files(config)
    assert user_files(config, config.datasets["mine"])["metadata"] == Path("data/~$labels.tsv")
    with pytest.raises(InputError, match=r"there is no data/~nobody-at-all/tree\.nwk"):
        require_files(config_of(tree="~nobody-at-all/tree.nwk"))


def test_a_reference_that_is_not_on_this_machine_is_no_file_and_says_how_to_get_it(
    folder, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    config = config_of(tree="greengenes")
    assert "tree" not in user_files(config, config.datasets["mine"])
    with pytest.raises(InputError, match="aam reference get greengenes"):
        slices.import_tree(config, "mine")
    # Before anything is planned: Snakemake takes what is there for current if a rule cannot say
    # its inputs.
    for key in ("tree", "taxonomy"):
        with pytest.raises(InputError, match=rf"datasets\.mine\.{key}.*aam reference get"):
            require_files(config_of(**{key: "greengenes"}))
    # One of the user's own is known by its name as soon as it is complete.
    own = folder / "aam" / "references" / "own"
    own.mkdir(parents=True)
    (own / GENES).touch()
    config = config_of(tree="own")
    assert config.datasets["mine"].reference is None
    write_json(own / MANIFEST, {"sha256": {GENES: "abc"}})
    settings = slices.import_tree(config, "mine")
    assert (settings.reference, settings.digests) == ("own", {"own": "abc"})
    # Greengenes is tried before v4 where no tree is given, and only where it is.
    assert [*slices.import_tree(config_of(), "mine").digests] == ["v4"]
    assert slices.tree_genes(config_of(), "mine") is None
    own.rename(own.with_name("greengenes"))
    assert [*slices.import_tree(config_of(), "mine").digests] == ["greengenes", "v4"]
    assert slices.tree_genes(config_of(), "mine") == "greengenes"
    assert slices.tree_genes(config_of(tree="v4"), "mine") is None


def test_a_reference_names_features_unless_a_taxonomy_is_given_or_refused(folder, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    assert slices.naming_genes(config_of(), "mine") is None
    named = config_of(taxonomy="greengenes")
    assert "taxonomy" not in user_files(named, named.datasets["mine"])
    with pytest.raises(InputError, match=r"datasets\.<name>\.taxonomy"):
        slices.find_genes(named, "mine", "greengenes")
    known = folder / "aam" / "references" / "greengenes"
    known.mkdir(parents=True)
    (known / GENES).touch()
    write_json(known / MANIFEST, {"sha256": {GENES: "abc"}})
    for taxonomy, expected in (
        (None, "greengenes"),
        ("greengenes", "greengenes"),
        (False, None),
        ("taxonomy.tsv", None),
    ):
        assert slices.naming_genes(config_of(taxonomy=taxonomy), "mine") == expected
    assert slices.find_genes(named, "mine", "greengenes").digest == "abc"
    assert slices.import_taxonomy(named, "mine").is_asked
    assert not slices.import_taxonomy(config_of(), "mine").is_asked


@pytest.mark.parametrize(
    ("files", "facts"),
    [
        ({"table": "tabel.biom"}, ["datasets.mine.table", "'tabel.biom'", "mean 'table.biom'"]),
        ({"table": "Table.BIOM"}, ["mean 'table.biom'"]),
        ({"table": "table.biom "}, ["mean 'table.biom'"]),
        ({"metadata": "data/metadata.tsv"}, ["data/data/metadata.tsv", "mean data/metadata.tsv"]),
        ({"taxonomy": "../taxonomy.tsv"}, ["datasets.mine.taxonomy", "mean '../taxonomy.qza'"]),
        ({"tree": "."}, ["is a folder", "'metadata.tsv', 'table.biom'"]),
        ({"tree": "link.nwk"}, ["a link to gone.nwk"]),
        ({"tree": "zzzz"}, ["there is no data/zzzz", "data has 'metadata.tsv', 'table.biom'"]),
        ({"tree": "no/tree.nwk"}, ["there is no folder data/no"]),
    ],
)
def test_a_file_that_is_not_there_is_named_with_a_likely_one(folder, files, facts):
    (folder / "data" / "link.nwk").symlink_to("gone.nwk")
    with pytest.raises(InputError) as refused:
        require_files(config_of(**files))
    for fact in facts:
        assert fact in str(refused.value)


def test_all_missing_files_are_named_at_once_those_of_predictions_too(folder):
    raw: dict[str, Any] = {
        "data_dir": "data",
        "datasets": {"mine": {"table": "table.biom", "metadata": "m"}, "other": {"table": "o"}},
        "tasks": {"age": TASK},
        "predictions": {"new": {"table": "n.biom", "sequences": "n.fasta", "tasks": ["age"]}},
    }
    with pytest.raises(InputError) as refused:
        require_files(load(raw))
    keys = re.findall(r"^configuration key (\S+): ", str(refused.value), re.MULTILINE)
    names = "datasets.mine.metadata datasets.other.table predictions.new.table"
    assert keys == [*names.split(), "predictions.new.sequences"]


def test_what_a_rule_makes_among_the_results_need_not_be_there_yet(folder):
    require_files(config_of(taxonomy="../results/mine/made.tsv"))
    # What lies beside the results of datasets is no result.
    with pytest.raises(InputError, match="there is no data/../results/raw/taxonomy.tsv"):
        require_files(config_of(taxonomy="../results/raw/taxonomy.tsv"))


ASKED = load(
    {
        "datasets": {"mine": {"table": "t"}, "other": {"table": "t"}},
        "models": {"base": {}},
        "tasks": {"age": TASK, "elsewhere": {**TASK, "dataset": "other"}},
        "predictions": {"new": {"table": "n", "tasks": ["age"]}},
    }
)


@pytest.mark.parametrize(
    ("path", "is_asked"),
    [
        ("report.html", True),
        ("inputs/table.biom", True),
        ("unifrac/weighted/view0.parquet", True),
        ("answers/age/first/scores.json", True),
        ("answers/years/first/scores.json", False),
        ("answers/elsewhere", False),
        ("folds/age.members.tsv", True),
        ("folds/years.tsv", False),
        ("baselines/years/by_baseline.tsv", False),
        ("pretrain/base/model", True),
        ("pretrain/large/model", False),
        ("answers/age/base/predictions.tsv", True),
        ("answers/age/large/predictions.tsv", False),
        ("finetune/large/age", False),
        ("predict/base/age/new.tsv", True),
        ("predict/base/age/networks/new.probabilities.qza", True),
        ("predict/base/age/old.tsv", False),
        ("predict/base/age/networks/old.tsv", False),
        ("predict/base/years/new.tsv", False),
        ("predict/first/age/new.tsv", False),
        ("figures/answers/age/base/predictions.svg", True),
        ("figures/answers/years/base/predictions.svg", False),
    ],
)
def test_results_of_tasks_models_and_tables_that_are_gone_are_not_asked_for(path, is_asked):
    assert is_asked_for(ASKED, "mine", PurePath(path)) == is_asked


def test_answers_that_are_left_over_are_listed(folder):
    names = ("answers/age/first", "answers/years/first", "finetune/base/age", "finetune/large/age")
    for name in names:
        (folder / "results" / "mine" / name).mkdir(parents=True)
    left_over = ["answers/years/first", "finetune/large/age"]
    assert list(left_over_answers(ASKED, "mine")) == left_over


def test_results_of_an_older_version_are_listed(folder):
    older = [
        "answers/age/base/intervals.tsv",
        "baselines/age/predictions.tsv",
        "finetune/base/age/metrics.json",
        "finetune/base/age/predictions.tsv",
        "first/age/metrics.json",
    ]
    current = ["answers/age/base/predictions.tsv", "baselines/age/by_baseline.tsv"]
    for name in [*older, *current, "predict/base/age/super_learner/new.tsv"]:
        write_text(folder / "results" / "mine" / name, "")
    assert list(older_answers(ASKED, "mine")) == [*older, "predict/base/age/super_learner"]
