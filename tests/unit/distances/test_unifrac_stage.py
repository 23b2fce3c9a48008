import subprocess
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from unifrac_cases import (
    SPARSE_METRICS,
    SSU_METRICS,
    WITH_ENGINES,
    compute,
    needs_package,
    needs_ssu,
    random_case,
    read_distances,
    table_of,
)

from aam.config import slices
from aam.config.configuration import load
from aam.config.metrics import METRICS
from aam.data.table import write_biom
from aam.distances import check, engines, store
from aam.distances.engines import ScikitBio, Sparse
from aam.distances.packages import NOT_INSTALLED, Ssu
from aam.distances.stripes import read_partial
from aam.stages import unifrac, unifrac_part
from aam.util.digests import provenance
from aam.util.errors import InputError


class UnifracStudy:
    """A view and its tree in a folder, and the two stages."""

    def __init__(self, folder: Path, samples: int = 30) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.output = folder, folder / "d.parquet"
        self.inputs = {"table": folder / "table.biom", "tree": folder / "tree.nwk"}
        self.case = random_case(5, samples)
        self.sample_ids = self.case[0].sample_ids
        write_biom(self.inputs["table"], self.case[0], {})
        self.inputs["tree"].write_text(str(self.case[1]))

    def run(
        self, stage, metric: str, name: str, path: Path, inputs=None, threads=1, **changes
    ) -> Path:
        settings = {
            "metric": metric,
            **METRICS[metric].parameters_in({"alpha": 0.5}),
            **changes,
        }
        stage(
            **self.inputs,
            **settings,
            threads=threads,
            work=self.folder / "work",
            **{name: path},
            provenance=provenance(settings, self.inputs),
            **(inputs or {}),
        )
        return path

    def whole(self, metric: str, paths=None, engine="scikit-bio", **options) -> Path:
        inputs = {"computed": paths} if paths else {}
        settings = {"engine": engine, "checked_pairs": 20, **options}
        return self.run(
            unifrac.compute_distances,
            metric,
            "distances_out",
            self.output,
            inputs,
            **settings,
        )

    def part(self, metric: str, part: int, jobs: int, engine="auto") -> Path:
        path = self.folder / f"{metric}-{part}-of-{jobs}.parquet"
        return self.run(
            unifrac_part.compute_part,
            metric,
            "part_out",
            path,
            part=part,
            parts=jobs,
            engine=engine,
        )

    def parts(self, metric: str, jobs: int, engine="auto") -> list[Path]:
        return [self.part(metric, part, jobs, engine) for part in range(jobs)]

    def ssu(self, output: Path, *options: str) -> None:
        files = ["-i", self.inputs["table"], "-t", self.inputs["tree"], "-o", output]
        subprocess.run(["ssu", *files, *options], check=True, capture_output=True)

    def set_lengths(self, change) -> None:
        tree = self.case[1].copy()
        for node in tree.traverse(include_self=False):
            node.length = change(node.length)
        self.inputs["tree"].write_text(str(tree))


@pytest.fixture
def study(tmp_path) -> UnifracStudy:
    return UnifracStudy(tmp_path / "study")


def read(path: Path, metric: str):
    return (store.read_faith_pd if METRICS[metric].per_sample else read_distances)(path)


def numpy_engine(metric: str):
    return Sparse() if metric in SPARSE_METRICS else ScikitBio()


INSTALLED = {
    "unifrac": pytest.param("unifrac", marks=[needs_package, needs_ssu]),
    "ssu": pytest.param("ssu", marks=needs_ssu),
    "scikit-bio": "scikit-bio",
}
"""The best engine that a machine has."""


def limit_engines(monkeypatch, best: str) -> None:
    """Make this engine the one that `auto` takes."""
    if best != "unifrac":
        monkeypatch.setattr(engines, "import_fault", lambda: NOT_INSTALLED)
    if best == "scikit-bio":
        monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("best", INSTALLED.values())
@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_written_with_its_engine(study, monkeypatch, metric, best):
    limit_engines(monkeypatch, best)
    path, engine = study.whole(metric, engine="auto"), numpy_engine(metric)
    sample_ids, values = read(path, metric)
    assert sample_ids == study.sample_ids
    assert np.allclose(values, compute(engine, *study.case, metric), atol=1e-6)
    carried = store.read_provenance(path)
    assert carried["aam.engine"] == (best if metric in WITH_ENGINES else engine.name)
    assert {"aam.version", "aam.settings", "aam.inputs"} <= set(carried)


@needs_package
@needs_ssu
@pytest.mark.parametrize("metric", WITH_ENGINES)
def test_files_of_two_machines_differ_in_the_engine_alone(study, metric):
    """`auto` is what the settings say, so a file of another engine is as fresh."""
    files = {}
    for best in INSTALLED:
        with pytest.MonkeyPatch.context() as monkeypatch:
            limit_engines(monkeypatch, best)
            path = study.whole(metric, engine="auto")
        files[best] = (store.read_provenance(path), pq.read_schema(path), *read(path, metric))
    carried, schema, sample_ids, values = files.pop("unifrac")
    assert carried.pop("aam.engine") == "unifrac"
    for name, (others, other_schema, other_ids, other_values) in files.items():
        assert others.pop("aam.engine") == name
        assert (others, other_ids) == (carried, sample_ids)
        assert other_schema.remove_metadata() == schema.remove_metadata()
        assert np.allclose(other_values, values, rtol=0, atol=1e-6)


@needs_package
@pytest.mark.parametrize("metric", WITH_ENGINES)
def test_the_package_writes_the_same_bytes_with_any_number_of_threads(study, metric):
    expected = study.whole(metric, engine="unifrac").read_bytes()
    assert study.whole(metric, engine="unifrac", threads=2).read_bytes() == expected
    assert list((study.folder / "work").iterdir()) == []


@needs_ssu
@pytest.mark.parametrize(("metric", "samples"), [*zip(SSU_METRICS, [30, 31, 2, 3], strict=True)])
def test_neither_jobs_nor_threads_change_what_ssu_computes_in_one_piece(tmp_path, metric, samples):
    study = UnifracStudy(tmp_path, samples)
    options = ["-m", f"{metric}_fp64", "-r", "hdf5_fp32", "--pcoa", "0", "-a", "0.5"]
    study.ssu(tmp_path / "d.h5", *options)
    path = study.whole(metric, engine="ssu")
    sample_ids, found = read_distances(path)
    with h5py.File(tmp_path / "d.h5") as file:
        assert [name.decode() for name in file["order"][()]] == sample_ids == study.sample_ids
        assert np.array_equal(found, file["matrix"][()])
    expected = path.read_bytes()
    assert study.whole(metric, engine="ssu", threads=2).read_bytes() == expected
    in_steps = compute(Ssu(threads=2, memory_bytes=1), *study.case, metric)
    assert np.array_equal(in_steps, found)
    for jobs in {1, min(2, samples // 2), min(7, samples // 2)}:
        parts = study.parts(metric, jobs)
        assert study.whole(metric, parts, engine="ssu").read_bytes() == expected
    assert store.read_provenance(path)["aam.engine"] == "ssu"
    assert list((study.folder / "work").iterdir()) == []


@pytest.mark.parametrize(
    ("samples", "metric"),
    [*((samples, "unweighted") for samples in (2, 3, 30, 31)), (31, "weighted_normalized")],
)
def test_neither_jobs_nor_threads_change_a_byte_of_products(tmp_path, samples, metric):
    study = UnifracStudy(tmp_path, samples)
    path = study.whole(metric, engine="products")
    sample_ids, found = read_distances(path)
    assert sample_ids == study.sample_ids
    assert np.allclose(found, compute(ScikitBio(), *study.case, metric), rtol=0, atol=1e-7)
    expected = path.read_bytes()
    assert study.whole(metric, engine="products", threads=2).read_bytes() == expected
    for jobs in {1, min(2, samples // 2), min(7, samples // 2)}:
        parts = study.parts(metric, jobs, engine="products")
        assert study.whole(metric, parts, engine="products").read_bytes() == expected
    assert store.read_provenance(path)["aam.engine"] == "products"
    assert list((study.folder / "work").iterdir()) == []


@needs_ssu
def test_parts_of_products_and_ssu_are_alike_but_not_merged(study):
    by_ssu = study.part("unweighted", 0, 2, engine="ssu").rename(study.folder / "ssu.parquet")
    by_products = study.parts("unweighted", 2, engine="products")
    schemas = [pq.read_schema(path) for path in (by_ssu, by_products[0])]
    assert schemas[0].remove_metadata() == schemas[1].remove_metadata()
    differing = {
        key
        for key in schemas[0].metadata | schemas[1].metadata
        if schemas[0].metadata[key] != schemas[1].metadata[key]
    }
    assert differing == {b"aam.engine", b"aam.settings"}
    with pytest.raises(InputError, match="got stripes by products; expected those by ssu"):
        study.whole("unweighted", [by_ssu, by_products[1]])


@needs_ssu
def test_the_jobs_of_other_metrics_are_those_of_ssu(study):
    parts = study.parts("generalized", 2, engine="products")
    path = study.whole("generalized", parts, engine="products")
    assert store.read_provenance(path)["aam.engine"] == "ssu"


class Faulty:
    """Wrong for the samples of one block, as after an overflow."""

    name = "faulty"

    @contextmanager
    def compute(self, table, tree, metric, parameters):
        with numpy_engine(metric).compute(table, tree, metric, parameters) as found:
            wrong = np.array(found[:])
            wrong[(slice(20),) * wrong.ndim] *= 1.001
            yield wrong


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("other", [None, ScikitBio()])
def test_nothing_is_written_where_engines_disagree(study, metric, other, monkeypatch):
    monkeypatch.setattr(unifrac, "choose_engine", lambda *_, **__: (Faulty(), other))
    monkeypatch.setattr(unifrac, "Sparse", Faulty)
    with pytest.raises(RuntimeError, match=rf"{metric} of s\d+.* is [\d.]+, but [\d.]+ when"):
        study.whole(metric)
    assert not study.output.exists()


def test_a_missing_value_counts_as_disagreement(study):
    matrix = np.full((30, 30), np.nan)
    with pytest.raises(RuntimeError, match="is nan, but 0"):
        check.check_values(matrix, *study.case, "unweighted", {}, count=5, other=None)


@needs_ssu
@pytest.mark.parametrize("metric", ["weighted_unnormalized", "faith_pd"])
def test_tolerance_is_relative_where_values_are_large(study, metric):
    study.set_lengths(lambda length: length * 1e6)
    assert read(study.whole(metric, engine="ssu"), metric)[1].max() > 1e4


def test_undefined_distances_are_the_users_problem(study):
    study.set_lengths(lambda _: 0.0)
    with pytest.raises(
        InputError, match=r"tree.nwk: got branches of length 0 only.*30 samples \('s"
    ):
        study.whole("unweighted")
    assert not study.output.exists()


@pytest.mark.parametrize("metric", ["unweighted", "bray_curtis"])
def test_one_sample_has_no_pair_to_check(study, metric):
    write_biom(study.inputs["table"], table_of([[1, 2]], study.case[0].feature_ids[:2]), {})
    assert read_distances(study.whole(metric))[1].tolist() == [[0.0]]


@pytest.mark.parametrize(("samples", "wanted"), [(2, 50), (5, 10), (2000, 50)])
def test_checked_pairs_are_distinct_and_seeded(samples, wanted):
    first, second = check.draw_checked(samples, wanted, "unweighted")
    assert len(set(zip(first, second, strict=True))) == min(wanted, samples * (samples - 1) // 2)
    assert ((first >= 0) & (first < second) & (second < samples)).all()
    assert np.array_equal(check.draw_checked(samples, wanted, "unweighted"), (first, second))


@needs_ssu
def test_parts_of_another_matrix_are_refused(study, tmp_path):
    other, larger = UnifracStudy(tmp_path / "other"), UnifracStudy(tmp_path / "larger", 31)
    paths = study.parts("unweighted", 3)
    other.set_lengths(lambda length: 2 * length)
    for wrong, message in [
        (paths[:2], "got stripes up to 10 in the last file; expected stripes up to 15"),
        ([paths[0], paths[2]], "got stripes 10 to 15 of 30 samples; expected stripes from 5"),
        ([paths[0], *other.parts("unweighted", 3)[1:]], "got stripes of another table or tree"),
        (larger.parts("unweighted", 3), "got stripes 0 to 5 of 31 samples; expected .* 30 samples"),
    ]:
        with pytest.raises(InputError, match=message):
            study.whole("unweighted", wrong)


@needs_ssu
def test_jobs_that_cannot_be_are_the_users_problem(study, monkeypatch):
    with pytest.raises(InputError, match=r"unifrac.partitions: got 16 for 30 samples; .* 15\."):
        study.part("unweighted", 0, 16)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"unifrac.partitions: .*not installed.*set it to auto"):
        study.part("unweighted", 0, 2)


@needs_ssu
def test_what_ssu_leaves_incomplete_is_noticed(study, tmp_path):
    path, ids = tmp_path / "p.bin", study.sample_ids
    study.ssu(path, *"-m unweighted_fp64 --mode partial --start 3 --stop 6".split())
    found = read_partial(path, ids)
    assert (found.start, found.stop, found.samples) == (3, 6, 30)
    with pytest.raises(RuntimeError, match="other samples"):
        read_partial(path, ids[::-1])
    complete = path.read_bytes()
    for size in (0, 20, 60, len(complete) - 200, len(complete) - 4):
        path.write_bytes(complete[:size])
        with pytest.raises(RuntimeError, match="no complete file of stripes"):
            read_partial(path, ids)


def test_unifrac_alone_is_shared_by_jobs():
    def jobs(**section) -> set[str]:
        study = {"datasets": {"demo": {"simulate": {}}}, "models": {"base": {}}}
        config = load({**study, "unifrac": section})
        return {name for name in METRICS if slices.unifrac_jobs(config, "demo", name) > 1}

    assert jobs() == jobs(partitions=1, engine="scikit-bio") == set()
    for engine in ("auto", "ssu", "products"):
        assert jobs(partitions=4, engine=engine) == set(SSU_METRICS)
    for engine in ("scikit-bio", "unifrac"):
        message = f"unifrac: got 4 `partitions` with the engine {engine}"
        with pytest.raises(InputError, match=message):
            jobs(partitions=4, engine=engine)
