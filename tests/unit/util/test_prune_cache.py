import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.util import prune_cache
from aam.util.errors import InputError
from aam.util.prune_cache import LEAST_AGE_S, Entry

DAY_S = 86_400.0
NOW_S = time.time()


def put(folder, letter, suffix, size, age_days):
    path = folder / f"{64 * letter}{suffix}"
    path.write_bytes(size * b"x")
    os.utime(path, (time.time() - age_days * DAY_S,) * 2)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Fill a cache, beside results with a link into it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "cache"
    folder.mkdir()
    table = put(folder, "a", "_table.biom", 3000, 100)
    put(folder, "a", "_dropped.tsv", 1000, 100)
    put(folder, "b", ".arrow", 2000, 50)
    put(folder, "c", ".parquet", 5000, 10)
    put(folder, "d", ".arrow", 10, 0.01)
    (tmp_path / "results" / "demo").mkdir(parents=True)
    (tmp_path / "results" / "demo" / "view0.biom").symlink_to(table)
    return folder


def letters(folder):
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
def test_what_was_not_used_for_the_longest_time_goes(cache, capsys, arguments, left):
    prune_cache.main(["cache", *arguments])
    assert letters(cache) == left
    if "--dry-run" not in arguments:
        assert f"removed {4 - len(set(left))} of 4 entries" in capsys.readouterr().out


def test_reading_one_file_keeps_the_whole_entry(cache):
    read = cache / f"{64 * 'a'}_dropped.tsv"
    os.utime(read, (NOW_S - DAY_S, read.stat().st_mtime))
    prune_cache.main(["cache", "--max-age", "30d"])
    assert letters(cache) == "aacd"


def test_other_files_links_and_folders_stay(cache, tmp_path):
    precious = put(tmp_path, "e", ".biom", 100, 500)
    link = cache / f"{64 * 'f'}.biom"
    link.symlink_to(precious)
    folder = cache / f"{64 * '0'}"
    folder.mkdir()
    inside = put(folder, "a", ".biom", 10, 500)
    strange = [cache / name for name in ("notes.txt", f"{63 * 'a'}.biom", f"x{64 * 'a'}.biom")]
    for path in strange:
        path.write_text("x")
    for path in (*strange, link):
        os.utime(path, (0, 0), follow_symlinks=False)
    prune_cache.main(["cache", "--max-size", "0B", "--max-age", "1h"])
    assert {*strange, link, folder} == {p for p in cache.iterdir() if p.name[0] != "d"}
    assert precious.exists()
    assert inside.exists()


ENTRY = st.builds(
    lambda size, age_s: Entry((), size, NOW_S - age_s),
    st.integers(0, 100),
    st.integers(0, 10 * LEAST_AGE_S),
)


@settings(deadline=None)
@given(st.lists(ENTRY, max_size=8), st.integers(0, 300))
def test_the_size_is_kept_with_the_most_recently_used(found, most):
    going = prune_cache.choose_expired(found, now_s=NOW_S, max_bytes=most)
    left = list(found)
    for entry in going:
        left.remove(entry)
    protected = [entry for entry in left if NOW_S - entry.used_s < LEAST_AGE_S]
    assert sum(entry.size_bytes for entry in left) <= most or left == protected
    if going:
        oldest_left = min((entry.used_s for entry in left), default=NOW_S)
        assert max(entry.used_s for entry in going) <= oldest_left
        assert sum(entry.size_bytes for entry in [*left, going[-1]]) > most


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cache", "--max-size", "50"], "expected a number and one of"),
        (["cache", "--max-age", "3 weeks"], "expected a number and one of"),
        (["nowhere"], "expected a folder"),
    ],
)
def test_a_mistake_is_one_message(cache, arguments, said):
    with pytest.raises(InputError, match=said):
        prune_cache.main(arguments)
    assert letters(cache) == "aabcd"
