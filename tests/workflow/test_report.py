"""What a user reads at the end: Snakemake's report and the summary."""

import json
import re
import zipfile
from typing import Any

import pytest

pytestmark = pytest.mark.workflow


def test_report_holds_all_pictures_with_captions(completed: Any) -> None:
    done = completed.snakemake(*completed.configured(), "--report", "report.zip")
    assert done.returncode == 0, done.stdout[-4000:]
    with zipfile.ZipFile(completed.root / "report.zip") as archive:
        page = next(name for name in archive.namelist() if name.endswith("report.html"))
        text = archive.read(page).decode()
        pictures = [name for name in archive.namelist() if name.endswith(".png")]
    found = re.search(r"var results = (\{.*\});$", text, re.MULTILINE)
    assert found is not None
    entries = json.loads(found[1])
    figures = (completed.root / "results" / "demo" / "figures").rglob("*.png")
    shown = {str(path.relative_to(completed.root)) for path in figures}
    assert len(shown) == 1 + 2 * 3 + 4 * 3 + 2
    assert len(pictures) == len(shown)
    tables = {f"results/demo/benchmark/{name}.tsv" for name in ("speed", "accuracy")}
    assert entries.keys() == shown | tables
    for path, entry in entries.items():
        assert len(entry["caption"]) > 100, path
        assert entry["labels"]["dataset"] == "demo"


def test_summary_links_lead_somewhere(completed: Any) -> None:
    folder = completed.root / "results" / "demo"
    text = (folder / "summary.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (folder / link).exists()] == []
