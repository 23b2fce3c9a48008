import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from aam.evaluate.importance import Importance, direction_columns
from aam.util.atomic import write_tsv

IDS, SEQUENCES = ["f0", "007", "f2", "f3"], ["ACGT", "AC", "GG", "T"]


def add(
    importance, asvs, gradients, removed=(), attention=None, change=None, removed_asvs=None
) -> None:
    gradients_AC = np.array(gradients, float)
    removed_R = np.arange(len(removed)) if removed_asvs is None else np.array(removed_asvs)
    importance.add(
        np.array(asvs),
        attention_A=np.array(attention or [1 / len(asvs)] * len(asvs)),
        gradients_AC=gradients_AC,
        change_C=gradients_AC.sum(axis=0) if change is None else np.array(change),
        removed_R=removed_R,
        removed_RC=np.array(removed, float).reshape(len(removed_R), gradients_AC.shape[1]),
    )


def test_table_by_hand(tmp_path):
    importance = Importance(4, ["age"])
    add(importance, [0, 1], [[0.5], [-0.25]], attention=[0.75, 0.25])
    add(importance, [1, 3], [[0.75], [0.0]], attention=[0.5, 0.5])
    table = importance.table(IDS, SEQUENCES)
    write_tsv(tmp_path / "importance.tsv", table)
    read = pd.read_csv(tmp_path / "importance.tsv", sep="\t", dtype={"feature-id": str})
    pd.testing.assert_frame_equal(read, table)
    assert read.to_csv(index=False, lineterminator="\n") == (
        "feature-id,sequence,importance,direction,attention,prevalence,samples\n"
        "007,AC,0.5,0.25,0.375,1.0,2\n"
        "f0,ACGT,0.25,0.5,0.75,0.5,1\n"
        "f3,T,0.0,0.0,0.5,0.5,1\n"
    )


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


def test_agreement_counts_the_removed_asvs_alone():
    importance = Importance(5, ["age"])
    gradients = [[9], [3], [-5], [2], [1]]
    attention = [0.0, 0.2, 0.1, 0.3, 0.4]
    add(importance, range(5), gradients, [[1], [3], [2]], attention, removed_asvs=[4, 1, 3])
    check = importance.check()
    assert check["gradients"] == pytest.approx(1)
    assert check["attention"] == pytest.approx(-1)


@pytest.mark.parametrize("values", [4, 1000])
def test_agreement_is_the_rank_correlation_of_scipy(values):
    drawn_2A = np.random.default_rng(0).integers(values, size=(2, 30)).astype(float)
    importance = Importance(30, ["age"])
    add(importance, range(30), drawn_2A[:1].T, removed=drawn_2A[1:].T)
    expected = spearmanr(*drawn_2A).statistic
    assert importance.check()["gradients"] == pytest.approx(expected, abs=1e-12)
