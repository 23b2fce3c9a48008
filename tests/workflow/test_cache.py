"""Sharing between workflows: what one user computed, another one links to."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.workflow

SHARED = {
    "rarefied/view0.biom": "rarefy/view0",
    "rarefied/view0.dropped.tsv": "rarefy/view0",
    "tokens/asvs.arrow": "tokenize",
    "unifrac/unweighted/view0.parquet": "unifrac/unweighted/view0",
}
"""Artifacts that Snakemake's cache holds, and the logs of the jobs that make them."""
TARGETS = [f"results/demo/{path}" for path in SHARED]


def made(checkout: Any, **change: Any) -> dict[str, tuple[bytes, bool, str]]:
    """Return of every shared artifact its bytes, whether a job made it, and where it lies."""
    done = checkout.snakemake(*checkout.configured(**change), "--cache", "--", *TARGETS)
    assert done.returncode == 0, done.stdout[-4000:]
    results = checkout.root / "results" / "demo"
    return {
        path: (
            (results / path).read_bytes(),
            (results / "logs" / f"{log}.log").stat().st_size > 0,
            str((results / path).resolve()),
        )
        for path, log in SHARED.items()
    }


def test_a_second_checkout_takes_what_the_first_one_made(
    fresh: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(cache))
    first = made(fresh)
    assert all(ran and place.startswith(f"{cache}/") for _, ran, place in first.values())

    other = replace(fresh, root=tmp_path / "other")
    other.root.mkdir()
    for part in fresh.root.iterdir():
        if part.name not in ("results", ".snakemake"):
            (other.root / part.name).symlink_to(part)
    second = made(other)
    for path, (content, ran, place) in second.items():
        assert (content, ran, place) == (first[path][0], False, first[path][2])

    changed = made(other, rarefaction={"depth": 150})
    for path, (content, ran, place) in changed.items():
        concerned = path.startswith(("rarefied", "unifrac"))
        assert ran == concerned
        assert (place != first[path][2]) == concerned
        assert concerned or content == first[path][0]
    assert changed["rarefied/view0.biom"][0] != first["rarefied/view0.biom"][0]


def test_without_a_folder_nothing_is_shared_and_nothing_is_said(
    fresh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SNAKEMAKE_OUTPUT_CACHE", raising=False)
    assert "cach" not in fresh.dry_run(*fresh.configured(), "--", *TARGETS)
