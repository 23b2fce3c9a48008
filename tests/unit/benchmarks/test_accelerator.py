import json

import pandas as pd
import pytest
import yaml

from benchmarks import accelerator


@pytest.fixture
def specify(files, new_config, tmp_path):
    def write(**keys) -> str:
        plain = new_config(benchmark={"batch_sizes": [4], "repeats": 1})
        base = {key: value for key, value in plain.items() if key != "models"}
        over = {"models": plain["models"], "pretraining": {"epochs": 1}}
        for name, content in (("base.yaml", base), ("over.yaml", over)):
            (tmp_path / name).write_text(yaml.safe_dump(content))
        specification = {
            "configuration": [str(tmp_path / "base.yaml"), str(tmp_path / "over.yaml")],
            "changes": {"optimization": {"precision": "fp32"}},
            "models": {"narrow": {}, "wide": {"width": 32}},
            "results": str(files["tokens"].parents[1]),
            "threads": 1,
            **keys,
        }
        path = tmp_path / "specification.json"
        path.write_text(json.dumps(specification))
        return str(path)

    return write


def test_a_specification_is_timed_model_by_model(specify, stand_in, instead_of_processes, tmp_path):
    """The configuration is laid together, and all groups are timed."""
    asked = []
    instead_of_processes(lambda request: asked.append(request) or stand_in(request))
    accelerator.main([specify(), str(tmp_path / "out")])
    for name in ("narrow", "wide"):
        folder = tmp_path / "out" / name
        table = pd.read_csv(folder / "speed.tsv", sep="\t")
        assert set(table["group"]) == {"order", "alone", "option"}
        assert "# Speed" in (folder / "speed.md").read_text()
        assert json.loads((folder / "roofline.json").read_text())["fp32"]["median"] == 5e9
    steps = [request["settings"] for request in asked if request["kind"] == "steps"]
    models = {(step["model"]["heads"], step["model"]["width"]) for step in steps}
    assert models == {(2, 16), (2, 32)}
    assert {step["pretraining"]["epochs"] for step in steps} == {1}
    assert {step["optimization"]["precision"] for step in steps} == {"fp32", "bf16", "tf32"}
