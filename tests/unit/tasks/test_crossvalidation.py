from pathlib import Path

import numpy as np
import pytest
import torch

from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest, module_digest
from aam.inference.embed import embed_samples
from aam.model.predictor import load_predictor
from aam.runtime.run_options import RunOptions
from aam.tasks.finetune import fold_model
from aam.tasks.finetune.setup import TEST
from aam.train.data.dataset import BatchDataset, EmbeddingDataset
from aam.util.atomic import write_json

ABOUT = {"remark": "from the test"}
FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
WITH_TEST = np.array([0, 1, 2, 0, 1, 2, TEST, TEST, TEST])


def learned(history: list[dict]) -> list[dict]:
    """Return the records that do not depend on the machine."""
    return [record for record in history if record["split"] != "system"]


def drawn(dataset: BatchDataset) -> set[int]:
    """Return the samples that have a part in a batch of a dataset."""
    store = dataset.store
    rows = {int(row) for step in range(len(dataset)) for row in dataset.rows(step)[0]}
    return {
        int(parent)
        for row in rows
        for parent in store.parents[store.parent_offsets[row] : store.parent_offsets[row + 1]]
    }


@pytest.mark.parametrize("encoder", ["full", "frozen"])
@pytest.mark.parametrize("fold", [FOLD, WITH_TEST], ids=["folds", "and a test set"])
def test_no_model_is_trained_on_a_row_made_of_its_held_out_samples(new_task, feeds, encoder, fold):
    setup = new_task(encoder=encoder, epochs=20, fold=fold)
    setup.run(ABOUT)
    samples = setup.study.labelled.samples
    assert len(feeds) == 3
    for number, dataset in enumerate(feeds):
        assert drawn(dataset) == set(samples[(fold != number) & (fold != TEST)].tolist())
        assert isinstance(dataset, EmbeddingDataset) == (encoder == "frozen")


@pytest.mark.parametrize("encoder", ["full", "partial", "frozen"])
@pytest.mark.parametrize("kind", ["regression", "classification", "ordinal"])
def test_the_labels_of_a_fold_do_not_change_its_predictions(new_task, kind, encoder, tmp_path):
    target = {"classes": ("low", "mid", "high")} if kind == "ordinal" else {}
    before = new_task(kind, encoder=encoder, target=target)
    labels = before.study.labelled.observed_LC[:, 0].tolist()
    other = {"gut": "skin", "skin": "gut", "low": "high", "mid": "low", "high": "mid"}
    for i in np.flatnonzero(FOLD == 1):
        labels[i] = "-500" if kind == "regression" else other[labels[i]]
    after = new_task(kind, labels, encoder=encoder, target=target, work=tmp_path / "other")
    found, expected = (task.run(ABOUT).outputs.point_NC for task in (after, before))
    np.testing.assert_array_equal(found[FOLD == 1], expected[FOLD == 1])
    assert (found[FOLD != 1] != expected[FOLD != 1]).any(axis=1).all()


@pytest.mark.parametrize("encoder", ["full", "partial", "frozen"])
def test_outputs_are_those_of_the_saved_model_of_the_fold(new_task, encoder, said):
    setup = new_task("classification", encoder=encoder)
    finished = setup.run(ABOUT)
    share_LK = finished.outputs.point_NC
    assert share_LK.shape == (9, 2)
    np.testing.assert_allclose(share_LK.sum(axis=1), 1)
    for fold, directory in enumerate(finished.models.values()):
        predictor, config = load_predictor(directory)
        assert (config["remark"], config["fold"]) == ("from the test", fold)
        found = said(predictor, setup.study.labelled.samples[fold == FOLD])
        np.testing.assert_allclose(found.point_NC, share_LK[fold == FOLD], atol=1e-5)
    steps = {fold: {r["step"] for r in finished.history if r["fold"] == fold} for fold in range(3)}
    assert steps == dict.fromkeys(range(3), {1, 2, 3, 4})


def test_several_models_of_a_fold_and_all_of_them_for_the_test_set_are_averaged(new_task, said):
    setup = new_task(fold=WITH_TEST, models=2)
    finished = setup.run(ABOUT)
    assert list(finished.models) == ["fold0", "fold0-1", "fold1", "fold1-1", "fold2", "fold2-1"]
    numbers = {(record["fold"], record["model"]) for record in finished.history}
    assert numbers == {(fold, number) for fold in range(3) for number in range(2)}
    predictors = [load_predictor(directory)[0] for directory in finished.models.values()]
    point_LC = finished.outputs.point_NC
    for part in (0, 1, 2, TEST):
        samples = setup.study.labelled.samples[part == WITH_TEST]
        members = predictors if part == TEST else predictors[2 * part : 2 * part + 2]
        each = [said(predictor, samples).point_NC for predictor in members]
        np.testing.assert_allclose(point_LC[part == WITH_TEST], np.mean(each, axis=0), rtol=1e-5)
        assert not np.allclose(each[0], each[1], rtol=1e-3)


def test_the_labels_of_the_test_set_change_nothing(new_task, tmp_path):
    labels = [str(10 * number) for number in range(9)]
    others = [*labels[:6], "-1000", "5", "9"]
    found = [
        new_task(observed=known, fold=WITH_TEST, work=tmp_path / known[6]).run(ABOUT)
        for known in (labels, others)
    ]
    np.testing.assert_array_equal(found[0].outputs.point_NC, found[1].outputs.point_NC)


def test_a_share_of_the_labels_is_that_of_whole_groups(new_task, feeds, tmp_path):
    hosts = [f"host {number // 2}" for number in range(20)]
    common = {"samples": np.arange(20), "fold": np.arange(20) // 2 % 2, "units": hosts}
    labels, found = [str(number) for number in range(20)], {}
    for share in (0.4, 0.8, 1.0):
        feeds.clear()
        work = tmp_path / str(share)
        found[share] = new_task(observed=labels, work=work, labels=share, **common).run(ABOUT)
        for fold, dataset in enumerate(feeds):
            trained = {hosts[sample] for sample in dataset.samples}
            assert len(dataset.samples) == 2 * len(trained) == 10 * share
            assert all(int(host.split()[1]) % 2 != fold for host in trained)
        if share == 0.4:
            few = [set(dataset.samples.tolist()) for dataset in feeds]
        assert all(
            part <= set(dataset.samples.tolist()) for part, dataset in zip(few, feeds, strict=True)
        )
    others = [label if i in few[0] | few[1] else "-77" for i, label in enumerate(labels)]
    again = new_task(observed=others, work=tmp_path / "again", labels=0.4, **common).run(ABOUT)
    np.testing.assert_array_equal(again.outputs.point_NC, found[0.4].outputs.point_NC)


def test_the_least_share_of_the_labels_is_two_samples(new_task, feeds):
    finished = new_task(labels=0.01).run(ABOUT)
    assert [len(dataset.samples) for dataset in feeds] == [2, 2, 2]
    assert np.isfinite(finished.outputs.point_NC).all()


@pytest.mark.parametrize("encoder", ["partial", "frozen"])
def test_an_inductive_fold_starts_from_its_own_encoder(new_task, new_encoder, encoder, said):
    def make(fold: int, number: int):
        return new_encoder(20, seed=30 + fold, asv_layers=1, sample_layers=1)

    setup = new_task(encoder=encoder, inductive=True, make_encoder=make, fold=WITH_TEST)
    finished = setup.run(ABOUT)
    samples, each = setup.study.labelled.samples, []
    for fold, directory in enumerate(finished.models.values()):
        predictor = load_predictor(directory)[0]
        start = make(fold, 0).state_dict()
        kept = predictor.encoder.state_dict()
        assert all(torch.equal(kept[name], start[name]) for name in start if "asv." in name)
        found = said(predictor, samples[fold == WITH_TEST]).point_NC
        expected = finished.outputs.point_NC[fold == WITH_TEST]
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        each.append(said(predictor, samples[TEST == WITH_TEST]).point_NC)
    expected = finished.outputs.point_NC[TEST == WITH_TEST]
    np.testing.assert_allclose(np.mean(each, axis=0), expected, rtol=1e-4)


def test_the_reference_is_of_what_the_first_model_was_trained_on(new_task, augmented, devices):
    setup = new_task(fold=WITH_TEST)
    finished = setup.run(ABOUT)
    samples = np.sort(setup.study.labelled.samples[WITH_TEST > 0])
    encoder = load_predictor(finished.models["fold0"])[0].encoder
    expected = embed_samples(encoder, augmented.store, augmented.tokens, samples, devices)
    torch.testing.assert_close(finished.reference_ND, expected)


@pytest.mark.parametrize(("encoder", "changes"), [("full", True), ("frozen", False)])
def test_a_frozen_encoder_stays_as_it_was(new_task, encoder, changes):
    setup = new_task(encoder=encoder)
    start = setup.study.make_encoder(0, 0).state_dict()
    for directory in setup.run(ABOUT).models.values():
        weights = load_predictor(directory)[0].encoder.state_dict()
        assert changes == any(not torch.equal(weights[name], start[name]) for name in start)


def test_embeddings_of_asvs_made_before_serve_a_frozen_encoder(
    new_task, augmented, devices, monkeypatch, tmp_path
):
    """Marked embeddings show that they are what was read."""
    encoder, tokens = new_task().study.make_encoder(0, 0), augmented.tokens
    asv_UD = embed_asvs_cached(encoder, tokens, devices, None)
    found = {}

    def stop(model, dataset, *args, **kwargs):
        found[name] = dataset.embedding_RD
        raise KeyboardInterrupt

    monkeypatch.setattr(fold_model, "fit", stop)
    for name, content in (("none", None), ("same", asv_UD), ("marked", 2 * asv_UD)):
        if content is not None:
            AsvEmbeddings.write(tmp_path / name, tokens, content, encoder_digest(encoder, "fp32"))
        asvs = None if content is None else tmp_path / name
        with pytest.raises(KeyboardInterrupt):
            new_task(encoder="frozen", asvs=asvs).run(ABOUT)
    torch.testing.assert_close(found["same"], found["none"], atol=1e-5, rtol=0)
    assert (found["marked"] - found["none"]).abs().max() > 0.01


def contents(models: dict[str, Path]) -> dict[str, bytes]:
    return {name: (folder / "config.json").read_bytes() for name, folder in models.items()}


def test_a_finished_model_is_not_trained_again(new_task, feeds):
    first = new_task(models=2).run(ABOUT)
    before = contents(first.models)
    (first.models["fold1-1"] / "config.json").unlink()
    feeds.clear()
    setup = new_task(models=2)
    again = setup.run(ABOUT)
    assert len(feeds) == 1
    assert set(setup.study.labelled.samples[FOLD == 1]).isdisjoint(feeds[0].samples)
    np.testing.assert_array_equal(again.outputs.point_NC, first.outputs.point_NC)
    assert learned(again.history) == learned(first.history)
    assert {r["fold"] for r in again.history if r["split"] == "system"} == {0, 1, 2}
    assert before == contents(again.models)


@pytest.mark.parametrize("file", ["fold1/model.safetensors", "fold1/config.json", "fold1.json"])
def test_a_folder_that_a_killed_cleanup_left_is_no_finished_model(new_task, feeds, file):
    first = new_task().run(ABOUT)
    (first.models["fold1"].parent / file).unlink()
    feeds.clear()
    again = new_task().run(ABOUT)
    assert len(feeds) == 1
    np.testing.assert_array_equal(again.outputs.point_NC, first.outputs.point_NC)
    assert learned(again.history) == learned(first.history)


def test_curves_of_other_settings_do_not_stand_beside_a_model(new_task, feeds):
    """A run of other settings is killed between its curves and its model; then they come back."""
    first = new_task().run(ABOUT)
    curves = first.models["fold0"].with_name("fold0.json")
    write_json(curves, {"fingerprint": "other-fold0", "records": []})
    feeds.clear()
    again = new_task().run(ABOUT)
    assert len(feeds) == 1
    assert learned(again.history) == learned(first.history)


def test_every_model_of_a_fold_has_a_start_of_its_own(new_task, new_encoder):
    asked = []

    def make(fold: int, number: int):
        asked.append((fold, number))
        return new_encoder(20, seed=10 * fold + number, asv_layers=1, sample_layers=1)

    new_task(start="scratch", models=2, make_encoder=make).run(ABOUT)
    assert asked == [(fold, number) for fold in range(3) for number in range(2)]


def test_digests_tell_models_apart_and_not_runs(new_task, tmp_path):
    runs = [new_task(work=tmp_path / str(i), epochs=e).run(ABOUT) for i, e in enumerate((1, 1, 2))]
    first, again, longer = (run.digests for run in runs)
    assert first == again
    assert list(first) == list(runs[0].models)
    assert len({*first.values(), *longer.values()}) == 6
    weights = load_predictor(runs[0].models["fold1"])[0]
    assert module_digest(weights) == first["fold1"]


def test_other_settings_train_every_fold_again(new_task, feeds):
    new_task().run(ABOUT)
    feeds.clear()
    new_task(fingerprint="other").run(ABOUT)
    assert len(feeds) == 3


def test_an_interrupted_fold_goes_on(new_task, monkeypatch, tmp_path):
    expected = new_task(work=tmp_path / "other").run(ABOUT)
    step, left = BatchDataset.__getitem__, [6]

    def failing(self, number):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return step(self, number)

    runtime = RunOptions(checkpoint_every_s=0)
    with monkeypatch.context() as patched:
        patched.setattr(BatchDataset, "__getitem__", failing)
        with pytest.raises(KeyboardInterrupt):
            new_task(runtime=runtime).run(ABOUT)
    found = new_task(runtime=runtime).run(ABOUT)
    np.testing.assert_array_equal(found.outputs.point_NC, expected.outputs.point_NC)
    assert learned(found.history) == learned(expected.history)


def test_predictions_are_means_over_the_views(new_task, augmented, devices, said):
    setup = new_task()
    predictor = load_predictor(setup.run(ABOUT).models["fold0"])[0]
    store, samples = augmented.store, setup.study.labelled.samples
    single = []
    for view in range(2):
        rows = view * len(store.sample_ids) + samples
        embedding = embed_samples(predictor.encoder, store, augmented.tokens, rows, devices)
        with torch.no_grad():
            single.append(predictor.target.decode(predictor.head(embedding).numpy()))
    found = said(predictor, samples).point_NC
    np.testing.assert_allclose(found, np.mean(single, axis=0), rtol=1e-5)
    assert not np.allclose(single[0], single[1], rtol=1e-5)


def test_a_strong_signal_is_learned(new_task):
    """The samples lie on a gradient; what is learned on two folds holds in the third."""
    setup = new_task(
        observed=[str(number) for number in range(20)],
        samples=np.arange(20),
        fold=np.arange(20) % 3,
        epochs=30,
        learning_rate=5e-3,
        dropout=0.0,
    )
    point_LC = setup.run(ABOUT).outputs.point_NC
    assert np.corrcoef(point_LC[:, 0], np.arange(20))[0, 1] > 0.6
