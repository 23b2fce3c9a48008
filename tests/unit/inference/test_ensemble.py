from collections import Counter
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
from aam.inference.bundle import ModelBundle
from aam.inference.embed import embed_samples
from aam.inference.ensemble import predict_table
from aam.inference.reference import Reference, write_reference
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.util.errors import InputError

AGES = np.array([["28"], ["52"]])
AGE = Target.fit("regression", ("age",), AGES, np.ones(2, bool))
SITES = np.array([["gut"], ["skin"], ["tongue"]])
SITE = Target.fit("classification", ("site",), SITES, np.ones(3, bool))


def bundle_of(predictors: list[Predictor], seen=(), **more) -> ModelBundle:
    return ModelBundle(predictors, 60, 0, 20, frozenset(seen), **more)


@pytest.fixture
def three(new_encoder):
    """Return the function that builds a bundle of three models with encoders of their own."""

    def build(target: Target = AGE, seen=()) -> ModelBundle:
        return bundle_of(
            [Predictor(new_encoder(20, seed=s), target, seed=s) for s in range(3)], seen
        )

    return build


@pytest.fixture
def predict(tiny):
    """Return the function that predicts the tiny table."""
    return lambda bundle, **given: predict_table(bundle, tiny.table, tiny.sequences, **given)


def assert_mean_and_sd(predict, bundle: ModelBundle, **given) -> pd.DataFrame:
    """Compare the prediction of a number with those of its models one by one, and return it."""
    found = predict(bundle, **given)
    single = [
        predict(replace(bundle, predictors=[one]), **given)["predicted"]
        for one in bundle.predictors
    ]
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=1e-3)
    return found


def levels(caplog) -> list[str]:
    return [record.levelname for record in caplog.records]


@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=8)
def test_predictions_do_not_depend_on_the_order_of_rows_and_columns(tiny, new_encoder, seed):
    bundle = bundle_of([Predictor(new_encoder(20), AGE, seed=0)])
    expected = predict_table(bundle, tiny.table, tiny.sequences)
    rng, table = np.random.default_rng(seed), tiny.table
    rows = rng.permutation(20)[: rng.integers(1, 21)]
    columns = rng.permutation(30)
    counts = table.counts[rows][:, columns]
    counts.sort_indices()
    shuffled = FeatureTable(
        [table.sample_ids[i] for i in rows], [table.feature_ids[j] for j in columns], counts
    )
    found = predict_table(bundle, shuffled, tiny.sequences)
    assert found.index.tolist() == [name for name in shuffled.sample_ids if name in expected.index]
    pd.testing.assert_frame_equal(found, expected.loc[found.index], atol=1e-3, rtol=1e-5)


def test_numbers_are_means_with_the_spread_of_the_folds(three, predict):
    found = assert_mean_and_sd(predict, three())
    assert list(found.columns) == ["predicted", "sd", "unseen_asvs"]
    assert found.index.name == "sample-id"
    assert (found["sd"] > 0).all()


def test_classes_come_with_their_probabilities(three, predict):
    bundle = three(SITE)
    found = predict(bundle)
    names = [f"probability:{name}" for name in SITE.classes]
    assert list(found.columns) == ["predicted", "sd", *names, "unseen_asvs"]
    np.testing.assert_allclose(found[names].sum(axis=1), 1)
    best = found[names].idxmax(axis=1)
    assert found["predicted"].tolist() == best.str.removeprefix("probability:").tolist()
    single = [predict(replace(bundle, predictors=[one]))[names] for one in bundle.predictors]
    sd = pd.DataFrame(np.std(single, axis=0), found.index, names)
    expected = [sd.loc[sample, name] for sample, name in best.items()]
    np.testing.assert_allclose(found["sd"], expected, rtol=1e-3)


def test_the_views_of_training_are_drawn_again_and_averaged(augmented, three, devices):
    """The store that training reads has the same two draws."""
    table, sequences, store = augmented.table, augmented.sequences, augmented.store
    bundle = replace(three(seen=sequences.values()), views=2)
    found = predict_table(bundle, table, sequences)
    outputs = []
    for predictor in bundle.predictors:
        for rows in (np.arange(20), np.arange(20, 40)):
            embedding_RD = embed_samples(predictor.encoder, store, augmented.tokens, rows, devices)
            raw = predictor.eval().predict(embedding_RD).detach().numpy()
            outputs.append(40 + 12 * raw[:, 0])
    np.testing.assert_allclose(found["predicted"], np.mean(outputs, axis=0), rtol=1e-6)
    one = predict_table(replace(bundle, views=1), table, sequences)
    assert (found["predicted"] != one["predicted"]).all()
    odd = replace(bundle, seen_asvs=frozenset(list(bundle.seen_asvs)[::2]))
    is_new = [sequences[name] not in odd.seen_asvs for name in sequences]
    reads = sum(store.view_matrix(view, 30).toarray() for view in range(2))
    np.testing.assert_allclose(
        predict_table(odd, table, sequences)["unseen_asvs"],
        reads[:, is_new].sum(axis=1) / reads.sum(axis=1),
    )


@pytest.mark.parametrize(("shift", "far"), [(0.0, False), (50.0, True)])
def test_samples_far_from_those_of_training_are_told(
    tiny, three, predict, devices, tmp_path, caplog, shift, far
):
    """The samples of the table, moved away in the space of embeddings, are those of training."""
    bundle, rows = three(seen=tiny.sequences.values()), np.arange(20)
    encoder = bundle.predictors[0].encoder
    embedding = embed_samples(encoder, tiny.store, tiny.tokens, rows, devices).numpy()
    write_reference(tmp_path / "reference", embedding + shift * embedding.std(axis=0))
    found = predict(replace(bundle, reference=Reference.open(tmp_path / "reference")))
    assert list(found.columns) == ["predicted", "sd", "unseen_asvs", "novelty"]
    assert (found["novelty"] == far).all()
    assert levels(caplog) == ["WARNING"] * far
    assert not far or "100 % of the samples are farther" in caplog.text


def test_several_targets_have_columns_of_their_own(three, predict):
    rows = np.array([["28", "1"], ["52", "9"]])
    target = Target.fit("regression", ("age", "x:age"), rows, np.ones(2, bool), loss="quantile")
    bundle = three(target)
    found = predict(bundle)
    names = ["predicted", "sd", *(f"quantile:{level}" for level in (0.05, 0.25, 0.5, 0.75, 0.95))]
    expected = [f"{name}:{column}" for column in ("age", "x:age") for name in names]
    assert list(found.columns) == [*expected, "unseen_asvs"]
    single = [predict(replace(bundle, predictors=[one])) for one in bundle.predictors]
    for column in ("age", "x:age"):
        quantiles = found[[f"{name}:{column}" for name in names[2:]]]
        assert (quantiles.diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
        np.testing.assert_allclose(found[f"predicted:{column}"], quantiles.iloc[:, 2])
        lowest = [one[f"quantile:0.05:{column}"] for one in single]
        np.testing.assert_allclose(quantiles.iloc[:, 0], np.mean(lowest, axis=0), rtol=1e-5)


@pytest.fixture
def conditioned(new_encoder, tiny) -> ModelBundle:
    """Two models with the host as covariate, scaled by season; the second knows no dog."""
    rows, both = np.array([["28"], ["52"], ["1"], ["5"]]), np.ones(4, bool)
    target = Target.fit("regression", ("age",), rows, both, by=["dry", "dry", "wet", "wet"])
    predictors = []
    for seed, hosts in enumerate([("cat", "dog"), ("cat",)]):
        encoder, vocabulary = new_encoder(20, seed=seed), Vocabulary(("host",), (hosts,))
        predictor = Predictor(encoder, target, fusion="concat", vocabulary=vocabulary, seed=seed)
        for name, weight in predictor.fusion.named_parameters():
            weight.data.normal_(generator=torch.Generator().manual_seed(len(name)))
        predictors.append(predictor)
    return bundle_of(predictors, tiny.sequences.values(), transform_by="season")


def test_covariates_are_those_of_each_sample(tiny, conditioned, predict, caplog):
    seasons, hosts = ["wet"] * 5 + ["dry"] * 15, ["cat", "dog"] * 10
    metadata = pd.DataFrame(
        {"season": seasons, "more": "", "host": hosts}, index=tiny.table.sample_ids
    )
    found = predict(conditioned, metadata=metadata.iloc[::-1])["predicted"]
    assert not caplog.records
    for host in ("cat", "dog"):
        for season in ("wet", "dry"):
            given = metadata.assign(host=host, season=season)
            alike = predict(conditioned, metadata=given)["predicted"]
            own = (metadata["host"] == host) & (metadata["season"] == season)
            np.testing.assert_allclose(found[own], alike[own], rtol=1e-5)
            assert (np.abs(found - alike)[~own] > 1e-3).all()


def test_missing_categories_are_unknown_and_counted_once(tiny, conditioned, predict, caplog):
    found = predict(conditioned)
    assert levels(caplog) == ["WARNING"]
    assert "of 20 samples" in caplog.text
    assert "host in 20, season in 20" in caplog.text
    caplog.clear()
    ids = tiny.table.sample_ids[:-1]
    strange = pd.DataFrame({"host": ["fox"] * 9 + ["cat"] * 10, "season": "wet"}, index=ids)
    other = predict(conditioned, metadata=strange)
    assert "host in 10, season in 1" in caplog.text
    assert levels(caplog) == ["WARNING"]
    assert found["predicted"].iloc[-1] == pytest.approx(other["predicted"].iloc[-1], rel=1e-5)
    assert (found["predicted"] != other["predicted"]).iloc[:-1].all()


@pytest.mark.parametrize(("known", "warned"), [(29, False), (15, True)])
def test_many_unseen_asvs_are_told_once(tiny, three, predict, caplog, known, warned):
    found = predict(three(seen=list(tiny.sequences.values())[:known]))
    assert levels(caplog) == ["WARNING"] * warned
    assert not warned or "never saw" in caplog.text
    reads = tiny.views[0].counts.toarray()
    is_new = [tiny.tokens.feature_ids.index(name) >= known for name in tiny.views[0].feature_ids]
    expected = reads[:, is_new].sum(axis=1) / reads.sum(axis=1)
    np.testing.assert_allclose(found["unseen_asvs"], expected)


def test_sequences_are_cut_and_ambiguous_letters_are_alike_as_in_training(tiny, three, predict):
    expected = predict(three(seen=tiny.sequences.values()))
    longer = {name: sequence + "ACGT" for name, sequence in tiny.sequences.items()}
    found = predict_table(three(seen=tiny.sequences.values()), tiny.table, longer)
    pd.testing.assert_frame_equal(found, expected)
    assert not found["unseen_asvs"].any()
    seen, other = (
        {name: letter + sequence[1:] for name, sequence in tiny.sequences.items()}
        for letter in "NR"
    )
    assert not predict_table(three(seen=seen.values()), tiny.table, other)["unseen_asvs"].any()


def test_shallow_samples_are_named_and_a_shallow_table_is_refused(tiny, three, caplog):
    bundle, table = three(seen=tiny.sequences.values()), tiny.table
    counts = table.counts.copy()
    counts.data[counts.indptr[4] : counts.indptr[5]] = 1
    shallow = FeatureTable(table.sample_ids, table.feature_ids, counts)
    found = predict_table(bundle, shallow, tiny.sequences)
    assert found.index.tolist() == [*table.sample_ids[:4], *table.sample_ids[5:]]
    assert levels(caplog) == ["WARNING"]
    assert "fewer than 60 reads" in caplog.text
    assert "1 (004)" in caplog.text
    counts.data[:] = 1
    with pytest.raises(InputError, match="60"):
        predict_table(bundle, shallow, tiny.sequences)


@pytest.fixture
def calls(monkeypatch) -> Counter[str]:
    """Count the runs of the ASV level and of the sample level."""
    seen = Counter()

    def spied(name: str, real) -> None:
        def spy(*args):
            seen[name] += 1
            return real(*args)

        monkeypatch.setattr(ensemble, name, spy)

    spied("embed_asvs_cached", embed_asvs_cached)
    spied("embed_samples", embed_samples)
    return seen


def test_what_models_share_runs_once(new_encoder, predict, calls):
    """Of these, two have an encoder of their own: one of another ASV level, one of the same."""
    encoders = [new_encoder(20, seed=seed) for seed in (0, 1, 0, 0)]
    encoders[3].sample.load_state_dict(encoders[1].sample.state_dict())
    predictors = [Predictor(encoder, AGE, seed=s) for s, encoder in enumerate(encoders)]
    predict(bundle_of(predictors))
    assert calls == {"embed_asvs_cached": 2, "embed_samples": 3}
    assert_mean_and_sd(predict, bundle_of(predictors))


def test_asvs_embedded_before_serve_the_encoder_that_made_them(
    tiny, new_encoder, devices, tmp_path, predict, caplog
):
    """Marked embeddings show that they are what is read."""
    encoders = [new_encoder(20) for _ in range(3)]
    encoders[1].sample.load_state_dict(new_encoder(20, seed=1).sample.state_dict())
    predictors = [Predictor(encoder, AGE, seed=s) for s, encoder in enumerate(encoders)]
    partial = bundle_of(predictors, tiny.sequences.values())
    files = {}
    for name, factor in (("same", 1.0), ("marked", 2.0)):
        asv_UD = factor * embed_asvs_cached(encoders[0], tiny.tokens, devices, None)
        digest, files[name] = encoder_digest(encoders[0], "fp32"), tmp_path / name
        AsvEmbeddings.write(files[name], tiny.tokens, asv_UD, digest)
    expected = predict(partial)
    pd.testing.assert_frame_equal(predict(partial, asvs=files["same"]), expected, atol=1e-4, rtol=0)
    for one in predictors:
        plain, marked = (
            predict(replace(partial, predictors=[one]), asvs=asvs)["predicted"]
            for asvs in (None, files["marked"])
        )
        assert (marked - plain).abs().max() > 5e-4
    assert_mean_and_sd(predict, partial, asvs=files["marked"])
    assert not caplog.records
    other = replace(partial, predictors=[Predictor(new_encoder(20, seed=1), AGE, seed=1)])
    pd.testing.assert_frame_equal(predict(other, asvs=files["marked"]), predict(other))
    assert levels(caplog) == ["WARNING"]
    assert "of another encoder" in caplog.text
