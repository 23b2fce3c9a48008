"""Rules and profiles: what Snakemake compares, what stays beside results, what jobs ask for."""

import ast
import inspect
import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from aam.config import slices
from aam.config.configuration import load
from aam.config.figures import PLOTS, Plot

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOW = REPOSITORY / "workflow"
RULE = re.compile(r"^rule (\w+):\n((?:    .*\n|\n)+)", re.MULTILINE)
DIRECTIVE = re.compile(r"^    (\w+):(.*)\n((?:        .*\n|\n)*)", re.MULTILINE)
TARGETS = {"all", "first", "bench", "data", "pretraining", "finetuning"}
COMPUTING = {
    *("pretrain", "pretrain_inductive", "finetune", "predict", "predict_networks", "explain"),
    "benchmark_speed",
}
"""Rules that ask for a GPU."""
STAGES = ("aam.stages.", "benchmarks.speed.ablation")
"""Modules that hold the function of a rule."""


def directives(body: str) -> dict[str, str]:
    return {name: (rest + block).strip() for name, rest, block in DIRECTIVE.findall(body)}


FILES = [WORKFLOW / "Snakefile", *sorted((WORKFLOW / "rules").glob("*.smk"))]
RULES = {
    name: directives(body)
    for path in FILES
    for name, body in RULE.findall(path.read_text(encoding="utf-8"))
}
SCRIPTS = [path for path in sorted((WORKFLOW / "scripts").glob("*.py")) if path.stem != "stage_job"]
IMPORTED = {
    name.split(".")[0]
    for path in (REPOSITORY / "aam").rglob("*.py")
    for name in re.findall(r"^\s*(?:import|from) ([\w.]+)", path.read_text("utf-8"), re.MULTILINE)
}
"""What the package imports: Snakemake puts the folder of scripts on the path."""
WORKING = sorted(RULES.keys() - TARGETS)
PROFILE = yaml.safe_load((REPOSITORY / "profiles" / "slurm" / "profile.yaml").read_text())


def names(block: str) -> list[str]:
    """Return the names of a directive's own entries, None for an entry without a name."""
    return re.findall(r"^(?:        )?(\w+)=", block, re.MULTILINE)


def number(rule: str, key: str) -> int:
    """Return a resource of a rule, where it is a plain number; 0: it has none."""
    found = re.search(rf"^ *{key}=(\d+),", RULES[rule]["resources"], re.MULTILINE)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("rule", WORKING)
def test_params_are_settings_code_and_paths(rule: str) -> None:
    params = RULES[rule]["params"]
    assert names(params)[:2] == ["settings", "code"]
    # Files of the user are followed by content: their times may be older than what they replace.
    of_user = (
        re.search(
            r"(source|prediction|pretraining)_files|files_of_counts", RULES[rule].get("input", "")
        )
        is not None
    )
    assert ("content" in names(params)) == of_user
    assert set(names(params)) <= {"settings", "code", "content", "work"}
    assert "work=" not in params or re.search(r'work=result\("', params)
    digested = re.search(r'code=script_digest\("(\w+)"\)', params)
    assert digested is not None
    assert RULES[rule]["script"].strip('",\n ') == f"../scripts/{digested[1]}.py"


@pytest.mark.parametrize("rule", WORKING)
def test_directives(rule: str) -> None:
    found = RULES[rule]
    needed = {"output", "log", "threads", "resources", "params", "message", "conda", "script"}
    assert needed <= found.keys()
    assert ("benchmark" in found) != ("cache" in found), "Snakemake allows one of them"
    assert {"mem_mb", "runtime"} <= set(names(found["resources"]))
    assert "retries" not in found, "a rule's retries multiply inside SLURM jobs"
    gpu = re.search(r"gpu=(gpus,|lambda wildcards: gpus\()", found["resources"]) is not None
    assert gpu == (rule in COMPUTING)
    cores = "1", "all_cores", "unifrac_threads", "CONFIG.runtime.threads"
    assert found["threads"].strip() in cores, "a number would let no configuration lower it"


@pytest.mark.parametrize("rule", WORKING)
def test_outputs_have_names_and_are_those_that_the_script_hands_on(rule: str) -> None:
    block = RULES[rule]["output"]
    entries = re.findall(r"^(?:        )?[^\s)\]}].*", block, re.MULTILINE)
    assert len(names(block)) == len(entries)
    script = WORKFLOW / "rules" / RULES[rule]["script"].strip('",\n ')
    written = set(re.findall(r'outputs\["(\w+)"\]', script.read_text(encoding="utf-8")))
    assert written == set(names(block))


def calls(tree: ast.AST, function: str) -> list[ast.Call]:
    """Return the calls of a function by its name."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [node for node in found if ast.unparse(node.func) == function]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_calls_one_function_of_a_stage_with_arguments_that_it_has(script: Path) -> None:
    tree = ast.parse(script.read_text(encoding="utf-8"))
    assert script.stem not in IMPORTED | sys.stdlib_module_names, "it would be imported instead"
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imports[0].module == "stage_job", "the package of the checkout goes first"
    (stage,) = [node for node in imports if (node.module or "").startswith(STAGES)]
    function = getattr(import_module(str(stage.module)), stage.names[0].name)
    (call,) = calls(tree, stage.names[0].name)
    given = {keyword.arg: None for keyword in call.keywords}
    assert given.keys() == inspect.signature(function).parameters.keys()


@pytest.mark.parametrize("rule", WORKING)
def test_a_script_reads_the_settings_that_its_rule_gives(rule: str) -> None:
    script = WORKFLOW / "rules" / RULES[rule]["script"].strip('",\n ')
    tree = ast.parse(script.read_text(encoding="utf-8"))
    (call,) = calls(tree, "run_job")
    read_as = [ast.unparse(argument) for argument in call.args[1:]]
    slicing = re.search(r"slices\.(\w+)\(.*\)\.plain\(\)", RULES[rule]["params"], re.DOTALL)
    assert (slicing is not None) == bool(read_as), "plain settings and no model, or both"
    if slicing is None:
        return
    model = inspect.signature(getattr(slices, slicing[1])).return_annotation
    (imported,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and read_as == [alias.name for alias in node.names]
    ]
    assert getattr(import_module(str(imported.module)), read_as[0]) is model
    taken = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "job.settings"
    } - {"plain"}
    passes_whole = any(
        ast.unparse(keyword.value) == "job.settings"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
    )
    assert taken == (set() if passes_whole else model.model_fields.keys())


@pytest.mark.parametrize("rule", WORKING)
def test_records_of_two_jobs_never_share_a_file(rule: str) -> None:
    for kind in {"log", "benchmark"} & RULES[rule].keys():
        path = re.search(r'result\("(.*)"\)|result\("(.*)", dataset="\w+"\)', RULES[rule][kind])
        assert path is not None
        parts = (path[1] or path[2]).split("/")
        assert parts[1].split(".")[0] == rule, "another rule could write the same file"
        assert all(part.count("{") <= 1 for part in parts), "a_b + c reads like a + b_c"


@pytest.mark.parametrize("rule", ["predict_networks", "explain"])
def test_digests_stand_for_a_model_directory(rule: str) -> None:
    """A directory has no checksum, and predictions alone say nothing of the settings."""
    found = RULES[rule]["input"]
    assert re.search(r'model=ancient\(result\("finetune/\{model\}/\{task\}/model"\)\)', found)
    assert 'digests=result("finetune/{model}/{task}/digests.json")' in found
    assert "networks.tsv" not in found
    assert "digests.json" in RULES["finetune"]["output"]


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS.keys())
def test_figures_are_drawn_by_functions_of_their_inputs(plot: Plot) -> None:
    """The rules of figures are made from this table: see `workflow/rules/figures.smk`."""
    config = load({"datasets": {"demo": {"simulate": {}}}})
    known = {*plot.inputs, *plot.methods, *plot.fill_settings(config, "demo").plain(), "path"}
    for figure in plot.figures:
        module, function = figure.draw.split(".")
        assert f"aam.report.figures.{module}" in plot.modules
        draw = getattr(import_module(f"aam.report.figures.{module}"), function)
        assert inspect.signature(draw).parameters.keys() <= known
        assert re.findall(r"\{(\w+)\}", figure.path_stem) == plot.wildcards


def test_captions_exist_and_are_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    captions = set(re.findall(r'"[\w./]*report/(\w+\.rst)"', text))
    captions |= {f"{f.caption}.rst" for plot in PLOTS.values() for f in plot.figures}
    assert captions == {path.name for path in (WORKFLOW / "report").glob("*.rst")}


def test_the_environment_of_the_rules_stands_alone() -> None:
    """Snakemake makes it from a copy of the file: no path in it would lead anywhere."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (WORKFLOW / "envs" / "aam.yaml").read_text(encoding="utf-8")
    *programs, libraries = yaml.safe_load(text)["dependencies"]
    needed = [line for line in project["dependencies"] if not line.startswith("snakemake")]
    assert libraries == {"pip": needed}
    shared = yaml.safe_load((REPOSITORY / "environment.yml").read_text(encoding="utf-8"))
    assert set(programs) < set(shared["dependencies"][:-1])
    catalog = yaml.safe_load((REPOSITORY / ".snakemake-workflow-catalog.yml").read_text())
    assert catalog["usage"]["software-stack-deployment"]["conda"] is True


def test_the_slurm_profile_names_every_rule_that_asks_for_much() -> None:
    light = PROFILE["default-resources"]["runtime"]
    much = {
        rule
        for rule in WORKING
        if rule in COMPUTING or number(rule, "mem_mb") > 4000 or number(rule, "runtime") > light
    }
    named = PROFILE["set-resources"].keys()
    assert {"pretrain", "finetune", "unifrac"} <= much <= named <= RULES.keys()
    assert PROFILE["retries"] > 0
    # SLURM's own default of MinJobAge; the executor wants thrice the seconds.
    assert PROFILE["slurm-status-command"] == "squeue"
    assert 3 * PROFILE["slurm-init-seconds-before-status-checks"] <= 300


@pytest.mark.parametrize("rule", PROFILE["set-resources"])
def test_under_slurm_no_rule_gets_less_than_it_asks_for(rule: str) -> None:
    given: dict[str, Any] = {**PROFILE["default-resources"], **PROFILE["set-resources"][rule]}
    for key in ("mem_mb", "runtime"):
        attempts = [eval(str(given[key]), {"attempt": attempt}) for attempt in (1, 2, 3)]
        assert attempts[0] >= number(rule, key), key
        assert attempts == sorted(attempts)
        assert key == "runtime" or attempts[0] < attempts[1]
