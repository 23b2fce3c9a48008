import subprocess
import sys

import pytest

from aam.util.atomic import atomic_path, atomic_path_with_mode, remove, remove_partial
from aam.util.errors import count_names, first_few, first_names
from aam.util.machine import accelerated

STAGES = (
    "simulate, import_tree, unifrac, unifrac_part, baselines, plot; "
    "import aam.report.figures.importance"
)


@pytest.mark.parametrize("directory", [False, True])
def test_halves_of_outputs_go_and_nothing_else(tmp_path, directory):
    """A job that was killed in the middle of a write begins again."""
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


def test_a_link_to_a_folder_is_removed_and_the_folder_stays(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("kept")
    link = tmp_path / "link"
    link.symlink_to(folder)
    remove(link)
    assert not link.is_symlink()
    assert (folder / "file").read_text() == "kept"


def test_a_file_has_the_mode_of_the_user_whatever_its_writer_gives_it(tmp_path):
    (tmp_path / "plain").touch()
    with atomic_path_with_mode(tmp_path / "written") as partial:
        partial.write_text("content")
        partial.chmod(0o600)
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("file", "has_gpu"),
    [*((name, True) for name in ("nvidia0", "nvgpu", "kfd", "dxg")), ("nvidiactl", False)],
)
def test_a_gpu_is_known_by_its_device_file(tmp_path, file, has_gpu):
    (tmp_path / file).touch()
    assert accelerated(tmp_path) == has_gpu


@pytest.mark.parametrize(
    "code",
    [
        f"import sys; from aam.stages import {STAGES}; assert 'torch' not in sys.modules; "
        "import torch; assert torch.tensor(3).item() == 3",
        "import torch; from aam.util.scikit_bio import TreeNode; assert TreeNode('a').name == 'a'",
    ],
    ids=["stages that read trees do not load PyTorch", "PyTorch may be there before"],
)
def test_scikit_bio_is_imported_without_torch(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_in_messages_are_quoted_counted_and_cut():
    assert count_names("group", []) == "no group"
    assert count_names("group", ["Colombia"]) == "group 'Colombia'"
    assert count_names("group", "abc") == "3 groups ('a', 'b', 'c')"
    assert count_names("row", range(9), limit=2) == "9 rows ('0', '1', …)"
    assert first_names("ab") == "'a', 'b'"
    assert first_names(["a\tb", *"cdef", "g" * 50]) == r"'a\tb', 'c', 'd', 'e', 'f' and 1 more"
    assert first_names(["g" * 50]) == f"'{'g' * 37}…'"
    assert first_few(["1 in 'a'", "2 in 'b'"], limit=1) == "1 in 'a' and 1 more"
