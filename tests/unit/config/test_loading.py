from copy import deepcopy
from typing import Any

import pytest
import yaml

from aam.batches.dataset import number_of_batches
from aam.config import result_paths, slices
from aam.config.configuration import load, resolved
from aam.config.messages import read_configuration
from aam.config.sections.training import Pretraining
from aam.util.errors import InputError

TASK = {"dataset": "demo", "column": "age", "kind": "regression", "folds": {"k": 5}}
CLASSES = {"kind": "classification"}


def with_key(key: str, value: Any) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "datasets": {"demo": {"simulate": {}}},
        "tasks": {"age": deepcopy(TASK)},
        "predictions": {"new": {"tasks": ["age"]}},
    }
    node = raw
    *folders, last = key.split(".")
    for part in folders:
        node = node.setdefault(part, {})
    node[last] = value
    return raw


def message(raw: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        load(raw)
    return str(caught.value)


def assert_one_line(raw: dict[str, Any], *parts: str) -> None:
    text = message(raw)
    assert all(part in text for part in (*parts, "Hint:")), text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("pretraning", "pretraining"),
        ("rarefaction.deph", "depth"),
        ("models.a.widht", "width"),
        ("tasks.age.folds.group", "groups"),
        ("datasets.demo.simulate.sample", "samples"),
        ("models.a.optimization.levels", "level"),
    ],
)
def test_a_typo_gets_the_nearest_key(key: str, near: str) -> None:
    text = message(with_key(key, 3))
    assert f"configuration key {key}: got an unknown key" in text
    assert f"did you mean '{near}'?" in text


@pytest.mark.parametrize("where", ["finetuning", "tasks.age.finetuning"])
@pytest.mark.parametrize(
    ("key", "value", "name"), [("encoder", "full", "recipe"), ("models", 3, "networks")]
)
def test_a_key_of_an_earlier_version_gets_its_new_name_alone(
    where: str, key: str, value: Any, name: str
) -> None:
    assert message(with_key(where, {key: value, "epochs": 20})) == (
        f"configuration key {where}.{key}: got the name that it had in an earlier version; "
        f"expected `{name}`. Hint: write {name}: {value!r}"
    )


@pytest.mark.parametrize(
    ("key", "value", "expected", "hint"),
    [
        ("tasks.age.folds", 5, "keys of a section: column, k, groups", "write folds: {k: 5}"),
        ("datasets.demo", "x.biom", "keys of a section: simulate", "write demo: {table: 'x.biom'}"),
        ("models.base", "v4", "keys of a section: encoder", "write base: {start: 'v4'}"),
        ("finetuning", True, "keys of a section: optimizer", "see config/README.md"),
        ("tasks", ["age"], "names, each with a section of its own", "write tasks: {name: {…}}"),
        ("tasks.age.finetuning", 5, "keys of the section `finetuning`", "see config/README.md"),
    ],
)
def test_a_value_in_the_place_of_a_section_is_told_as_one(
    key: str, value: Any, expected: str, hint: str
) -> None:
    assert_one_line(
        with_key(key, value),
        f"configuration key {key}: got {value!r}; expected {expected}",
        f"Hint: {hint}",
    )


def test_all_mistakes_are_told_at_once() -> None:
    raw = with_key("rarefaction.depth", 0) | {"pretraining": {"epochs": "many"}}
    lines = message(raw | {"unifrac": {"x": 1}}).splitlines()
    assert len(lines) == 3
    keys = ("rarefaction.depth", "unifrac.x", "pretraining.epochs")
    assert [sum(key in line for line in lines) for key in keys] == [1, 1, 1]


def test_numbers_written_as_yaml_reads_them() -> None:
    config = load(with_key("pretraining.learning_rate", "1e-4"))
    assert config.pretraining.learning_rate == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{site: [1, 2.0, 01x]}", {"site": ["1", "2.0", "01x"]}),
        ("{site: 3}", {"site": "3"}),
        ("{2019: [2019-05-01]}", {"2019": ["2019-05-01"]}),
        ("{site: 'yes'}", {"site": "yes"}),
    ],
)
def test_values_that_yaml_reads_as_numbers_and_dates_are_the_text_of_the_metadata(text, where):
    raw = with_key("tasks.age.where", yaml.safe_load(text))
    assert load(raw).tasks["age"].where == where
    ordinal = TASK | {"kind": "ordinal", "classes": [0, 1], "column": 2019, "report_by": [3]}
    task = load(with_key("tasks.age", ordinal)).tasks["age"]
    assert (task.classes, task.column, task.report_by) == (["0", "1"], "2019", ["3"])


@pytest.mark.parametrize(
    ("key", "text", "got"),
    [
        ("where", "{smoker: yes}", "got True, as YAML reads yes, on and true without quotes"),
        ("where", "{smoker: [no, maybe]}", "got False, as YAML reads no, off and false without"),
        ("where", "{yes: a}", "got True"),
        ("where", "{site: [~]}", "got nothing, as YAML reads null"),
        ("where", "{site: 2019-05-01 12:00:00}", "got 2019-05-01 12:00:00, which YAML read as a"),
        ("column", "yes", "got True"),
        ("report_by", "[on]", "got True"),
    ],
)
def test_words_that_yaml_reads_as_something_else_are_told_to_be_quoted(key, text, got):
    raw = with_key(f"tasks.age.{key}", yaml.safe_load(text))
    assert_one_line(raw, f"configuration key tasks.age.{key}: {got}", "write it in quotes")


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


@pytest.mark.parametrize("name", ["a b", "../up", "-x", "", "a/b", "x\n", "x" * 256])
@pytest.mark.parametrize("key", ["datasets", "models", "tasks", "predictions"])
def test_names_that_cannot_be_folders_are_refused(key: str, name: str) -> None:
    raw = with_key("models.base", {})
    raw[key][name] = next(iter(raw[key].values()))
    assert_one_line(raw, f"configuration key {key}: got the name {name!r}; expected letters")


@pytest.mark.parametrize("name", ["first", "random_forest"])
def test_a_model_has_no_name_of_another_method(name: str) -> None:
    raw = with_key(f"models.{name}", {})
    assert_one_line(raw, f"models.{name}: got the name of", "rename")


@pytest.mark.parametrize("name", ["a", "2024", "gut_v4-150bp", "Age"])
def test_plain_names_are_accepted(name: str) -> None:
    assert list(load(with_key(f"models.{name}", {})).models) == [name]


FROZEN = {"recipe": "frozen"}


@pytest.mark.parametrize(
    ("key", "value", "got"),
    [
        ("rarefaction", None, "got None"),
        ("rarefaction.views", 10**9, "expected less than or equal to 1000"),
        ("rarefaction.depth", 10**8, "expected less than or equal to 10000000"),
        ("models.base.asv_layers", 1_000_000, "expected less than or equal to 1000"),
        *(("results_dir", name, f"got {name!r}") for name in ("", "~/results", "{x}")),
        ("datasets.d", {}, "`simulate` or `table`"),
        ("datasets.d", {"simulate": {}, "table": "t"}, "`simulate` or `table`"),
        ("datasets.d", {"simulate": {}, "tree": "t"}, "got `tree` with `simulate`"),
        ("datasets.d", {"table": "t", "root": "min_variance"}, "midpoint-root"),
        ("datasets.d.table", "{dataset}.biom", "got '{dataset}.biom'"),
        ("benchmark.batch_sizes", [], "at least 1"),
        ("benchmark.batch_sizes", [8, 1], "got 1"),
        ("benchmark.seconds", float("nan"), "got nan"),
        ("unifrac.partitions", 0, "got 0"),
        ("unifrac.partitions", "many", "got 'many'"),
        ("pretraining.batch_size", 1, "got 1; expected 'auto' or a whole number of at least 2"),
        ("models.base.pretraining.batch_size", "all", "got 'all'; expected 'auto' or"),
        ("finetuning.batch_size", "auto", "got 'auto'; expected a valid integer"),
        ("pretraining.learning_rate", float("inf"), "got inf"),
        ("pretraining.distances", {"generalized": 1.0}, "unweighted. Hint: add the metric to unif"),
        ("pretraining.distances", {"unweighted": 0}, "above 0"),
        ("pretraining.distances", {}, "got {}"),
        ("models.a.pretraining.distances", {"unweighted": -1}, "got -1"),
        ("tasks.age.folds", {}, "either `column` or `k`"),
        ("tasks.age.folds", {"k": 5, "column": "fold"}, "either `column` or `k`"),
        ("tasks.age.folds", {"column": "fold", "stratified": True}, "`stratified` goes with `k`"),
        *(
            ("tasks.age.folds", {"k": 5, "groups": value}, "column, false (every")
            for value in (True, 0, "", ["host"])
        ),
        ("tasks.age.folds", {"k": 2, "test": 1}, "got 1"),
        *(
            ("tasks.age", TASK | changes, got)
            for changes, got in (
                ({"folds": {"k": 5, "stratified": True}}, "folds.stratified with kind regression"),
                (CLASSES | {"column": ["a", "b"]}, "several columns with kind classification"),
                (CLASSES | {"bounds": [0, 9]}, "`bounds` with kind classification"),
                ({"classes": ["a", "b"]}, "`classes`"),
                ({"kind": "ordinal"}, "`classes`"),
                ({"transform": "log", "transform_by": "sex"}, "`transform_by` goes with transform"),
                ({"bounds": [9, 0]}, "got bounds 9.0, 0.0"),
                ({"column": ["a", "a"]}, "a name twice"),
                ({"baselines": ["kernel_clr", "kernel_clr"]}, "a name twice"),
                ({"condition": ["sex", "age"]}, "got the target 'age' in `condition`"),
                ({"covariates": ["sex", "age"]}, "got the target 'age' in `covariates`"),
                ({"covariates": ["sex", "sex"]}, "a name twice"),
                *(
                    ({"covariates": ["sex"], key: value}, f"`covariates` with `{key}")
                    for key, value in (
                        ("condition", ["host"]),
                        ("transform_by", "host"),
                        ("baselines", []),
                    )
                ),
                (
                    {"kind": "ordinal", "classes": [True]},
                    "got True, as YAML reads yes, on and true",
                ),
                ({"transform_by": "age"}, "got the target 'age' in `transform_by`"),
            )
        ),
        ("tasks.age.finetuning", FROZEN | {"start": "scratch"}, "start scratch with recipe froz"),
        ("finetuning", {"start": "scratch", "inductive": True}, "start scratch"),
        ("finetuning.labels", 0, "got 0"),
        ("tasks.age.finetuning.loss", "hinge", "got 'hinge'"),
        ("predictions.new.metadata", "m.tsv", "`metadata` goes with `table`"),
    ],
)
def test_values_that_no_stage_can_use(key: str, value: Any, got: str) -> None:
    where = "predictions.new" if key.startswith("predictions") else key
    assert_one_line(with_key(key, value), f"configuration key {where}", got)


@pytest.mark.parametrize(
    ("tuning", "key", "got"),
    [
        (FROZEN | {"asv_dropout": 0.1}, "asv_dropout", "got 0.1 with recipe frozen"),
        ({"loss": "cross_entropy"}, "loss", "got cross_entropy with kind regression; expected nu"),
        ({"epochs": 9}, "epochs", "got 9 with recipe auto, which sets it"),
        ({"recipe": "kernel", "loss": "mse"}, "recipe", "got kernel with loss mse"),
        ({"recipe": "kernel", "asv_dropout": 0.1}, "recipe", "got kernel with asv_dropout 0.1"),
        ({"recipe": "partial", "trained_layers": 5}, "trained_layers", "expected at most 4, the"),
    ],
)
def test_a_training_that_does_not_fit(tuning: dict[str, Any], key: str, got: str) -> None:
    raw = with_key("tasks.age.finetuning", tuning)
    assert_one_line(raw, "configuration key ", f"finetuning.{key} (task age)", got)


def test_what_a_task_may_choose_beside_settings_of_others_and_of_its_own() -> None:
    raw = with_key("tasks.age.finetuning", {"recipe": "auto"})
    raw["finetuning"] = {"recipe": "full", "epochs": 20}
    assert resolved(load(raw), "finetuning", task="age").recipe == "auto"


def test_the_losses_of_a_kind_are_named() -> None:
    ordinal = TASK | {"kind": "ordinal", "classes": ["a", "b"], "finetuning": {"loss": "mae"}}
    got = "got mae with kind ordinal; expected null or one of cross_entropy"
    assert_one_line(with_key("tasks.age", ordinal), got)


@pytest.mark.parametrize(
    ("key", "name", "got"),
    [
        ("tasks.age.dataset", "oral", "tasks.age.dataset: 'oral' is not one of demo"),
        ("predictions.new.tasks", ["sex"], "predictions.new.tasks: 'sex' is not one of age"),
        ("tasks.age.dataset", "real", "predictions.new: got no `table`; expected one, unless"),
        ("predictions.new.tasks", ["age", "bmi"], "one simulated dataset, whose newcomers"),
    ],
)
def test_names_that_lead_nowhere(key: str, name: Any, got: str) -> None:
    raw = with_key(key, name)
    raw["datasets"] |= {"real": {"table": "t"}, "other": {"simulate": {}}}
    raw["tasks"]["bmi"] = TASK | {"dataset": "other"}
    assert_one_line(raw, "configuration key (root)", got)


@pytest.mark.parametrize(
    ("epochs", "samples", "passes"),
    [(None, 28, 200), (None, 180, 67), (None, 2000, 12), (0, 28, 0), (4, 28, 4)],
)
def test_a_small_study_is_passed_over_more_often_unless_a_number_is_given(epochs, samples, passes):
    settings = Pretraining(epochs=epochs)
    assert settings.passes(number_of_batches(samples, settings.batch_size)) == passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks:\n  a: {kind: x}\n  b: {}\n  a: {}\n", r"section from line 2 on: 'a'"),
        ("x: 1\ny: [{k: 1, k: 2}]\nx: 2\n", r"line 1 on: 'x'"),
        ("base: &b {k: 1}\nx: {<<: *b, k: 2}\ny: *b\n", None),
    ],
)
def test_a_key_that_occurs_twice_is_named(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    if message is None:
        read_configuration(path)
        return
    with pytest.raises(InputError, match=message):
        read_configuration(path)


@pytest.mark.parametrize(
    ("value", "read_as"), [("010", "8"), ("0500", "320"), ("1:30", "90"), ("-01", "-1")]
)
def test_numbers_that_yaml_reads_in_another_base_are_refused(tmp_path, value, read_as):
    path = tmp_path / "mine.yaml"
    path.write_text(f"x: {{where: [{value}]}}\n")
    refused = f"mine.yaml, line 1: got the value {value}, which YAML reads as {read_as};"
    with pytest.raises(InputError, match=refused):
        read_configuration(path)
    # As text, and as other numbers, it is what it looks like.
    path.write_text(f"x: ['{value}', 10, 0, 0.5, 01.5, -1e-3, 2014-02-07]\n")
    read_configuration(path)


@pytest.mark.parametrize("key", ["rarefaction.depth", "pretraining.seed", "runtime.threads"])
@pytest.mark.parametrize("value", [True, False])
def test_truth_values_are_no_numbers(key, value):
    assert_one_line(with_key(key, value), f"configuration key {key}", "expected a number")


def test_names_that_differ_in_case_alone_are_refused():
    """On a disk that ignores case they would share their results."""
    raw = with_key("tasks.Age", deepcopy(TASK))
    assert_one_line(raw, "configuration key tasks", "'age' and 'Age'")


def test_names_of_metadata_have_composed_letters():
    """A name that was copied from a file of macOS has an accent of its own."""
    task = load(with_key("tasks.age", {**TASK, "column": "e\u0301tat", "where": {"e\u0301": "a"}}))
    found = task.tasks["age"]
    assert (found.columns, found.where) == (["\xe9tat"], {"\xe9": "a"})


def test_features_are_left_out_by_a_tree_alone() -> None:
    raw = with_key("rarefaction.long_branches", "drop")
    load(raw)
    raw["models"] = {}
    (dataset,) = raw["datasets"].values()
    dataset["tree"] = False
    assert_one_line(raw, "rarefaction.long_branches", "tree: false", "long_branches: keep")


def test_without_models_baselines_predict_other_tables() -> None:
    raw = with_key("models", {})
    config = load(raw)
    assert config.models == {}
    assert list(result_paths.predictions(config, "age")) == ["predict/first/{task}/{table}.tsv"]
    raw["tasks"]["age"]["baselines"] = []
    assert_one_line(raw, "configuration key predictions.new.tasks: got age, without baselines")
    assert len(result_paths.predictions(load({**raw, "models": {"base": {}}}), "age")) == 1


def test_a_further_question_is_a_task_that_nobody_can_write() -> None:
    config = load(with_key("tasks.age.studies", 7))
    assert list(config.tasks) == ["age", "age@studies"]
    asked = config.tasks["age@studies"]
    assert asked.folds.column == "7", "as the metadata have it"
    assert asked.folds.groups is None
    assert not asked.importance
    assert "age@studies" in message(with_key("tasks.age@studies", TASK))
    raw = with_key("tasks.age.studies", "study")
    raw["predictions"]["new"]["tasks"] = ["age@studies"]
    assert "'age@studies' is not one of age" in message(raw)


def test_times_ask_of_whom_samples_are() -> None:
    raw = with_key("tasks.age.time", "day")
    assert_one_line(raw, "`time: day` without folds.groups", "folds: {k: 5, groups: <column>}")
    raw["tasks"]["age"]["folds"] = {"k": 5, "groups": "host"}
    config = load(raw)
    assert slices.folds(config, "age").time == "day"
    assert slices.score(config, "age", "first").time == "day"
    assert list(config.tasks) == ["age"]


def test_a_forecast_is_a_task_of_its_own() -> None:
    raw = with_key("tasks.age.forecast", 365)
    raw["tasks"]["age"]["folds"] = {"k": 5, "groups": "host", "test": 0.2}
    assert_one_line(raw, "`forecast: 365` without `time`", "time: <column>")
    raw["tasks"]["age"]["time"] = "day"
    config = load(raw)
    assert list(config.tasks) == ["age", "age@forecast"]
    asked = config.tasks["age@forecast"]
    assert asked.folds.groups == "host"
    assert asked.folds.test == 0.0, "a fraction leaves nobody out of a forecast"
    assert slices.folds(config, "age@forecast").forecast == "365"
    assert slices.folds(config, "age").forecast is None
    assert slices.score(config, "age@forecast", "first").question == "forecast"


@pytest.mark.parametrize(
    ("key", "value", "parts"),
    [
        ("studies", "age", ["target 'age' in `studies`"]),
        ("folds", {"column": "study"}, ["'study' in `studies` and in `folds.column`", "folds.k"]),
        ("folds", {"k": 5, "test": {}}, ["one metadata column", "{split: test}"]),
        ("folds", {"k": 5, "test": {"a": "x", "b": "y"}}, ["one metadata column"]),
        ("folds", {"k": 5, "test": 1.5}, ["got 1.5", "below 1"]),
        ("folds", {"k": 5, "test": {"split": True}}, ["write it in quotes"]),
    ],
)
def test_questions_and_test_sets_that_say_nothing_are_refused(
    key: str, value: Any, parts: list[str]
) -> None:
    raw = with_key("tasks.age.studies", "study")
    raw["tasks"]["age"][key] = value
    assert_one_line(raw, *parts)
