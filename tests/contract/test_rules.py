"""Rules: what Snakemake compares, and what it keeps beside the results."""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from aam.config import slices
from aam.config.figures import PLOTS, Plot

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOW = REPOSITORY / "workflow"
RULE = re.compile(r"^rule (\w+):\n((?:    .*\n|\n)+)", re.MULTILINE)
DIRECTIVE = re.compile(r"^    (\w+):(.*)\n((?:        .*\n|\n)*)", re.MULTILINE)
TARGETS = {"all", "bench", "data", "pretraining", "finetuning"}


def directives(body: str) -> dict[str, str]:
    return {name: (rest + block).strip() for name, rest, block in DIRECTIVE.findall(body)}


FILES = [REPOSITORY / "Snakefile", *sorted((WORKFLOW / "rules").glob("*.smk"))]
RULES = {
    name: directives(body)
    for path in FILES
    for name, body in RULE.findall(path.read_text(encoding="utf-8"))
}
WORKING = sorted(RULES.keys() - TARGETS)


def names(block: str) -> list[str]:
    """Return the names of a directive's own entries, None for an entry without a name."""
    return re.findall(r"^(?:        )?(\w+)=", block, re.MULTILINE)


def test_rules_are_found() -> None:
    assert {"rarefy", "pretrain", "finetune", "summary"} <= RULES.keys()
    assert TARGETS <= RULES.keys()


@pytest.mark.parametrize("rule", WORKING)
def test_params_are_settings_code_and_paths(rule: str) -> None:
    params = RULES[rule]["params"]
    found = names(params)
    assert found[:2] == ["cfg", "code"]
    assert set(found) <= {"cfg", "code", "work"}
    assert re.search(r'code=code_digest\("aam\.stages\.\w+"\)', params)
    assert "work=" not in params or re.search(r'work=result\("', params)


@pytest.mark.parametrize("rule", WORKING)
def test_script_runs_the_stage_that_the_digest_covers(rule: str) -> None:
    script = WORKFLOW / "rules" / RULES[rule]["script"].strip('",\n ')
    text = script.read_text(encoding="utf-8")
    stage = re.search(r'code_digest\("aam\.stages\.(\w+)"\)', RULES[rule]["params"])
    assert stage is not None
    assert f"from aam.stages import {stage[1]}\n" in text
    assert f"main({stage[1]}.run, snakemake)" in text
    assert '__name__ == "__main__"' in text


@pytest.mark.parametrize("rule", WORKING)
def test_directives(rule: str) -> None:
    found = RULES[rule]
    needed = {"output", "log", "threads", "resources", "params", "message", "conda"}
    assert needed <= found.keys()
    assert ("benchmark" in found) != ("cache" in found), "Snakemake allows one of them"
    assert {"mem_mb", "runtime"} <= set(names(found["resources"]))
    assert "retries" not in found, "a rule's retries multiply inside SLURM jobs"
    gpu = re.search(r"gpu=(gpus,|lambda wildcards: gpus\()", found["resources"]) is not None
    computes = {
        *("pretrain", "pretrain_inductive", "finetune", "predict", "explain"),
        *("benchmark_speed", "benchmark_scaling", "benchmark_models"),
    }
    assert gpu == (rule in computes)
    cores = "1", "all_cores", "unifrac_threads", "CONFIG.runtime.threads"
    assert found["threads"].strip() in cores, "a number would let no configuration lower it"


@pytest.mark.parametrize("rule", WORKING)
def test_outputs_have_names(rule: str) -> None:
    block = RULES[rule]["output"]
    entries = re.findall(r"^(?:        )?[^\s)\]}].*", block, re.MULTILINE)
    assert len(names(block)) == len(entries)


@pytest.mark.parametrize("rule", WORKING)
def test_outputs_are_those_that_the_stage_writes(rule: str) -> None:
    stage = re.search(r'code_digest\("aam\.stages\.(\w+)"\)', RULES[rule]["params"])
    assert stage is not None
    source = (REPOSITORY / "aam" / "stages" / f"{stage[1]}.py").read_text(encoding="utf-8")
    written = set(re.findall(r'outputs\["(\w+)"\]', source))
    assert not written or written == set(names(RULES[rule]["output"]))


@pytest.mark.parametrize("rule", WORKING)
@pytest.mark.parametrize("kind", ["log", "benchmark"])
def test_records_of_two_jobs_never_share_a_file(rule: str, kind: str) -> None:
    if kind not in RULES[rule]:
        return
    path = re.search(r'result\("(.*)"\)', RULES[rule][kind])
    assert path is not None
    parts = path[1].split("/")
    assert parts[1].split(".")[0] == rule, "another rule could write the same file"
    assert all(part.count("{") <= 1 for part in parts), "a_b + c reads like a + b_c"


@pytest.mark.parametrize("rule", ["predict", "explain"])
def test_digests_stand_for_a_model_directory(rule: str) -> None:
    """A directory has no checksum, and predictions alone say nothing of the settings."""
    found = RULES[rule]["input"]
    assert re.search(r'model=ancient\(result\("finetune/\{model\}/\{task\}/model"\)\)', found)
    assert 'digests=result("finetune/{model}/{task}/digests.json")' in found
    assert "predictions.tsv" not in found
    assert "digests.json" in RULES["finetune"]["output"]


def test_every_script_belongs_to_a_rule() -> None:
    used = {Path(RULES[rule]["script"].strip('",\n ')).name for rule in WORKING}
    assert used | {"plot.py"} == {path.name for path in (WORKFLOW / "scripts").glob("*.py")}


@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS.keys())
def test_figures_are_drawn_by_functions_of_their_inputs(plot: Plot) -> None:
    """The rules of figures are made from this table: see `workflow/rules/figures.smk`."""
    assert plot.settings in (None, slices.plot_rarefaction)
    known = {*plot.inputs, "path"} | ({"depth"} if plot.settings else set())
    for figure in plot.figures:
        module, function = figure.draw.split(".")
        assert f"aam.evaluate.figures.{module}" in plot.modules
        draw = getattr(import_module(f"aam.evaluate.figures.{module}"), function)
        assert inspect.signature(draw).parameters.keys() <= known
        assert re.findall(r"\{(\w+)\}", figure.place) == plot.wildcards


def test_the_rule_of_figures_runs_what_its_digest_covers() -> None:
    text = (WORKFLOW / "rules" / "figures.smk").read_text(encoding="utf-8")
    assert "code=code_digest(*plot.modules)" in text
    assert "cfg=partial(figure_settings, name)" in text
    assert '"../scripts/plot.py"' in text
    script = (WORKFLOW / "scripts" / "plot.py").read_text(encoding="utf-8")
    assert "main(plot.run, snakemake)" in script


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_functions_live_in_common(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert path.name == "common.smk" or not re.search(r"^\s*def ", text, re.MULTILINE)


def test_captions_exist_and_are_used() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    captions = set(re.findall(r'"[\w./]*report/(\w+\.rst)"', text))
    captions |= {f"{f.caption}.rst" for plot in PLOTS.values() for f in plot.figures}
    assert captions == {path.name for path in (WORKFLOW / "report").glob("*.rst")}
