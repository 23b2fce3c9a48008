"""What `make gpu` does with parts that are played, in this process."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from aam.train.progress import TimeIsUp
from aam.util.errors import InputError
from aam.util.run_options import RunOptions
from benchmarks import gpu, kept, kept_tests, training_requests
from benchmarks.kept import KeptResults

TRAINED = {
    "optimization": {"lacking": []},
    "samples_per_s": 100.0,
    "gpu_utilisation": 55.0,
    "gpu_utilisation_peak": 99.0,
    "unifrac_pearson": 0.9,
}
SECONDS = 60.0
"""What a measurement takes on the clock that is played."""


@pytest.fixture
def clock(monkeypatch) -> SimpleNamespace:
    own = SimpleNamespace(now=1000.0)
    played = SimpleNamespace(time=lambda: own.now)
    monkeypatch.setattr(kept, "time", played)
    monkeypatch.setattr(gpu, "time", played)
    return own


@pytest.fixture
def asked(stand_in, instead_of_processes, clock, tmp_path) -> list[str]:
    """Play all measurements, a minute each; return those that were done to their end."""
    done: list[str] = []

    def measure(request):
        own = {key: value for key, value in request.items() if key != "deadline"}
        text = json.dumps(own, sort_keys=True, default=str)
        # Requests name the folder, which is another one for each run of a test.
        done.append(text.replace(str(tmp_path / "whole"), str(tmp_path / "gpu")))
        clock.now += SECONDS * (request["kind"] not in kept.UNTIMED)
        return {**TRAINED, "weights": "w"} if request["kind"] == "training" else stand_in(request)

    instead_of_processes(measure)
    return done


@pytest.fixture
def dry(files, new_config, monkeypatch, tmp_path) -> Path:
    """Have a tiny study specified; return the folder for its figures."""
    plain = tmp_path / "plain.yaml"
    plain.write_text(json.dumps(new_config(benchmark={"batch_sizes": [4, 8], "repeats": 2})))
    asked = tmp_path / "asked.json"
    one = {"configuration": [str(plain)], "models": {"m": {}}, "workers": 0}
    asked.write_text(json.dumps({**one, "results": str(files["tokens"].parents[1]), "threads": 1}))
    monkeypatch.setattr(gpu, "SPECIFICATION", asked)
    monkeypatch.setattr(gpu, "DRY", {})
    names = (gpu.CONFIGURED, "as configured, again", "two processes, DDP")
    monkeypatch.setattr(gpu, "DRY_TRAINING_RUNS", names)
    monkeypatch.setattr(gpu, "run_tests", lambda lease: None)
    return tmp_path / "gpu"


def run(folder: Path, minutes: float = 999) -> str:
    gpu.main([str(folder), "--dry", "--minutes", str(minutes)])
    return (folder / "gpu.md").read_text()


def parts_left(page: str) -> list[str]:
    """Return the parts of a page that were not measured."""
    return page.partition(gpu.WAITS)[2].strip().splitlines()


def rows(folder: Path) -> dict[str, int]:
    """Return how many modes of each table were timed."""
    tables = {path.parent.name: pd.read_csv(path, sep="\t") for path in folder.glob("*/speed.tsv")}
    return {name: int(table["step_ms_median"].notna().sum()) for name, table in tables.items()}


def test_a_run_whose_time_is_up_goes_on_and_measures_nothing_twice(dry, asked):
    whole = run(dry.with_name("whole"))
    every = Counter(asked)
    asked.clear()
    pages = [run(dry, minutes=minutes) for minutes in (6, 15, 15)]
    waited = [len(parts_left(page)) + page.count(gpu.LEFT) for page in pages]
    assert waited[0] > waited[-1] > 0
    assert "| not run |" in pages[0]
    assert gpu.LEFT in pages[0]
    page = run(dry)
    assert Counter(asked) == every
    assert max(every.values()) == 2, "two repeats of each mode"
    assert rows(dry) == rows(dry.with_name("whole"))
    assert gpu.LEFT not in page
    assert parts_left(page) == parts_left(whole) == ["- Tests"], "the tests were not run"
    assert "| option | compile: default | 8 |" in page
    assert "| m | as configured | 100 |" in page
    assert "55 (99)" in page
    assert "padded to 2 shapes for 4 batches" in page
    assert "- as configured: the rerun has the same weights, to the bit" in page
    assert "| m | two processes, DDP | not run, GPUs here: 0 |" in page
    assert (dry / "images" / "gpu.png").is_file()
    asked.clear()
    assert run(dry) == page
    assert asked == []


class Requests(list):
    """Play the results of a call, and collect what is asked for."""

    waiting = frozenset()

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def __call__(self, request):
        self.append(request)
        return self.answer(request)


def test_a_training_run_has_the_settings_of_its_model_but_for_its_change(
    speed_settings, stand_in, tmp_path
):
    unifrac = {"metrics": ["generalized"], "alpha": 0.25}
    timed = speed_settings(unifrac=unifrac, pretraining={"targets": "batch"})
    requests = Requests(lambda asked: TRAINED if asked["kind"] == "training" else stand_in(asked))
    study = SimpleNamespace(inputs_for=lambda model: (timed, {}), runtime=RunOptions())
    lease = gpu.Lease(study=study, results=requests, folder=tmp_path, sizes=())
    gpu.train(lease, "m", "level basic, fp32")
    settings = requests[-1]["settings"]
    plain = timed.training.plain()
    assert settings["alpha"] == 0.25
    assert settings["model"] == plain["model"]
    assert settings["pretraining"] == plain["pretraining"]
    changed = {"level": "basic", "precision": "fp32"}
    assert settings["optimization"] == {**plain["optimization"], **changed}


def test_batches_grow_in_one_training_run_and_graphs_have_the_size_they_grow_from(
    speed_settings, stand_in, tmp_path
):
    timed = speed_settings(pretraining={"batch_size": "auto"})
    requests = Requests(lambda asked: TRAINED if asked["kind"] == "training" else stand_in(asked))
    study = SimpleNamespace(inputs_for=lambda model: (timed, {}), runtime=RunOptions())
    lease = gpu.Lease(study=study, results=requests, folder=tmp_path, sizes=())
    gpu.try_graphs(lease, "m")
    assert requests[-1]["settings"]["pretraining"]["batch_size"] == 64
    fixed = speed_settings(pretraining={"batch_size": 16})
    lease.study.inputs_for = lambda model: (fixed, {})
    gpu.train(lease, "m", "precision and batch size auto")
    settings = requests[-1]["settings"]
    assert settings["pretraining"]["batch_size"] == "auto"
    assert settings["optimization"]["precision"] == "auto"


def test_a_run_that_is_killed_loses_one_measurement(dry, asked, monkeypatch):
    run(dry.with_name("whole"))
    every = Counter(asked)
    asked.clear()
    append, done = kept.append_line, []

    def killed(path, content):
        done.append(content)
        if len(done) == 9:
            # Half of a line, as of a process that is ended while it writes.
            with path.open("a") as handle:
                handle.write(json.dumps(content)[:20])
            raise KeyboardInterrupt
        append(path, content)

    monkeypatch.setattr(kept, "append_line", killed)
    with pytest.raises(KeyboardInterrupt):
        run(dry)
    assert len(asked) == 9
    run(dry)
    assert sum((Counter(asked) - every).values()) == 1
    assert rows(dry) == rows(dry.with_name("whole"))


def test_a_failure_is_kept_and_a_training_that_left_is_not(tmp_path, clock):
    answers = iter([None, {"cut": "at step 3"}, {"steps": 4}])
    told = []

    def measure(request):
        told.append(request.get("deadline"))
        return next(answers)

    results = KeptResults(tmp_path / "kept.jsonl", measure, clock.now + 1)
    results.begin("part")
    steps, training = {"kind": "steps"}, {"kind": "training"}
    assert (results(steps), results(training)) == (None, None)
    assert results.waiting == {"part"}
    again = KeptResults(tmp_path / "kept.jsonl", measure, clock.now + 1)
    again.begin("part")
    assert (again(steps), again(training)) == (None, {"steps": 4})
    assert (again.waiting, told) == (set(), [clock.now + 1] * 3)


@pytest.mark.parametrize(
    ("error", "said"), [(TimeIsUp("late"), {"cut": "late"}), (InputError("no"), {"failed": "no"})]
)
def test_a_training_that_does_not_end_says_why(error, said, tmp_path, monkeypatch):
    broken = tmp_path / "work" / "compiled" / "a.so"
    broken.parent.mkdir(parents=True)
    broken.touch()

    def fail(*, inputs, runtime, **others):
        assert (runtime.deadline, runtime.devices) == (5.0, 1)
        assert (inputs.tokens, inputs.distances) == (Path("t"), [Path("d")])
        assert not broken.exists(), "what a killed compilation has left is removed"
        raise error

    monkeypatch.setattr(training_requests, "pretrain_encoder", fail)
    monkeypatch.setattr(training_requests, "provenance", lambda settings, inputs: {})
    monkeypatch.setattr(training_requests.PretrainSettings, "model_validate", lambda settings: None)
    request = {"kind": "training", "settings": {}, "folder": str(tmp_path), "runtime": {}}
    request |= {"inputs": {"tokens": "t", "samples": "s", "distances": ["d"]}, "deadline": 5.0}
    assert training_requests.run(request) == said


TESTS = """
import os, pytest
def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="no GPU")
def test_is_skipped(): pass
def test_ends_the_process(): os._exit(3)
def test_comes_last(): pass
"""


def test_outcomes_of_tests_are_kept_through_crashes(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_some.py"]
    command += ["-p", "benchmarks.kept_tests", f"--kept={tmp_path / 'kept.jsonl'}"]
    path = {"PYTHONPATH": str(gpu.ROOT), "PATH": ""}
    codes = [
        subprocess.run(command, cwd=tmp_path, env=path, capture_output=True).returncode
        for _ in range(4)
    ]
    assert codes == [3, 3, 0, 5]
    found = kept_tests.outcomes(tmp_path / "kept.jsonl")
    assert {test.rpartition("::")[2]: said for test, said in found.items()} == {
        "test_passes": "passed",
        "test_fails": "failure: assert 1 == 2",
        "test_is_skipped": "skipped: no GPU",
        "test_ends_the_process": "failure: ended the process, or took too long",
        "test_comes_last": "passed",
    }
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    begun = Counter(line["test"].rpartition("::")[2] for line in lines if "outcome" not in line)
    assert begun.pop("test_ends_the_process") == 2
    assert set(begun.values()) == {1}
