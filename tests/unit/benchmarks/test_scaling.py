import pytest
import yaml

from aam.bench import measurements, timing
from benchmarks import scaling

POINTS = "--batch-sizes 4 8 --layers 1 3 --asvs 6 10000"
HEAD = """experiment | mode | x | unit | time_ms_median | time_ms_iqr | samples_per_s |
peak_memory_mb | count"""


@pytest.fixture
def configuration(files, new_config, tmp_path) -> str:
    results = files["tokens"].parents[1]
    plain = new_config(benchmark={"repeats": 1}, results_dir=str(results.parent))
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**plain, "datasets": {results.name: {"table": "t.biom"}}}))
    return str(path)


def test_points_vary_one_thing_each_and_what_could_run_has_figures(
    configuration, stand_in, instead_of_processes, monkeypatch, capsys
):
    asked = []

    def measure(request) -> dict | None:
        """Measure two steps, but stand in for the device; three layers are too much."""
        if request["kind"] != "steps":
            return stand_in(request)
        result = measurements.run(request)
        asked.append((request["cfg"], result))
        return None if request["cfg"]["model"]["asv_layers"] == 3 else result

    instead_of_processes(measure)
    monkeypatch.setattr(timing, "MOST_STEPS", 2)
    scaling.main([configuration, *POINTS.split()])
    (_, usual), (_, large), (_, flat), (deep_cfg, deep), (few_cfg, few) = asked
    assert (set(usual["sizes"]), set(large["sizes"])) == ({4}, {8})
    assert deep_cfg["model"]["sample_layers"] == 3
    assert deep["parameters"] > 1.5 * flat["parameters"]
    assert max(few["distinct_asvs"]) == 6 < max(large["distinct_asvs"])
    assert few_cfg == asked[0][0]
    page = capsys.readouterr().out
    rows = [line.split(" | ") for line in page.splitlines() if "training step" in line]
    assert [row[2] for row in rows] == ["4", "8", "1", "3", "6"]
    assert [row[-1] == "– |" for row in rows] == [False, False, False, True, False]
    for words in (" ".join(HEAD.split()), "\n- device: none\n", "\n- aam.settings: "):
        assert words in page
