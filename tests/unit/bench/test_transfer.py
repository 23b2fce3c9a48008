import numpy as np
import pandas as pd
import pytest
from unifrac_cases import random_tree

from aam.bench.transfer import Studies, placed, scores, sketched
from aam.config import slices
from aam.config.configuration import load
from aam.data.samples import write_samples
from aam.data.tokens import write_tokens
from aam.data.trees.newick import write_newick
from aam.runtime.run_options import RunOptions
from aam.stages import benchmark_transfer, plot, pretrain
from aam.util.errors import InputError


@pytest.fixture(scope="module")
def results(tiny, tmp_path_factory):
    """Write the tiny study with a tree, and name two studies."""
    folder = tmp_path_factory.mktemp("transfer")
    for name in ("tokens", "views", "inputs"):
        (folder / name).mkdir()
    store, tokens = tiny.store, tiny.tokens
    write_tokens(folder / "tokens/asvs.arrow", tokens, {})
    write_samples(folder / "views/samples.arrow", store, {})
    tree = random_tree(tokens.feature_ids, np.random.default_rng(1))
    write_newick(folder / "inputs/tree.nwk", tree)
    study = ["a" if int(name) % 4 else "b" for name in store.sample_ids]
    metadata = pd.DataFrame({"sample_id": store.sample_ids, "study": study})
    metadata.to_parquet(folder / "inputs/metadata.parquet")
    return folder


def files(results) -> dict:
    return {
        "tokens": results / "tokens/asvs.arrow",
        "samples": results / "views/samples.arrow",
        "tree": results / "inputs/tree.nwk",
        "metadata": results / "inputs/metadata.parquet",
    }


@pytest.fixture(scope="module")
def data(results) -> Studies:
    return Studies.open(files(results), "study")


def test_many_numbers_of_the_true_branches_give_unifrac(data):
    rows = np.arange(15)
    found = sketched(data, rows, data.true_sketches(20_000))
    r, error = scores(data.distances(rows), found)
    assert error < 0.02
    assert r > 0.95


def test_where_every_asv_was_seen_placing_them_is_exact(data):
    rows = np.arange(8)
    found = placed(data, rows, data.asvs(np.arange(len(data.store.sample_ids))))
    np.testing.assert_allclose(found, data.distances(rows), atol=1e-9)
    fewer = data.asvs(rows)[::2]
    assert not np.allclose(placed(data, rows, fewer), data.distances(rows))


def test_every_study_left_out_is_scored_and_drawn(results, figures, tmp_path):
    raw = {
        "datasets": {"d": {"table": "none.biom", "study": "study"}},
        "rarefaction": {"depth": 60},
        "tokens": {"max_length_bp": 20},
        "unifrac": {"metrics": ["unweighted"]},
        "models": {
            "sea": {"width": 16, "heads": 2, "sketch": 8, "pretrained_on": ["a"]},
            "whole": {"width": 16, "heads": 2},
            "next": {"start": "sea", "pretrained_on": ["b"]},
        },
        "pretraining": {"epochs": 1, "batch_size": 6, "targets": "batch"},
    }
    config, folder = load(raw), results / "pretrain/sea"
    names = {"model": "model", "embeddings": "embeddings.parquet", "asvs": "asvs"}
    names |= {name: name for name in ("metrics", "history", "pairs")}
    pretrain.run(
        slices.pretrain(config, "d", "sea"),
        inputs=files(results),
        outputs={name: folder / path for name, path in names.items()},
        runtime=RunOptions(work=folder / "work"),
    )
    cfg = slices.transfer(config, "d")
    assert cfg == {"models": {"sea": ["a"]}, "column": "study"}
    made = {"table": tmp_path / "transfer.tsv", "text": tmp_path / "transfer.md"}
    models = {"models": [folder / "model"], "embeddings": [folder / "embeddings.parquet"]}
    inputs = files(results) | models
    benchmark_transfer.run(cfg, inputs=inputs, outputs=made, runtime=RunOptions(threads=1))
    table = pd.read_csv(made["table"], sep="\t")
    assert table[["model", "study", "samples"]].to_numpy().tolist() == [["sea", "b", 5]]
    assert table["placed_pearson"][0] > table["model_pearson"][0] - 0.1
    assert table["tree_mae"].between(0, 0.1).all()
    assert "| sea | mean | 5 |" in made["text"].read_text()
    everything = cfg | {"models": {"sea": ["a", "b"]}}
    with pytest.raises(InputError, match="among those of sea"):
        benchmark_transfer.run(everything, inputs=inputs, outputs=made, runtime=RunOptions())
    drawn = {"draw": {"transfer": "transfer.draw"}}
    image = {"transfer": tmp_path / "transfer.png"}
    plot.run(drawn, inputs={"transfer": made["table"]}, outputs=image, runtime=RunOptions())
    assert image["transfer"].stat().st_size > 0
    left, right = figures[0].axes
    assert len(left.collections) == len(right.collections) == 3
