"""Training samples of real studies are recognized under other names, and others are not."""

from pathlib import Path

import numpy as np
import pytest

from aam.data.importing.table import load_table, without_empty
from aam.data.rarefaction import rarefy
from aam.data.table import FeatureTable
from aam.inference.reference import Reference, write_reference

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA.is_dir(), reason=f"no real data in {DATA}"),
]


@pytest.mark.parametrize("depth", [None, 1000])
@pytest.mark.parametrize("study", ["moving-pictures", "ecam"])
def test_all_copies_and_no_other_samples_are_recognized(study, depth, tmp_path):
    """Also in a study that was rarefied before: then counts agree more often by chance."""
    whole, _ = without_empty(load_table(DATA / study / "table.biom"))
    if depth is not None:
        whole = rarefy(whole, depth, 0)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(whole.sample_ids))
    training = whole.select_samples(order[::2])
    sequences = training.feature_ids
    embedding = np.zeros((len(order[::2]), 2), np.float32)
    write_reference(tmp_path / "reference", embedding, training, sequences, "fold0")
    known = Reference.open(tmp_path / "reference")
    # The whole study, under other names and in another order of samples and of features.
    columns = rng.permutation(len(whole.feature_ids))
    counts = whole.counts[order][:, columns]
    counts.sort_indices()
    hashes = [f"{column:032x}" for column in columns]
    table = FeatureTable([f"new {row}" for row in range(len(order))], hashes, counts)
    marks = known.samples.marks(table, [whole.feature_ids[column] for column in columns])[
        "in_training"
    ]
    assert not marks.iloc[1::2].any()
    enough = np.diff(counts.indptr)[::2] >= 5
    assert (marks.iloc[::2][enough] == "reads").all()
    assert enough.mean() > 0.99
