import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from stage_calls import as_outputs
from study_fixtures import PRETRAINING
from unifrac_cases import random_tree

import aam
from aam.config import slices
from aam.config.configuration import load
from aam.config.settings.training import PretrainSettings
from aam.data.sequences import tokenize, write_fasta
from aam.data.stores import TokenStore, write_tokens
from aam.data.table import FeatureTable, write_biom
from aam.data.trees import write_newick
from aam.inference.embed import load_encoder
from aam.model.store import KNOWN_ASVS
from aam.stages.pretrain import pretrain_encoder
from aam.tasks.pretrain.inputs import PretrainInputs
from aam.util.atomic import read_json, write_json
from aam.util.digests import provenance, write_manifest
from aam.util.errors import InputError
from aam.util.run_options import RunOptions


@pytest.fixture(scope="module")
def run(study, tmp_path_factory) -> Callable[..., dict[str, Path]]:
    """Return what pretrains `small` with targets of the batch and other settings."""
    folder = tmp_path_factory.mktemp("starts")
    tree, metadata = folder / "tree.nwk", folder / "metadata.parquet"
    asvs, names = study.tiny.tokens.feature_ids, study.tiny.store.sample_ids
    write_newick(tree, random_tree(asvs, np.random.default_rng(3)))
    studies = ["soil" if int(name) % 2 else "sea" for name in names]
    pd.DataFrame({"sample_id": names, "study": studies}).to_parquet(metadata)
    common = {name: study.files[name] for name in ("tokens", "samples")} | {"tree": tree}

    def pretrained(
        where: str, model: dict, start: Path | None = None, length=20, files=(), **training
    ):
        raw = study.config.model_dump(exclude_unset=True)
        raw["models"] = {"small": model}
        raw["datasets"]["d"]["study"] = "study"
        raw["unifrac"] = {"metrics": ["unweighted", "weighted_normalized"]}
        raw["pretraining"] = {"epochs": 2, "batch_size": 6, "targets": "batch", **training}
        raw.pop("tasks")
        settings = slices.pretrain(load(raw), "d", "small").plain()
        inputs = {**common, **dict(files), "metadata": metadata}
        if length < 20:
            inputs["tokens"] = folder / f"tokens{length}"
            write_tokens(inputs["tokens"], study.tiny.tokens.cut(length), {})
        if start is not None:
            inputs["start"] = [start / "config.json", start / "model.safetensors"]
        outputs = {name: folder / where / name for name in PRETRAINING}
        options = RunOptions(work=folder / where / "work")
        pretrain_encoder(
            inputs=PretrainInputs.model_validate(inputs),
            settings=PretrainSettings.model_validate(settings),
            runtime=options,
            **as_outputs(outputs),
            provenance=provenance(settings, inputs),
        )
        return outputs

    return pretrained


@pytest.fixture(scope="module")
def small(study) -> dict:
    return study.config.models["small"].model_dump(exclude_unset=True)


@pytest.fixture(scope="module")
def first(run, small) -> dict[str, Path]:
    """Return a pretrained model that others begin with."""
    return run("first", small, epochs=3)


def embeddings(outputs: dict[str, Path]) -> np.ndarray:
    return np.stack(pd.read_parquet(outputs["embeddings"])["embedding"])


def test_a_start_without_epochs_is_used_as_it_is(run, first):
    start = {"start": str(first["model"])}
    found = run("as_it_is", start, first["model"], epochs=0)
    assert np.array_equal(embeddings(found), embeddings(first))
    for name in ("unweighted", "weighted_normalized"):
        before, after = (read_json(o["scores"])[f"{name}_pearson"] for o in (first, found))
        assert after == pytest.approx(before, abs=1e-3)
    metrics = read_json(found["scores"])
    assert metrics["steps"] == 0
    assert metrics["samples_per_s"] is None
    assert metrics["near_known_reads"] == 1.0
    assert "nucleotide_accuracy" in metrics
    adapted = run("adapted", start, first["model"], epochs=1)
    assert not np.array_equal(embeddings(adapted), embeddings(first))


def test_only_the_studies_of_a_model_are_learned_from(run, small):
    found = run("sea", {**small, "pretrained_on": ["sea"]})
    metrics = read_json(found["scores"])
    assert metrics["training_samples"] + metrics["held_out_samples"] == 10
    assert len(embeddings(found)) == 20, "all samples are embedded"
    with pytest.raises(InputError, match="desert.*values of column study: 'sea', 'soil'"):
        run("desert", {**small, "pretrained_on": ["desert"]})


def test_an_encoder_reads_as_much_of_a_sequence_as_its_start(first):
    encoder = load_encoder(first["model"])
    letters = torch.randint(1, 5, (6, 30), dtype=torch.uint8)
    with torch.inference_mode():
        long, short = (encoder.asv(x, None, "math")[0] for x in (letters, letters[:, :20]))
    assert torch.equal(long, short)


def test_in_python_a_table_is_embedded_and_compared(first, study, caplog):
    encoder = aam.encoder(first["model"])
    found = encoder.embed(study.files["table.biom"], threads=1)
    assert found.shape == (20, 16)
    distances = encoder.distances(study.files["table.biom"], threads=1)
    assert np.array_equal(distances, distances.T)
    assert not np.diag(distances).any()
    assert distances.index.equals(found.index)
    weighted = encoder.distances(study.files["table.biom"], metric="weighted_normalized", depth=50)
    assert weighted.shape == (20, 20)
    with pytest.raises(InputError, match="unweighted, weighted_normalized"):
        encoder.distances(study.files["table.biom"], metric="jaccard")


@pytest.mark.parametrize("way", ["stage", "python"])
def test_reverse_complements_longer_than_the_encoder_reads_are_recognized(
    run, first, study, tmp_path, caplog, way
):
    """The encoder reads 20 bases; the reads have as many behind them, and lie the other way."""
    complement = str.maketrans("ACGT", "TGCA")
    rng = np.random.default_rng(5)
    whole = {}
    for name in study.tiny.tokens.feature_ids:
        sequence = study.tiny.sequences[name] + "".join(rng.choice(list("ACGT"), 20))
        whole[name] = sequence[::-1].translate(complement)
    write_fasta(tmp_path / "sequences.fasta", whole)
    if way == "stage":
        letters, lengths = tokenize([*whole.values()], 20)
        write_tokens(tmp_path / "tokens", TokenStore([*whole], lengths, letters), {})
        turned = {name: tmp_path / name for name in ("tokens", "sequences.fasta")}
        files = {"tokens": turned["tokens"], "sequences": turned["sequences.fasta"]}
        start = {"start": str(first["model"])}
        run("turned", start, first["model"], files=files, epochs=0)
    else:
        table = FeatureTable(study.tiny.table.sample_ids, [*whole], study.tiny.table.counts)
        write_biom(tmp_path / "table.biom", table, {})
        encoder = aam.encoder(first["model"])
        encoder.embed(tmp_path / "table.biom", tmp_path / "sequences.fasta", threads=1)
    assert "if they are reverse complemented" in caplog.text


def test_a_start_says_what_it_cannot_be(run, first, small, tmp_path):
    with pytest.raises(InputError, match="`start` with `width`"):
        run("both", {"start": str(first["model"]), "width": 16})
    with pytest.raises(InputError, match=r"models.small.start.*no .*config.json"):
        run("none", {"start": str(tmp_path)})
    with pytest.raises(InputError, match="0 for a model without a start"):
        run("nothing", small, epochs=0)
    folder = shutil.copytree(first["model"], tmp_path / "model")
    (folder / KNOWN_ASVS).write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"added: 'known_asvs"):
        aam.encoder(folder)
    once = run("once", small, distances={"unweighted": 1.0}, epochs=1)
    with pytest.raises(InputError, match=r"weighted_normalized with 0 epochs.*learned: unweighted"):
        run("more", {"start": str(once["model"])}, once["model"], epochs=0)


def test_v4_is_a_tree_and_no_model(run, small):
    with pytest.raises(InputError) as refused:
        run("tree", {"start": "v4"})
    text = str(refused.value)
    assert text.startswith("configuration key models.small.start: got v4; expected")
    assert "v4 is a reference tree: set datasets.d.tree: v4" in text
    with pytest.raises(InputError, match=r'v4 is a reference tree: use aam.reference\("v4"\)'):
        aam.encoder("v4")


def test_a_model_of_version_1_0_attends_without_reads(run, small, tmp_path):
    older = run("older", {**small, "reads_in_attention": False}, epochs=1)
    folder = shutil.copytree(older["model"], tmp_path / "model")
    config = read_json(folder / "config.json")
    assert config["architecture"].pop("reads_in_attention") is False
    write_json(folder / "config.json", config)
    write_manifest(folder)
    aam.encoder(folder)
    started = run("started", {"start": str(folder)}, folder, epochs=0)
    found = read_json(started["model"] / "config.json")["architecture"]
    assert found["reads_in_attention"] is False


def test_a_model_with_sketches_of_an_older_version_is_refused(run, first, tmp_path):
    folder = shutil.copytree(first["model"], tmp_path / "model")
    config = read_json(folder / "config.json")
    config["architecture"]["sketch"] = 1024
    write_json(folder / "config.json", config)
    write_manifest(folder)
    with pytest.raises(InputError, match=r"of another version: sketch.*; expected a pretrained"):
        run("older", {"start": str(folder)}, folder)
    with pytest.raises(InputError, match=r"sketch.*expected a model of this version"):
        aam.encoder(folder)


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("age", {"recipe": "full"}),
        ("site", {"recipe": "frozen"}),
        ("age", {"recipe": "partial", "trained_layers": 1, "asv_dropout": 0.3}),
        ("ordered", {"epochs": 1}),
    ],
)
def test_tasks_are_learned_from_an_encoder_of_a_part_of_the_sequence(
    run, small, study, tmp_path, task, settings
):
    start = run("short", small, length=15)["model"]
    model = study.finetune(tmp_path, task, settings, model=start)["model"]
    found = aam.load(model).predict(study.files["table.biom"], threads=1)
    assert found["unseen_asvs"].max() == 0
    assert found["predicted"].notna().all()


def test_models_do_not_begin_with_each_other_in_a_circle(study):
    raw = study.config.model_dump(exclude_unset=True)
    raw["models"] = {"a": {"start": "b"}, "b": {"start": "a"}}
    with pytest.raises(InputError, match="a circle"):
        load(raw)
    raw["models"] = {"a": {"start": "d/a"}}
    with pytest.raises(InputError, match=r"d/a.*no .*config.json"):
        load(raw)
    raw["models"] = {"a": study.config.models["small"].model_dump(exclude_unset=True)}
    raw["models"]["b"] = {"start": "a"}
    with pytest.raises(InputError, match="inductive.*begins with another model of d"):
        load(raw)
    del raw["tasks"]["inductive"]
    assert slices.pretrain(load(raw), "d", "b").model.width == 16
