from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy.stats import spearmanr
from skbio import TreeNode

from aam.evaluate.figures import importance as figure
from aam.evaluate.importance import Importance, direction_columns, read_importance, write_importance

IDS, SEQUENCES = ["f0", "007", "f2", "f3"], ["ACGT", "AC", "GG", "T"]


def add(importance, asvs, gradients, removed=None, attention=None, change=None) -> None:
    gradients_AC = np.array(gradients, float)
    importance.add(
        np.array(asvs),
        attention_A=np.array(attention or [1 / len(asvs)] * len(asvs)),
        gradients_AC=gradients_AC,
        change_C=gradients_AC.sum(axis=0) if change is None else np.array(change),
        removed_AC=None if removed is None else np.array(removed, float),
    )


def test_table_by_hand(tmp_path):
    importance = Importance(4, ["age"])
    add(importance, [0, 1], [[0.5], [-0.25]], attention=[0.75, 0.25])
    add(importance, [1, 3], [[0.75], [0.0]], attention=[0.5, 0.5])
    table = importance.table(IDS, SEQUENCES)
    write_importance(tmp_path / "importance.tsv", table)
    read = read_importance(tmp_path / "importance.tsv")
    pd.testing.assert_frame_equal(read, table)
    assert list(read.columns)[:4] == ["feature-id", "sequence", "importance", "direction"]
    assert read.to_dict("records") == [
        {
            "feature-id": "007",
            "sequence": "AC",
            "importance": 0.5,
            "direction": 0.25,
            "attention": 0.375,
            "prevalence": 1.0,
            "samples": 2,
        },
        {
            "feature-id": "f0",
            "sequence": "ACGT",
            "importance": 0.25,
            "direction": 0.5,
            "attention": 0.75,
            "prevalence": 0.5,
            "samples": 1,
        },
        {
            "feature-id": "f3",
            "sequence": "T",
            "importance": 0.0,
            "direction": 0.0,
            "attention": 0.5,
            "prevalence": 0.5,
            "samples": 1,
        },
    ]


def test_every_class_has_a_direction_and_the_importance_is_their_mean_size():
    importance = Importance(4, ["gut", "skin"])
    add(importance, [2], [[0.5, -1.5]])
    table = importance.table(IDS, SEQUENCES)
    assert direction_columns(table) == ["direction:gut", "direction:skin"]
    row = table.iloc[0]
    assert (row["importance"], row["direction:gut"], row["direction:skin"]) == (1.0, 0.5, -1.5)


def test_check_says_how_well_the_attributions_agree_with_removal():
    importance = Importance(4, ["age"])
    add(importance, [0, 1, 2], [[3], [2], [1]], [[-1], [-2], [-3]], [0.2, 0.3, 0.5], [5.5])
    add(importance, [0, 1, 2], [[3], [2], [1]], [[30], [20], [10]], [0.2, 0.3, 0.5])
    # Equal changes have no ranks, and a sample that was not checked has none.
    add(importance, [0, 1], [[1], [2]], [[0], [0]])
    add(importance, [3], [[1]])
    check = importance.check()
    assert (check["samples"], check["checked"]) == (4, 3)
    assert check["gradients"] == pytest.approx(1)
    assert check["attention"] == pytest.approx(0)
    assert check["completeness"] == {"change_median": 4.25, "gap_median": 0.0, "gap_max": 0.5}


@pytest.mark.parametrize("values", [4, 1000])
def test_agreement_is_the_rank_correlation_of_scipy(values):
    drawn_2A = np.random.default_rng(0).integers(values, size=(2, 30)).astype(float)
    importance = Importance(30, ["age"])
    add(importance, range(30), drawn_2A[:1].T, removed=drawn_2A[1:].T)
    expected = spearmanr(*drawn_2A).statistic
    assert importance.check()["gradients"] == pytest.approx(expected, abs=1e-12)


def test_check_without_removal_has_no_agreement():
    importance = Importance(4, ["age"])
    add(importance, [0, 1], [[1], [2]])
    assert importance.check()["gradients"] is None


def tree_of(text: str) -> TreeNode:
    return TreeNode.read(StringIO(text))


def test_layout_by_hand():
    names, branches = figure.layout(tree_of("((A:1,B:2):0.5,C:4);"))
    assert names == ["A", "B", "C"]
    drawn = {(branch.start, branch.end, branch.place, branch.children) for branch in branches}
    assert drawn == {
        (0.5, 1.5, 0.0, ()),
        (0.5, 2.5, 1.0, ()),
        (0.0, 0.5, 0.5, (0.0, 1.0)),
        (0.0, 4.0, 2.0, ()),
        (0.0, 0.0, 1.25, (0.5, 2.0)),
    }


def drawing(outputs: int, asvs: int, path: Path) -> None:
    rng = np.random.default_rng(0)
    ids = [f"{'ACGT' * 40}{i}" for i in range(asvs)]
    names = [f"a_class_with_a_rather_long_name_{c}" for c in range(outputs)]
    importance = Importance(asvs, names)
    add(importance, range(asvs), rng.normal(size=(asvs, outputs)))
    tree = TreeNode.read(StringIO(f"(({','.join(f'{name}:1' for name in ids)}):0.3);"))
    check = {**importance.check(), "gradients": 0.9712}
    figure.draw(importance.table(ids, ids), tree, check, path)


@pytest.mark.parametrize(("outputs", "asvs"), [(1, 30), (3, 30), (20, 30), (1, 1), (3, 2)])
def test_picture_is_whole_and_bounded_and_the_same_for_everyone(outputs, asvs, tmp_path, figures):
    for name in ("first.png", "second.png"):
        drawing(outputs, asvs, tmp_path / name)
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()
    height, width = imread(tmp_path / "first.png").shape[:2]
    assert width <= 1200
    assert height <= 1300
    drawn, size = figures[0].get_tightbbox(), figures[0].get_size_inches()
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= size[0]
    assert drawn.y1 <= size[1]
    assert len(figures[0].axes) == (2 if outputs == 1 else 3)


def test_bars_stand_beside_their_tips(tmp_path, monkeypatch):
    shown = {}

    def kept(drawn: Figure, *arguments, **options) -> None:
        bars = drawn.axes[-1]
        labels = [label.get_text() for label in drawn.axes[1].get_yticklabels()]
        widths = [bar.get_width() for bar in bars.patches]
        shown.update(zip(labels, widths, strict=True))
        Path(arguments[0]).touch()

    monkeypatch.setattr(Figure, "savefig", kept)
    table = pd.DataFrame(
        {"feature-id": list("BAC"), "importance": [3.0, 2.0, 1.0], "direction": [1, -1, 1]}
    )
    check = {"outputs": ["age"], "samples": 3, "gradients": None}
    figure.draw(table, tree_of("((A:1,B:2):0.5,C:4);"), check, tmp_path / "p.png")
    assert shown == {"A": 2.0, "B": 3.0, "C": 1.0}
