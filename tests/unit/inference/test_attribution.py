from unittest.mock import patch

import numpy as np
import pytest
import torch

from aam.data.target import Target
from aam.inference import attribution
from aam.inference.asv_cache import AsvEmbeddings, encoder_digest
from aam.inference.attribution import NO_ASVS, explain_samples, explained_names, log_odds
from aam.inference.embed import embed_asvs
from aam.model.batch import Batch, SampleBlock
from aam.model.fusion import Vocabulary
from aam.model.kernel_head import ABSENT, log_reads
from aam.model.predictor import Predictor

AGES = [["20"], ["40"], ["60"], ["35"]]
TWO = [[age, bmi] for [age], bmi in zip(AGES, "1357", strict=True)]
SITES = [["gut"], ["skin"], ["oral"], ["gut"]]
TARGETS = {
    "number": ("regression", ["age"], AGES, {}),
    "numbers": ("regression", ["age", "bmi"], TWO, {}),
    "quantiles": ("regression", ["age"], AGES, {"loss": "quantile"}),
    "classes": ("classification", ["site"], SITES, {}),
    "ordered": ("ordinal", ["site"], SITES, {"classes": ["skin", "gut", "oral"]}),
}
VOCABULARY = Vocabulary(("host",), (("ape", "man"),))


@pytest.fixture(scope="module")
def predict_with(new_encoder):
    """Return the function that builds a predictor whose outputs depend much on its samples."""

    def build(kind="classes", vocabulary=None, seed=0) -> Predictor:
        name, columns, observed, options = TARGETS[kind]
        target = Target.fit(name, columns, observed, np.ones(4, bool), **options)
        encoder = new_encoder(20, seed=seed, asv_layers=1)
        predictor = Predictor(encoder, target, vocabulary=vocabulary, seed=seed)
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(seed)
            for weight in (p for p in predictor.parameters() if p.ndim == 2):
                weight.add_(torch.randn_like(weight), alpha=0.1)
        return predictor.eval().requires_grad_(False)

    return build


@pytest.fixture(scope="module")
def sample(predict_with, tiny, devices):
    held = slice(tiny.store.offsets[3], tiny.store.offsets[4])
    asv_AD = embed_asvs(predict_with().encoder, tiny.tokens, tiny.store.asvs[held], devices)
    return asv_AD, torch.from_numpy(tiny.store.counts[held].astype(np.float32))


@pytest.fixture
def few_copies(sample, monkeypatch) -> None:
    """Have three copies of the sample computed at a time."""
    monkeypatch.setattr(attribution, "PAIRS", 3 * len(sample[1]) ** 2)


@pytest.mark.parametrize("kind", TARGETS)
def test_gradients_sum_to_the_change_along_the_path(predict_with, sample, kind):
    predictor = predict_with(kind)
    found = attribution.explain(predictor, *sample, points=[12])
    assert found.gradients_AC.shape == (len(sample[1]), len(explained_names(predictor.target)))
    assert np.abs(found.change_C).min() > 1e-3
    np.testing.assert_allclose(found.gradients_AC.sum(axis=0), found.change_C, atol=1e-5)
    few = attribution.explain(predictor, *sample)
    np.testing.assert_allclose(few.gradients_AC.sum(axis=0), found.change_C, rtol=0.02)


def midpoint_gradients(predictor: Predictor, asv_AD, counts_A, steps: int) -> np.ndarray:
    """Return integrated gradients [A, C] of log-odds, step by step and output by output."""
    part = predictor.encoder.sample
    features = [torch.log1p(counts_A) / 2, (counts_A / counts_A.sum()).sqrt() * 4]
    vector_AD = asv_AD + part.abundance(torch.stack(features, dim=-1))
    start_AD = vector_AD.mean(dim=0).expand_as(vector_AD)
    log_share_A = (counts_A / counts_A.sum()).log()

    def odds(x_AD: torch.Tensor) -> torch.Tensor:
        x_1AD = x_AD[None]
        for block, factor_H in zip(part.blocks, part.reads_in_scores, strict=True):
            x_1AD = block(x_1AD, bias_BH1S=factor_H[None, :, None, None] * log_share_A)
        sample_1D = part.pooling(x_1AD, bias_BS=part.reads_in_pooling * log_share_A)
        share_C = predictor.predict(sample_1D)[0].double().softmax(dim=0)
        return (share_C / (1 - share_C)).log()

    total_CA = 0
    for step in range(steps):
        at_AD = start_AD + (step + 0.5) / steps * (vector_AD - start_AD)
        slope_CAD = torch.autograd.functional.jacobian(odds, at_AD)
        total_CA = total_CA + ((vector_AD - start_AD) * slope_CAD).sum(-1) / steps
    return total_CA.T.numpy()


def test_few_points_give_the_gradients_of_many_steps(predict_with, sample, few_copies):
    expected_AC = midpoint_gradients(predict_with(), *sample, steps=200)
    for points, tolerance in ((attribution.POINTS[0], 0.02), (12, 1e-4)):
        found_AC = attribution.explain(predict_with(), *sample, points=[points]).gradients_AC
        error = np.abs(found_AC - expected_AC).max() / np.abs(expected_AC).max()
        assert error < tolerance


def test_more_points_are_taken_where_the_gap_is_large(predict_with, sample, monkeypatch):
    few, more = ([points] for points in (1, 12))
    for largest, expected in ((0.0, more), (np.inf, few)):
        monkeypatch.setattr(attribution, "LARGEST_GAP", largest)
        found = attribution.explain(predict_with(), *sample, points=[1, 12])
        alone = attribution.explain(predict_with(), *sample, points=expected)
        np.testing.assert_array_equal(found.gradients_AC, alone.gradients_AC)


def test_removal_is_the_prediction_without_the_asv(predict_with, sample, few_copies):
    predictor, (asv_AD, counts_A) = predict_with(), sample

    @torch.no_grad()
    def odds_without(gone: list[int]) -> torch.Tensor:
        keep = np.delete(np.arange(len(counts_A)), gone)
        reads = counts_A[keep][None]
        block = SampleBlock(torch.arange(len(keep))[None], reads > 0, reads)
        batch = Batch([], [block], torch.arange(1), {}, {})
        embedding = predictor.encoder.encode_samples(asv_AD[keep], batch)
        return log_odds(predictor.predict(embedding))[0]

    for removed_R in (np.arange(len(counts_A)), np.array([5, 2]), NO_ASVS):
        found = attribution.explain(predictor, *sample, removed_R=removed_R).removed_RC
        assert len(found) == len(removed_R)
        for gone, found_C in zip(removed_R, found, strict=True):
            expected_C = odds_without([]) - odds_without([gone])
            np.testing.assert_allclose(found_C, expected_C, atol=1e-5)
    lone = attribution.explain(predictor, asv_AD[:1], counts_A[:1], removed_R=np.array([0]))
    assert lone.attention_A.tolist() == [1.0]
    assert not lone.gradients_AC.any()
    assert not lone.removed_RC.any()


def test_attention_is_the_weight_in_the_pooled_vector(predict_with, sample):
    predictor, (asv_AD, counts_A) = predict_with(), sample
    part = predictor.encoder.sample
    block = SampleBlock(torch.arange(len(counts_A))[None], counts_A[None] > 0, counts_A[None])
    with patch.object(part.pooling, "forward", wraps=part.pooling.forward) as pooling:
        part(asv_AD, block, "math")
    arguments = pooling.call_args.args
    attention_A = attribution.explain(predictor, *sample).attention_A
    pooled_D = torch.from_numpy(attention_A).float() @ arguments[0][0]
    torch.testing.assert_close(part.pooling.norm(pooled_D), part.pooling(*arguments)[0])


@pytest.mark.parametrize("kind", ["number", "classes"])
def test_reads_have_a_part_in_a_kernel_head(kernel_predictor, augmented, devices, kind):
    name, columns, observed, _ = TARGETS[kind]
    predictor = kernel_predictor(Target.fit(name, columns, observed, np.ones(4, bool)))
    samples = augmented.store, augmented.tokens, [4, 11], devices
    removed = [np.arange(3)] * 2
    explained = explain_samples({predictor: 1.0}, *samples, categories=[{}] * 2, removed=removed)
    for _, found in explained:
        np.testing.assert_allclose(found.gradients_AC.sum(axis=0), found.change_C, atol=2e-3)
        for value_AC in (found.gradients_AC, found.removed_RC):
            assert (np.abs(value_AC) > 1e-6).all(axis=1).any()


def test_asvs_that_are_alike_as_far_as_they_are_read_share_reads_in_a_kernel_head(
    kernel_predictor, sample
):
    asv_AD, counts_A = sample
    name, columns, observed, _ = TARGETS["number"]
    predictor = kernel_predictor(Target.fit(name, columns, observed, np.ones(4, bool)))
    column_A = np.arange(len(counts_A)) // 2
    column_A[-1] = ABSENT
    columns = int(column_A.max()) + 1
    part = predictor.head.part(torch.arange(columns))

    @torch.no_grad()
    def output_without(gone: list[int]) -> float:
        keep = np.delete(np.arange(len(counts_A)), gone)
        block = SampleBlock(
            torch.arange(len(keep))[None], counts_A[keep][None] > 0, counts_A[keep][None]
        )
        batch = Batch([], [block], torch.arange(1), {}, {})
        reads_1K = torch.zeros(1, columns)
        for asv in keep[column_A[keep] != ABSENT]:
            reads_1K[0, column_A[asv]] += counts_A[asv]
        embedding_1D = predictor.encoder.encode_samples(asv_AD[keep], batch)
        return part(embedding_1D, log_reads(reads_1K)).item()

    removed_R = np.arange(len(counts_A))
    found = attribution.explain(predictor, *sample, {}, column_A, points=[12], removed_R=removed_R)
    expected_R = [output_without([]) - output_without([gone]) for gone in removed_R]
    np.testing.assert_allclose(found.removed_RC[:, 0], expected_R, atol=1e-5)
    np.testing.assert_allclose(found.gradients_AC.sum(axis=0), found.change_C, atol=1e-4)


def test_covariates_have_a_part(predict_with, sample):
    predictor = predict_with("number", VOCABULARY)
    found = {
        name: attribution.explain(predictor, *sample, {"host": name}, points=[12])
        for name in ("ape", "man", "unheard of", "")
    }
    assert not np.allclose(found["ape"].gradients_AC, found["man"].gradients_AC, atol=1e-6)
    np.testing.assert_array_equal(found["unheard of"].gradients_AC, found[""].gradients_AC)
    sums = found["man"].gradients_AC.sum(axis=0)
    np.testing.assert_allclose(sums, found["man"].change_C, atol=1e-4)


def test_the_median_is_explained_of_quantiles_and_one_score_of_ordered_classes(predict_with):
    target = predict_with("quantiles").target
    raw_SO = torch.tensor([[0.3, -1.0, 0.1, 0.2, 5.0]])
    median, scale = target.decode(raw_SO.numpy())[0, 0], target.scales[0]
    found = attribution.explained(raw_SO, target).item() * scale.spread + scale.center
    assert found == pytest.approx(median)
    ordered = predict_with("ordered").target
    assert attribution.explained(torch.tensor([[3.0, 1.0]]), ordered).tolist() == [[2.0]]
    assert explained_names(ordered) == ["site"]


def test_samples_of_a_store_are_explained_by_the_mean_of_their_models(predict_with, tiny, devices):
    rows, models = [4, 11, 2], [predict_with(seed=seed) for seed in (0, 1)]
    removed = [np.array([1, 2]), np.array([0]), NO_ASVS]
    weights = dict(zip(models, (0.25, 0.75), strict=True))
    explained = explain_samples(
        weights, tiny.store, tiny.tokens, rows, devices, categories=[{}] * 3, removed=removed
    )
    for row, removed_R, (asvs_A, found) in zip(rows, removed, explained, strict=True):
        held = slice(tiny.store.offsets[row], tiny.store.offsets[row + 1])
        np.testing.assert_array_equal(asvs_A, tiny.store.asvs[held])
        counts_A = torch.from_numpy(tiny.store.counts[held].astype(np.float32))
        single = []
        for model in models:
            asv_AD = embed_asvs(model.encoder, tiny.tokens, asvs_A, devices)
            single.append(attribution.explain(model, asv_AD, counts_A, removed_R=removed_R))
        for name, value in vars(found).items():
            parts = [getattr(one, name) for one in single]
            mean = np.average(parts, axis=0, weights=[0.25, 0.75])
            np.testing.assert_allclose(value, mean, atol=1e-5)


def test_asvs_are_read_from_the_file_of_their_encoder_and_embedded_once(
    predict_with, tiny, devices, tmp_path, monkeypatch
):
    models = [predict_with("number"), predict_with("number"), predict_with("number", seed=1)]
    path = tmp_path / "asvs.safetensors"
    marked_UD = torch.full((len(tiny.tokens.lengths), models[0].encoder.shape.width), 0.5)
    digest = encoder_digest(models[0].encoder, devices.precision)
    AsvEmbeddings.write(path, tiny.tokens, marked_UD, digest)
    used = []
    explain = attribution.explain

    def record(predictor, asv_AD, *rest, **options):
        used.append(bool((asv_AD == 0.5).all()))
        return explain(predictor, asv_AD, *rest, **options)

    monkeypatch.setattr(attribution, "explain", record)
    samples = tiny.store, tiny.tokens, [4], devices
    more = {"categories": [{}], "removed": [NO_ASVS]}
    list(explain_samples(dict.fromkeys(models, 1.0), *samples, asvs=path, **more))
    assert used == [True, True, False]
    embedded = []
    embed = attribution.embed_asvs_cached

    def count(*arguments):
        embedded.append(arguments)
        return embed(*arguments)

    monkeypatch.setattr(attribution, "embed_asvs_cached", count)
    list(explain_samples(dict.fromkeys(models, 1.0), *samples, **more))
    assert len(embedded) == 2
