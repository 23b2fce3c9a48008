import numpy as np
import pandas as pd
import pytest
from unifrac_cases import random_tree

from aam.config import slices
from aam.config.configuration import load
from aam.data.samples import write_samples
from aam.data.tokens import write_tokens
from aam.data.trees.newick import write_newick
from aam.runtime.run_options import RunOptions
from aam.stages import pretrain
from benchmarks import transfer
from benchmarks.transfer import Data, placed, scores, sketched, true_sketches


@pytest.fixture(scope="module")
def results(tiny, tmp_path_factory):
    """Write the tiny study with a tree, and name two studies."""
    folder = tmp_path_factory.mktemp("transfer")
    for name in ("tokens", "views", "inputs"):
        (folder / name).mkdir()
    store, tokens = tiny.store, tiny.tokens
    parts = tokens.feature_ids, tokens.tokens, tokens.lengths
    write_tokens(folder / "tokens/asvs.arrow", *parts, {})
    write_samples(folder / "views/samples.arrow", store, {})
    tree = random_tree(len(tokens.feature_ids), np.random.default_rng(1))
    for tip, name in zip(tree.tips(), tokens.feature_ids, strict=True):
        tip.name = name
    write_newick(folder / "inputs/tree.nwk", tree)
    study = ["a" if int(name) % 4 else "b" for name in store.sample_ids]
    metadata = pd.DataFrame({"sample_id": store.sample_ids, "study": study})
    metadata.to_parquet(folder / "inputs/metadata.parquet")
    return folder


@pytest.fixture(scope="module")
def data(results) -> Data:
    return Data.open(results)


def test_many_numbers_of_the_true_branches_give_unifrac(data):
    rows = np.arange(15)
    found = sketched(data, rows, true_sketches(data, 20_000))
    r, error = scores(data.distances(rows), found)
    assert error < 0.02
    assert r > 0.95


def test_where_every_asv_was_seen_placing_them_is_exact(data):
    rows = np.arange(8)
    found = placed(data, rows, data.asvs(np.arange(len(data.store.sample_ids))))
    np.testing.assert_allclose(found, data.distances(rows), atol=1e-9)
    fewer = data.asvs(rows)[::2]
    assert not np.allclose(placed(data, rows, fewer), data.distances(rows))


def test_every_study_left_out_is_scored(results, capsys):
    raw = {
        "datasets": {"d": {"table": "none.biom", "study": "study"}},
        "rarefaction": {"depth": 60},
        "tokens": {"max_length_bp": 20},
        "unifrac": {"metrics": ["unweighted"]},
        "models": {"sea": {"width": 16, "heads": 2, "sketch": 8, "pretrained_on": ["a"]}},
        "pretraining": {"epochs": 1, "batch_size": 6, "targets": "batch"},
    }
    folder = results / "pretrain/sea"
    names = {"model": "model", "embeddings": "embeddings.parquet", "asvs": "asvs"}
    names |= {name: name for name in ("metrics", "history", "pairs")}
    pretrain.run(
        slices.pretrain(load(raw), "d", "sea"),
        inputs={
            "tokens": results / "tokens/asvs.arrow",
            "samples": results / "views/samples.arrow",
            "tree": results / "inputs/tree.nwk",
            "metadata": results / "inputs/metadata.parquet",
        },
        outputs={name: folder / path for name, path in names.items()},
        runtime=RunOptions(work=folder / "work"),
    )
    capsys.readouterr()
    transfer.main([str(results), "sea"])
    head, row, mean = capsys.readouterr().out.strip().splitlines()
    for way in ("model", "true sketches", "placed"):
        assert f"{way} r" in head
        assert f"{way} error" in head
    assert row.split()[:3] == ["sea", "b", "5"]
    assert mean.split()[0] == "mean"
