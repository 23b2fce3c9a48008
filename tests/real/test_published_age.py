"""Scores on the published folds of the oral data agree with what is known of them."""

from pathlib import Path

import pandas as pd
import pytest

from aam.evaluate.report import task_metrics

ORAL = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "oral"


@pytest.mark.real
@pytest.mark.skipif(not ORAL.is_dir(), reason=f"{ORAL} is absent")
def test_training_median_scores_as_published():
    metadata = pd.read_csv(ORAL / "metadata.tsv", sep="\t", dtype=str, index_col=0)
    age, fold = metadata["host_age"].astype(float), metadata["published_fold"].astype(int)
    predictions = pd.DataFrame(
        {
            "sample-id": metadata.index,
            "fold": fold.to_numpy(),
            "observed": age.to_numpy(),
            "predicted": [age[fold != own].median() for own in fold],
        }
    )
    report = task_metrics("regression", predictions, metadata, ["qiita_study_id"])
    assert report["mae_fold_mean"] == pytest.approx(10.98, abs=0.005)
    assert report["mae_pooled"] == pytest.approx(9.99, abs=0.005)
    assert report["mae_by"]["qiita_study_id"]["10317"]["n"] == 540
