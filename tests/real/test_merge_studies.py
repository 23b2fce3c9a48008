"""The example of the page on merging studies, run as it stands there."""

import re
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY.parent / "shared" / "data"
PAGE = REPOSITORY / "docs/how-to/merge-studies.md"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
]


def test_saliva_of_one_study_lies_near_the_tongue_of_the_other(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(code.replace('"../shared/data"', f'"{DATA}"'), names)
    assert (tmp_path / "merged.png").stat().st_size > 10_000
    site = names["site"]
    is_saliva = site.str.startswith("saliva")
    assert is_saliva.sum() == 100
    to_site = names["distances"].loc[is_saliva].T.groupby(site).mean().T
    nearest = to_site.drop(columns="saliva, the other study").idxmin(axis=1)
    assert (nearest == "tongue").mean() > 0.95
