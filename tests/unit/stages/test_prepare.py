"""The stages from the imported table to the sample store."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.config import slices
from aam.config.configuration import load
from aam.data.samples import SampleStore
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.data.tokens import TokenStore
from aam.runtime.run_options import RunOptions
from aam.stages import augment, rarefaction_curve, rarefy, tokenize
from aam.util.errors import InputError

SAMPLES = 24
RNG = np.random.default_rng(0)
DENSE = RNG.poisson(5, (SAMPLES + 1, 30))
DENSE[5] = 2 * (np.arange(30) == 3)
IDS = [f"{i:04d}" for i in range(SAMPLES + 1)]
SEQUENCES = {f"asv{j}": "".join(RNG.choice(list("ACGT"), 12)) for j in range(30)}
CONFIG = load(
    {
        "datasets": {"d": {"table": "t.biom"}},
        "rarefaction": {"depth": 60, "views": 2},
        "tokens": {"max_length_bp": 10},
        "augmentation": {"rarefaction_draws": 1, "asv_dropout": 0.25, "cutmix": 0.5},
    }
)


def run(stage, cfg, inputs, outputs) -> None:
    stage.run(cfg, inputs=inputs, outputs=outputs, runtime=RunOptions())


def prepare(folder: Path) -> dict[str, Path]:
    views = ["view0", "view1"]
    names = ("table", "sequences", "curve", "tokens", "samples", *views)
    files = {name: folder / name for name in [*names, *(f"{view}.dropped" for view in views)]}
    table = FeatureTable(IDS, list(SEQUENCES), csr_array(DENSE.astype(np.int64)))
    write_biom(files["table"], table, {})
    write_fasta(files["sequences"], SEQUENCES)
    for number, view in enumerate(views):
        outputs = {"table": files[view], "dropped": files[f"{view}.dropped"]}
        run(rarefy, slices.rarefy(CONFIG, "d", number), {"table": files["table"]}, outputs)
    run(rarefaction_curve, {}, files, files)
    inputs = {name: files[name] for name in ("table", "sequences")}
    run(tokenize, slices.tokenize(CONFIG, "d"), inputs, files)
    inputs = {name: files[name] for name in ("table", "tokens")}
    inputs["views"] = [files[view] for view in views]
    run(augment, slices.augment(CONFIG, "d"), inputs, files)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("prepared"))


def test_every_artifact_has_the_same_bytes_again(files, tmp_path):
    again = prepare(tmp_path)
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in files.items())


def test_a_depth_beyond_all_samples_or_the_store_writes_nothing(files, tmp_path):
    outputs = {name: tmp_path / name for name in ("table", "dropped", "samples")}
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 5000"):
        run(rarefy, {"depth": 5000, "seed": 0, "view": 0}, files, outputs)
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 2147483648"):
        run(augment, {**slices.augment(CONFIG, "d"), "depth": 2**31}, {}, outputs)
    assert not list(tmp_path.iterdir())


def test_stores_hold_the_tokens_of_the_table_its_views_and_augmented_rows(files):
    tokens, store = TokenStore.open(files["tokens"]), SampleStore.open(files["samples"])
    assert tokens.feature_ids == list(SEQUENCES)
    assert tokens.tokens.shape == (30, 10)
    assert "".join("_ACGT"[token] for token in tokens.tokens[0]) == SEQUENCES["asv0"][:10]
    assert files["view0.dropped"].read_text() == "sample-id\treads\tdepth\n0005\t2\t60\n"
    assert store.sample_ids == [name for name in IDS if name != IDS[5]]
    view = read_biom(files["view1"])
    columns = [list(SEQUENCES).index(name) for name in view.feature_ids]
    assert np.array_equal(store.view_matrix(1, 30).toarray()[:, columns], view.counts.toarray())
    assert (store.row_view == -1).sum() == SAMPLES + 2 * SAMPLES + 2 * (SAMPLES // 2)


def test_curves_end_at_the_richness_of_the_sample(files, tmp_path, monkeypatch):
    curve = pd.read_csv(files["curve"], sep="\t", dtype={"sample-id": str})
    ends = curve.groupby("sample-id").last()
    assert ends["richness"].to_numpy() == pytest.approx((DENSE > 0).sum(axis=1), abs=1e-3)
    assert ends["depth"].tolist() == DENSE.sum(axis=1).tolist()
    assert (curve.groupby("sample-id")["richness"].diff().dropna() > -1e-6).all()
    # Of a large table, some samples have one.
    monkeypatch.setattr(rarefaction_curve, "MAX_SAMPLES", 4)
    run(rarefaction_curve, {}, files, {"curve": tmp_path / "curve"})
    assert pd.read_csv(tmp_path / "curve", sep="\t")["sample-id"].nunique() == 4
