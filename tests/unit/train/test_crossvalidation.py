from dataclasses import replace

import numpy as np
import pytest
import torch

from aam.config.sections.execution import Optimization
from aam.config.sections.training import Finetuning
from aam.model.predictor import load_predictor
from aam.train import crossvalidation
from aam.train.crossvalidation import CrossValidation, Labelled, predict_samples
from aam.train.embeddings import AsvEmbeddings, embed_asvs_cached, encoder_digest
from aam.train.feed import EmbeddingFeed
from aam.train.loop import Pace
from aam.train.options import step_options

SAMPLES = np.array([17, 0, 3, 4, 19, 8, 9, 11, 14])
FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
AGES = ["61", "3.5", "10", "14", "70", "30", "33", "40", "52"]
SITES = ["gut", "skin", "gut", "gut", "skin", "skin", "gut", "gut", "skin"]
ABOUT = {"remark": "from the test"}


@pytest.fixture
def task(augmented, new_encoder, devices, tmp_path):
    """Return the function that sets a task up."""

    def build(kind="regression", observed=None, **settings) -> CrossValidation:
        known = observed or (AGES if kind == "regression" else SITES)
        return CrossValidation(
            store=augmented.store,
            tokens=augmented.tokens,
            labelled=Labelled(SAMPLES, known, FOLD),
            kind=kind,
            column="age" if kind == "regression" else "site",
            settings=Finetuning(**{"epochs": 2, "batch_size": 4, "precision": "fp32", **settings}),
            make_encoder=lambda: new_encoder(20, seed=8, asv_layers=1, sample_layers=1),
            devices=devices,
            options=step_options(Optimization()),
            pace=Pace("fine-tuning"),
            work=tmp_path / "work",
            fingerprint="here",
        )

    return build


def learned(history: list[dict]) -> list[dict]:
    """Return the records that do not depend on the machine."""
    return [record for record in history if record["split"] != "system"]


@pytest.fixture
def feeds(monkeypatch) -> list:
    """Collect the feeds that models are trained on."""
    seen = []
    fit = crossvalidation.fit

    def spy(model, feed, *args, **kwargs):
        seen.append(feed)
        return fit(model, feed, *args, **kwargs)

    monkeypatch.setattr(crossvalidation, "fit", spy)
    return seen


@pytest.mark.parametrize("encoder", ["full", "frozen"])
def test_no_model_is_trained_on_a_row_made_of_its_held_out_samples(task, feeds, encoder):
    task(encoder=encoder, epochs=20).run(ABOUT)
    assert len(feeds) == 3
    for fold, feed in enumerate(feeds):
        store = feed.store
        rows = {int(row) for step in range(len(feed)) for row in feed.rows(step)[0]}
        drawn = {
            int(parent)
            for row in rows
            for parent in store.parents[store.parent_offsets[row] : store.parent_offsets[row + 1]]
        }
        assert drawn == set(SAMPLES[fold != FOLD].tolist())
        assert isinstance(feed, EmbeddingFeed) == (encoder == "frozen")


@pytest.mark.parametrize("encoder", ["full", "frozen"])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_the_labels_of_a_fold_do_not_change_its_predictions(task, kind, encoder, tmp_path):
    labels = list(AGES if kind == "regression" else SITES)
    before, _, _ = task(kind, encoder=encoder).run(ABOUT)
    for i in np.flatnonzero(FOLD == 1):
        labels[i] = "-500" if kind == "regression" else {"gut": "skin", "skin": "gut"}[labels[i]]
    changed = replace(task(kind, labels, encoder=encoder), work=tmp_path / "other")
    after, _, _ = changed.run(ABOUT)
    np.testing.assert_array_equal(after[FOLD == 1], before[FOLD == 1])
    assert (after[FOLD != 1] != before[FOLD != 1]).all()


@pytest.mark.parametrize("encoder", ["full", "frozen"])
def test_outputs_are_those_of_the_saved_model_of_the_fold(task, encoder, devices):
    setup = task("classification", encoder=encoder)
    outputs, history, models = setup.run(ABOUT)
    assert outputs.shape == (9, 2)
    np.testing.assert_allclose(outputs.sum(axis=1), 1)
    for fold, directory in models.items():
        predictor, config = load_predictor(directory)
        assert config["remark"] == "from the test"
        rows = SAMPLES[fold == FOLD]
        found = predict_samples(predictor, setup.store, setup.tokens, rows, devices)
        np.testing.assert_allclose(found, outputs[fold == FOLD], atol=1e-5)
    steps = {fold: {r["step"] for r in history if r["fold"] == fold} for fold in range(3)}
    assert steps == dict.fromkeys(range(3), {1, 2, 3, 4})


@pytest.mark.parametrize(("encoder", "changes"), [("full", True), ("frozen", False)])
def test_a_frozen_encoder_stays_as_it_was(task, encoder, changes):
    setup = task(encoder=encoder)
    _, _, models = setup.run(ABOUT)
    start = setup.make_encoder().state_dict()
    for directory in models.values():
        weights = load_predictor(directory)[0].encoder.state_dict()
        assert changes == any(not torch.equal(weights[name], start[name]) for name in start)


def test_embeddings_of_asvs_made_before_serve_a_frozen_encoder(
    task, devices, monkeypatch, tmp_path
):
    """Marked embeddings show that they are what was read."""
    encoder, tokens = task().make_encoder(), task().tokens
    asv_UD = embed_asvs_cached(encoder, tokens, devices, None)
    found = {}

    def stop(model, feed, *args, **kwargs):
        found[name] = feed.embedding_RD
        raise KeyboardInterrupt

    monkeypatch.setattr(crossvalidation, "fit", stop)
    for name, content in (("none", None), ("same", asv_UD), ("marked", 2 * asv_UD)):
        if content is not None:
            AsvEmbeddings.write(tmp_path / name, tokens, content, encoder_digest(encoder, "fp32"))
        asvs = None if content is None else tmp_path / name
        with pytest.raises(KeyboardInterrupt):
            replace(task(encoder="frozen"), asvs=asvs).run(ABOUT)
    torch.testing.assert_close(found["same"], found["none"], atol=1e-5, rtol=0)
    assert (found["marked"] - found["none"]).abs().max() > 0.01


def test_a_finished_fold_is_not_trained_again(task, feeds):
    setup = task()
    outputs, history, models = setup.run(ABOUT)
    before = {fold: (folder / "config.json").read_bytes() for fold, folder in models.items()}
    (models[1] / "config.json").unlink()
    feeds.clear()
    again, same_history, models = task().run(ABOUT)
    assert len(feeds) == 1
    assert set(SAMPLES[FOLD == 1]).isdisjoint(feeds[0].samples)
    np.testing.assert_array_equal(again, outputs)
    assert learned(same_history) == learned(history)
    assert {r["fold"] for r in same_history if r["split"] == "system"} == {0, 1, 2}
    assert before == {fold: (d / "config.json").read_bytes() for fold, d in models.items()}


def test_other_settings_train_every_fold_again(task, feeds):
    task().run(ABOUT)
    feeds.clear()
    replace(task(), fingerprint="other").run(ABOUT)
    assert len(feeds) == 3


def test_an_interrupted_fold_goes_on(task, monkeypatch, tmp_path):
    expected, history, _ = replace(task(), work=tmp_path / "other").run(ABOUT)
    step = crossvalidation.Feed.__getitem__
    left = [6]

    def failing(self, number):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self, number)

    pace = Pace("fine-tuning", checkpoint_every_s=0)
    with monkeypatch.context() as patched:
        patched.setattr(crossvalidation.Feed, "__getitem__", failing)
        with pytest.raises(KeyboardInterrupt):
            replace(task(), pace=pace).run(ABOUT)
    found, found_history, _ = replace(task(), pace=pace).run(ABOUT)
    np.testing.assert_array_equal(found, expected)
    assert learned(found_history) == learned(history)


def test_predictions_are_means_over_the_views(task, devices):
    setup = task()
    _, _, models = setup.run(ABOUT)
    predictor = load_predictor(models[0])[0]
    store, count = setup.store, len(setup.store.sample_ids)
    found = predict_samples(predictor, store, setup.tokens, SAMPLES, devices)
    single = []
    for view in range(2):
        held = slice(view * count, (view + 1) * count)
        rows = np.arange(len(store.row_view))
        rows[:count] = rows[held]
        embedding = crossvalidation.embed_samples(
            predictor.encoder, store, setup.tokens, rows[:count], devices
        )
        with torch.no_grad():
            output = predictor.head(embedding[torch.from_numpy(SAMPLES)]).numpy()
        single.append(predictor.target.decode(output))
    np.testing.assert_allclose(found, np.mean(single, axis=0), rtol=1e-5)
    assert not np.allclose(single[0], single[1], rtol=1e-5)


def test_a_strong_signal_is_learned(task, augmented):
    """The samples lie on a gradient; what is learned on two folds holds in the third."""
    setup = replace(
        task(epochs=30, learning_rate=5e-3, dropout=0.0),
        labelled=Labelled(np.arange(20), [str(i) for i in range(20)], np.arange(20) % 3),
    )
    outputs, _, _ = setup.run(ABOUT)
    assert np.corrcoef(outputs[:, 0], np.arange(20))[0, 1] > 0.6
