import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from model_directories import other_reads, write_models
from safetensors.torch import load_file, save_file

from aam.data.table import FeatureTable
from aam.data.target import Target
from aam.inference import ensemble
from aam.inference.asv_cache import AsvEmbeddings, embed_asvs_cached, encoder_digest, module_digest
from aam.inference.bundle import SHARES, ModelBundle, fold_models
from aam.inference.embed import embed_samples
from aam.inference.ensemble import predict_table
from aam.inference.outputs import Share
from aam.inference.reference import Reference, write_reference
from aam.model.fusion import Vocabulary
from aam.model.predictor import Predictor
from aam.model.store import REFERENCE, SEEN_ASVS
from aam.util.atomic import write_json
from aam.util.digests import MANIFEST, write_manifest
from aam.util.errors import InputError

AGE = Target.fit("regression", ("age",), np.array([["28"], ["52"]]), np.ones(2, bool))
SITES = np.array([["gut"], ["skin"], ["tongue"]])
SITE = Target.fit("classification", ("site",), SITES, np.ones(3, bool))
NAMES = ("fold2", "fold2-1", "fold10")


def bundle_of(predictors: list[Predictor], seen=(), **more) -> ModelBundle:
    shares = [Share() for _ in predictors]
    return ModelBundle(predictors, shares, 60, 0, 20, frozenset(seen), **more)


@pytest.fixture(scope="module")
def three(new_encoder):
    def build(target: Target = AGE, seen=()) -> ModelBundle:
        predictors = [Predictor(new_encoder(20, seed=s), target, seed=s) for s in range(3)]
        return bundle_of(predictors, seen)

    return build


@pytest.fixture(scope="module")
def predict(tiny):
    def predict(bundle: ModelBundle, **given) -> pd.DataFrame:
        known = bundle.seen_asvs or frozenset(tiny.sequences.values())
        return predict_table(replace(bundle, seen_asvs=known), tiny.table, tiny.sequences, **given)

    return predict


def one_by_one(predict, bundle: ModelBundle, **given) -> list[pd.DataFrame]:
    return [
        predict(replace(bundle, predictors=[one], shares=[Share()]), **given)
        for one in bundle.predictors
    ]


def test_models_count_by_their_shares(predict, three):
    """A weighted mean and its spread; probabilities are scaled before, each by its temperature."""
    bundle = replace(three(SITE), shares=[Share(2.0), Share(1.0, temperature=0.5), Share(0.0)])
    columns = [f"probability:{name}" for name in SITE.classes]
    each = [table[columns].to_numpy() for table in one_by_one(predict, bundle)]
    sharp = each[1] ** 2 / (each[1] ** 2).sum(axis=1, keepdims=True)
    expected = (2 * each[0] + sharp) / 3
    found = predict(bundle)
    assert list(found.columns) == ["predicted", "sd", *columns, "unseen_asvs", "near_reads"]
    np.testing.assert_allclose(found[columns], expected, rtol=1e-9)
    rows, best = np.arange(len(found)), expected.argmax(axis=1)
    assert found["predicted"].tolist() == np.array(SITE.classes)[best].tolist()
    gap = np.abs(each[0] - sharp)[rows, best]
    np.testing.assert_allclose(found["sd"], gap * np.sqrt(2) / 3, rtol=1e-6)


def levels(caplog) -> list[str]:
    return [record.levelname for record in caplog.records]


@pytest.mark.parametrize("kernel", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=8)
def test_predictions_do_not_depend_on_the_order_of_rows_and_columns(
    tiny, new_encoder, kernel_predictor, kernel, seed
):
    network = Predictor(new_encoder(20), AGE, seed=0)
    seen = tiny.sequences.values()
    bundle = bundle_of([kernel_predictor(AGE) if kernel else network], seen, views=2)
    expected = predict_table(bundle, tiny.table, tiny.sequences)
    rng, table = np.random.default_rng(seed), tiny.table
    rows, columns = rng.permutation(20)[: rng.integers(1, 21)], rng.permutation(30)
    counts = table.counts[rows][:, columns]
    counts.sort_indices()
    shuffled = FeatureTable(
        [table.sample_ids[i] for i in rows], [table.feature_ids[j] for j in columns], counts
    )
    found = predict_table(bundle, shuffled, tiny.sequences)
    assert found.index.tolist() == [name for name in shuffled.sample_ids if name in expected.index]
    pd.testing.assert_frame_equal(found, expected.loc[found.index], atol=1e-3, rtol=1e-5)


def test_the_views_of_training_are_drawn_again_and_averaged(augmented, three, devices):
    """The store that training reads has the same two draws."""
    table, sequences, store = augmented.table, augmented.sequences, augmented.store
    bundle = replace(three(seen=[*sequences.values()][::2]), views=2)
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
    is_new = [sequences[name] not in bundle.seen_asvs for name in sequences]
    reads = sum(store.view_matrix(view, 30).toarray() for view in range(2))
    expected = reads[:, is_new].sum(axis=1) / reads.sum(axis=1)
    np.testing.assert_allclose(found["unseen_asvs"], expected)


@pytest.mark.parametrize(("known", "shift", "warned"), [(29, 0.0, False), (18, 50.0, True)])
def test_a_table_unlike_that_of_training_is_warned_of(
    tiny, three, predict, devices, tmp_path, caplog, known, shift, warned
):
    """By ASVs never seen, and by samples that are far from those of training."""
    bundle = three(seen=list(tiny.sequences.values())[:known])
    encoder, rows = bundle.predictors[0].encoder, np.arange(20)
    embedding = embed_samples(encoder, tiny.store, tiny.tokens, rows, devices).numpy()
    shifted = embedding + shift * embedding.std(axis=0)
    write_reference(tmp_path / "reference", shifted, other_reads(20, ["ACGT"]), ["ACGT"], "fold0")
    found = predict(replace(bundle, reference=Reference.open(tmp_path / "reference")))
    columns = ["predicted", "sd", "unseen_asvs", "near_reads", "novelty", "in_training"]
    assert list(found.columns) == columns
    assert (found["in_training"] == "").all()
    assert levels(caplog) == ["WARNING"] * (3 * warned)
    few = found.index[found["near_reads"] < 0.5]
    assert bool(len(few)) == warned
    assert not warned or f"in these {len(few)} of 20 samples less than 50 %" in caplog.text
    assert not warned or "never saw" in caplog.text
    assert not warned or "100 % of the samples are farther" in caplog.text
    assert (found["novelty"] == warned).all()
    reads = tiny.views[0].counts.toarray()
    is_new = [tiny.tokens.feature_ids.index(name) >= known for name in tiny.views[0].feature_ids]
    expected = reads[:, is_new].sum(axis=1) / reads.sum(axis=1)
    np.testing.assert_allclose(found["unseen_asvs"], expected)


@pytest.fixture
def trained_on_half(tiny, three, devices, tmp_path) -> ModelBundle:
    """Return models whose samples of training are every second one of the table."""
    bundle, sequences = three(seen=tiny.sequences.values()), tiny.sequences
    rows = np.arange(0, 20, 2)
    training = tiny.table.select_samples(rows)
    encoder = bundle.predictors[1].encoder
    embedding = embed_samples(encoder, tiny.store, tiny.tokens, rows, devices).numpy()
    texts = [sequences[name] for name in training.feature_ids]
    write_reference(tmp_path / "reference", embedding, training, texts, "fold1")
    return replace(bundle, reference=Reference.open(tmp_path / "reference"), reference_model=1)


@pytest.mark.parametrize("renamed", [False, True])
def test_samples_of_training_are_named_marked_and_not_new(
    tiny, trained_on_half, predict, caplog, renamed
):
    """Renamed ones are drawn otherwise, and recognized by their reads before they are drawn."""
    table, sequences = tiny.table, tiny.sequences
    if renamed:
        ids = [f"patient {name}" for name in table.sample_ids]
        hashes = [f"{number:032x}" for number in range(30)]
        sequences = dict(zip(hashes, [sequences[name] for name in table.feature_ids], strict=True))
        table = FeatureTable(ids, hashes, table.counts)
    found = predict_table(trained_on_half, table, sequences)
    mark = "reads" if renamed else "id"
    assert found["in_training"].tolist() == [mark, ""] * 10
    assert (found["novelty"].iloc[::2] == 0).all()
    assert (found["novelty"].iloc[1::2] > 0).any()
    assert levels(caplog) == ["WARNING"]
    assert "of 20 samples these were in training" in caplog.text
    assert ", ".join(map(repr, found.index[::2])) in caplog.text
    assert repr(found.index[1]) not in caplog.text
    caplog.clear()
    others = table.select_samples(np.arange(1, 20, 2))
    assert (predict_table(trained_on_half, others, sequences)["in_training"] == "").all()
    assert not caplog.records


def test_another_sample_of_a_known_id_is_as_new_as_it_is(tiny, trained_on_half, predict):
    plain = predict(trained_on_half)["novelty"]
    number = int(np.argmax(plain.iloc[1::2])) * 2 + 1
    ids = [*tiny.table.sample_ids]
    ids[0], ids[number] = ids[number], ids[0]
    table = FeatureTable(ids, tiny.table.feature_ids, tiny.table.counts)
    found = predict_table(trained_on_half, table, tiny.sequences)
    assert found["in_training"].iloc[[0, number]].tolist() == ["reads", "id"]
    assert found["novelty"].iloc[0] == 0
    assert found["novelty"].iloc[number] > 0


@pytest.fixture
def conditioned(new_encoder, tiny) -> ModelBundle:
    """Two models with the host as covariate, scaled by season; the second knows no dog."""
    rows, both = np.array([["28"], ["52"], ["1"], ["5"]]), np.ones(4, bool)
    target = Target.fit("regression", ("age",), rows, both, by=["dry", "dry", "wet", "wet"])
    predictors = []
    for seed, hosts in enumerate([("cat", "dog"), ("cat",)]):
        encoder, vocabulary = new_encoder(20, seed=seed), Vocabulary(("host",), (hosts,))
        predictor = Predictor(encoder, target, vocabulary=vocabulary, seed=seed)
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
    for host, season in (("cat", "wet"), ("dog", "dry")):
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
    assert "give the metadata that hold them" in caplog.text
    caplog.clear()
    ids = tiny.table.sample_ids[:-1]
    strange = pd.DataFrame({"host": ["fox"] * 9 + ["cat"] * 10, "season": "wet"}, index=ids)
    other = predict(conditioned, metadata=strange)
    assert "host in 10, season in 1 (training never had host 'fox')" in caplog.text
    assert "fill them in the metadata" in caplog.text
    assert levels(caplog) == ["WARNING"]
    assert found["predicted"].iloc[-1] == pytest.approx(other["predicted"].iloc[-1], rel=1e-5)
    assert (found["predicted"] != other["predicted"]).iloc[:-1].all()


def test_sequences_are_cut_and_ambiguous_letters_are_alike_as_in_training(tiny, three):
    def predicted(seen: str, given: str, tail: str = "") -> pd.DataFrame:
        known = [seen + sequence[1:] for sequence in tiny.sequences.values()]
        own = {name: given + sequence[1:] + tail for name, sequence in tiny.sequences.items()}
        return predict_table(three(seen=known), tiny.table, own)

    found = predicted("N", "R", "ACGT")
    pd.testing.assert_frame_equal(found, predicted("N", "N"))
    assert not found["unseen_asvs"].any()


def test_shallow_samples_are_named_and_a_shallow_table_is_refused(tiny, three, caplog):
    bundle, table = three(seen=tiny.sequences.values()), tiny.table
    counts = table.counts.copy()
    counts.data[counts.indptr[4] : counts.indptr[5]] = 1
    shallow = FeatureTable(table.sample_ids, table.feature_ids, counts)
    found = predict_table(bundle, shallow, tiny.sequences)
    assert found.index.tolist() == [*table.sample_ids[:4], *table.sample_ids[5:]]
    assert levels(caplog) == ["WARNING"]
    assert "fewer than 60 reads" in caplog.text
    assert "left out: '004'" in caplog.text
    counts.data[:] = 1
    with pytest.raises(InputError, match="60"):
        predict_table(bundle, shallow, tiny.sequences)


def test_what_models_share_runs_once(new_encoder, predict, monkeypatch):
    """Of these, two have an encoder of their own: one of another ASV level, one of the same."""
    calls = Counter()

    def spy(real):
        return lambda *args: calls.update([real.__name__]) or real(*args)

    for real in (embed_asvs_cached, embed_samples):
        monkeypatch.setattr(ensemble, real.__name__, spy(real))
    encoders = [new_encoder(20, seed=seed) for seed in (0, 1, 0, 0)]
    encoders[3].sample.load_state_dict(encoders[1].sample.state_dict())
    predictors = [Predictor(encoder, AGE, seed=s) for s, encoder in enumerate(encoders)]
    found = predict(bundle_of(predictors))
    assert calls == {"embed_asvs_cached": 2, "embed_samples": 3}
    assert list(found.columns) == ["predicted", "sd", "unseen_asvs", "near_reads"]
    assert found.index.name == "sample-id"
    single = [one["predicted"] for one in one_by_one(predict, bundle_of(predictors))]
    np.testing.assert_allclose(found["predicted"], np.mean(single, axis=0), rtol=1e-5)
    np.testing.assert_allclose(found["sd"], np.std(single, axis=0), rtol=1e-3)


def test_asvs_embedded_before_serve_the_encoder_that_made_them(
    tiny, new_encoder, devices, tmp_path, predict
):
    """Marked embeddings show that they are what is read, with another sample level, too."""
    encoders, path = [new_encoder(20) for _ in range(2)], tmp_path / "marked"
    encoders[1].sample.load_state_dict(new_encoder(20, seed=1).sample.state_dict())
    asv_UD = embed_asvs_cached(encoders[0], tiny.tokens, devices, None)
    AsvEmbeddings.write(path, tiny.tokens, 2 * asv_UD, encoder_digest(encoders[0], "fp32"))
    bundle = bundle_of([Predictor(encoder, AGE, seed=0) for encoder in encoders])
    plain, marked = (one_by_one(predict, bundle, asvs=asvs) for asvs in (None, path))
    for one, other in zip(plain, marked, strict=True):
        assert (one["predicted"] - other["predicted"]).abs().max() > 5e-4


@pytest.fixture(scope="module")
def saved(tiny, three, tmp_path_factory) -> tuple[Path, ModelBundle]:
    """Write three models, of two folds, with what they share; return the folder and the bundle."""
    bundle = replace(three(SITE, tiny.sequences.values()), views=2)
    models = dict(zip(NAMES, bundle.predictors, strict=True))
    reference_ND = np.random.default_rng(0).normal(size=(5, 16))
    asvs = tiny.sequences.values()
    folder = write_models(tmp_path_factory.mktemp("saved"), models, asvs, reference_ND)
    return folder, replace(bundle, reference=Reference.open(folder / REFERENCE))


def test_a_bundle_is_loaded_from_the_folder_alone(predict, saved):
    folder, bundle = saved
    loaded, expected = ModelBundle.load(folder), predict(bundle)
    assert loaded.seen_asvs == bundle.seen_asvs
    for found, known in zip(loaded.predictors, bundle.predictors, strict=True):
        assert module_digest(found) == module_digest(known), "not in the order of the folds"
    pd.testing.assert_frame_equal(predict(loaded), expected)


def test_models_of_a_fold_are_explained_by_their_share_of_the_log_odds(saved, tmp_path):
    folder = shutil.copytree(saved[0], tmp_path / "model")
    rows = [Share(0.75), Share(0.25, temperature=0.5), Share(1.0)]
    shares = [{"folder": name, **vars(row)} for name, row in zip(NAMES, rows, strict=True)]
    write_json(folder / SHARES, {"models": shares})
    with pytest.raises(InputError, match="files that are missing, damaged"):
        fold_models(folder, 2)
    write_manifest(folder)
    found = fold_models(folder, 2)
    assert [module_digest(one) for one in found] == [
        module_digest(one) for one in saved[1].predictors[:2]
    ]
    assert list(found.values()) == [0.75, 0.5]
    with pytest.raises(InputError, match="no model of fold 1;"):
        fold_models(folder, 1)


def edit(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def spoil_weights(folder: Path) -> None:
    path = folder / "fold2" / "model.safetensors"
    tensors = load_file(path)
    name = next(name for name in tensors if name.startswith("head.hidden"))
    tensors[name].view(-1)[0] = float("inf")
    save_file(tensors, path)


DAMAGED = {
    r"got no such directory": shutil.rmtree,
    r"MANIFEST\.json: got no such file": lambda at: (at / MANIFEST).unlink(),
    r"MANIFEST\.json: got no list of files": lambda at: (at / MANIFEST).write_text("[]"),
    r"added: 'shares\.json'": lambda at: (at / SHARES).unlink(),
    r"added: 'fold10/MANIFEST\.json', 'fold10/config": lambda at: shutil.rmtree(at / "fold10"),
    r"added: 'fold2\.bak/MANIFEST": lambda at: shutil.copytree(at / "fold2", at / "fold2.bak"),
    r"added: 'asvs\.txt'": lambda at: (at / SEEN_ASVS).write_text("ACG"),
    r"added: 'fold2/model\.safetensors'": spoil_weights,
}
"""By what is said of a folder that was changed since it was written."""
HUGE = {"encoder": "transformer", "width": 16_384, "heads": 2, "asv_layers": 90, "patch_bp": 3}
HUGE |= {"sample_layers": 900, "ffn_ratio": 4, "max_length_bp": 20}
MADE_SO = {
    "format 8;(?=.*install)": lambda at: edit(at / "fold2-1/config.json", format=8),
    "format 5;(?=.*delete it)": lambda at: edit(at / "fold2-1/config.json", format=5),
    "kind pretrained": lambda at: edit(at / "fold2/config.json", kind="pretrained"),
    "fit each other.*other weights": lambda at: edit(at / "fold2/config.json", architecture=HUGE),
    "weights that are not finite: 'head": spoil_weights,
}
"""By what is said of a folder that somebody made so."""


@pytest.mark.parametrize("message", [*DAMAGED, *MADE_SO])
def test_a_folder_that_was_changed_or_does_not_fit_is_refused(saved, tmp_path, message):
    folder = shutil.copytree(saved[0], tmp_path / "model")
    {**DAMAGED, **MADE_SO}[message](folder)
    if message in MADE_SO:
        for changed in (*folder.glob("fold*"), folder):
            write_manifest(changed)
    with pytest.raises(InputError, match=f"{message}.*Hint: "):
        ModelBundle.load(folder)


def test_an_encoder_is_told_from_a_damaged_model(saved, tmp_path):
    """Its folder must not be deleted: a pretraining made it."""
    folder = shutil.copytree(saved[0], tmp_path / "model")
    (folder / SHARES).unlink()
    write_manifest(folder)
    with pytest.raises(InputError, match="folder without shares.json.*give finetune/") as refused:
        ModelBundle.load(folder)
    assert "delete" not in str(refused.value)


def test_models_of_version_1_0_are_read(saved, tmp_path):
    """Their configuration does not say that they attend without reads."""
    folder = shutil.copytree(saved[0], tmp_path / "model")
    old = folder / "fold2"
    config = json.loads((old / "config.json").read_text())
    assert config["architecture"].pop("reads_in_attention") is True
    (old / "config.json").write_text(json.dumps({**config, "format": 6}))
    tensors = load_file(old / "model.safetensors")
    names = [name for name in tensors if "reads_in" in name]
    assert len(names) == 2
    save_file({k: v for k, v in tensors.items() if k not in names}, old / "model.safetensors")
    for changed in (old, folder):
        write_manifest(changed)
    loaded = ModelBundle.load(folder)
    attends = [one.encoder.sample.reads_in_attention for one in loaded.predictors]
    assert sorted(attends) == [False] + [True] * (len(NAMES) - 1)
