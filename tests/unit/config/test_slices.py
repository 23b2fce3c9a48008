"""Slices: which settings each stage depends on, key by key."""

import json
from typing import Any

import pytest
import yaml
from checkouts import merged

from aam.config import slices
from aam.config.configuration import Config, load

BASE: dict[str, Any] = {
    "datasets": {"demo": {"simulate": {}}},
    "rarefaction": {"views": 2},
    "unifrac": {"metrics": ["unweighted", "generalized"]},
    "models": {"a": {"width": 16, "heads": 2}, "b": {"width": 32, "heads": 2}},
    "tasks": {
        "age": {"dataset": "demo", "column": "age", "kind": "regression", "folds": {"k": 3}},
        "raw": {
            "dataset": "demo",
            "column": "age",
            "kind": "regression",
            "folds": {"k": 3},
            "finetuning": {"start": "scratch"},
        },
    },
}
DOWNSTREAM = {"finetune:a:age", "finetune:a:raw", "finetune:b:age", "finetune:b:raw"}
SCORES = {"score:a:age", "score:b:age"}
PRETRAINED = {"pretrain:a", "pretrain:b", "benchmark", "scaling", "models"}


def all_slices(config: Config) -> dict[str, Any]:
    models, tasks = config.models, config.tasks
    return {
        "simulate": slices.simulate(config, "demo"),
        "import": slices.no_settings(),
        **{f"rarefy:{view}": slices.rarefy(config, "demo", view) for view in range(2)},
        "tokenize": slices.tokenize(config, "demo"),
        **{
            f"unifrac:{metric}": slices.unifrac(config, "demo", metric)
            for metric in ("unweighted", "generalized")
        },
        "augment": slices.augment(config, "demo"),
        **{f"pretrain:{model}": slices.pretrain(config, "demo", model) for model in models},
        **{f"folds:{task}": slices.folds(config, task) for task in tasks},
        **{f"baselines:{task}": slices.baselines(config, task) for task in tasks},
        **{f"explain:{task}": slices.explain(config, task) for task in tasks},
        **{
            f"finetune:{model}:{task}": slices.finetune(config, "demo", model, task)
            for model in models
            for task in tasks
        },
        **{
            f"score:{model}:{task}": slices.score(config, "demo", model, task)
            for model in models
            for task in tasks
        },
        "plot_rarefaction": slices.plot_rarefaction(config, "demo"),
        "benchmark": slices.benchmark(config, "demo", "a"),
        "scaling": slices.scaling(config, "demo", "a"),
        "models": slices.models(config, "demo"),
    }


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        (
            {"rarefaction": {"depth": 500}},
            {"rarefy:0", "rarefy:1", "augment", "plot_rarefaction"} | DOWNSTREAM,
        ),
        ({"rarefaction": {"seed": 1}}, {"rarefy:0", "rarefy:1"} | DOWNSTREAM),
        # What is predicted for another table is the mean over as many views.
        ({"rarefaction": {"views": 3}}, DOWNSTREAM),
        ({"tokens": {"max_length_bp": 90}}, {"tokenize"}),
        ({"unifrac": {"engine": "scikit-bio"}}, {"unifrac:unweighted", "unifrac:generalized"}),
        ({"unifrac": {"alpha": 0.1}}, {"unifrac:generalized"}),
        ({"unifrac": {"partitions": 3}}, set()),
        ({"unifrac": {"metrics": ["unweighted"]}}, PRETRAINED),
        ({"augmentation": {"cutmix": 1.0}}, {"augment"}),
        ({"models": {"b": {"asv_layers": 1}}}, {"pretrain:b", "finetune:b:raw", "models"}),
        ({"models": {"b": {"pretraining": {"epochs": 3}}}}, {"pretrain:b", "models"}),
        ({"pretraining": {"epochs": 3}}, PRETRAINED),
        ({"finetuning": {"epochs": 3}}, DOWNSTREAM),
        ({"finetuning": {"trained_layers": 1, "loss": "mse", "models": 2}}, DOWNSTREAM),
        (
            {"tasks": {"age": {"finetuning": {"labels": 0.1}}}},
            {"finetune:a:age", "finetune:b:age", *SCORES},
        ),
        (
            {"tasks": {"age": {"finetuning": {"inductive": True}}}},
            {"finetune:a:age", "finetune:b:age", *SCORES},
        ),
        (
            {"tasks": {"age": {"finetuning": {"encoder": "partial"}}}},
            {"finetune:a:age", "finetune:b:age", *SCORES},
        ),
        (
            {"tasks": {"age": {"kind": "classification"}}},
            {"folds:age", "baselines:age", "finetune:a:age", "finetune:b:age", *SCORES},
        ),
        (
            {"tasks": {"age": {"kind": "ordinal", "classes": ["young", "old"]}}},
            {"folds:age", "baselines:age", "finetune:a:age", "finetune:b:age", *SCORES},
        ),
        (
            {"tasks": {"age": {"column": ["age", "bmi"]}}},
            {"folds:age", "finetune:a:age", "finetune:b:age"},
        ),
        (
            {"tasks": {"age": {"condition": ["host"]}}},
            {"folds:age", "finetune:a:age", "finetune:b:age"},
        ),
        (
            {"tasks": {"age": {"transform_by": "sex"}}},
            {"folds:age", "finetune:a:age", "finetune:b:age"},
        ),
        (
            {"tasks": {"age": {"transform": "quantile"}}},
            {"finetune:a:age", "finetune:b:age"},
        ),
        (
            # The folds are asked for numbers above -1.
            {"tasks": {"age": {"transform": "log"}}},
            {"folds:age", "finetune:a:age", "finetune:b:age"},
        ),
        (
            {"tasks": {"age": {"bounds": [0, None]}}},
            {"finetune:a:age", "finetune:b:age", *SCORES},
        ),
        ({"tasks": {"age": {"folds": {"k": 4}}}}, {"folds:age"}),
        ({"tasks": {"age": {"folds": {"test": 0.2}}}}, {"folds:age"}),
        (
            {"tasks": {"age": {"folds": {"seed": 4}}}},
            {"folds:age", "baselines:age", "explain:age"},
        ),
        (
            {"tasks": {"age": {"report_by": ["study"]}}},
            SCORES,
        ),
        ({"optimization": {"level": "basic"}}, PRETRAINED | DOWNSTREAM),
        (
            {"models": {"b": {"optimization": {"level": "basic"}}}},
            {"pretrain:b", "finetune:b:age", "finetune:b:raw", "models"},
        ),
        ({"benchmark": {"steps": 9}}, {"benchmark", "scaling", "models"}),
        ({"benchmark": {"batch_sizes": [4]}}, {"benchmark"}),
        ({"benchmark": {"scaling": {"layers": [1]}}}, {"scaling"}),
        ({"runtime": {"workers": 0, "log_every_s": 1, "checkpoint_every_s": 5}}, set()),
        ({"data_dir": "elsewhere", "results_dir": "/tmp/r"}, set()),
        ({"datasets": {"other": {"table": "t.biom"}}}, set()),
    ],
)
def test_a_key_changes_exactly_these_slices(change: dict[str, Any], changed: set[str]) -> None:
    before, after = all_slices(load(BASE)), all_slices(load(merged(BASE, change)))
    assert {name for name in before if before[name] != after[name]} == changed


def test_slices_are_plain_whatever_the_order_of_the_keys() -> None:
    backwards = yaml.safe_load(yaml.safe_dump(BASE, sort_keys=True))
    for model in ("a", "b"):
        one = slices.pretrain(load(BASE), "demo", model)
        other = slices.pretrain(load(backwards), "demo", model)
        assert repr(one) == repr(other), "Snakemake compares the text of the settings"
    assert json.loads(json.dumps(all_slices(load(BASE)))) == all_slices(load(BASE))


def test_distances_follow_the_order_of_the_metrics() -> None:
    config = load({**BASE, "pretraining": {"distances": {"generalized": 0.5, "unweighted": 2}}})
    assert list(slices.distances(config, "demo", "a").items()) == [
        ("unweighted", 2.0),
        ("generalized", 0.5),
    ]
    off = load({**BASE, "pretraining": {"distances": {"generalized": 0, "unweighted": 2}}})
    assert list(slices.distances(off, "demo", "a")) == ["unweighted"]


def test_tasks_that_differ_in_their_training_share_their_folds_and_baselines() -> None:
    change = {"transform": "log_zscore", "bounds": [0, None], "finetuning": {"epochs": 9}}
    config = load(merged(BASE, {"tasks": {"age": change}}))
    assert slices.division(config, "age") == slices.division(config, "raw")
    assert slices.folds(config, "age") != slices.folds(config, "raw"), "numbers need logarithms"
    other = load(merged(BASE, {"tasks": {"age": {"where": {"site": "gut"}}}}))
    assert slices.division(other, "age") != slices.division(other, "raw")
