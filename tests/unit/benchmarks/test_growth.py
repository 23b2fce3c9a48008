"""How the stages grow with a study."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

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
    fit = growth.fit_power([1000, 10_000, 100_000], [1.0, 10.0, 1000.0])
    assert fit.exponent == pytest.approx(1.5)
    assert fit.last_exponent == pytest.approx(2.0)
    assert fit.worst == pytest.approx(10 ** (1 / 3))


@pytest.fixture
def studies(tmp_path: Path) -> list[Path]:
    """Folders of results as finished jobs leave them."""
    for dataset, size in SAMPLES.items():
        study, x = tmp_path / dataset, size / 1000
        (study / "inputs").mkdir(parents=True)
        pd.DataFrame({"sample_id": range(size)}).to_parquet(study / "inputs" / "metadata.parquet")
        for name, seconds, peak_mb in (
            ("unifrac/unweighted/view0", 0.5 * x**2, int(100 + 10 * x)),
            ("rarefy/view0", x, 150),
            ("rarefy/view1", 2 * x, 300),
            ("tokenize", 0.0, 100),
        ):
            log = study / "logs" / f"{name}.log"
            log.parent.mkdir(parents=True, exist_ok=True)
            took = (998.0, 1000.0, 1000.0 + seconds, 0.75 * seconds, 100, peak_mb)
            log.write_text(f"a line\n12:00:00 INFO aam.util.worklog: {worklog.WORDS % took}\n")
    return [tmp_path / name for name in SAMPLES]


def test_tables_page_and_figure(studies: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "growth"
    growth.main([*map(str, studies), "--output", str(out)])
    table = pd.read_csv(out / "growth.tsv", sep="\t").set_index(["stage", "dataset"])
    assert len(table) == 9
    # The jobs of a stage are added up, their memory is that of the largest.
    assert table.loc[("rarefy", "middle")].to_dict() == pytest.approx(
        {"samples": 4000, "jobs": 2, "work_s": 12, "cores_s": 9, "first_mb": 100, "peak_mb": 300}
    )
    fits = pd.read_csv(out / "fits.tsv", sep="\t").set_index(["stage", "quantity"])
    assert fits.loc[("unifrac", "seconds"), "exponent"] == pytest.approx(2.0, abs=1e-3)
    assert fits.loc[("unifrac", "memory_mb"), "exponent"] == pytest.approx(1.0, abs=1e-3)
    assert fits.loc[("tokenize", "seconds"), "exponent"] == pytest.approx(0.0, abs=1e-6)
    text = (out / "growth.md").read_text(encoding="utf-8")
    # 0.5 s * 100**2 and * 307**2, 100 + 10 * 307 MB, and 0.5 s * 25**2 beside 475 s.
    for words in ("83.3 min", "13.1 h", "3.1 GiB", "| 25,000 | 16 cores | 475 | 312 |"):
        assert words in text
    pixels = imread(out / "figures" / "growth.png")
    assert pixels.shape[1] == 1200
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20


def test_one_size_has_no_growth(studies: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two sizes"):
        growth.main([str(studies[0]), "--output", str(tmp_path / "growth")])


def test_the_log_of_a_job_that_did_not_finish_is_named_with_the_remedy(studies: list[Path]) -> None:
    (studies[0] / "logs" / "rarefy" / "view0.log").write_text("at work from 1.000 to 2.000\n")
    with pytest.raises(InputError, match=r"view0.log.*--forcerun rarefy"):
        growth.measured(studies)
