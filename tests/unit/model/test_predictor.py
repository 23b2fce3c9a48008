from unittest.mock import patch

import numpy as np
import pytest
import torch

from aam.batches import collate
from aam.batches.collate import assemble
from aam.data.target import Target
from aam.model.batch import CATEGORIES, Batch
from aam.model.fusion import Vocabulary
from aam.model.predictor import EMBEDDING, TARGET, Predictor, load_predictor
from aam.model.store import load_weights

WORDS = [["gut"], ["skin"], ["gut"], ["tongue"]]
NUMBERS = [["28"], ["52"], ["28"], ["52"]]
ALL = np.ones(4, bool)
AGE = Target.fit("regression", ["age"], NUMBERS, ALL)
QUANTILES = Target.fit("regression", ["age"], NUMBERS, ALL, loss="quantile")
STAGE = Target.fit("ordinal", ["stage"], WORDS, ALL, classes=["skin", "gut", "tongue"])
VOCABULARY = Vocabulary.fit(["sex", "site"], [["f", "gut"], ["m", "skin"]], np.ones(2, bool))
CASES = {
    "classes": (Target.fit("classification", ["site"], WORDS, ALL), {}),
    "ordinal": (STAGE, {"vocabulary": VOCABULARY}),
    "quantiles": (QUANTILES, {}),
    "covariates": (AGE, {"vocabulary": VOCABULARY}),
}
ENCODERS = {"classes": {"encoder": "bilstm"}, "ordinal": {"encoder": "bdh"}}
"""What is saved need not be a transformer."""


def batch_of(data, rows, target=None, per_block=16) -> Batch:
    """Return samples with targets and categories, in blocks of some size."""
    with patch.object(collate, "SAMPLES_PER_BLOCK", per_block):
        batch = assemble(data.store, data.tokens, np.asarray(rows))
    if target is not None:
        words = NUMBERS if target.kind == "regression" else WORDS
        batch.values[TARGET] = torch.from_numpy(target.encode([words[row % 4] for row in rows]))
    batch.values[CATEGORIES] = torch.tensor([[row % 3, row % 2] for row in rows])
    return batch


def outputs(predictor: Predictor, batch: Batch) -> torch.Tensor:
    with torch.no_grad():
        encoded = predictor.encoder(batch)
        return predictor.predict(encoded.sample_BD, batch.values[CATEGORIES])


@pytest.mark.parametrize("case", CASES)
def test_a_predictor_rebuilds_itself_from_its_directory_alone(tiny, new_encoder, tmp_path, case):
    target, options = CASES[case]
    encoder = new_encoder(20, patch_bp=4, **ENCODERS.get(case, {}))
    predictor = Predictor(encoder, target, seed=3, **options)
    with torch.no_grad():
        for parameter in predictor.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        predictor(batch_of(tiny, range(9), target))
    predictor.eval()
    predictor.save(tmp_path / "model", {"remark": "0001"})
    loaded, config = load_predictor((tmp_path / "model").rename(tmp_path / "elsewhere"))
    assert loaded.target == target
    assert loaded.vocabulary == predictor.vocabulary
    assert config["remark"] == "0001"
    batch = batch_of(tiny, range(6))
    found = outputs(loaded, batch)
    assert found.shape == (6, target.outputs)
    assert torch.equal(found, outputs(predictor, batch))


def test_equal_models_are_saved_as_equal_bytes_and_lend_their_encoder(new_encoder, tmp_path):
    for name in ("a", "b"):
        Predictor(new_encoder(20, seed=5), AGE, seed=3).save(tmp_path / name, {})
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    encoder = new_encoder(20, seed=6)
    load_weights(tmp_path / "a", encoder, "encoder.")
    expected = new_encoder(20, seed=5).state_dict()
    assert all(torch.equal(v, expected[k]) for k, v in encoder.state_dict().items())


@pytest.mark.parametrize("case", CASES)
def test_all_parts_get_a_gradient_and_the_encoder_none_where_embeddings_come_along(
    tiny, new_encoder, case
):
    target, options = CASES[case]
    losses = []
    for comes_along in (False, True):
        predictor = Predictor(new_encoder(20), target, seed=0, **options)
        batch = batch_of(tiny, range(8), target)
        if comes_along:
            batch.values[EMBEDDING] = predictor.encoder(batch).sample_BD.detach()
            batch.asvs, batch.samples = [], []
        torch.manual_seed(0)
        losses.append(predictor(batch)["loss"])
        losses[-1].backward()
        idle = {name.split(".")[0] for name, p in predictor.named_parameters() if p.grad is None}
        assert ("encoder" in idle) == comes_along
        assert idle <= {"encoder"}
    torch.testing.assert_close(losses[0], losses[-1])


def test_without_metadata_a_sample_is_one_of_unknown_categories(tiny, new_encoder):
    predictor = Predictor(new_encoder(20), AGE, seed=0, vocabulary=VOCABULARY)
    predictor.eval()
    with torch.no_grad():
        for parameter in predictor.fusion.parameters():
            parameter.add_(torch.randn_like(parameter))
    batch = batch_of(tiny, range(6))
    known = outputs(predictor, batch)
    batch.values[CATEGORIES] = None
    without = outputs(predictor, batch)
    batch.values[CATEGORIES] = torch.zeros(6, 2, dtype=torch.int64)
    assert torch.equal(without, outputs(predictor, batch))
    assert (known - without).abs().max() > 1e-3
