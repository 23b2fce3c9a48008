import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.table import FeatureTable
from aam.model.predictor import Predictor
from aam.model.target import Target
from aam.train import ensemble
from aam.train.embeddings import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.train.ensemble import SEEN_ASVS, Ensemble
from aam.util.errors import InputError

AGE = Target("regression", "age", (), 40.0, 12.0)
SITE = Target("classification", "site", ("gut", "skin", "tongue"), 0.0, 1.0)
DEPTH = 60


def ensemble_of(new_encoder, target: Target, seen=()) -> Ensemble:
    predictors = [Predictor(new_encoder(20, seed=s), target, seed=s) for s in range(3)]
    return Ensemble(predictors, DEPTH, 0, 20, frozenset(seen), "fp32")


@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=8)
def test_predictions_do_not_depend_on_the_order_of_rows_and_columns(tiny, new_encoder, seed):
    ensemble = ensemble_of(new_encoder, AGE)
    expected = ensemble.predict(tiny.table, tiny.sequences)
    rng, table = np.random.default_rng(seed), tiny.table
    rows = rng.permutation(20)[: rng.integers(1, 21)]
    columns = rng.permutation(30)
    counts = table.counts[rows][:, columns]
    counts.sort_indices()
    shuffled = FeatureTable(
        [table.sample_ids[i] for i in rows], [table.feature_ids[j] for j in columns], counts
    )
    found = ensemble.predict(shuffled, tiny.sequences)
    assert found.index.tolist() == [name for name in shuffled.sample_ids if name in expected.index]
    pd.testing.assert_frame_equal(found, expected.loc[found.index], atol=1e-3, rtol=1e-5)


def test_numbers_are_means_with_the_spread_of_the_folds(tiny, new_encoder):
    ensemble = ensemble_of(new_encoder, AGE)
    found = ensemble.predict(tiny.table, tiny.sequences)
    assert list(found.columns) == ["predicted", "sd", "unseen_asvs"]
    assert found.index.name == "sample-id"
    single = []
    for predictor in ensemble.predictors:
        one = Ensemble([predictor], DEPTH, 0, 20, frozenset(), "fp32")
        single.append(one.predict(tiny.table, tiny.sequences)["predicted"])
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=1e-3)
    assert (found["sd"] > 0).all()


def test_classes_come_with_their_probabilities(tiny, new_encoder):
    found = ensemble_of(new_encoder, SITE).predict(tiny.table, tiny.sequences)
    names = [f"probability:{name}" for name in SITE.classes]
    assert list(found.columns) == ["predicted", *names, "unseen_asvs"]
    np.testing.assert_allclose(found[names].sum(axis=1), 1)
    best = found[names].idxmax(axis=1).str.removeprefix("probability:")
    assert found["predicted"].tolist() == best.tolist()


def test_the_share_of_reads_of_unseen_asvs(tiny, new_encoder):
    view = tiny.views[0]
    seen = [tiny.sequences[name] for name in view.feature_ids[::2]]
    found = ensemble_of(new_encoder, AGE, seen).predict(tiny.table, tiny.sequences)
    reads = view.counts.toarray()
    expected = reads[:, 1::2].sum(axis=1) / reads.sum(axis=1)
    np.testing.assert_allclose(found["unseen_asvs"], expected)
    assert found["unseen_asvs"].between(0.1, 0.9).any()


def test_sequences_are_cut_as_in_training_before_they_are_compared(tiny, new_encoder):
    longer = {name: sequence + "ACGT" for name, sequence in tiny.sequences.items()}
    ensemble = ensemble_of(new_encoder, AGE, tiny.sequences.values())
    found, expected = (ensemble.predict(tiny.table, s) for s in (longer, tiny.sequences))
    pd.testing.assert_frame_equal(found, expected)
    assert not found["unseen_asvs"].any()


def test_ambiguous_letters_make_no_asv_unseen(tiny, new_encoder):
    sequences = {name: f"N{sequence[1:]}" for name, sequence in tiny.sequences.items()}
    ensemble = ensemble_of(new_encoder, AGE, sequences.values())
    other = {name: f"R{sequence[1:]}" for name, sequence in sequences.items()}
    assert not ensemble.predict(tiny.table, other)["unseen_asvs"].any()


def test_shallow_samples_are_left_out_and_a_shallow_table_is_refused(tiny, new_encoder):
    ensemble, table = ensemble_of(new_encoder, AGE), tiny.table
    counts = table.counts.copy()
    counts.data[counts.indptr[4] : counts.indptr[5]] = 1
    found = ensemble.predict(
        FeatureTable(table.sample_ids, table.feature_ids, counts), tiny.sequences
    )
    assert found.index.tolist() == [*table.sample_ids[:4], *table.sample_ids[5:]]
    counts.data[:] = 1
    with pytest.raises(InputError, match="60"):
        ensemble.predict(FeatureTable(table.sample_ids, table.feature_ids, counts), tiny.sequences)


def test_an_ensemble_is_loaded_from_the_folder_alone(tiny, new_encoder, tmp_path):
    expected = ensemble_of(new_encoder, SITE, ["ACGT"])
    about = {
        "rarefaction": {"depth": DEPTH, "seed": 0},
        "settings": {"finetuning": {"precision": "fp32"}},
    }
    for fold, predictor in enumerate(expected.predictors):
        predictor.save(tmp_path / f"fold{fold}", about)
    (tmp_path / SEEN_ASVS).write_text("ACGT\n")
    loaded = Ensemble.load(tmp_path)
    assert loaded.seen_asvs == {"ACGT"}
    pd.testing.assert_frame_equal(
        loaded.predict(tiny.table, tiny.sequences), expected.predict(tiny.table, tiny.sequences)
    )


@pytest.fixture
def encoded(monkeypatch) -> list[int]:
    """Collect how many samples each run of an encoder embeds."""
    seen, embed_samples = [], ensemble.embed_samples

    def spy(encoder, store, tokens, rows, *rest):
        seen.append(len(rows))
        return embed_samples(encoder, store, tokens, rows, *rest)

    monkeypatch.setattr(ensemble, "embed_samples", spy)
    return seen


def test_an_encoder_that_folds_share_runs_once(tiny, new_encoder, encoded):
    encoders = [new_encoder(20, seed=seed) for seed in (0, 1, 0, 0)]
    predictors = [Predictor(encoder, AGE, seed=s) for s, encoder in enumerate(encoders)]
    found = Ensemble(predictors, DEPTH, 0, 20, frozenset(), "fp32").predict(
        tiny.table, tiny.sequences
    )
    assert encoded == [20, 20]
    alone = [
        Ensemble([predictor], DEPTH, 0, 20, frozenset(), "fp32")
        .predict(tiny.table, tiny.sequences)["predicted"]
        .to_numpy()
        for predictor in predictors
    ]
    np.testing.assert_allclose(found["predicted"], np.mean(alone, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(alone, axis=0), rtol=1e-3)


def write_asvs(tiny, encoder, devices, path, factor: float) -> None:
    asv_UD = factor * embed_asvs_cached(encoder, tiny.tokens, devices, None)
    AsvEmbeddings.write(path, tiny.tokens, asv_UD, encoder_digest(encoder, "fp32"))


def test_asvs_embedded_before_are_read_from_their_file(tiny, new_encoder, devices, tmp_path):
    """Marked embeddings show that they are what was read."""
    predictors = [Predictor(new_encoder(20), AGE, seed=seed) for seed in range(3)]
    frozen = Ensemble(predictors, DEPTH, 0, 20, frozenset(), "fp32")
    expected = frozen.predict(tiny.table, tiny.sequences)
    for name, factor in (("same", 1.0), ("marked", 2.0)):
        write_asvs(tiny, new_encoder(20), devices, tmp_path / name, factor)
    same, marked = (
        frozen.predict(tiny.table, tiny.sequences, asvs=tmp_path / name)
        for name in ("same", "marked")
    )
    pd.testing.assert_frame_equal(same, expected, atol=1e-4, rtol=0)
    assert (marked["predicted"] - expected["predicted"]).abs().max() > 5e-4


def test_one_file_cannot_serve_encoders_of_their_own(tiny, new_encoder, devices, tmp_path, caplog):
    write_asvs(tiny, new_encoder(20, seed=0), devices, tmp_path / "asvs", 2.0)
    own = ensemble_of(new_encoder, AGE)
    found = own.predict(tiny.table, tiny.sequences, asvs=tmp_path / "asvs")
    expected = own.predict(tiny.table, tiny.sequences)
    pd.testing.assert_frame_equal(found, expected)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "encoders of their own" in caplog.text


def test_a_folder_without_folds_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no folder fold0.*Hint"):
        Ensemble.load(tmp_path)
