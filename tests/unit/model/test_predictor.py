import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aam.model.predictor import EMBEDDING, TARGET, Predictor, load_predictor
from aam.model.store import load_part, save_model
from aam.model.target import Target
from aam.train.collate import assemble
from aam.util.errors import InputError

AGE = Target("regression", "age", (), 40.0, 12.0)
SITE = Target("classification", "site", ("gut", "skin", "tongue"), 0.0, 1.0)


@given(
    numbers=st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=9),
    training=st.integers(1, 9),
)
def test_numbers_are_standardized_by_the_training_samples_and_come_back(numbers, training):
    observed = [repr(number) for number in numbers]
    is_training = np.arange(len(numbers)) < training
    target = Target.fit("regression", "age", observed, is_training)
    known = np.array(numbers)[is_training]
    assert target.mean == pytest.approx(known.mean())
    encoded = target.encode(observed)
    assert encoded.shape == (len(numbers), 1)
    if known.std() > 1e-3:
        assert encoded[is_training].std() == pytest.approx(1, rel=1e-3)
        spread = np.abs(np.array(numbers) - target.mean).max()
        np.testing.assert_allclose(target.decode(encoded)[:, 0], numbers, atol=1e-6 * spread + 1e-6)


@given(st.lists(st.sampled_from(["gut", "skin", "tongue"]), min_size=1, max_size=9))
def test_classes_come_back(observed):
    assert SITE.outputs == 3
    shares = SITE.encode(observed)
    assert shares.shape == (len(observed), 3)
    assert (shares.sum(axis=1) == 1).all()
    probabilities = SITE.decode(shares * 30)
    assert [SITE.classes[i] for i in probabilities.argmax(axis=1)] == observed


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_probabilities_sum_to_one_for_any_outputs(outputs):
    probabilities = SITE.decode(np.array([outputs], np.float32))
    assert probabilities.sum() == pytest.approx(1)
    assert (probabilities >= 0).all()


def test_classes_are_those_of_all_samples_in_alphabetical_order():
    target = Target.fit(
        "classification", "site", ["b", "c", "a", "b"], np.array([1, 0, 0, 1], bool)
    )
    assert target.classes == ("a", "b", "c")


@pytest.mark.parametrize("target", [AGE, SITE])
def test_a_predictor_rebuilds_itself_from_its_directory_alone(tiny, new_encoder, tmp_path, target):
    predictor = Predictor(new_encoder(20, patch_bp=4), target, seed=3)
    predictor.head(torch.randn(9, 16))
    predictor.eval()
    batch = assemble(tiny.store, tiny.tokens, np.arange(6))
    predictor.save(tmp_path / "model", {"remark": "0001"})
    loaded, config = load_predictor((tmp_path / "model").rename(tmp_path / "elsewhere"))
    assert loaded.target == target
    loaded.eval()
    assert config["remark"] == "0001"
    with torch.no_grad():
        expected = predictor.head(predictor.encoder(batch).sample_BD)
        found = loaded.head(loaded.encoder(batch).sample_BD)
    assert torch.equal(found, expected)


def test_equal_models_are_saved_as_equal_bytes(new_encoder, tmp_path):
    for name in ("a", "b"):
        Predictor(new_encoder(20), AGE, seed=3).save(tmp_path / name, {})
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_folder_without_a_model_is_named(tmp_path):
    with pytest.raises(InputError, match=r"empty.*no config\.json.*Hint"):
        load_predictor(tmp_path / "empty")


def test_saving_again_replaces_the_directory_whole(new_encoder, tmp_path):
    save_model(tmp_path / "m", new_encoder(20), {"format": 1})
    (tmp_path / "m" / "stray").touch()
    save_model(tmp_path / "m", new_encoder(20), {"format": 2})
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]
    assert json.loads((tmp_path / "m" / "config.json").read_text())["format"] == 2
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_an_encoder_is_loaded_from_a_larger_model(new_encoder, tmp_path):
    save_model(tmp_path / "m", Predictor(new_encoder(20, seed=5), AGE, seed=0), {})
    encoder = new_encoder(20, seed=6)
    load_part(tmp_path / "m", encoder, "encoder")
    expected = new_encoder(20, seed=5).state_dict()
    assert all(torch.equal(v, expected[k]) for k, v in encoder.state_dict().items())


def test_embeddings_that_come_along_are_not_computed_again(tiny, new_encoder):
    predictor = Predictor(new_encoder(20), SITE, seed=0)
    batch = assemble(tiny.store, tiny.tokens, np.arange(4))
    batch.values[TARGET] = torch.from_numpy(SITE.encode(["gut", "skin", "gut", "tongue"]))
    expected = predictor(batch)["loss"]
    batch.values[EMBEDDING] = predictor.encoder(batch).sample_BD.detach()
    batch.asvs, batch.samples = [], []
    loss = predictor(batch)["loss"]
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert all(p.grad is None for p in predictor.encoder.parameters())
    assert all(p.grad is not None for p in predictor.head.parameters())
