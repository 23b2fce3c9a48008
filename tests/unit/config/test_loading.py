"""The configuration: what is refused, in which words, and how overrides resolve."""

from typing import Any

import pytest

from aam.config.configuration import load, resolved
from aam.util.errors import InputError

DEMO: dict[str, Any] = {"datasets": {"demo": {"simulate": {}}}}
TASK = {"dataset": "demo", "column": "age", "kind": "regression", "folds": {"k": 5}}
ORDINAL = {"kind": "ordinal", "classes": ["a", "b"]}


def task(**changes: Any) -> dict[str, Any]:
    return {"tasks": {"age": TASK | changes}}


def tuned(**training: Any) -> dict[str, Any]:
    return task(finetuning=training)


def prediction(**changes: Any) -> dict[str, Any]:
    return {**task(), "predictions": {"new": {"simulated": "demo", "tasks": ["age"]} | changes}}


def message(**sections: Any) -> str:
    with pytest.raises(InputError) as caught:
        load({**DEMO, **sections})
    return str(caught.value)


@pytest.mark.parametrize(
    ("sections", "where", "near"),
    [
        ({"pretraning": {}}, "pretraning", "pretraining"),
        ({"rarefaction": {"deph": 10}}, "rarefaction.deph", "depth"),
        ({"models": {"a": {"widht": 8}}}, "models.a.widht", "width"),
        (task(folds={"k": 5, "group": "host"}), "tasks.age.folds.group", "groups"),
        ({"datasets": {"d": {"simulate": {"sample": 3}}}}, "datasets.d.simulate.sample", "samples"),
        (
            {"models": {"a": {"optimization": {"levels": "basic"}}}},
            "models.a.optimization.levels",
            "level",
        ),
    ],
)
def test_a_typo_gets_the_nearest_key(sections: dict[str, Any], where: str, near: str) -> None:
    text = message(**sections)
    assert f"configuration key {where}: got an unknown key" in text
    assert f"did you mean '{near}'?" in text


def test_all_mistakes_are_told_at_once() -> None:
    text = message(rarefaction={"depth": 0}, pretraining={"epochs": "many"}, unifrac={"x": 1})
    lines = text.splitlines()
    assert len(lines) == 3
    for key in ("rarefaction.depth", "unifrac.x", "pretraining.epochs"):
        assert sum(key in line for line in lines) == 1


def test_numbers_written_as_yaml_reads_them() -> None:
    config = load({**DEMO, "pretraining": {"learning_rate": "1e-4"}})
    assert config.pretraining.learning_rate == pytest.approx(1e-4)


def test_overrides_resolve_dataset_then_model() -> None:
    config = load(
        {
            "datasets": {"demo": {"simulate": {}, "pretraining": {"epochs": 5, "seed": 3}}},
            "pretraining": {"epochs": 2, "batch_size": 16},
            "models": {"long": {"pretraining": {"epochs": 9}}, "base": {}},
        }
    )
    for model, epochs in (("long", 9), ("base", 5)):
        section = resolved(config, "pretraining", dataset="demo", model=model)
        assert (section.epochs, section.seed, section.batch_size) == (epochs, 3, 16)
    assert config.pretraining.epochs == 2


@pytest.mark.parametrize("name", ["a b", "../up", "-x", "a.b", "", "a/b", "x\n"])
@pytest.mark.parametrize(
    ("key", "section"),
    [
        ("datasets", {"simulate": {}}),
        ("models", {}),
        ("tasks", TASK),
        ("predictions", {"simulated": "demo", "tasks": ["age"]}),
    ],
)
def test_names_that_cannot_be_folders_are_refused(key: str, section: Any, name: str) -> None:
    sections: dict[str, Any] = {**DEMO, **task()}
    text = message(**{**sections, key: {**sections.get(key, {}), name: section}})
    assert f"configuration key {key}: got the name {name!r}; expected letters" in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("name", ["a", "2024", "gut_v4-150bp", "Age"])
def test_plain_names_are_accepted(name: str) -> None:
    assert list(load({**DEMO, "models": {name: {}}}).models) == [name]


@pytest.mark.parametrize(
    ("sections", "where", "got"),
    [
        ({"rarefaction": None}, "rarefaction", "got None"),
        ({"models": {}}, "models", "at least 1"),
        ({"datasets": {"d": {}}}, "datasets.d", "`simulate` or `table`"),
        (
            {"datasets": {"d": {"simulate": {}, "table": "t"}}},
            "datasets.d",
            "`simulate` or `table`",
        ),
        (
            {"datasets": {"d": {"simulate": {}, "tree": "t.nwk", "metadata": "m.tsv"}}},
            "datasets.d",
            "got `tree`, `metadata` beside `simulate`",
        ),
        ({"benchmark": {"batch_sizes": []}}, "benchmark.batch_sizes", "at least 1"),
        ({"benchmark": {"batch_sizes": [8, 1]}}, "benchmark.batch_sizes.1", "got 1"),
        ({"unifrac": {"partitions": 0}}, "unifrac.partitions", "got 0"),
        ({"unifrac": {"partitions": "many"}}, "unifrac.partitions", "got 'many'"),
        ({"pretraining": {"learning_rate": float("inf")}}, "pretraining.learning_rate", "got inf"),
        ({"benchmark": {"seconds": float("nan")}}, "benchmark.seconds", "got nan"),
        (
            {"pretraining": {"distances": {"generalized": 1.0}}},
            "pretraining.distances",
            "'generalized'; expected one of unweighted. Hint: add the metric to unifrac.metrics",
        ),
        ({"pretraining": {"distances": {"unweighted": 0}}}, "pretraining.distances", "above 0"),
        ({"pretraining": {"distances": {}}}, "pretraining.distances", "got {}"),
        (
            {"models": {"a": {"pretraining": {"distances": {"unweighted": -1}}}}},
            "models.a.pretraining.distances.unweighted",
            "got -1",
        ),
        (task(dataset="oral"), "(root)", "'oral' is not one of demo"),
        *(
            (task(folds=folds), "tasks.age.folds", got)
            for folds, got in (
                ({}, "either `column` or `k`"),
                ({"k": 5, "column": "fold"}, "either `column` or `k`"),
                ({"column": "fold", "groups": "host"}, "`groups` and `stratified` go with `k`"),
                ({"k": 2, "test": 1}, "got 1"),
            )
        ),
        *(
            (task(**changes), "tasks.age", got)
            for changes, got in (
                ({"folds": {"k": 5, "stratified": True}}, "folds.stratified with kind regression"),
                (
                    {"kind": "classification", "column": ["a", "b"]},
                    "several columns with kind classification",
                ),
                ({"kind": "classification", "bounds": [0, 9]}, "`bounds` with kind classification"),
                ({"classes": ["a", "b"]}, "`classes`"),
                ({"kind": "ordinal"}, "`classes`"),
                ({"transform": "log", "transform_by": "sex"}, "`transform_by` goes with transform"),
                ({"bounds": [9, 0]}, "got bounds 9.0, 0.0"),
                ({"column": ["a", "a"]}, "a name twice"),
                ({"condition": ["sex", "age"]}, "got the target 'age' in `condition`"),
                (
                    {"column": ["bmi", "age"], "transform_by": "age"},
                    "got the target 'age' in `transform_by`",
                ),
            )
        ),
        (tuned(loss="hinge"), "tasks.age.finetuning.loss", "got 'hinge'"),
        (
            tuned(start="scratch", encoder="frozen"),
            "tasks.age.finetuning",
            "got start scratch with encoder frozen",
        ),
        ({"finetuning": {"start": "scratch", "inductive": True}}, "finetuning", "start scratch"),
        (
            {**task(), "finetuning": {"encoder": "frozen", "asv_dropout": 0.1}},
            "finetuning.asv_dropout (task age)",
            "got 0.1 with encoder frozen",
        ),
        (
            tuned(encoder="frozen", count_weight=2, fusion="attention"),
            "finetuning.count_weight (task age)",
            "got 2 with encoder frozen",
        ),
        (
            tuned(loss="cross_entropy"),
            "finetuning.loss (task age)",
            "got cross_entropy with kind regression; expected null or one of mae, huber",
        ),
        (
            {**task(**ORDINAL), "finetuning": {"loss": "mae"}},
            "finetuning.loss (task age)",
            "got mae with kind ordinal; expected null or one of cross_entropy",
        ),
        (
            tuned(encoder="partial", trained_layers=5),
            "finetuning.trained_layers (task age)",
            "got 5; expected at most 4, the sample_layers of model base",
        ),
        ({"finetuning": {"labels": 0}}, "finetuning.labels", "got 0"),
        (prediction(metadata="m.tsv"), "predictions.new", "`metadata` goes with `table`"),
        (prediction(tasks=["bmi"]), "(root)", "predictions.new.tasks: 'bmi' is not one of age"),
        (
            {
                **prediction(simulated="real"),
                "datasets": {**DEMO["datasets"], "real": {"table": "t"}},
            },
            "(root)",
            "predictions.new.simulated: 'real' is not one of demo",
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
    config = load({**DEMO, **task(condition=["sex"], finetuning=training)})
    assert resolved(config, "finetuning", task="age").asv_dropout == 0.1
