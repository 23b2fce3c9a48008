import numpy as np
import pandas as pd
import pytest
from problems import predictions_of
from scipy import stats

from aam.evaluate.comparison import compare, corrected_resampled_t


def table(errors: list[float], folds: int = 4) -> pd.DataFrame:
    rows = np.arange(len(errors))
    observed, predicted = (10 + rows).astype(str), (10 + rows + errors).astype(str)
    return predictions_of(observed, predicted, rows % folds)


def test_the_corrected_test_by_hand():
    difference = np.array([-1.0, -2.0, -1.5, 0.5])
    p = corrected_resampled_t(difference, [10, 10, 10, 10])
    t = difference.mean() / np.sqrt((1 / 4 + 1 / 3) * difference.var(ddof=1))
    assert p == pytest.approx(2 * stats.t.cdf(t, 3))
    assert p > stats.ttest_1samp(difference, 0).pvalue


def test_folds_are_compared_whatever_the_order_of_rows():
    own, other = table([1, 2, 3, 1, 1, 2, 1, 1]), table([2, 4, 2, 3, 2, 6, 2, 3])
    found = compare("regression", own, other.sample(frac=1, random_state=0))
    by_fold = np.array([1 - 2, 2 - 5, 2 - 2, 1 - 3])
    assert found["difference"] == pytest.approx(by_fold.mean())
    assert found["folds_won"] == 0.75
    assert found["folds"] == 4
    assert found["corrected_t_p"] == pytest.approx(corrected_resampled_t(by_fold, [2] * 4))
    # Three folds without a tie: all signs alike in 2 of the 8 equally likely cases.
    assert found["wilcoxon_folds_p"] == pytest.approx(0.25)
    reverse = compare("regression", other, own)
    assert reverse["difference"] == -found["difference"]
    assert reverse["folds_won"] == 0
    for name in ("corrected_t_p", "wilcoxon_folds_p", "wilcoxon_samples_p"):
        assert reverse[name] == pytest.approx(found[name])


def test_classes_are_compared_by_what_one_of_the_two_has_right():
    own = table([0] * 8).assign(observed="a", predicted=["a"] * 7 + ["b"])
    found = compare("classification", own, own.assign(predicted=["b"] * 6 + ["a", "a"]))
    assert found["mcnemar_p"] == pytest.approx(2 * (1 + 7) / 2**7)
    assert found["difference"] == pytest.approx(7 / 8 - 2 / 8)
    assert "wilcoxon_samples_p" not in found


def test_a_table_against_itself_has_no_test():
    own = table([1, 2, 3, 4])
    found = compare("regression", own, own)
    assert found["difference"] == found["folds_won"] == 0
    assert {found[name] for name in found if name.endswith("_p")} == {None}
    assert compare("classification", own, own)["mcnemar_p"] is None
