import json

import pandas as pd
import pytest
import yaml

from aam.bench import case
from aam.util.errors import InputError
from benchmarks import accelerator


def specify(folder, files, new_config, **keys):
    plain = new_config(benchmark={"batch_sizes": [4], "steps": 2, "repeats": 1})
    base = {key: value for key, value in plain.items() if key != "models"}
    over = {"models": plain["models"], "pretraining": {"epochs": 1}}
    for name, content in (("base.yaml", base), ("over.yaml", over)):
        (folder / name).write_text(yaml.safe_dump(content))
    specification = {
        "configuration": [str(folder / "base.yaml"), str(folder / "over.yaml")],
        "changes": {"pretraining": {"precision": "fp32"}},
        "models": {"narrow": {}, "wide": {"width": 32}},
        "dataset": "d",
        "results": str(files["tokens"].parents[1]),
        "groups": ["order"],
        "threads": 1,
        **keys,
    }
    asked = folder / "specification.json"
    asked.write_text(json.dumps(specification))
    return asked


def test_a_specification_is_timed_model_by_model(
    files, new_config, stand_in, instead_of_processes, tmp_path
):
    # A process of its own for each is tested elsewhere.
    instead_of_processes(lambda r: case.run(r) if r["kind"] != "roofline" else stand_in(r))
    out = tmp_path / "out"
    accelerator.main([str(specify(tmp_path, files, new_config)), str(out)])
    tables = {n: pd.read_csv(out / n / "speed.tsv", sep="\t") for n in ("narrow", "wide")}
    for name, table in tables.items():
        assert set(table["group"]) == {"order"}
        assert table["timed_steps"].dropna().tolist() == [2] * 7
        assert "+ patch stem of 5 bp" in table["name"].tolist()
        assert "# Speed" in (out / name / "speed.md").read_text()
        assert json.loads((out / name / "roofline.json").read_text())["fp32"]["median"] == 5e9
    assert tables["wide"]["parameters"][0] > 2 * tables["narrow"]["parameters"][0]


def test_the_configuration_is_laid_together_and_all_groups_are_timed(
    files, new_config, stand_in, instead_of_processes, tmp_path
):
    asked = []
    instead_of_processes(lambda request: asked.append(request) or stand_in(request))
    keys = {"groups": ["order", "alone", "batch", "option"], "models": {"base": {"heads": 4}}}
    accelerator.main([str(specify(tmp_path, files, new_config, **keys)), str(tmp_path)])
    table = pd.read_csv(tmp_path / "base" / "speed.tsv", sep="\t")
    # The precision of the last file is not the naive one's, so that it is timed as configured.
    assert set(table["group"]) == {"order", "alone", "batch", "option"}
    steps = [request for request in asked if request["kind"] == "steps"]
    assert {request["cfg"]["model"]["heads"] for request in steps} == {4}
    assert {request["cfg"]["model"]["width"] for request in steps} == {16}
    assert {request["cfg"]["pretraining"]["epochs"] for request in steps} == {1}
    assert steps[0]["inputs"]["distances"] == [str(path) for path in files["distances"]]
    assert {"fp32", "bf16", "tf32"} == {r["cfg"]["pretraining"]["precision"] for r in steps}


def test_an_unknown_key_of_the_configuration_is_the_users(files, new_config, tmp_path):
    asked = specify(tmp_path, files, new_config, changes={"benchmark": {"stepps": 2}})
    with pytest.raises(InputError, match="stepps"):
        accelerator.main([str(asked), str(tmp_path / "out")])
