"""How the stages grow with a study."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from aam.runtime.run_options import RunOptions
from aam.stages import benchmark_growth, plot_growth
from aam.util import worklog
from aam.util.errors import InputError
from benchmarks import growth

SAMPLES = {"small": 1000, "middle": 4000, "large": 16_000}


@settings(deadline=None)
@given(
    st.floats(0.1, 3.0),
    st.floats(1e-3, 1e3),
    st.floats(0.0, 500.0),
    st.permutations([1000, 5000, 10_000, 20_000]),
)
def test_a_power_law_is_found_again(
    exponent: float, factor: float, constant: float, sizes: list[int]
) -> None:
    values = [constant + factor * size**exponent for size in sizes]
    fit = growth.fit_power(sizes, values, constant, least=1e-9)
    assert fit.exponent == pytest.approx(exponent, rel=1e-6)
    assert fit.last_exponent == pytest.approx(exponent, rel=1e-6)
    assert fit.worst == pytest.approx(1.0, rel=1e-6)
    assert fit.at(307_000) == pytest.approx(constant + factor * 307_000**exponent, rel=1e-5)


def test_a_growth_that_is_no_power_shows() -> None:
    sizes = [1000, 10_000, 100_000]
    fit = growth.fit_power(sizes, [1.0, 10.0, 1000.0])
    assert fit.exponent == pytest.approx(1.5)
    assert fit.last_exponent == pytest.approx(2.0)
    assert fit.worst == pytest.approx(10 ** (1 / 3))


def job(results: Path, dataset: str, name: str, seconds: float, peak_mb: int) -> None:
    """Write the log that a job leaves behind."""
    log = results / dataset / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    took = (998.0, 1000.0, 1000.0 + seconds, 0.75 * seconds, 100, peak_mb)
    log.write_text(f"a line\n12:00:00 INFO aam.util.worklog: {worklog.WORDS % took}\n")


def test_a_log_of_another_version_is_told_with_the_remedy(tmp_path: Path) -> None:
    log = tmp_path / "results" / "n1000" / "logs" / "rarefy" / "view0.log"
    log.parent.mkdir(parents=True)
    log.write_text("at work from 1.000 to 2.000\n")
    with pytest.raises(InputError, match=r"view0.log.*--forcerun rarefy"):
        growth.measured([log], {"n1000": 1000})


@pytest.fixture
def logs(tmp_path: Path) -> list[Path]:
    results = tmp_path / "results"
    for dataset, size in SAMPLES.items():
        x = size / 1000
        job(results, dataset, "unifrac/unweighted/view0", 0.5 * x**2, int(100 + 10 * x))
        job(results, dataset, "rarefy/view0", x, 150)
        job(results, dataset, "rarefy/view1", 2 * x, 300)
        job(results, dataset, "tokenize", 0.0, 100)
    return sorted(results.glob("*/logs/**/*.log"))


def test_jobs_of_a_stage_are_added_up(logs: list[Path]) -> None:
    table = growth.measured(logs, SAMPLES)
    assert len(table) == 9
    row = table[(table["stage"] == "rarefy") & (table["dataset"] == "middle")].iloc[0]
    assert (row["samples"], row["jobs"], row["first_mb"]) == (4000, 2, 100)
    assert row["work_s"] == pytest.approx(12.0)
    assert row["cores_s"] == pytest.approx(9.0)
    assert row["peak_mb"] == 300


def test_table_page_and_picture(logs: list[Path], tmp_path: Path) -> None:
    outputs = {name: tmp_path / name for name in ("table", "fits", "text")}
    benchmark_growth.run(
        {"samples": SAMPLES}, inputs={"logs": logs}, outputs=outputs, runtime=RunOptions()
    )
    fits = pd.read_csv(outputs["fits"], sep="\t").set_index(["stage", "quantity"])
    assert fits.loc[("unifrac", "seconds"), "exponent"] == pytest.approx(2.0, abs=1e-3)
    assert fits.loc[("unifrac", "memory_mb"), "exponent"] == pytest.approx(1.0, abs=1e-3)
    assert fits.loc[("tokenize", "seconds"), "exponent"] == pytest.approx(0.0, abs=1e-6)
    text = outputs["text"].read_text(encoding="utf-8")
    # 0.5 s * 100**2 and * 307**2, 100 + 10 * 307 MB, and 0.5 s * 25**2 beside 475 s.
    assert "83.3 min" in text
    assert "13.1 h" in text
    assert "3.1 GiB" in text
    assert "| 25,000 | 16 cores | 475 | 312 |" in text
    picture = tmp_path / "growth.png"
    inputs = {"growth": outputs["table"], "fits": outputs["fits"]}
    plot_growth.run({}, inputs=inputs, outputs={"growth": picture}, runtime=RunOptions())
    pixels = imread(picture)
    assert pixels.shape[1] == 1200
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_one_size_has_no_growth(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two sizes"):
        benchmark_growth.run(
            {"samples": {"small": 10}}, inputs={"logs": logs}, outputs={}, runtime=RunOptions()
        )
