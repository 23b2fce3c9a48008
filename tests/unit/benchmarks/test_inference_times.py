import json
import time
from pathlib import Path

import numpy as np
import pytest

from aam.data.stores import write_samples, write_tokens
from aam.distributed import devices
from benchmarks import inference
from benchmarks.inference import StudySettings

MODEL = {"encoder": "transformer", "width": 16, "heads": 2, "patch_bp": 5, "ffn_ratio": 2}
MODEL |= {"asv_layers": 1, "sample_layers": 1}


@pytest.fixture(scope="module")
def settings(mixed_lengths, tmp_path_factory) -> StudySettings:
    folder, tokens = tmp_path_factory.mktemp("study"), mixed_lengths.tokens
    write_tokens(folder / "tokens", tokens, {})
    write_samples(folder / "samples", mixed_lengths.store, {})
    return StudySettings(folder / "tokens", folder / "samples", MODEL, "fp32", 1, seed=3)


@pytest.fixture
def in_this_process(monkeypatch) -> list[dict]:
    """Measure without new processes; collect what was asked for, and the embeddings written."""
    asked = []

    def measure(what, request):
        asked.append(json.loads(json.dumps(request, default=str)))
        found = getattr(inference, what)({**asked[-1], "started_s": time.time()})
        if what == "embed":
            asked[-1]["file"] = np.fromfile(Path(request["folder"], "embeddings"), np.float32)
        return found

    monkeypatch.setattr(inference, "run_in_subprocess", measure)
    return asked


def test_embedding_is_timed_with_an_empty_and_a_filled_cache_in_turn(
    settings, in_this_process, caplog
):
    caplog.set_level("INFO")
    table = inference.embedding_times(settings, numbers=(8, 30), repeats=2)
    assert table["samples"].tolist() == [8, 8, 30, 30]
    assert table["cache"].tolist() == ["empty", "filled"] * 2
    whether = [(asked["cache"] is not None, asked["fill"] is not None) for asked in in_this_process]
    assert whether == ([(False, True)] + [(False, False), (True, False)] * 2) * 2
    assert "30 of 30 ASV embeddings read, 0 to compute" in caplog.text
    for asked in in_this_process[6:]:
        assert len(asked["file"]) == 30 * 16
        np.testing.assert_array_equal(asked["file"], in_this_process[5]["file"])
    assert (table[list(inference.STEPS)] >= 0).all(axis=None)
    assert (table["wall_s"] > table["samples_s"]).all()
    np.testing.assert_allclose(table["ms_per_sample"], 1e3 * table["wall_s"] / table["samples"])


def test_both_tables_are_one_page(files, in_this_process, monkeypatch, capsys):
    """Embeddings are in fp32, as the stages write them, and validations in that of training."""
    monkeypatch.setattr(inference, "STATISTICS_SAMPLES", 5)
    monkeypatch.setattr(devices, "has_fast_bf16", lambda: True)
    few = ["--samples", "8", "--held-out", "4", "25", "--repeats", "1"]
    inference.main([str(files["tokens"].parents[1]), *few])
    page = capsys.readouterr().out
    for title, *words in (
        ("## Embedding\n\n| samples | asvs |", "| 8 |", "| empty | fp32 |", "| filled | fp32 |"),
        ("## Validation\n\n| held_out | asvs |", "| 4 |", "| 25 |", "| bf16 |"),
    ):
        assert all(word in page[page.index(title) :] for word in words)
    assert "bf16" not in page[: page.index("## Validation")]
