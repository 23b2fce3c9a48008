import numpy as np
import torch

from aam.batches.collate import assemble
from aam.data.target import QUANTILES, Target
from aam.inference import embed
from aam.inference.asv_cache import embed_asvs_cached
from aam.inference.embed import embed_samples
from aam.inference.outputs import decode_outputs, raw_outputs
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor

AGES = np.array([["28", "1"], ["52", "9"], ["30", "4"]])
VOCABULARY = Vocabulary(("host", "season"), (("cat", "dog"), ("wet",)))


@torch.no_grad()
def one_by_one(predictor, store, tokens, rows, category_RF) -> np.ndarray:
    """Return the outputs of the forward pass that training takes, of batches of one sample."""
    outputs = []
    for row, category_F in zip(rows, torch.from_numpy(category_RF), strict=True):
        batch = assemble(store, tokens, np.array([row]))
        encoded = predictor.encoder(batch)
        outputs.append(predictor.predict(encoded.sample_BD, category_F[None]))
    return torch.cat(outputs).numpy()


def test_outputs_are_those_of_single_samples(augmented, new_encoder, devices, monkeypatch):
    monkeypatch.setattr(embed, "TOKENS_ON_CPU", 128)
    store, tokens, encoder = augmented.store, augmented.tokens, new_encoder(20, seed=2)
    target = Target.fit("regression", ("age", "weight"), AGES, np.ones(3, bool))
    predictor = Predictor(encoder, target, vocabulary=VOCABULARY, seed=1).eval()
    torch.manual_seed(0)
    for weight in (*predictor.fusion.parameters(), *predictor.head.parameters()):
        torch.nn.init.normal_(weight, std=0.3)
    rng = np.random.default_rng(0)
    rows = rng.permutation(40)[:17]
    category_RF = rng.integers(0, [3, 2], (17, 2))
    expected = one_by_one(predictor, store, tokens, rows, category_RF)
    asv_UD = embed_asvs_cached(predictor.encoder, tokens, devices, None)
    embedding_RD = embed_samples(predictor.encoder, store, tokens, rows, devices, asv_UD)
    for known in ({}, {"asv_UD": asv_UD, "embedding_RD": embedding_RD}):
        known |= {"category_RF": category_RF}
        found = raw_outputs(predictor, store, tokens, rows, devices, **known)
        np.testing.assert_allclose(found, expected, atol=2e-5)
    silent = raw_outputs(predictor, store, tokens, rows, devices)
    unknown = one_by_one(predictor, store, tokens, rows, 0 * category_RF)
    np.testing.assert_allclose(silent, unknown, atol=2e-5)
    assert np.abs(silent - expected).max() > 0.1


def test_views_are_averaged_in_the_units_of_each_rows_category():
    by = ["a", "b", ""]
    ages = [["1"], ["3"], ["10"], ["30"]]
    options = {"transform": "log_zscore", "by": ["a", "a", "b", "b"], "loss": "quantile"}
    target = Target.fit("regression", ("age",), ages, np.ones(4, bool), **options)
    raw = np.random.default_rng(1).normal(size=(6, len(QUANTILES))).astype(np.float32)
    found = decode_outputs(target, raw, 2, by * 2)
    for sample, name in enumerate(by):
        both = [target.decode_quantiles(raw[[row]], [name])[0] for row in (sample, sample + 3)]
        np.testing.assert_allclose(found.quantile_NCQ[sample], np.mean(both, axis=0))
        np.testing.assert_allclose(found.point_NC[sample, 0], found.quantile_NCQ[sample, 0, 2])
    assert (decode_outputs(target, raw, 2).point_NC[0] != found.point_NC[0]).all()
