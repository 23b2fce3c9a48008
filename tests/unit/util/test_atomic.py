"""A job that begins again after it was killed in the middle of a write."""

from pathlib import Path

import pytest

from aam.util.atomic import atomic_path, remove_partial


@pytest.mark.parametrize("directory", [False, True])
def test_halves_of_outputs_go_and_nothing_else(tmp_path: Path, directory: bool) -> None:
    final = tmp_path / "view0.biom"
    writing = atomic_path(final)
    half = writing.__enter__()
    if directory:
        half.mkdir()
    (half / "config.json" if directory else half).write_text("ha")
    others = [tmp_path / name for name in ("view0.biom", "view1.biom", ".partial-1-x-view0.biom")]
    for path in others:
        path.write_text("whole")
    remove_partial([[final], tmp_path / "nowhere" / "view0.biom"])
    assert sorted(tmp_path.iterdir()) == sorted(others)
