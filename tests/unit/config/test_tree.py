"""The configuration: what is refused, in which words, and how overrides resolve."""

from typing import Any

import pytest

from aam.config.configuration import load, resolved
from aam.util.errors import InputError

DEMO: dict[str, Any] = {"datasets": {"demo": {"simulate": {}}}}
TASK = {"dataset": "demo", "column": "age", "kind": "regression", "folds": {"k": 5}}


def message(**sections: Any) -> str:
    with pytest.raises(InputError) as caught:
        load({**DEMO, **sections})
    return str(caught.value)


@pytest.mark.parametrize(
    ("sections", "where", "hint"),
    [
        ({"pretraning": {}}, "pretraning", "did you mean 'pretraining'?"),
        ({"rarefaction": {"deph": 10}}, "rarefaction.deph", "did you mean 'depth'?"),
        ({"models": {"a": {"widht": 8}}}, "models.a.widht", "did you mean 'width'?"),
        (
            {"tasks": {"age": TASK | {"folds": {"k": 5, "group": "host"}}}},
            "tasks.age.folds.group",
            "did you mean 'groups'?",
        ),
        (
            {"datasets": {"d": {"simulate": {"sample": 30}}}},
            "datasets.d.simulate.sample",
            "did you mean 'samples'?",
        ),
        (
            {"models": {"a": {"optimization": {"levels": "basic"}}}},
            "models.a.optimization.levels",
            "did you mean 'level'?",
        ),
        (
            {"models": {"a": {"pretraining": {"epoch": 3}}}},
            "models.a.pretraining.epoch",
            "did you mean 'epochs'?",
        ),
    ],
)
def test_typo_gets_the_nearest_key(sections: dict[str, Any], where: str, hint: str) -> None:
    text = message(**sections)
    assert f"configuration key {where}:" in text
    assert hint in text


def test_all_mistakes_are_told_at_once() -> None:
    text = message(rarefaction={"depth": 0}, pretraining={"epochs": "many"}, unifrac={"x": 1})
    assert "rarefaction.depth" in text
    assert "pretraining.epochs" in text
    assert "unifrac.x" in text
    assert len(text.splitlines()) == 3


def test_numbers_written_as_yaml_reads_them() -> None:
    config = load({**DEMO, "pretraining": {"learning_rate": "1e-4"}})
    assert config.pretraining.learning_rate == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ({}, "`simulate` or `table`"),
        ({"simulate": {}, "table": "t.biom"}, "`simulate` or `table`"),
    ],
)
def test_dataset_has_one_source(dataset: dict[str, Any], words: str) -> None:
    assert words in message(datasets={"d": dataset})


@pytest.mark.parametrize(
    "folds", [{}, {"k": 5, "column": "fold"}, {"column": "fold", "groups": "host"}]
)
def test_folds_are_named_or_drawn(folds: dict[str, Any]) -> None:
    assert "tasks.age.folds" in message(tasks={"age": TASK | {"folds": folds}})


def test_names_must_exist() -> None:
    assert "'oral' is not one of demo" in message(tasks={"age": TASK | {"dataset": "oral"}})
    assert "'age' is not one of none" in message(
        predictions={"new": {"simulated": "demo", "tasks": ["age"]}}
    )


def test_unknown_metric_of_pretraining() -> None:
    text = message(pretraining={"distances": {"generalized": 1.0}})
    assert "'generalized'" in text
    assert "unifrac.metrics" in text


def test_overrides_resolve_dataset_then_model() -> None:
    config = load(
        {
            "datasets": {"demo": {"simulate": {}, "pretraining": {"epochs": 5, "seed": 3}}},
            "pretraining": {"epochs": 2, "batch_size": 16},
            "models": {"long": {"pretraining": {"epochs": 9}}, "base": {}},
        }
    )
    long = resolved(config, "pretraining", dataset="demo", model="long")
    base = resolved(config, "pretraining", dataset="demo", model="base")
    assert (long.epochs, long.seed, long.batch_size) == (9, 3, 16)
    assert (base.epochs, base.seed, base.batch_size) == (5, 3, 16)
    assert config.pretraining.epochs == 2


def test_a_null_section_is_a_mistake_not_a_default() -> None:
    assert "configuration key rarefaction:" in message(rarefaction=None)


@pytest.mark.parametrize("name", ["a b", "../up", "-x", "a.b", "", "a/b", "x\n"])
@pytest.mark.parametrize("key", ["datasets", "models", "tasks", "predictions"])
def test_names_that_cannot_be_folders_are_refused(key: str, name: str) -> None:
    sections: dict[str, Any] = {
        "datasets": {"demo": {"simulate": {}}},
        "models": {},
        "tasks": {"age": TASK},
        "predictions": {},
    }
    made = {
        "datasets": {"simulate": {}},
        "models": {},
        "tasks": TASK,
        "predictions": {"simulated": "demo", "tasks": ["age"]},
    }
    sections[key][name] = made[key]
    if not sections["models"]:
        del sections["models"]
    text = message(**sections)
    assert f"configuration key {key}: got the name {name!r}; expected letters" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("name", ["a", "2024", "gut_v4-150bp", "Age"])
def test_plain_names_are_accepted(name: str) -> None:
    assert list(load({**DEMO, "models": {name: {}}}).models) == [name]


def test_a_prediction_of_newcomers_needs_a_simulated_dataset() -> None:
    text = message(
        datasets={"demo": {"simulate": {}}, "real": {"table": "t.biom"}},
        tasks={"age": TASK},
        predictions={"new": {"simulated": "real", "tasks": ["age"]}},
    )
    assert "predictions.new.simulated: 'real' is not one of demo" in text


@pytest.mark.parametrize(
    ("sections", "where", "got"),
    [
        ({"models": {}}, "models", "at least 1"),
        ({"benchmark": {"batch_sizes": []}}, "benchmark.batch_sizes", "at least 1"),
        ({"benchmark": {"batch_sizes": [8, 1]}}, "benchmark.batch_sizes.1", "got 1"),
        ({"unifrac": {"partitions": 0}}, "unifrac.partitions", "got 0"),
        ({"unifrac": {"partitions": "many"}}, "unifrac.partitions", "got 'many'"),
        ({"pretraining": {"learning_rate": float("inf")}}, "pretraining.learning_rate", "got inf"),
        ({"runtime": {"log_every_s": float("nan")}}, "runtime.log_every_s", "got nan"),
        (
            {"pretraining": {"distances": {"unweighted": -1}}},
            "pretraining.distances.unweighted",
            "got -1",
        ),
        ({"pretraining": {"distances": {"unweighted": 0}}}, "pretraining.distances", "above 0"),
        ({"pretraining": {"distances": {}}}, "pretraining.distances", "got {}"),
        (
            {"models": {"a": {"pretraining": {"distances": {"unweighted": float("inf")}}}}},
            "models.a.pretraining.distances.unweighted",
            "got inf",
        ),
        (
            {"tasks": {"age": TASK | {"folds": {"k": 5, "stratified": True}}}},
            "tasks.age",
            "folds.stratified with kind regression",
        ),
        (
            {"tasks": {"age": TASK | {"kind": "classification", "column": ["a", "b"]}}},
            "tasks.age",
            "several columns with kind classification",
        ),
        (
            {"tasks": {"age": TASK | {"kind": "classification", "bounds": [0, 9]}}},
            "tasks.age",
            "`bounds` with kind classification",
        ),
        ({"tasks": {"age": TASK | {"classes": ["a", "b"]}}}, "tasks.age", "`classes`"),
        ({"tasks": {"age": TASK | {"kind": "ordinal"}}}, "tasks.age", "`classes`"),
        (
            {"tasks": {"age": TASK | {"transform": "log", "transform_by": "sex"}}},
            "tasks.age",
            "`transform_by` goes with transform zscore",
        ),
        ({"tasks": {"age": TASK | {"bounds": [9, 0]}}}, "tasks.age", "got bounds 9.0, 0.0"),
        ({"tasks": {"age": TASK | {"column": ["a", "a"]}}}, "tasks.age", "a name twice"),
        (
            {"tasks": {"age": TASK | {"folds": {"k": 2, "test": 1}}}},
            "tasks.age.folds.test",
            "got 1",
        ),
        (
            {"tasks": {"age": TASK | {"finetuning": {"loss": "hinge"}}}},
            "tasks.age.finetuning.loss",
            "got 'hinge'",
        ),
        (
            {"tasks": {"age": TASK | {"finetuning": {"start": "scratch", "encoder": "frozen"}}}},
            "tasks.age.finetuning",
            "got start scratch with encoder frozen",
        ),
        (
            {"finetuning": {"start": "scratch", "inductive": True}},
            "finetuning",
            "got start scratch",
        ),
        (
            {"tasks": {"age": TASK}, "finetuning": {"encoder": "frozen", "asv_dropout": 0.1}},
            "finetuning.asv_dropout (task age)",
            "got 0.1 with encoder frozen",
        ),
        (
            {
                "tasks": {"age": TASK},
                "finetuning": {"encoder": "frozen", "count_weight": 2, "fusion": "attention"},
            },
            "finetuning.count_weight (task age)",
            "got 2 with encoder frozen",
        ),
        (
            {"tasks": {"age": TASK | {"finetuning": {"loss": "cross_entropy"}}}},
            "finetuning.loss (task age)",
            "got cross_entropy with kind regression; expected null or one of mae, huber",
        ),
        (
            {
                "finetuning": {"loss": "mae"},
                "tasks": {"age": TASK | {"kind": "ordinal", "classes": ["a", "b"]}},
            },
            "finetuning.loss (task age)",
            "got mae with kind ordinal; expected null or one of cross_entropy",
        ),
        (
            {"tasks": {"age": TASK | {"condition": ["sex", "age"]}}},
            "tasks.age",
            "got the target 'age' in `condition`",
        ),
        (
            {"tasks": {"age": TASK | {"column": ["bmi", "age"], "transform_by": "age"}}},
            "tasks.age",
            "got the target 'age' in `transform_by`",
        ),
        ({"finetuning": {"models": 0}}, "finetuning.models", "got 0"),
        (
            {"runtime": {"devices": 2, "max_memory_gb": 2}},
            "runtime",
            "got max_memory_gb 2 with several processes; expected null",
        ),
        (
            {"tasks": {"age": TASK | {"finetuning": {"encoder": "partial", "trained_layers": 5}}}},
            "finetuning.trained_layers (task age)",
            "got 5; expected at most 4, the sample_layers of model base",
        ),
        ({"finetuning": {"labels": 0}}, "finetuning.labels", "got 0"),
        (
            {
                "datasets": {"demo": {"simulate": {}}},
                "tasks": {"age": TASK},
                "predictions": {
                    "new": {"simulated": "demo", "metadata": "m.tsv", "tasks": ["age"]}
                },
            },
            "predictions.new",
            "`metadata` goes with `table`",
        ),
        (
            {"datasets": {"d": {"simulate": {}, "tree": "t.nwk", "metadata": "m.tsv"}}},
            "datasets.d",
            "got `tree`, `metadata` beside `simulate`",
        ),
    ],
)
def test_values_that_no_stage_can_use(sections: dict[str, Any], where: str, got: str) -> None:
    text = message(**sections)
    assert f"configuration key {where}" in text
    assert got in text
    assert "Hint:" in text
    assert len(text.splitlines()) == 1


def test_a_frozen_encoder_may_hide_asvs_where_the_head_looks_at_them() -> None:
    training = {"encoder": "frozen", "asv_dropout": 0.1, "fusion": "attention"}
    told = TASK | {"condition": ["sex"], "finetuning": training}
    config = load({**DEMO, "tasks": {"age": told}})
    assert resolved(config, "finetuning", task="age").asv_dropout == 0.1
