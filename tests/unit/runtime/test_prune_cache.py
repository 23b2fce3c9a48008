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
    return folder


def letters(folder: Path) -> str:
    return "".join(sorted(path.name[0] for path in folder.iterdir()))


def test_age(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prune_cache.main([str(cache), "--max-age", "90d"])
    assert letters(cache) == "bc"
    assert "removed 1 of 3 entries" in capsys.readouterr().out


def test_size_takes_what_was_not_used_for_the_longest_time(cache: Path) -> None:
    prune_cache.main([str(cache), "--max-size", "7.5KB"])
    assert letters(cache) == "bc"
    prune_cache.main([str(cache), "--max-size", "5KB"])
    assert letters(cache) == "c"


def test_reading_one_file_keeps_the_whole_entry(cache: Path) -> None:
    read = cache / f"{64 * 'a'}_dropped.tsv"
    os.utime(read, (NOW_S - DAY_S, read.stat().st_mtime))
    prune_cache.main([str(cache), "--max-age", "30d"])
    assert letters(cache) == "aac"


def test_dry_run_and_no_limits_remove_nothing(cache: Path) -> None:
    prune_cache.main([str(cache), "--max-age", "1d", "--dry-run"])
    prune_cache.main([str(cache)])
    assert letters(cache) == "aabc"


def test_what_a_workflow_may_just_be_using_stays(cache: Path) -> None:
    put(cache, "d", ".arrow", 10, 0.01)
    prune_cache.main([str(cache), "--max-size", "0B"])
    assert letters(cache) == "d"


def test_other_files_links_and_folders_stay(cache: Path, tmp_path: Path) -> None:
    precious = put(tmp_path, "e", ".biom", 100, 500)
    link = cache / f"{64 * 'f'}.biom"
    link.symlink_to(precious)
    os.utime(link, (0, 0), follow_symlinks=False)
    strange = [cache / name for name in ("notes.txt", f"{63 * 'a'}.biom", f"x{64 * 'a'}.biom")]
    for path in strange:
        path.write_text("x")
        os.utime(path, (0, 0))
    folder = cache / f"{64 * 'd'}"
    folder.mkdir()
    put(folder, "a", ".biom", 10, 500)
    prune_cache.main([str(cache), "--max-size", "0B", "--max-age", "1h"])
    assert {path.name for path in cache.iterdir()} == {
        *(path.name for path in strange),
        link.name,
        folder.name,
    }
    assert precious.exists()
    assert len(list(folder.iterdir())) == 1


def test_what_results_link_to_can_be_kept(cache: Path, tmp_path: Path) -> None:
    rarefied = tmp_path / "results" / "demo" / "rarefied"
    rarefied.mkdir(parents=True)
    (rarefied / "view0.biom").symlink_to(cache / f"{64 * 'a'}_table.biom")
    prune_cache.main([str(cache), "--max-age", "1d", "--keep-linked", str(tmp_path / "results")])
    assert letters(cache) == "aa"


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
        without_last = sum(entry.size_bytes for entry in [*left, going[-1]])
        assert without_last > most


@pytest.mark.parametrize("arguments", [["--max-size", "50"], ["--max-age", "3 weeks"]])
def test_a_mistake_is_one_message(cache: Path, arguments: list[str]) -> None:
    with pytest.raises(InputError, match="expected a number and one of"):
        prune_cache.main([str(cache), *arguments])
    with pytest.raises(InputError, match="expected a folder"):
        prune_cache.main([str(cache / "nowhere")])
    assert letters(cache) == "aabc"
