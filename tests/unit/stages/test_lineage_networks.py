"""Networks of features without sequences, from lineages to tables of other styles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file
from stage_calls import call
from study_fixtures import EXPLAINED

import aam
from aam.config.sections.model import ModelSettings
from aam.config.sections.training import Pretraining
from aam.data.nouns import find_lineages
from aam.data.stores import TokenStore
from aam.data.table import FeatureTable, TableFacts, write_biom
from aam.model.asv_encoders import FREE, LineageEncoder
from aam.model.store import KNOWN_ASVS, load_config
from aam.stages.explain import explain_task
from aam.stages.tokenize import tokenize_asvs
from aam.util.atomic import read_json
from aam.util.errors import InputError

SMALL = {"encoder": "lineage", "width": 16, "heads": 2, "sample_layers": 1, "ffn_ratio": 2}
FACTS = TableFacts(has_sequences=False, has_lineages=True, noun="genus")


def genera(features: int) -> list[str]:
    return [f"k__Bacteria;p__P{j % 3};f__F{j % 6};g__G{j}" for j in range(features)]


def as_genera(table: FeatureTable, names: list[str]) -> FeatureTable:
    return replace(table, feature_ids=names, facts=FACTS)


@pytest.fixture(scope="module")
def of_genera(study, tmp_path_factory):
    """Return the tiny study with genera in the place of ASVs."""
    folder = tmp_path_factory.mktemp("genera")
    tiny = study.tiny
    names = genera(len(tiny.table.feature_ids))
    table = as_genera(tiny.table, names)
    files = {**study.files, "table.biom": folder / "table.biom", "raw.biom": folder / "table.biom"}
    files["tokens"] = folder / "tokens.arrow"
    files["sequences.fasta"] = folder / "sequences.fasta"
    files["sequences.fasta"].write_text("")
    write_biom(files["table.biom"], table, {}, find_lineages(names))
    tokenize_asvs(
        table=files["table.biom"],
        sequences=files["sequences.fasta"],
        max_length_bp=20,
        tokens_out=files["tokens"],
    )
    changes = {
        "models": {"small": ModelSettings(**SMALL)},
        "pretraining": Pretraining(epochs=2, batch_size=6),
    }
    config = study.config.model_copy(update=changes)
    return replace(study, config=config, files=files, tiny=replace(tiny, table=table))


@pytest.fixture(scope="module")
def pretrained(of_genera, tmp_path_factory) -> dict[str, Path]:
    return of_genera.pretrain(tmp_path_factory.mktemp("pretrained"))


@pytest.fixture(scope="module")
def tuned(of_genera, pretrained, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tuned")
    return of_genera.finetune(folder, "age", {}, model=pretrained["model"])


def test_pretraining_learns_ranks_and_a_resumed_run_ends_with_the_same_bytes(
    of_genera, pretrained, tmp_path
):
    again = of_genera.pretrain(tmp_path, checkpoint_every_s=0.0)
    for name in ("embeddings", "asvs", "model/model.safetensors"):
        here, there = (outputs["model"].parent / name for outputs in (again, pretrained))
        assert here.read_bytes() == there.read_bytes(), name
    scores = read_json(pretrained["scores"])
    assert np.isfinite(scores["unifrac_pearson"])
    assert 0 < scores["nucleotide_accuracy"] <= 1
    assert load_config(pretrained["model"])["architecture"]["patch_bp"] == 16
    assert not (pretrained["model"] / KNOWN_ASVS).exists()
    codes = load_file(pretrained["model"] / "model.safetensors")["encoder.asv.code_R"]
    # A kingdom, three phyla, six families, and the genera of three samples or more.
    assert 10 < (codes != FREE).sum() <= 10 + len(of_genera.tiny.table.feature_ids)


def test_other_styles_predict_alike_and_an_unseen_genus_has_its_family(of_genera, tuned, caplog):
    model = aam.load(tuned["model"])
    assert model.facts == FACTS
    table = of_genera.tiny.table
    expected = model.predict(table)
    assert (expected["unseen_asvs"] == 0).all()
    other = [name.replace("k__", "d__").replace(";", "|") for name in table.feature_ids]
    pd.testing.assert_frame_equal(model.predict(as_genera(table, other)), expected)
    other[0] = other[0].replace("g__G0", "g__Never")
    unseen = model.predict(as_genera(table, other))
    assert (unseen["unseen_asvs"] > 0).any()
    assert (unseen["near_reads"] == 1).all()
    assert not np.allclose(unseen["predicted"], expected["predicted"])


def test_another_rank_is_refused_with_both_named(of_genera, tuned):
    table = of_genera.tiny.table
    species = [f"{name};s__one" for name in table.feature_ids]
    other = replace(table, feature_ids=species, facts=replace(FACTS, noun="species"))
    with pytest.raises(InputError, match="species, but the methods learned from genera"):
        aam.load(tuned["model"]).predict(other)


def test_its_predictions_are_explained_by_features(of_genera, tuned, tmp_path):
    outputs = {name: tmp_path / name for name in EXPLAINED}
    inputs = {**of_genera.task_inputs("age"), "model": tuned["model"]}
    inputs["sequences"] = of_genera.files["sequences.fasta"]
    inputs |= of_genera.name_clade(tmp_path, "age")
    call(explain_task, {"explained": 2, "checked": 1, "removed": 3, "seed": 0}, inputs, outputs)
    assert read_json(outputs["check"])["completeness"]["gap_max"] < 1e-3
    table = pd.read_csv(outputs["importance"], sep="\t")
    assert {*table["feature-id"]} <= {*of_genera.tiny.table.feature_ids}
    assert "sequence" not in table


def test_each_task_of_fine_tuning_takes_it(of_genera, pretrained, tmp_path):
    """From scratch, by its embeddings alone, and by support vectors."""
    for task in ("scratch", "site", "kernel"):
        models = {} if task == "scratch" else {"model": pretrained["model"]}
        tuned = of_genera.finetune(tmp_path / task, task, {}, **models)
        found = aam.load(tuned["model"]).predict(of_genera.tiny.table)
        assert len(found) == len(of_genera.tiny.table.sample_ids)


def test_a_pretrained_encoder_embeds_other_tables(of_genera, pretrained):
    encoder = aam.encoder(pretrained["model"])
    table = of_genera.tiny.table
    plain = [name.rpartition("g__")[2] for name in table.feature_ids]
    whole = encoder.embed(table, depth=None)
    assert np.isfinite(whole).all(axis=None)
    # Plain names have no other rank: they are known by the genus alone, or not at all.
    assert encoder.embed(as_genera(table, plain)).shape == whole.shape


def test_encoders_of_the_other_kind_are_refused(of_genera, study, tmp_path):
    for one, model in ((of_genera, ModelSettings(width=16, heads=2)), (study, None)):
        changes = {"models": {"small": model or ModelSettings(**SMALL)}}
        other = replace(one, config=one.config.model_copy(update=changes))
        with pytest.raises(InputError, match="encoder"):
            other.pretrain(tmp_path / "refused")


def test_words_that_were_not_learned_add_nothing(new_encoder, of_genera):
    tokens = TokenStore.open(of_genera.files["tokens"])
    encoder = new_encoder(144, encoder="lineage", patch_bp=16).asv
    assert isinstance(encoder, LineageEncoder)
    tokens_US = torch.from_numpy(tokens.tokens.copy())
    nothing_UD, _ = encoder(tokens_US, None, "auto")
    assert (nothing_UD == nothing_UD[0]).all()
    from aam.model.asv_encoders import word_codes

    codes = word_codes(tokens_US)
    ranks = codes[0, codes[0] != FREE]
    encoder.learn(ranks[:-1])
    known_UD, _ = encoder(tokens_US, None, "auto")
    encoder.learn(ranks)
    more_UD, _ = encoder(tokens_US, None, "auto")
    # A second call adds words, and those of before keep their vectors.
    is_other_U = (codes != ranks[-1]).all(dim=1)
    torch.testing.assert_close(known_UD[is_other_U], more_UD[is_other_U], rtol=0, atol=0)
    assert not torch.equal(known_UD[0], more_UD[0])
    # Features 0 and 6 share all ranks but the genus.
    torch.testing.assert_close(known_UD[0], known_UD[6], rtol=0, atol=0)


def test_more_words_than_rows_keep_the_first(new_encoder):
    encoder = new_encoder(144, encoder="lineage", patch_bp=16).asv
    encoder.learn(torch.arange(10_000, 0, -1))
    assert encoder.code_R.tolist() == [*range(10_000 - 4095, 10_001)]


def test_a_taxonomy_gives_numbers_their_ranks(of_genera, tmp_path):
    table = of_genera.tiny.table
    numbers = [f"OTU{j}" for j in range(len(table.feature_ids))]
    facts = TableFacts(has_sequences=False, noun="OTU")
    write_biom(tmp_path / "table.biom", replace(table, feature_ids=numbers, facts=facts), {})
    rows = [f"{one}\t{taxon}\n" for one, taxon in zip(numbers, table.feature_ids, strict=True)]
    (tmp_path / "taxonomy.tsv").write_text("feature-id\ttaxon\n" + "".join(rows))
    tokenize_asvs(
        table=tmp_path / "table.biom",
        sequences=of_genera.files["sequences.fasta"],
        taxonomy=tmp_path / "taxonomy.tsv",
        max_length_bp=20,
        tokens_out=tmp_path / "tokens.arrow",
    )
    found = TokenStore.open(tmp_path / "tokens.arrow")
    ranks = TokenStore.open(of_genera.files["tokens"]).tokens[:, :-16]
    assert (found.tokens[:, :-16] == ranks).all()
    # Behind its ranks each number has a word of its own.
    assert len(np.unique(found.tokens[:, -16:], axis=0)) == len(numbers)


def test_a_start_keeps_its_words_and_learns_those_of_the_new_study(of_genera, pretrained, tmp_path):
    start = [pretrained["model"] / name for name in ("config.json", "model.safetensors")]
    table = of_genera.tiny.table
    # Half of the genera have other names.
    names = [f"{name}x" if j % 2 else name for j, name in enumerate(table.feature_ids)]
    files = {**of_genera.files, "tokens": tmp_path / "tokens.arrow"}
    write_biom(tmp_path / "t.biom", as_genera(table, names), {}, find_lineages(names))
    tokenize_asvs(
        table=tmp_path / "t.biom",
        sequences=files["sequences.fasta"],
        max_length_bp=20,
        tokens_out=files["tokens"],
    )
    other = replace(of_genera, files=files)
    words = {}
    for epochs in (0, 2):
        settings = {"epochs": epochs}
        inputs = {**other.pretraining_inputs, "start": start}
        written = other.pretrain(tmp_path / str(epochs), settings, inputs)
        codes = load_file(written["model"] / "model.safetensors")["encoder.asv.code_R"]
        words[epochs] = {*codes.tolist()}
    before = load_file(start[1])["encoder.asv.code_R"]
    assert words[0] == {*before.tolist()}
    assert words[0] < words[2]
