"""Pruning Snakemake's between-workflow cache."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.runtime import prune_cache
from aam.runtime.prune_cache import LEAST_AGE_S, Entry
from aam.util.errors import InputError

DAY_S = 86_400.0
NOW_S = time.time()


def put(folder: Path, letter: str, suffix: str, size: int, age_days: float) -> Path:
    path = folder / f"{64 * letter}{suffix}"
    path.write_bytes(size * b"x")
    os.utime(path, (NOW_S - age_days * DAY_S,) * 2)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    put(folder, "a", "_table.biom", 3000, 100)
    put(folder, "a", "_dropped.tsv", 1000, 100)
    put(folder, "b", ".arrow", 2000, 50)
    put(folder, "c", ".parquet", 5000, 10)
    put(folder, "d", ".arrow", 10, 0.01)
    return folder


def letters(folder: Path) -> str:
    return "".join(sorted(path.name[0] for path in folder.iterdir()))


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ([], "aabcd"),
        (["--max-age", "90d"], "bcd"),
        (["--max-age", "1d", "--dry-run"], "aabcd"),
        (["--max-size", "7.5KB"], "bcd"),
        (["--max-size", "6KB"], "cd"),
        (["--max-size", "0B"], "d"),
        (["--max-age", "1d", "--keep-linked", "results"], "aad"),
    ],
)
def test_what_was_not_used_for_the_longest_time_goes(
    cache: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], left: str
) -> None:
    results = cache.parent / "results"
    (results / "demo" / "rarefied").mkdir(parents=True)
    (results / "demo" / "rarefied" / "view0.biom").symlink_to(cache / f"{64 * 'a'}_table.biom")
    prune_cache.main([str(cache), *(str(results) if a == "results" else a for a in arguments)])
    assert letters(cache) == left
    if "--dry-run" not in arguments:
        assert f"removed {4 - len(set(left))} of 4 entries" in capsys.readouterr().out


def test_reading_one_file_keeps_the_whole_entry(cache: Path) -> None:
    read = cache / f"{64 * 'a'}_dropped.tsv"
    os.utime(read, (NOW_S - DAY_S, read.stat().st_mtime))
    prune_cache.main([str(cache), "--max-age", "30d"])
    assert letters(cache) == "aacd"


def test_other_files_links_and_folders_stay(cache: Path, tmp_path: Path) -> None:
    precious = put(tmp_path, "e", ".biom", 100, 500)
    link = cache / f"{64 * 'f'}.biom"
    link.symlink_to(precious)
    os.utime(link, (0, 0), follow_symlinks=False)
    strange = [cache / name for name in ("notes.txt", f"{63 * 'a'}.biom", f"x{64 * 'a'}.biom")]
    for path in strange:
        path.write_text("x")
        os.utime(path, (0, 0))
    folder = cache / f"{64 * '0'}"
    folder.mkdir()
    put(folder, "a", ".biom", 10, 500)
    prune_cache.main([str(cache), "--max-size", "0B", "--max-age", "1h"])
    assert {*strange, link, folder} == {p for p in cache.iterdir() if p.name[0] != "d"}
    assert precious.exists()
    assert len(list(folder.iterdir())) == 1


ENTRIES = st.lists(
    st.builds(
        lambda size, age_s: Entry((), size, NOW_S - age_s),
        st.integers(0, 100),
        st.integers(0, 10 * LEAST_AGE_S),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(ENTRIES, st.integers(0, 300))
def test_the_size_is_kept_with_the_most_recently_used(found: list[Entry], most: int) -> None:
    going = prune_cache.expired(found, now_s=NOW_S, max_bytes=most)
    left = list(found)
    for entry in going:
        left.remove(entry)
    protected = [entry for entry in left if NOW_S - entry.used_s < LEAST_AGE_S]
    assert sum(entry.size_bytes for entry in left) <= most or left == protected
    if going:
        oldest_left = min((entry.used_s for entry in left), default=NOW_S)
        assert max(entry.used_s for entry in going) <= oldest_left
        assert sum(entry.size_bytes for entry in [*left, going[-1]]) > most


@pytest.mark.parametrize("arguments", [["--max-size", "50"], ["--max-age", "3 weeks"]])
def test_a_mistake_is_one_message(cache: Path, arguments: list[str]) -> None:
    with pytest.raises(InputError, match="expected a number and one of"):
        prune_cache.main([str(cache), *arguments])
    with pytest.raises(InputError, match="expected a folder"):
        prune_cache.main([str(cache / "nowhere")])
    assert letters(cache) == "aabcd"
