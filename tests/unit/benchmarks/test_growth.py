from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from aam.util.log import WORK_WORDS
from benchmarks import growth

SAMPLES = {"small": 1000, "middle": 4000, "large": 16_000}


@settings(deadline=None)
@given(st.floats(0.1, 3.0), st.floats(0.0, 500.0), st.permutations([1000, 5000, 10_000, 20_000]))
def test_a_power_law_is_found_again(exponent: float, constant: float, sizes: list[int]) -> None:
    fit = growth.fit_power(sizes, [constant + 0.1 * s**exponent for s in sizes], constant, 1e-9)
    assert (fit.exponent, fit.last_exponent, fit.worst) == pytest.approx((exponent, exponent, 1.0))
    assert fit.at(307_000) == pytest.approx(constant + 0.1 * 307_000**exponent, rel=1e-4)


def test_a_small_term_of_all_pairs_shows_in_larger_studies() -> None:
    sizes = (1000, 5000, 10_000, 20_000)
    fit = growth.fit_power(sizes, [100 + 0.1 * s + 1e-6 * s**2 for s in sizes], 100.0)
    assert fit.with_squares(307_000) == pytest.approx(100 + 30_700 + 94_249, rel=1e-6)
    assert fit.at(307_000) < 0.5 * fit.with_squares(307_000)


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
            log.write_text(f"a line\n12:00:00 INFO aam.util.log: {WORK_WORDS % took}\n")
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
    fits = pd.read_csv(out / "fits.tsv", sep="\t").set_index(["stage", "quantity"])["exponent"]
    keys = [("unifrac", "seconds"), ("unifrac", "memory_mb"), ("tokenize", "seconds")]
    assert fits[keys].to_list() == pytest.approx([2, 1, 0], abs=1e-3)
    text = (out / "growth.md").read_text(encoding="utf-8")
    # 0.5 s * 100**2 and * 307**2, 100 + 10 * 307 MB, and 0.5 s * 25**2 beside 475 s.
    for words in ("83.3 min", "13.1 h", "3.1; 3.1 GiB", "| 25,000 | 16 cores | 475 | 312 |"):
        assert words in text
    assert imread(out / "figures" / "growth.png").shape[1] == 1200
    assert np.ptp(imread(out / "figures" / "growth.png")) > 0.5
