import json
from typing import Any

import pytest
import yaml
from checkouts import merged

from aam.config import slices
from aam.config.configuration import Config, load
from aam.config.sections.base import Section

TASK = {"dataset": "demo", "column": "age", "kind": "regression", "folds": {"k": 3}}
BASE: dict[str, Any] = {
    "datasets": {"demo": {"simulate": {}}},
    "rarefaction": {"views": 2},
    "unifrac": {"metrics": ["unweighted", "generalized"]},
    "models": {"a": {"width": 16, "heads": 2}, "b": {"width": 32, "heads": 2}},
    "tasks": {"age": TASK, "raw": TASK | {"finetuning": {"start": "scratch"}}},
}


def age(**task: Any) -> dict[str, Any]:
    """Return what changes a task."""
    return {"tasks": {"age": task}}


RAREFIED = {"rarefy:0", "rarefy:1"}
FOLDED = {"folds:age", "baselines:age"}
TUNED = {"finetune:a:age", "finetune:b:age"}
SCORED = {"score:a:age", "score:b:age"}
ALL_TUNED = TUNED | {"finetune:a:raw", "finetune:b:raw"}
PRETRAINED = {"pretrain:a", "pretrain:b", "benchmark"}


def all_slices(config: Config) -> dict[str, Any]:
    models, tasks = config.models, config.tasks
    metrics = ("unweighted", "generalized")
    trained = [(model, task) for model in models for task in tasks]
    found: dict[str, Any] = {
        "simulate": slices.simulate(config, "demo"),
        **{f"rarefy:{view}": slices.rarefy(config, "demo", view) for view in range(2)},
        "tokenize": slices.tokenize(config, "demo"),
        **{f"unifrac:{metric}": slices.unifrac(config, "demo", metric) for metric in metrics},
        "store_samples": slices.store_samples(config, "demo"),
        **{f"pretrain:{model}": slices.pretrain(config, "demo", model) for model in models},
        **{f"folds:{task}": slices.folds(config, task) for task in tasks},
        **{f"baselines:{task}": slices.baselines(config, task) for task in tasks},
        **{f"explain:{task}": slices.explain(config, task) for task in tasks},
        **{f"finetune:{m}:{task}": slices.finetune(config, "demo", m, task) for m, task in trained},
        **{f"score:{m}:{task}": slices.score(config, task, m) for m, task in trained},
        "plot_rarefaction": slices.plot_rarefaction(config, "demo"),
        "benchmark": slices.benchmark(config, "demo", "a"),
    }
    for name, cut in found.items():
        if isinstance(cut, Section):
            assert type(cut).model_validate(cut.plain()) == cut, "scripts read what rules give"
            found[name] = cut.plain()
    return found


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"rarefaction": {"depth": 500}}, RAREFIED | {"plot_rarefaction"} | ALL_TUNED),
        ({"rarefaction": {"seed": 1}}, RAREFIED | ALL_TUNED),
        # What is predicted for another table is the mean over as many views.
        ({"rarefaction": {"views": 3}}, ALL_TUNED),
        ({"tokens": {"max_length_bp": 90}}, {"tokenize"}),
        ({"unifrac": {"engine": "scikit-bio"}}, {"unifrac:unweighted", "unifrac:generalized"}),
        # Distances of rows with fewer reads are computed in pretraining.
        (
            {"unifrac": {"alpha": 0.1}},
            {"unifrac:generalized"} | (PRETRAINED - {"benchmark"}),
        ),
        ({"unifrac": {"partitions": 3}}, set()),
        ({"unifrac": {"metrics": ["unweighted"]}}, PRETRAINED),
        ({"augmentation": {"cutmix": 1.0}}, {"store_samples"}),
        ({"models": {"b": {"asv_layers": 1}}}, {"pretrain:b", "finetune:b:raw"}),
        ({"models": {"b": {"pretraining": {"epochs": 3}}}}, {"pretrain:b"}),
        ({"pretraining": {"epochs": 3}}, PRETRAINED),
        ({"finetuning": {"loss": "mse", "networks": 2}}, ALL_TUNED),
        (age(finetuning={"labels": 0.1}), TUNED | SCORED),
        (age(kind="ordinal", classes=["young", "old"]), FOLDED | TUNED | SCORED),
        (age(column=["age", "bmi"]), {"folds:age"} | TUNED | SCORED),
        (age(condition=["host"]), {"folds:age"} | TUNED),
        # Folds, baselines and networks are those of a task without covariates.
        (age(covariates=["sex"]), SCORED),
        # The folds are asked for numbers above -1.
        (age(transform="log"), {"folds:age"} | TUNED),
        (age(transform="quantile"), TUNED),
        (age(bounds=[0, None]), {"baselines:age"} | TUNED | SCORED),
        (age(baselines=["kernel_clr"]), {"baselines:age"}),
        (age(folds={"k": 4, "test": 0.2}), {"folds:age"}),
        (age(folds={"seed": 4}), FOLDED | {"explain:age"}),
        (age(report_by=["study"]), SCORED),
        ({"optimization": {"level": "basic"}}, PRETRAINED | ALL_TUNED),
        (
            {"models": {"b": {"optimization": {"level": "basic"}}}},
            {"pretrain:b", "finetune:b:age", "finetune:b:raw"},
        ),
        ({"pretraining": {"targets": "batch"}}, PRETRAINED),
        # Speed is that of whole rows.
        ({"pretraining": {"subsampled": 0.5}}, PRETRAINED - {"benchmark"}),
        ({"benchmark": {"seconds": 9}}, {"benchmark"}),
        ({"benchmark": {"batch_sizes": [4]}}, {"benchmark"}),
        ({"runtime": {"workers": 0, "checkpoint_every_s": 5}, "data_dir": "elsewhere"}, set()),
        ({"results_dir": "/tmp/r", "datasets": {"other": {"table": "t.biom"}}}, set()),
    ],
)
def test_a_key_changes_exactly_these_slices(change: dict[str, Any], changed: set[str]) -> None:
    before, after = all_slices(load(BASE)), all_slices(load(merged(BASE, change)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_slices_are_plain_whatever_the_order_of_the_keys() -> None:
    backwards = yaml.safe_load(yaml.safe_dump(BASE, sort_keys=True))
    one, other = (all_slices(load(raw)) for raw in (BASE, backwards))
    for name in one:
        assert repr(one[name]) == repr(other[name]), "Snakemake compares the text of the settings"
    assert json.loads(json.dumps(one)) == one


def test_distances_follow_the_order_of_the_metrics() -> None:
    for weight, expected in ((0.5, ["unweighted", "generalized"]), (0, ["unweighted"])):
        weights = {"generalized": weight, "unweighted": 2}
        found = slices.distances(load({**BASE, "pretraining": {"distances": weights}}), "demo", "a")
        assert list(found) == expected
        assert found == {name: float(weights[name]) for name in expected}


def test_tasks_that_differ_in_their_training_share_their_folds_and_baselines() -> None:
    def owners(**change: Any) -> tuple[str, str]:
        config = load(merged(BASE, {"tasks": {"raw": change}}))
        return slices.folds_owner(config, "raw"), slices.baselines_owner(config, "raw")

    assert owners(finetuning={"epochs": 9}) == ("age", "age")
    assert owners(bounds=[0, None]) == owners(baselines=["kernel_clr"]) == ("age", "raw")
    assert owners(transform="log_zscore") == ("raw", "age"), "numbers need logarithms"
    assert owners(where={"site": "gut"}) == ("raw", "raw")


def test_a_super_learner_follows_its_baselines_and_the_depth_and_no_training() -> None:
    def kept(change: dict[str, Any]) -> Any:
        return slices.super_learner(load(merged(BASE, change)), "age", "a")

    depth = {"rarefaction": {"depth": 500}}
    for change in (age(baselines=["kernel_clr"]), age(bounds=[0, None]), depth):
        assert kept(change) != kept({})
    assert kept({"finetuning": {"loss": "mse"}}) == kept({"pretraining": {"epochs": 3}}) == kept({})
    few = {"finetuning": {"labels": 0.5}}
    for change, mixes in (({}, True), (age(baselines=[]), False), (few, False)):
        assert slices.mixes(load(merged(BASE, change)), "age") == mixes


def test_the_budget_of_a_choice_is_no_setting_of_trainings_that_make_none() -> None:
    def trained(recipe: str, task: str, minutes: float) -> Any:
        change = {"finetuning": {"recipe": recipe, "budget_minutes": minutes}}
        return slices.finetune(load(merged(BASE, change)), "demo", "a", task).plain()

    assert trained("auto", "age", 1.0) != trained("auto", "age", 2.0)
    assert trained("auto", "raw", 1.0) == trained("auto", "raw", 2.0), "from scratch"
    assert trained("full", "age", 1.0) == trained("full", "age", 2.0)


@pytest.mark.parametrize(
    ("folds", "column", "stated"),
    [
        ({"k": 3}, None, False),
        ({"k": 3, "groups": "host"}, "host", True),
        ({"k": 3, "groups": False}, None, True),
        ({"column": "study"}, "study", True),
        ({"column": "study", "groups": "host"}, "host", True),
        ({"column": "study", "groups": False}, None, True),
    ],
)
def test_a_score_knows_what_was_said_of_groups(
    folds: dict[str, Any], column: str | None, stated: bool
) -> None:
    config = load(BASE | {"tasks": {"age": TASK | {"folds": folds}}})
    expected = {"column": column, "stated": stated}
    assert slices.score(config, "age", "a").structure.plain() == expected
    shown = slices.plot_pretraining(config, "demo").columns
    assert shown == sorted({"age", *([folds["groups"]] if folds.get("groups") else [])})


def test_a_page_knows_whether_networks_are_shown_awaited_or_unasked() -> None:
    config = load(BASE)
    for cut, state in ((slices.summary, "shown"), (slices.first_page, "awaited")):
        settings = cut(config, "demo")
        assert settings.networks.state == state
        assert type(settings).model_validate(settings.plain()) == settings, "as its script reads it"
        unasked = cut(load(BASE | {"models": {}}), "demo")
        assert unasked.networks.plain() == {"state": "unasked"}
    plan = slices.first_page(config, "demo").networks.plan
    assert plan is not None
    assert plan.models.keys() == config.models.keys()
    assert plan.tasks.keys() == config.tasks.keys()
