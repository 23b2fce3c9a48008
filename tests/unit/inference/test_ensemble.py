from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aam.data.table import FeatureTable
from aam.data.target import Target
from aam.inference import ensemble
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.inference.embed import embed_samples
from aam.inference.ensemble import Ensemble
from aam.inference.reference import Reference, write_reference
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.util.errors import InputError

AGES = np.array([["28"], ["52"]])
AGE = Target.fit("regression", ("age",), AGES, np.ones(2, bool))
SITES = np.array([["gut"], ["skin"], ["tongue"]])
SITE = Target.fit("classification", ("site",), SITES, np.ones(3, bool))
DEPTH = 60


def ensemble_of(new_encoder, target: Target, seen=()) -> Ensemble:
    predictors = [Predictor(new_encoder(20, seed=s), target, seed=s) for s in range(3)]
    return Ensemble(predictors, DEPTH, 0, 20, frozenset(seen))


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
        one = Ensemble([predictor], DEPTH, 0, 20, frozenset())
        single.append(one.predict(tiny.table, tiny.sequences)["predicted"])
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=1e-3)
    assert (found["sd"] > 0).all()


def test_classes_come_with_their_probabilities(tiny, new_encoder):
    ensemble = ensemble_of(new_encoder, SITE)
    found = ensemble.predict(tiny.table, tiny.sequences)
    names = [f"probability:{name}" for name in SITE.classes]
    assert list(found.columns) == ["predicted", "sd", *names, "unseen_asvs"]
    np.testing.assert_allclose(found[names].sum(axis=1), 1)
    best = found[names].idxmax(axis=1)
    assert found["predicted"].tolist() == best.str.removeprefix("probability:").tolist()
    single = [
        replace(ensemble, predictors=[one]).predict(tiny.table, tiny.sequences)[names]
        for one in ensemble.predictors
    ]
    sd = pd.DataFrame(np.std(single, axis=0), found.index, names)
    expected = [sd.loc[sample, name] for sample, name in best.items()]
    np.testing.assert_allclose(found["sd"], expected, rtol=1e-3)


def test_the_views_of_training_are_drawn_again_and_averaged(augmented, new_encoder, devices):
    """The store that training reads has the same two draws."""
    ensemble = replace(ensemble_of(new_encoder, AGE, augmented.sequences.values()), views=2)
    found = ensemble.predict(augmented.table, augmented.sequences)
    outputs = []
    for predictor in ensemble.predictors:
        for rows in (np.arange(20), np.arange(20, 40)):
            embedding_RD = embed_samples(
                predictor.encoder, augmented.store, augmented.tokens, rows, devices
            )
            raw = predictor.eval().predict(embedding_RD).detach().numpy()
            outputs.append(40 + 12 * raw[:, 0])
    np.testing.assert_allclose(found["predicted"], np.mean(outputs, axis=0), rtol=1e-6)
    one = replace(ensemble, views=1).predict(augmented.table, augmented.sequences)
    assert (found["predicted"] != one["predicted"]).all()
    odd = replace(ensemble, seen_asvs=frozenset(list(ensemble.seen_asvs)[::2]))
    is_new = [augmented.sequences[name] not in odd.seen_asvs for name in augmented.sequences]
    reads = sum(augmented.store.view_matrix(view, 30).toarray() for view in range(2))
    np.testing.assert_allclose(
        odd.predict(augmented.table, augmented.sequences)["unseen_asvs"],
        reads[:, is_new].sum(axis=1) / reads.sum(axis=1),
    )


def with_reference(ensemble: Ensemble, tiny, devices, path, shift: float) -> Ensemble:
    """Let the samples of `tiny`, moved away in the space of embeddings, be those of training."""
    encoder, rows = ensemble.predictors[0].encoder, np.arange(20)
    embedding = embed_samples(encoder, tiny.store, tiny.tokens, rows, devices).numpy()
    write_reference(path, embedding + shift * embedding.std(axis=0))
    return replace(ensemble, reference=Reference.open(path))


@pytest.mark.parametrize(("shift", "far"), [(0.0, False), (50.0, True)])
def test_samples_far_from_those_of_training_are_told(
    tiny, new_encoder, devices, tmp_path, caplog, shift, far
):
    ensemble = ensemble_of(new_encoder, AGE, tiny.sequences.values())
    known = with_reference(ensemble, tiny, devices, tmp_path / "reference", shift)
    found = known.predict(tiny.table, tiny.sequences)
    assert list(found.columns) == ["predicted", "sd", "unseen_asvs", "novelty"]
    assert (found["novelty"] == far).all()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * far
    assert not far or "100 % of the samples are farther" in caplog.text


def test_several_targets_have_columns_of_their_own(tiny, new_encoder):
    rows = np.array([["28", "1"], ["52", "9"]])
    target = Target.fit("regression", ("age", "x:age"), rows, np.ones(2, bool), loss="quantile")
    ensemble = ensemble_of(new_encoder, target, tiny.sequences.values())
    found = ensemble.predict(tiny.table, tiny.sequences)
    names = ["predicted", "sd", *(f"quantile:{level}" for level in (0.05, 0.25, 0.5, 0.75, 0.95))]
    expected = [f"{name}:{column}" for column in ("age", "x:age") for name in names]
    assert list(found.columns) == [*expected, "unseen_asvs"]
    for column in ("age", "x:age"):
        quantiles = found[[f"{name}:{column}" for name in names[2:]]]
        assert (quantiles.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
        np.testing.assert_allclose(found[f"predicted:{column}"], quantiles.iloc[:, 2])
        single = [
            replace(ensemble, predictors=[one]).predict(tiny.table, tiny.sequences)
            for one in ensemble.predictors
        ]
        lowest = [one[f"quantile:0.05:{column}"] for one in single]
        np.testing.assert_allclose(quantiles.iloc[:, 0], np.mean(lowest, axis=0), rtol=1e-5)


def conditioned(new_encoder, seen) -> Ensemble:
    """Build two models that are told the host, and scale by season; the second knows no dog."""
    rows, both = np.array([["28"], ["52"], ["1"], ["5"]]), np.ones(4, bool)
    target = Target.fit("regression", ("age",), rows, both, by=["dry", "dry", "wet", "wet"])
    predictors = []
    for seed, hosts in enumerate([("cat", "dog"), ("cat",)]):
        predictor = Predictor(
            new_encoder(20, seed=seed),
            target,
            fusion="concat",
            vocabulary=Vocabulary(("host",), (hosts,)),
            seed=seed,
        )
        for name, weight in predictor.fusion.named_parameters():
            weight.data.normal_(generator=torch.Generator().manual_seed(len(name)))
        predictors.append(predictor)
    return Ensemble(predictors, DEPTH, 0, 20, frozenset(seen), transform_by="season")


def test_models_are_told_the_categories_of_each_sample(tiny, new_encoder, caplog):
    ensemble = conditioned(new_encoder, tiny.sequences.values())
    ids = tiny.table.sample_ids
    hosts = ["cat", "dog"] * 10
    seasons = ["wet"] * 5 + ["dry"] * 15
    metadata = pd.DataFrame({"season": seasons, "more": "", "host": hosts}, index=ids)

    def predicted(metadata) -> pd.Series:
        return ensemble.predict(tiny.table, tiny.sequences, metadata=metadata)["predicted"]

    found = predicted(metadata.iloc[::-1])
    assert not caplog.records
    for host in ("cat", "dog"):
        for season in ("wet", "dry"):
            alike = predicted(metadata.assign(host=host, season=season))
            own = (metadata["host"] == host) & (metadata["season"] == season)
            np.testing.assert_allclose(found[own], alike[own], rtol=1e-5)
            assert (np.abs(found - alike)[~own] > 1e-3).all()


def test_missing_categories_are_unknown_and_counted_once(tiny, new_encoder, caplog):
    ensemble = conditioned(new_encoder, tiny.sequences.values())
    ids = tiny.table.sample_ids
    found = ensemble.predict(tiny.table, tiny.sequences)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "of 20 samples" in caplog.text
    assert "host in 20, season in 20" in caplog.text
    caplog.clear()
    strange = pd.DataFrame({"host": ["fox"] * 9 + ["cat"] * 10, "season": "wet"}, index=ids[:-1])
    other = ensemble.predict(tiny.table, tiny.sequences, metadata=strange)
    assert "host in 10, season in 1" in caplog.text
    assert len(caplog.records) == 1
    assert found["predicted"].iloc[-1] == pytest.approx(other["predicted"].iloc[-1], rel=1e-5)
    assert (found["predicted"] != other["predicted"]).iloc[:-1].all()


@pytest.mark.parametrize(("known", "warned"), [(29, False), (15, True)])
def test_many_unseen_asvs_are_told_once(tiny, new_encoder, caplog, known, warned):
    seen = list(tiny.sequences.values())[:known]
    ensemble_of(new_encoder, AGE, seen).predict(tiny.table, tiny.sequences)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warned
    assert not warned or "never saw" in caplog.text


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


def test_shallow_samples_are_named_and_a_shallow_table_is_refused(tiny, new_encoder, caplog):
    ensemble, table = ensemble_of(new_encoder, AGE, tiny.sequences.values()), tiny.table
    counts = table.counts.copy()
    counts.data[counts.indptr[4] : counts.indptr[5]] = 1
    found = ensemble.predict(
        FeatureTable(table.sample_ids, table.feature_ids, counts), tiny.sequences
    )
    assert found.index.tolist() == [*table.sample_ids[:4], *table.sample_ids[5:]]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "fewer than 60 reads" in caplog.text
    assert "1 (004)" in caplog.text
    counts.data[:] = 1
    with pytest.raises(InputError, match="60"):
        ensemble.predict(FeatureTable(table.sample_ids, table.feature_ids, counts), tiny.sequences)


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
    found = Ensemble(predictors, DEPTH, 0, 20, frozenset()).predict(tiny.table, tiny.sequences)
    assert encoded == [20, 20]
    alone = [
        Ensemble([predictor], DEPTH, 0, 20, frozenset())
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
    frozen = Ensemble(predictors, DEPTH, 0, 20, frozenset())
    expected = frozen.predict(tiny.table, tiny.sequences)
    for name, factor in (("same", 1.0), ("marked", 2.0)):
        write_asvs(tiny, new_encoder(20), devices, tmp_path / name, factor)
    same, marked = (
        frozen.predict(tiny.table, tiny.sequences, asvs=tmp_path / name)
        for name in ("same", "marked")
    )
    pd.testing.assert_frame_equal(same, expected, atol=1e-4, rtol=0)
    assert (marked["predicted"] - expected["predicted"]).abs().max() > 5e-4


def partial_ensemble(new_encoder, seen=()) -> Ensemble:
    """Build three models that differ above their ASVs alone, the last two only in their heads."""
    predictors = []
    for seed, trained in enumerate((0, 1, 1)):
        encoder = new_encoder(20)
        encoder.sample.load_state_dict(new_encoder(20, seed=trained).sample.state_dict())
        predictors.append(Predictor(encoder, AGE, seed=seed))
    return Ensemble(predictors, DEPTH, 0, 20, frozenset(seen))


def test_models_of_a_partial_encoder_embed_the_asvs_once(tiny, new_encoder, encoded, monkeypatch):
    own, caches, embed = partial_ensemble(new_encoder), [], embed_asvs_cached

    def spy(encoder, tokens, devices, cache):
        caches.append(cache)
        return embed(encoder, tokens, devices, cache)

    monkeypatch.setattr(ensemble, "embed_asvs_cached", spy)
    found = own.predict(tiny.table, tiny.sequences)
    assert caches == [None]
    assert encoded == [20, 20]
    single = [
        replace(own, predictors=[one]).predict(tiny.table, tiny.sequences)["predicted"]
        for one in own.predictors
    ]
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=1e-3)


def test_a_partial_encoder_reads_asvs_embedded_before(tiny, new_encoder, devices, tmp_path, caplog):
    """Marked embeddings show that they are what every model reads."""
    own = partial_ensemble(new_encoder, tiny.sequences.values())
    write_asvs(tiny, new_encoder(20), devices, tmp_path / "marked", 2.0)
    for predictor in own.predictors:
        one = replace(own, predictors=[predictor])
        plain, alone = (
            one.predict(tiny.table, tiny.sequences, asvs=asvs)["predicted"]
            for asvs in (None, tmp_path / "marked")
        )
        assert (alone - plain).abs().max() > 5e-4
    found = own.predict(tiny.table, tiny.sequences, asvs=tmp_path / "marked")
    expected = [
        replace(own, predictors=[one]).predict(
            tiny.table, tiny.sequences, asvs=tmp_path / "marked"
        )["predicted"]
        for one in own.predictors
    ]
    np.testing.assert_allclose(found["predicted"], np.mean(expected, axis=0), rtol=1e-5)
    assert not caplog.records


def test_a_file_of_asvs_serves_the_encoder_that_made_it_alone(
    tiny, new_encoder, devices, tmp_path, caplog
):
    write_asvs(tiny, new_encoder(20, seed=0), devices, tmp_path / "asvs", 2.0)
    own = ensemble_of(new_encoder, AGE, tiny.sequences.values())
    others = replace(own, predictors=own.predictors[1:2])
    found = others.predict(tiny.table, tiny.sequences, asvs=tmp_path / "asvs")
    pd.testing.assert_frame_equal(found, others.predict(tiny.table, tiny.sequences))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "of another encoder" in caplog.text
