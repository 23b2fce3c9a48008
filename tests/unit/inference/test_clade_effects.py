"""Which clades moved the prediction of a sample."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.data.table import FeatureTable
from aam.data.trees import find_branches, parse_newick
from aam.distances.in_batch import BatchDistances
from aam.evaluate.clade_tests import STAND_INS, Clades
from aam.inference import clade_effects
from aam.inference.clade_effects import explain_by_clades
from aam.inference.kept_reads import KeptReads
from aam.inference.with_baselines import SuperLearner
from aam.learners.baselines.fit_arrays import fit_methods
from aam.stages.super_learner import task_of

FEATURES = [f"s{number}" for number in range(12)]
SAMPLES = 80
NEW = 7
MEMBERS = [3, 4]
TREE = "((s0:1,s1:1,s2:1,(s3:1,s4:1):1,s5:1):1,(s6:1,s7:1,s8:1,s9:1,s10:1,s11:1):1);"


@pytest.fixture(scope="module")
def reads():
    """Return the reads of all samples, the new ones last, and what the labels are made of."""
    rng = np.random.default_rng(0)
    weight = np.exp(rng.normal(size=(SAMPLES + NEW, len(FEATURES))))
    share = weight / weight.sum(axis=1, keepdims=True)
    counts = np.array([rng.multinomial(500, row) for row in share])
    return counts, np.log1p(counts[:, MEMBERS].sum(axis=1))


def learner(reads, kind="regression", *, has_tree=True, named=True):
    counts, signal = reads
    tree = parse_newick(TREE) if has_tree else None
    above, lengths = csr_array((len(FEATURES), 0)), np.zeros(0)
    if tree is not None:
        above, lengths = find_branches(tree, FEATURES)
    names = [f"k{number}" for number in range(SAMPLES)]
    kept = FeatureTable(names, FEATURES, csr_array(counts[:SAMPLES]))
    settings = {"depth": 500, "views": 1, "seed": 0}
    label = signal[:SAMPLES]
    if kind != "regression":
        label = np.where(label > np.median(label), "01", "02")
    folds = pd.DataFrame({"fold": np.arange(SAMPLES) % 4, "group": "", "observed": label})
    distances = "kernel_unifrac" if has_tree else "kernel_bray_curtis"
    methods = {"kernel_clr": 0.6, distances: 0.3, "extra_trees": 0.1}
    row = {"clade": "clade of s3", "taxon": "g__Rothia", "representative": "s3"}
    features = pd.DataFrame({"clade": ["clade of s3"] * 2}, index=["s3", "s4"])
    content = {
        "kind": kind,
        "classes": [] if kind == "regression" else ["01", "02"],
        "bounds": [None, None],
        "seed": 0,
        "model": None,
        "mixtures": {"": {"weights": methods, "temperatures": dict.fromkeys(methods, 1.0)}},
    }
    folds = folds.set_axis(names)
    kept_reads = KeptReads([kept], above, lengths, tree, {}, settings)
    task = task_of(content, folds, kept_reads, [csr_array((0, len(FEATURES)))], "")
    return SuperLearner(
        settings=content,
        folds=folds,
        reads=kept_reads,
        models=None,
        methods={"": fit_methods(task)},
        compared=np.arange(SAMPLES),
        clades=(pd.DataFrame([row]), features) if named else None,
    )


def explain(super_learner, counts):
    drawn = [csr_array(counts)]
    return explain_by_clades(super_learner, drawn, [f"n{number}" for number in range(len(counts))])


@pytest.mark.parametrize("has_tree", [True, False])
def test_an_effect_is_the_prediction_less_that_with_the_reads_of_similar_samples(reads, has_tree):
    super_learner = learner(reads, has_tree=has_tree)
    new = reads[0][SAMPLES:]
    found = explain(super_learner, new).set_index("sample-id")
    kept = super_learner.reads
    clades = Clades.of_table(csr_array(kept.views[0].counts), FEATURES, kept.tree)
    node = clades.find(np.array(MEMBERS))
    beyond = np.ones(len(clades.parent_B), bool)
    beyond[[*clades.above(node), *range(node, clades.end_B[node])]] = False
    for number, row in enumerate(new):
        own = clades.of_draw(csr_array(row[None])).logs_NB[:, beyond]
        far = ((own - clades.logs_NB[:, beyond]) ** 2).sum(axis=1)
        copies = np.repeat(row[None], STAND_INS, axis=0)
        stand_ins = kept.views[0].counts.toarray()[np.argsort(far)[:STAND_INS]]
        copies[:, MEMBERS] = stand_ins[:, MEMBERS]
        value = super_learner.predict_reads([csr_array(np.vstack([row[None], copies]))], 1)[""]
        expected = value[0, 0] - value[1:, 0].mean()
        assert found.loc[f"n{number}", "effect"] == pytest.approx(expected, abs=1e-6)


def test_a_clade_raises_the_prediction_of_a_sample_that_has_more_of_it_than_similar_ones(reads):
    more, none = reads[0][SAMPLES:].copy(), reads[0][SAMPLES:].copy()
    more[:, MEMBERS] += 200
    none[:, MEMBERS] = 0
    super_learner = learner(reads)
    assert (explain(super_learner, more)["effect"] > 0).all()
    fewer = explain(super_learner, none)
    assert (fewer["effect"] < 0).all()
    assert (fewer["share"] == 0).all()
    # Those whose labels are as low have little of it.
    assert (fewer["share_alike"] < explain(super_learner, more)["share_alike"]).all()


def test_of_classes_it_is_the_probability_of_the_one_that_is_predicted(reads):
    more = reads[0][SAMPLES:].copy()
    more[:, MEMBERS] += 200
    found = explain(learner(reads, "classification"), more)
    assert set(found["predicted"]) == {"01"}
    assert (found["effect"] > 0).all()
    assert found["effect"].max() <= 1
    assert set(found["taxon"]) == {"g__Rothia"}


def test_other_samples_and_their_order_change_nothing(reads, monkeypatch):
    super_learner = learner(reads)
    new = reads[0][SAMPLES:]
    whole = explain(super_learner, new)["effect"].to_numpy()
    backwards = explain(super_learner, new[::-1])["effect"].to_numpy()
    np.testing.assert_allclose(backwards[::-1], whole, atol=1e-6)
    monkeypatch.setattr(clade_effects, "ROWS_AT_ONCE", 1)
    np.testing.assert_allclose(explain(super_learner, new)["effect"], whole, atol=1e-6)


def test_a_sample_is_explained_alike_in_any_part_of_the_table(reads):
    # Few reads make samples that are equally alike, and labels of few values make medians that tie.
    counts, signal = reads
    super_learner = learner((np.minimum(counts, 3), np.round(signal)))
    new = np.concatenate([np.minimum(counts[SAMPLES:], 3), np.minimum(counts[:40], 3)])
    whole = explain(super_learner, new)["effect"].to_numpy()
    for parts in (len(new), 5):
        found = [explain(super_learner, part)["effect"] for part in np.array_split(new, parts)]
        np.testing.assert_allclose(np.concatenate(found), whole, rtol=0, atol=1e-9)


def test_without_named_clades_there_is_an_empty_table(reads):
    found = explain(learner(reads, named=False), reads[0][SAMPLES:])
    assert [*found.columns] == [*clade_effects.COLUMNS]
    assert len(found) == 0


@pytest.mark.parametrize("has_tree", [True, False])
def test_distances_to_kept_samples_are_those_of_all_pairs(reads, has_tree):
    kept = learner(reads, has_tree=has_tree).reads
    new = csr_array(np.vstack([reads[0][SAMPLES:], np.zeros((1, len(FEATURES)), int)]))
    fields = kept.problem_fields([new], distances=True)
    metric = "unweighted" if has_tree else "bray_curtis"
    measure = BatchDistances((metric,), 1.0, kept.above.astype(float), kept.lengths)
    with np.errstate(invalid="ignore"):
        whole = measure(csr_array(fields["counts"]))[metric][:, :SAMPLES]
    np.testing.assert_allclose(fields["distances"], np.nan_to_num(whole, nan=1.0), atol=1e-6)
