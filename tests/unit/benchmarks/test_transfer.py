import numpy as np
import pytest
import torch
from unifrac_cases import random_tree

from aam.data.samples import write_samples
from aam.data.tokens import write_tokens
from aam.data.trees.newick import write_newick
from benchmarks import transfer
from benchmarks.transfer import Data, compare, placed, true_sketches


@pytest.fixture(scope="module")
def files(tiny, tmp_path_factory):
    """Write the tiny study with a tree, and name two studies."""
    results = tmp_path_factory.mktemp("transfer")
    for folder in ("tokens", "views", "inputs"):
        (results / folder).mkdir()
    store, tokens = tiny.store, tiny.tokens
    write_tokens(
        results / "tokens/asvs.arrow", tokens.feature_ids, tokens.tokens, tokens.lengths, {}
    )
    write_samples(results / "views/samples.arrow", store, {})
    tree = random_tree(len(tokens.feature_ids), np.random.default_rng(1))
    for tip, name in zip(tree.tips(), tokens.feature_ids, strict=True):
        tip.name = name
    write_newick(results / "inputs/tree.nwk", tree)
    lines = [f"{name}\t{'a' if int(name) % 4 else 'b'}" for name in store.sample_ids]
    (results / "metadata.tsv").write_text("sample-id\tstudy\n" + "\n".join(lines))
    return results


@pytest.fixture(scope="module")
def data(files) -> Data:
    return Data.open(files, files / "metadata.tsv")


def test_many_numbers_of_the_true_branches_give_unifrac(data):
    inner_FK, own_FK, own_F = true_sketches(data, 20_000, seed=0)
    table = compare(data, {"true": torch.maximum(inner_FK, own_FK)}, ["a"])
    assert table["samples"].tolist() == [15]
    assert table["true error"].max() < 0.02
    assert table["true r"].min() > 0.95
    own = own_FK.mean(1) - own_F
    np.testing.assert_allclose(own, np.euler_gamma, atol=0.1)


def test_where_every_asv_was_seen_placing_them_is_exact(data):
    rows = np.arange(8)
    found = placed(data, rows, data.asvs(np.arange(len(data.study))))
    np.testing.assert_allclose(found, data.distances(rows), atol=1e-9)
    fewer = data.asvs(rows)[::2]
    assert not np.allclose(placed(data, rows, fewer), data.distances(rows))


def test_a_run_prints_every_way_for_every_study(files, capsys, monkeypatch):
    monkeypatch.setattr(transfer, "SAMPLES", 4)
    small = "--numbers 16 --asv-steps 3 --pair-steps 2 --threads 1 --without b".split()
    transfer.main([str(files), str(files / "metadata.tsv"), *small])
    head, row, mean = capsys.readouterr().out.strip().splitlines()
    for way in ("true sketches", "ASVs alone", "with distances", "placed"):
        assert f"{way} r" in head
        assert f"{way} error" in head
    assert row.split()[:2] == ["b", "5"]
    assert mean.split()[0] == "mean"
