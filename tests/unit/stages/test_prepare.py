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
DENSE[5] = 0
DENSE[5, 3] = 2
IDS = [f"{i:04d}" for i in range(SAMPLES + 1)]
SEQUENCES = {f"asv{j}": "".join(RNG.choice(list("ACGT"), 12)) for j in range(30)}
CONFIG = load(
    {
        "datasets": {"d": {"table": "t.biom"}},
        "rarefaction": {"depth": 60, "views": 2},
        "tokens": {"max_length_bp": 10},
        "augmentation": {"asv_dropout": 0.25, "cutmix": 0.5},
    }
)


def run(stage, cfg, inputs, outputs) -> None:
    stage.run(cfg, inputs=inputs, outputs=outputs, runtime=RunOptions())


def prepare(folder: Path) -> dict[str, Path]:
    """Run the stages from the imported table to the sample store."""
    views = [f"view{view}" for view in range(2)]
    dropped = [f"{view}.dropped" for view in views]
    names = ("table", "sequences", "curve", "tokens", "samples", *views, *dropped)
    files = {name: folder / name for name in names}
    counts = csr_array(DENSE.astype(np.int64))
    counts.sort_indices()
    write_biom(files["table"], FeatureTable(IDS, list(SEQUENCES), counts), {})
    write_fasta(files["sequences"], SEQUENCES)
    table = {"table": files["table"]}
    for number, view in enumerate(views):
        outputs = {"table": files[view], "dropped": files[f"{view}.dropped"]}
        run(rarefy, slices.rarefy(CONFIG, "d", number), table, outputs)
    run(rarefaction_curve, {}, table, files)
    inputs = {**table, "sequences": files["sequences"]}
    run(tokenize, slices.tokenize(CONFIG, "d"), inputs, files)
    inputs = {**table, "tokens": files["tokens"], "views": [files[view] for view in views]}
    run(augment, slices.augment(CONFIG, "d"), inputs, files)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("prepared"))


def test_every_artifact_has_the_same_bytes_again(files, tmp_path):
    again = prepare(tmp_path)
    assert all(again[name].read_bytes() == path.read_bytes() for name, path in files.items())


def test_shallow_samples_are_listed(files):
    assert files["view0.dropped"].read_text() == "sample-id\treads\tdepth\n0005\t2\t60\n"
    assert IDS[5] not in read_biom(files["view0"]).sample_ids


def test_a_depth_beyond_all_samples_or_the_store_writes_nothing(files, tmp_path):
    outputs = {name: tmp_path / name for name in ("table", "dropped", "samples")}
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 5000"):
        run(rarefy, {"depth": 5000, "seed": 0, "view": 0}, files, outputs)
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 2147483648"):
        run(augment, {**slices.augment(CONFIG, "d"), "depth": 2**31}, {}, outputs)
    assert not list(tmp_path.iterdir())


def test_tokens_are_those_of_the_table(files):
    store = TokenStore.open(files["tokens"])
    assert store.feature_ids == list(SEQUENCES)
    assert store.tokens.shape == (30, 10)
    assert "".join("_ACGT"[token] for token in store.tokens[0]) == SEQUENCES["asv0"][:10]


def test_sample_store_holds_views_and_augmented_rows(files):
    store = SampleStore.open(files["samples"])
    assert store.sample_ids == [name for name in IDS if name != IDS[5]]
    view = read_biom(files["view1"])
    columns = [list(SEQUENCES).index(name) for name in view.feature_ids]
    assert np.array_equal(store.view_matrix(1, 30).toarray()[:, columns], view.counts.toarray())
    assert (store.row_view == -1).sum() == 2 * SAMPLES + 2 * (SAMPLES // 2)


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
