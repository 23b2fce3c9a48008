from pathlib import Path

import numpy as np
import pytest
import torch

from aam.data.folds import TEST
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest, module_digest
from aam.inference.embed import embed_samples
from aam.model.predictor import load_predictor
from aam.runtime.run_options import RunOptions
from aam.tasks.finetune import training
from aam.train.data.dataset import BatchDataset, EmbeddingDataset
from aam.util.atomic import write_json

FOLD = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2])
WITH_TEST = np.array([0, 1, 2, 0, 1, 2, TEST, TEST, TEST])


def learned(history: list[dict]) -> list[dict]:
    """Return the records that do not depend on the machine."""
    return [record for record in history if record["split"] != "system"]


def drawn(dataset: BatchDataset) -> set[int]:
    """Return the samples that have a part in a batch of a dataset."""
    store = dataset.store
    rows = {int(row) for step in range(len(dataset)) for row in dataset.rows(step)[0]}
    parts = [store.parents[slice(*store.parent_offsets[row : row + 2])].tolist() for row in rows]
    return {parent for part in parts for parent in part}


@pytest.mark.parametrize(("encoder", "fold"), [("full", FOLD), ("frozen", WITH_TEST)])
def test_no_model_is_trained_on_a_row_made_of_its_held_out_samples(new_task, encoder, fold):
    task = new_task(encoder=encoder, epochs=20, fold=fold)
    samples = task.setup.labelled.samples
    models = list(task._fold_models(task.models()))
    assert [model.fold for model in models] == [0, 1, 2]
    for model in models:
        dataset = model.dataset(model.new_predictor())
        assert drawn(dataset) == set(samples[(fold != model.fold) & (fold != TEST)].tolist())
        assert isinstance(dataset, EmbeddingDataset) == (encoder == "frozen")


@pytest.mark.parametrize(
    ("kind", "encoder"),
    [("regression", "full"), ("classification", "partial"), ("ordinal", "frozen")],
)
def test_the_labels_of_a_fold_do_not_change_its_predictions(new_task, kind, encoder, tmp_path):
    target = {"classes": ("low", "mid", "high")} if kind == "ordinal" else {}
    before = new_task(kind, encoder=encoder, target=target)
    labels = before.setup.labelled.observed_LC[:, 0].tolist()
    other = {"gut": "skin", "skin": "gut", "low": "high", "mid": "low", "high": "mid"}
    for i in np.flatnonzero(FOLD == 1):
        labels[i] = "-500" if kind == "regression" else other[labels[i]]
    after = new_task(kind, labels, encoder=encoder, target=target, work=tmp_path / "other")
    found, expected = (task.run().outputs.point_NC for task in (after, before))
    np.testing.assert_array_equal(found[FOLD == 1], expected[FOLD == 1])
    assert (found[FOLD != 1] != expected[FOLD != 1]).any(axis=1).all()


def test_the_labels_of_the_test_set_change_nothing(new_task, tmp_path):
    labels = [str(10 * number) for number in range(9)]
    others = [*labels[:6], "-1000", "5", "9"]
    found = [
        new_task(observed=known, fold=WITH_TEST, work=tmp_path / known[6], encoder="frozen").run()
        for known in (labels, others)
    ]
    np.testing.assert_array_equal(found[0].outputs.point_NC, found[1].outputs.point_NC)


@pytest.mark.parametrize("encoder", ["full", "partial", "frozen"])
def test_outputs_are_those_of_the_saved_model_of_the_fold(new_task, encoder, said):
    task = new_task("classification", encoder=encoder)
    finished = task.run()
    share_LK = finished.outputs.point_NC
    assert share_LK.shape == (9, 2)
    np.testing.assert_allclose(share_LK.sum(axis=1), 1)
    for fold, directory in enumerate(finished.models.values()):
        predictor, config = load_predictor(directory)
        assert (config["remark"], config["fold"]) == ("from the test", fold)
        found = said(predictor, task.setup.labelled.samples[fold == FOLD])
        np.testing.assert_allclose(found.point_NC, share_LK[fold == FOLD], atol=1e-5)
    steps = {fold: {r["step"] for r in finished.history if r["fold"] == fold} for fold in range(3)}
    assert steps == dict.fromkeys(range(3), {1, 2, 3, 4})


def test_several_models_of_a_fold_and_all_of_them_for_the_test_set_are_averaged(
    new_task, said, augmented, devices
):
    task = new_task(fold=WITH_TEST, models=2)
    finished = task.run()
    assert list(finished.models) == ["fold0", "fold0-1", "fold1", "fold1-1", "fold2", "fold2-1"]
    numbers = {(record["fold"], record["model"]) for record in finished.history}
    assert numbers == {(fold, number) for fold in range(3) for number in range(2)}
    predictors = [load_predictor(directory)[0] for directory in finished.models.values()]
    point_LC, samples = finished.outputs.point_NC, task.setup.labelled.samples
    for part in (0, 1, 2, TEST):
        models = predictors if part == TEST else predictors[2 * part : 2 * part + 2]
        each = [said(predictor, samples[part == WITH_TEST]).point_NC for predictor in models]
        np.testing.assert_allclose(point_LC[part == WITH_TEST], np.mean(each, axis=0), rtol=1e-5)
        assert not np.allclose(each[0], each[1], rtol=1e-3)
    first, rows = predictors[0].encoder, np.sort(samples[WITH_TEST > 0])
    expected = embed_samples(first, augmented.store, augmented.tokens, rows, devices)
    torch.testing.assert_close(finished.reference_ND, expected)


def test_a_fraction_of_the_labels_is_that_of_whole_groups(new_task, datasets, tmp_path):
    hosts = [f"host {number // 2}" for number in range(20)]
    common = {"samples": np.arange(20), "fold": np.arange(20) // 2 % 2, "units": hosts}
    labels, found = [str(number) for number in range(20)], {}
    for fraction in (0.4, 0.8, 1.0):
        datasets.clear()
        work = tmp_path / str(fraction)
        task = new_task(observed=labels, work=work, labels=fraction, encoder="frozen", **common)
        found[fraction] = task.run()
        for fold, dataset in enumerate(datasets):
            trained = {hosts[sample] for sample in dataset.samples}
            assert len(dataset.samples) == 2 * len(trained) == 10 * fraction
            assert all(int(host.split()[1]) % 2 != fold for host in trained)
        if fraction == 0.4:
            few = [set(dataset.samples.tolist()) for dataset in datasets]
        for part, dataset in zip(few, datasets, strict=True):
            assert part <= set(dataset.samples.tolist())
    others = [label if i in few[0] | few[1] else "-77" for i, label in enumerate(labels)]
    work = tmp_path / "again"
    again = new_task(observed=others, work=work, labels=0.4, encoder="frozen", **common).run()
    np.testing.assert_array_equal(again.outputs.point_NC, found[0.4].outputs.point_NC)


def test_the_least_fraction_of_the_labels_is_two_samples(new_task, datasets):
    finished = new_task(labels=0.01).run()
    assert [len(dataset.samples) for dataset in datasets] == [2, 2, 2]
    assert np.isfinite(finished.outputs.point_NC).all()


@pytest.mark.parametrize("encoder", ["partial", "frozen"])
def test_an_inductive_fold_starts_from_its_own_encoder(new_task, new_encoder, encoder, said):
    def make(fold: int, number: int):
        return new_encoder(20, seed=30 + fold, asv_layers=1, sample_layers=1)

    task = new_task(encoder=encoder, inductive=True, make_encoder=make, fold=WITH_TEST)
    finished = task.run()
    samples, each = task.setup.labelled.samples, []
    for fold, directory in enumerate(finished.models.values()):
        predictor = load_predictor(directory)[0]
        start, kept = make(fold, 0).state_dict(), predictor.encoder.state_dict()
        stays = [name for name in start if encoder == "frozen" or name.startswith("asv.")]
        assert all(torch.equal(kept[name], start[name]) for name in stays)
        found = said(predictor, samples[fold == WITH_TEST]).point_NC
        expected = finished.outputs.point_NC[fold == WITH_TEST]
        np.testing.assert_allclose(found, expected, rtol=1e-4)
        each.append(said(predictor, samples[TEST == WITH_TEST]).point_NC)
    expected = finished.outputs.point_NC[TEST == WITH_TEST]
    np.testing.assert_allclose(np.mean(each, axis=0), expected, rtol=1e-4)


def test_embeddings_of_asvs_made_before_serve_a_frozen_encoder(
    new_task, augmented, devices, monkeypatch, tmp_path
):
    """Marked embeddings show that they are what was read."""
    encoder, tokens = new_task().setup.make_encoder(0, 0), augmented.tokens
    asv_UD = embed_asvs_cached(encoder, tokens, devices, None)
    found = {}

    def stop(model, dataset, *args, **kwargs):
        found[name] = dataset.embedding_RD
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", stop)
    for name, content in (("none", None), ("same", asv_UD), ("marked", 2 * asv_UD)):
        if content is not None:
            AsvEmbeddings.write(tmp_path / name, tokens, content, encoder_digest(encoder, "fp32"))
        asvs = None if content is None else tmp_path / name
        with pytest.raises(KeyboardInterrupt):
            new_task(encoder="frozen", asvs=asvs).run()
    torch.testing.assert_close(found["same"], found["none"], atol=1e-5, rtol=0)
    assert (found["marked"] - found["none"]).abs().max() > 0.01


def other_curves(finished: Path) -> None:
    """Do what a run of other settings does that is killed between its curves and its model."""
    write_json(finished / "fold1-1.json", {"fingerprint": "other-fold1-1", "records": []})


DAMAGES = {
    "no weights": lambda finished: (finished / "fold1-1" / "model.safetensors").unlink(),
    "no config": lambda finished: (finished / "fold1-1" / "config.json").unlink(),
    "no curves": lambda finished: (finished / "fold1-1.json").unlink(),
    "curves of other settings": other_curves,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_only_what_is_not_finished_is_trained_again(new_task, datasets, damage):
    """A cleanup that was killed half way, and settings that come back, leave such folders."""

    def contents(models: dict[str, Path]) -> dict[str, bytes]:
        return {name: (folder / "config.json").read_bytes() for name, folder in models.items()}

    first = new_task(models=2).run()
    before = contents(first.models)
    datasets.clear()
    DAMAGES[damage](first.models["fold1"].parent)
    task = new_task(models=2)
    again = task.run()
    assert len(datasets) == 1
    assert set(task.setup.labelled.samples[FOLD == 1]).isdisjoint(datasets[0].samples)
    np.testing.assert_array_equal(again.outputs.point_NC, first.outputs.point_NC)
    assert learned(again.history) == learned(first.history)
    assert {r["fold"] for r in again.history if r["split"] == "system"} == {0, 1, 2}
    assert before == contents(again.models)


def test_other_settings_train_every_fold_again(new_task, datasets):
    for fingerprint in ("one", "other"):
        new_task(fingerprint=fingerprint, encoder="frozen").run()
    assert len(datasets) == 6


def test_digests_tell_models_apart_and_not_runs(new_task, tmp_path):
    runs = [new_task(work=tmp_path / str(i), epochs=e).run() for i, e in enumerate((1, 1, 2))]
    first, again, longer = (run.digests for run in runs)
    assert first == again
    assert list(first) == list(runs[0].models)
    assert len({*first.values(), *longer.values()}) == 6
    weights = load_predictor(runs[0].models["fold1"])[0]
    assert module_digest(weights) == first["fold1"]


def test_an_interrupted_fold_goes_on(new_task, monkeypatch, tmp_path):
    expected = new_task(work=tmp_path / "other").run()
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
            new_task(runtime=runtime).run()
    found = new_task(runtime=runtime).run()
    np.testing.assert_array_equal(found.outputs.point_NC, expected.outputs.point_NC)
    assert learned(found.history) == learned(expected.history)


def test_a_strong_signal_is_learned(new_task):
    """The samples lie on a gradient; what is learned on two folds holds in the third."""
    task = new_task(
        observed=[str(number) for number in range(20)],
        samples=np.arange(20),
        fold=np.arange(20) % 2,
        epochs=25,
        learning_rate=5e-3,
        dropout=0.0,
    )
    point_LC = task.run().outputs.point_NC
    assert np.corrcoef(point_LC[:, 0], np.arange(20))[0, 1] > 0.6
