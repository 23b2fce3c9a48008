"""What networks owe to named clades."""

import numpy as np
import pandas as pd
import pytest
from planted_clades import FEATURES, FOLDS, NOISE, SAMPLES, SIGNAL, TREE, plant
from scipy.sparse import csr_array

from aam.data.stores import TokenStore
from aam.data.trees import parse_newick
from aam.evaluate.clade_tests import Clades
from aam.inference import network_clades
from aam.inference.network_clades import COLUMNS, NetworkClades
from aam.inference.replaced_reads import AskedClade
from aam.learners.baselines.problem import Problem

NAMED = [
    AskedClade("", "signal", "", np.array(SIGNAL)),
    AskedClade("", "noise", "", np.array(NOISE)),
]


class Fold:
    """In the place of the networks of a fold: one that has learned what makes the label."""

    def __init__(self, fold, classes):
        self.fold = fold
        self.classes = classes

    def of_fold(self, fold):
        return Fold(fold, self.classes)

    @property
    def target(self):
        return self

    def predict(self, reads_RF):
        """Return the log-reads of the signal, and a little of the noise, or probabilities."""
        value_R = np.log1p(reads_RF[:, SIGNAL].sum(axis=1))
        value_R = value_R + 0.05 * np.log1p(reads_RF[:, NOISE].sum(axis=1))
        if not self.classes:
            return value_R[:, None]
        odds_R = 1 / (1 + np.exp(-(value_R - 4.3)))
        return np.stack([odds_R, 1 - odds_R], axis=1)


@pytest.fixture(params=["regression", "classification"])
def asked(request, monkeypatch):
    counts, label, classes = plant(request.param, noise=0.3)
    seen = []

    def predict(bundle, store, tokens, devices, asvs, covariates):
        reads_RF = store.view_matrix(0, len(FEATURES)).toarray()
        seen.append((bundle.fold, reads_RF, covariates))
        return bundle.predict(reads_RF)

    monkeypatch.setattr(network_clades, "predict_store", predict)
    task = Problem(
        kind=request.param,
        target=label,
        classes=classes,
        fold=np.arange(SAMPLES) % FOLDS,
        group=np.array([f"g{number % 45}" for number in range(SAMPLES)]),
        counts=csr_array(counts),
        distances=np.zeros((0, 0), np.float32),
        above=csr_array((len(FEATURES), 0)),
        lengths=np.zeros(0),
        seed=0,
    )
    names = [f"k{number}" for number in range(SAMPLES)]
    networks = NetworkClades(
        bundle=Fold(-1, classes),
        tasks={"": task},
        covariates=pd.DataFrame({"host": [*map(str, range(SAMPLES))]}, names),
        known=Clades.of_table(csr_array(counts), FEATURES, parse_newick(TREE)),
        tokens=TokenStore(FEATURES, np.full(12, 4), np.zeros((12, 4), np.uint8)),
        devices=None,
    )
    chosen = {fold: np.flatnonzero(task.fold == fold)[:25] for fold in range(FOLDS)}
    return networks, chosen, counts, seen


def test_what_networks_use_is_told_from_what_they_hardly_use(asked):
    networks, chosen, _, _ = asked
    found = networks.test(NAMED, chosen)
    assert found.columns.tolist() == [*COLUMNS]
    assert found["clade"].tolist() == ["signal", "noise", ""]
    assert found["samples"].tolist() == [75] * 3
    signal, noise, both = found.to_dict("records")
    assert signal["p"] < 1e-4
    assert noise["p"] > 0.01
    assert np.isnan(both["p"])
    assert signal["loss"] > 10 * abs(noise["loss"])
    assert signal["low"] > 0
    assert both["loss"] == pytest.approx(signal["loss"], rel=0.3)
    assert networks.test([], chosen).columns.tolist() == [*COLUMNS]
    # Whose reads stand in does not depend on who else is asked.
    alone = networks.test(NAMED[:1], chosen)
    assert alone["loss"].tolist() == [signal["loss"]]


def test_reads_are_replaced_by_those_of_training_samples_of_other_units(asked):
    networks, chosen, counts, seen = asked
    networks.test(NAMED[:1], chosen)
    task = networks.tasks[""]
    rest = np.setdiff1d(np.arange(len(FEATURES)), SIGNAL)
    assert [fold for fold, _, _ in seen] == [0, 1, 2]
    for fold, reads_RF, covariates in seen:
        rows = chosen[fold]
        hosts = covariates["host"].to_numpy()
        # The samples as they are come first.
        np.testing.assert_array_equal(reads_RF[: len(rows)], counts[rows])
        assert hosts[: len(rows)].tolist() == [str(row) for row in rows]
        copies = reads_RF[len(rows) :].reshape(len(rows), 5, len(FEATURES))
        hosts_of_copies = hosts[len(rows) :].reshape(len(rows), 5)
        for number, row in enumerate(rows):
            assert set(hosts_of_copies[number]) == {str(row)}
            assert (copies[number][:, rest] == counts[row, rest]).all()
            may_stand_in = (task.fold != fold) & (task.units != task.units[row])
            allowed = counts[may_stand_in][:, SIGNAL].tolist()
            assert all(pair in allowed for pair in copies[number][:, SIGNAL].tolist())
