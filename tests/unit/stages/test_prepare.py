import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from aam.config import slices
from aam.config.configuration import Config, load
from aam.data.folds import read_folds
from aam.data.samples import SampleStore
from aam.data.sequences import write_fasta
from aam.data.table import FeatureTable, read_biom, write_biom
from aam.data.tokens import TokenStore
from aam.runtime.run_options import RunOptions
from aam.stages import augment, folds, rarefaction_curve, rarefy, tokenize
from aam.util.errors import InputError

SAMPLES = 24
RNG = np.random.default_rng(0)
DENSE = RNG.poisson(5, (SAMPLES + 1, 30))
DENSE[5] = 0
DENSE[5, 3] = 2
IDS = [f"{i:04d}" for i in range(SAMPLES + 1)]
SEQUENCES = {f"asv{j}": "".join(RNG.choice(list("ACGT"), 12)) for j in range(30)}


def config_with(**sections) -> Config:
    return load({"datasets": {"d": {"table": "t.biom"}}, **sections})


CONFIG = config_with(
    rarefaction={"depth": 60, "views": 2},
    tokens={"max_length_bp": 10},
    augmentation={"asv_dropout": 0.25, "cutmix": 0.5},
)


def prepare(folder: Path) -> dict[str, Path]:
    """Run the stages from the imported table to the sample store."""
    counts = csr_array(DENSE.astype(np.int64))
    counts.sort_indices()
    files = {
        name: folder / name
        for name in ("table.biom", "sequences.fasta", "curve.tsv", "asvs.arrow", "samples.arrow")
    }
    table = files["table.biom"]
    write_biom(table, FeatureTable(IDS, list(SEQUENCES), counts), {})
    write_fasta(files["sequences.fasta"], SEQUENCES)
    for view in range(2):
        files |= {name: folder / name for name in (f"view{view}.biom", f"view{view}.dropped.tsv")}
        rarefy.run(
            slices.rarefy(CONFIG, "d", view),
            inputs={"table": table},
            outputs={
                "table": files[f"view{view}.biom"],
                "dropped": files[f"view{view}.dropped.tsv"],
            },
            runtime=RunOptions(),
        )
    rarefaction_curve.run(
        {},
        inputs={"table": table},
        outputs={"curve": files["curve.tsv"]},
        runtime=RunOptions(),
    )
    tokenize.run(
        slices.tokenize(CONFIG, "d"),
        inputs={"table": table, "sequences": files["sequences.fasta"]},
        outputs={"tokens": files["asvs.arrow"]},
        runtime=RunOptions(),
    )
    augment.run(
        slices.augment(CONFIG, "d"),
        inputs={
            "table": table,
            "tokens": files["asvs.arrow"],
            "views": [files["view0.biom"], files["view1.biom"]],
        },
        outputs={"samples": files["samples.arrow"]},
        runtime=RunOptions(threads=4),
    )
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("prepared"))


def test_every_artifact_has_the_same_bytes_again(files, tmp_path):
    again = prepare(tmp_path)
    digests = [
        {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in made.items()}
        for made in (files, again)
    ]
    assert digests[0] == digests[1]


def test_shallow_samples_are_listed(files):
    dropped = (files["view0.dropped.tsv"]).read_text()
    assert dropped == "sample-id\treads\tdepth\n0005\t2\t60\n"
    assert IDS[5] not in read_biom(files["view0.biom"]).sample_ids


def test_a_depth_beyond_all_samples_writes_nothing(files, tmp_path):
    outputs = {"table": tmp_path / "view0.biom", "dropped": tmp_path / "dropped.tsv"}
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 5000"):
        rarefy.run(
            {"depth": 5000, "seed": 0, "view": 0},
            inputs={"table": files["table.biom"]},
            outputs=outputs,
            runtime=RunOptions(),
        )
    assert not list(tmp_path.iterdir())


def test_tokens_are_those_of_the_table(files):
    store = TokenStore.open(files["asvs.arrow"])
    assert store.feature_ids == list(SEQUENCES)
    assert store.tokens.shape == (30, 10)
    first = SEQUENCES["asv0"][:10]
    assert "".join("_ACGT"[token] for token in store.tokens[0]) == first


def test_sample_store_holds_views_and_augmented_rows(files):
    store = SampleStore.open(files["samples.arrow"])
    assert store.sample_ids == [name for name in IDS if name != IDS[5]]
    view = read_biom(files["view1.biom"])
    columns = [list(SEQUENCES).index(name) for name in view.feature_ids]
    assert np.array_equal(store.view_matrix(1, 30).toarray()[:, columns], view.counts.toarray())
    assert (store.row_view == -1).sum() == 2 * SAMPLES + 2 * (SAMPLES // 2)


def test_curves_end_at_the_richness_of_the_sample(files):
    curve = pd.read_csv(files["curve.tsv"], sep="\t", dtype={"sample-id": str})
    ends = curve.groupby("sample-id").last()
    assert ends["richness"].to_numpy() == pytest.approx((DENSE > 0).sum(axis=1), abs=1e-3)
    assert ends["depth"].tolist() == DENSE.sum(axis=1).tolist()
    assert (curve.groupby("sample-id")["richness"].diff().dropna() > -1e-6).all()


def test_a_large_table_has_curves_of_some_samples(tmp_path, files, monkeypatch):
    monkeypatch.setattr(rarefaction_curve, "MAX_SAMPLES", 4)
    output = tmp_path / "curve.tsv"
    rarefaction_curve.run(
        {}, inputs={"table": files["table.biom"]}, outputs={"curve": output}, runtime=RunOptions()
    )
    curve = pd.read_csv(output, sep="\t", dtype={"sample-id": str})
    assert curve["sample-id"].nunique() == 4


def test_a_depth_beyond_the_store_is_refused(tmp_path):
    cfg = {**slices.augment(CONFIG, "d"), "depth": 2**31}
    with pytest.raises(InputError, match=r"rarefaction\.depth: got 2147483648"):
        augment.run(cfg, inputs={}, outputs={"samples": tmp_path / "s"}, runtime=RunOptions())


AGES = [None if i == 7 else str(20 + i / 7) for i in range(SAMPLES + 1)]
METADATA = {
    "age": AGES,
    "site": ["gut", "skin", "mouth"] * 8 + ["gut"],
    "rare": ["a"] * 22 + ["b"] * 3,
    "host": [f"h{i // 4}" for i in range(SAMPLES + 1)],
    "published": [None if i == 2 else f"fold{1 + i % 11}" for i in range(SAMPLES + 1)],
    "empty": [None] * (SAMPLES + 1),
    "constant": ["1"] * (SAMPLES + 1),
    "holes": [None if i in (1, 5) else "g" + str(i % 6) for i in range(SAMPLES + 1)],
    "NA": [str(i % 2) for i in range(SAMPLES + 1)],
    "awkward": ["NA", 'say "x"', "null"] * 8 + ["NA"],
}


@pytest.fixture
def divide(files, tmp_path):
    """Run the stage on a task and return its folds."""

    def run(target: str, kind: str, rows: list[int] | None = None, **settings) -> pd.DataFrame:
        frame = pd.DataFrame({"sample_id": IDS, **METADATA}, dtype=object)
        frame = frame if rows is None else frame.iloc[rows]
        frame.to_parquet(tmp_path / "metadata.parquet", index=False)
        task = {"dataset": "d", "column": target, "kind": kind, "folds": settings}
        config = config_with(tasks={"t": task})
        folds.run(
            slices.folds(config, "t"),
            inputs={
                "metadata": tmp_path / "metadata.parquet",
                "samples": files["samples.arrow"],
            },
            outputs={"folds": tmp_path / "folds.tsv", "members": tmp_path / "members.tsv"},
            runtime=RunOptions(),
        )
        return read_folds(tmp_path / "folds.tsv")

    return run


def test_numbers_survive_to_the_last_bit(divide):
    made = divide("age", "regression", k=3)
    expected = [name for i, name in enumerate(IDS) if i not in (5, 7)]
    assert made.index.tolist() == expected
    assert made["observed"].astype(float).tolist() == [float(AGES[int(i)]) for i in expected]
    assert set(made["fold"]) == {0, 1, 2}
    assert set(made["group"]) == {""}


def test_folds_of_a_column_leave_out_samples_without_one(divide, caplog):
    made = divide("age", "regression", column="published")
    assert IDS[2] not in made.index
    assert "left out, for want of a value of 'published': 1 (0002)" in caplog.text
    assert made.loc[IDS[1], "fold"] == 1
    assert made.loc[IDS[9], "fold"] == 9
    assert made.loc[IDS[10], "fold"] == 10


def test_groups_stay_together_and_are_recorded(divide):
    made = divide("site", "classification", k=3, groups="host", stratified=True)
    assert (made.groupby("group")["fold"].nunique() == 1).all()
    assert made["group"].nunique() == 7
    assert made.loc[IDS[0], "observed"] == "gut"


def test_folds_are_the_same_for_another_order_of_the_metadata(divide):
    first = divide("site", "classification", k=4, groups="host")
    again = divide("site", "classification", list(range(SAMPLES, -1, -1)), k=4, groups="host")
    assert first.equals(again)


def test_classes_that_look_like_missing_values_or_quotes_survive(divide):
    made = divide("awkward", "classification", k=2)
    assert set(made["observed"]) == {"NA", 'say "x"', "null"}


def test_a_class_in_one_fold_alone_is_reported(divide, caplog):
    divide("rare", "classification", column="rare")
    assert "never sees them: 2 (a, b)" in caplog.text


@pytest.mark.parametrize(
    ("column", "kind", "settings", "message"),
    [
        ("sitee", "classification", {"k": 2}, "'sitee': got no such column.*mean 'site'"),
        ("na", "regression", {"k": 2}, "'na': got no such column.*'NA'"),
        ("empty", "regression", {"k": 2}, "'empty': got no value in any of the 24"),
        ("constant", "regression", {"k": 2}, "'constant': got the one value '1.0' in all 24"),
        ("constant", "classification", {"k": 2}, "'constant': got the one value '1' in all 24"),
        ("site", "regression", {"k": 2}, "'site': got 24 .'gut' in 0000, .* of 24 values"),
        (
            "rare",
            "classification",
            {"k": 4, "stratified": True},
            "'rare': got classes with fewer samples than folds: 1 .b: 3.; expected at least 4",
        ),
        ("age", "regression", {"k": 8, "groups": "host"}, "'host': got groups 7 .h0"),
        ("age", "regression", {"k": 3, "groups": "holes"}, "'holes': got no value in 1 .0001."),
        ("age", "regression", {"k": 3, "groups": "hosts"}, "'hosts': .* mean 'host'"),
        (
            "rare",
            "classification",
            {"k": 4},
            "'rare': got classes with fewer samples than folds: 1 .b: 3.; expected at least 4",
        ),
        ("age", "regression", {"column": "fold"}, "'fold': got no such column"),
        ("age", "regression", {"column": "empty"}, "'empty': got 0 folds in the 23"),
        ("age", "regression", {"column": "constant"}, "'constant': got 1 folds"),
        ("age", "regression", {"k": 24}, "'age': got a value in 23 samples"),
    ],
)
def test_what_cannot_be_divided_is_explained(divide, tmp_path, column, kind, settings, message):
    with pytest.raises(InputError, match=message):
        divide(column, kind, **settings)
    assert not (tmp_path / "folds.tsv").exists()
