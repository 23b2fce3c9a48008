import json

import pytest

from benchmarks import gpu, predicted
from benchmarks.predicted import GPUS, Work


def test_a_folder_is_filled_once_and_what_had_no_time_waits(
    files, new_config, stand_in, instead_of_processes, monkeypatch, tmp_path
):
    plain = tmp_path / "plain.yaml"
    plain.write_text(json.dumps(new_config(benchmark={"batch_sizes": [4, 8], "repeats": 1})))
    asked = tmp_path / "asked.json"
    one = {"configuration": [str(plain)], "models": {"m": {}}, "workers": 0}
    asked.write_text(json.dumps({**one, "results": str(files["tokens"].parents[1]), "threads": 1}))
    monkeypatch.setattr(gpu, "SPECIFICATION", asked)
    monkeypatch.setattr(gpu, "DRY", {})
    monkeypatch.setattr(gpu, "run_tests", lambda lease: None)
    instead_of_processes(stand_in)
    folder = tmp_path / "gpu"
    for minutes, waiting in (("0", 8), ("9", 1)):
        gpu.main([str(folder), "--dry", "--minutes", minutes])
        page = (folder / "gpu.md").read_text()
        assert page.count(gpu.WAITS) == waiting
    assert "| option | compile: default | 8 |" in page
    assert (folder / "images" / "gpu.png").is_file()


def test_the_longest_of_three_bounds_a_step():
    (a100,) = [gpu for gpu in GPUS if gpu.name.startswith("A100")]
    work = Work(64, launches=800, flops=int(1e12), bytes=int(1e9))
    seconds = work.seconds(a100)
    assert seconds == pytest.approx({"launches": 4e-3, "products": 1 / 124.8, "memory": 1 / 1427.3})
    assert "8.01: products" in predicted.table([work])
