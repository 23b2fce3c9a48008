import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unifrac_cases import SSU_METRICS, needs_ssu, parameters, random_case

from aam.config import slices
from aam.config.configuration import load
from aam.config.metrics import METRICS
from aam.data.table import write_biom
from aam.runtime.run_options import RunOptions
from aam.stages import unifrac, unifrac_part
from aam.unifrac import parts, store, stripes
from aam.unifrac.stripes import Joined, StripeMatrix, Stripes, read_partial
from aam.util.errors import InputError


def distances(samples: int) -> np.ndarray:
    points = np.random.default_rng(samples).random((samples, 3))
    return np.linalg.norm(points[:, None] - points[None], axis=2).astype(np.float32)


def stripes_of(matrix: np.ndarray, start: int, stop: int) -> Stripes:
    samples = np.arange(len(matrix))
    result = Stripes(start, stop, len(matrix))
    for stripe in range(start, stop):
        result.put(stripe, matrix[samples, (samples + stripe + 1) % len(matrix)])
    return result


class UnifracStudy:
    """A view and its tree in a folder, and the two stages."""

    def __init__(self, folder: Path, samples: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.inputs = {"table": folder / "table.biom", "tree": folder / "tree.nwk"}
        table, tree = random_case(5, samples)
        self.sample_ids = table.sample_ids
        write_biom(self.inputs["table"], table, {})
        self.inputs["tree"].write_text(str(tree))

    def run(self, stage, metric: str, output: str, inputs=None, **cfg) -> Path:
        path = self.folder / output
        stage.run(
            {"metric": metric, **parameters(metric), **cfg},
            inputs={**self.inputs, **(inputs or {})},
            outputs={"distances": path, "part": path},
            runtime=RunOptions(work=self.folder / "work"),
        )
        return path

    def whole(self, metric: str, paths: list[Path] | None = None) -> Path:
        inputs = {"parts": paths} if paths else {}
        return self.run(unifrac, metric, "d.parquet", inputs, engine="ssu", checked_pairs=20)

    def part(self, metric: str, part: int, jobs: int) -> Path:
        output = f"{metric}-{part}-of-{jobs}.parquet"
        return self.run(unifrac_part, metric, output, part=part, parts=jobs)

    def parts(self, metric: str, jobs: int) -> list[Path]:
        return [self.part(metric, part, jobs) for part in range(jobs)]


@needs_ssu
@pytest.mark.parametrize(("metric", "samples"), [*zip(SSU_METRICS, [30, 31, 2, 3], strict=True)])
def test_neither_jobs_nor_steps_change_what_ssu_computes_in_one_piece(tmp_path, metric, samples):
    study = UnifracStudy(tmp_path / "study", samples)
    command = ["ssu", "-i", study.inputs["table"], "-t", study.inputs["tree"]]
    command += ["-m", f"{metric}_fp64", "-r", "hdf5_fp32", "--pcoa", "0", "-a", "0.5"]
    subprocess.run([*command, "-o", tmp_path / "d.h5"], check=True, capture_output=True)
    sample_ids, found = store.read_distances(study.whole(metric))
    with h5py.File(tmp_path / "d.h5") as file:
        assert [name.decode() for name in file["order"][()]] == sample_ids == study.sample_ids
        assert np.array_equal(found, file["matrix"][()])
    expected = study.whole(metric).read_bytes()
    for jobs in {1, min(2, samples // 2), min(7, samples // 2)}:
        assert study.whole(metric, study.parts(metric, jobs)).read_bytes() == expected
    assert store.read_provenance(study.whole(metric))["aam.engine"] == "ssu"
    assert list((study.folder / "work").iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(data=st.data(), samples=st.integers(2, 24))
def test_rows_of_stripes_are_rows_of_the_matrix(data, samples):
    matrix = distances(samples)
    jobs = data.draw(st.integers(1, samples // 2))
    pieces = [stripes_of(matrix, *stripes.of_job(part, jobs, samples)) for part in range(jobs)]
    found = StripeMatrix(Joined(pieces))
    first = data.draw(st.integers(0, samples - 1))
    rows = slice(first, data.draw(st.integers(first + 1, samples + 3)))
    assert np.array_equal(found[rows], matrix[rows])


@pytest.mark.parametrize("samples", [2, 255, 256, 257, 600])
def test_stripes_in_files_are_those_that_were_written(tmp_path, samples):
    matrix = distances(samples)
    paths = []
    for start, stop in stripes.ranges(0, samples // 2, min(3, samples // 2)):
        paths.append(tmp_path / f"{start}.parquet")
        parts.write_part(paths[-1], stripes_of(matrix, start, stop), {"aam.inputs": "i"})
    with parts.open_parts(paths) as opened:
        parts.check_whole(opened, samples, "i")
        found = StripeMatrix(Joined(opened))
        assert np.array_equal(found[:], matrix)
        assert np.array_equal(found[200:300], matrix[200:300])
        assert np.array_equal(found[1:2], matrix[1:2])


class Watched(Stripes):
    """Stripes that note which rows are asked for."""

    def sides(self, rows):
        self.asked.append(range(*rows.indices(self.samples)))
        return super().sides(rows)


def test_a_block_of_rows_is_in_memory_at_a_time(tmp_path, monkeypatch):
    whole = stripes_of(distances(700), 0, 350)
    whole.__class__, whole.asked = Watched, []
    blocks = [range(0, 256), range(256, 512), range(512, 700)]
    parts.write_part(tmp_path / "p.parquet", whole, {})
    assert whole.asked == blocks
    whole.asked = []
    store.write_distances(
        tmp_path / "d.parquet", list(map(str, range(700))), StripeMatrix(whole), {}
    )
    assert whole.asked == blocks
    with parts.open_parts([tmp_path / "p.parquet"]) as [part]:
        read, groups = part._file.read_row_groups, []
        monkeypatch.setattr(
            part._file, "read_row_groups", lambda g, **k: groups.append(g) or read(g, **k)
        )
        store.write_distances(
            tmp_path / "e.parquet", list(map(str, range(700))), StripeMatrix(part), {}
        )
    assert groups == [[0], [1], [2]]
    assert (tmp_path / "d.parquet").read_bytes() == (tmp_path / "e.parquet").read_bytes()


@settings(deadline=None)
@given(samples=st.integers(2, 200_000), start=st.floats(0, 1), memory=st.integers(1, 1 << 34))
def test_steps_stay_within_the_memory(samples, start, memory):
    stop = stripes.stripes(samples)
    start = int(start * (stop - 1))
    ranges = stripes.steps(start, stop, samples, max(memory, 32 * samples * (stop // 1000 + 1)))
    assert [ranges[0][0], ranges[-1][1]] == [start, stop]
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:], strict=False))
    longest = max(b - a for a, b in ranges)
    assert min(b - a for a, b in ranges) >= max(1, longest - 1)
    assert 32 * samples * longest <= max(memory, 32 * samples * (stop // 1000 + 1))


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


@needs_ssu
@pytest.mark.parametrize(
    ("harm", "got"),
    [
        (damage, r"a damaged file \(.*\)"),
        (lambda path: path.write_bytes(path.read_bytes()[:1000]), r"a damaged file \(.*\)"),
        (lambda path: path.write_bytes(b""), r"a damaged file \(.*\)"),
        (Path.unlink, "no such file"),
    ],
)
def test_a_part_that_cannot_be_read_ends_as_one_message(tmp_path, harm, got):
    study = UnifracStudy(tmp_path / "study", 30)
    paths = study.parts("unweighted", 3)
    harm(paths[1])
    message = f"1-of-3.parquet: got {got}; expected stripes of a dist.*Hint: remove the file and"
    with pytest.raises(InputError, match=message) as caught:
        study.whole("unweighted", paths)
    assert "\n" not in str(caught.value)
    assert not (study.folder / "d.parquet").exists()


@needs_ssu
def test_parts_of_another_matrix_are_refused(tmp_path):
    study, other = UnifracStudy(tmp_path / "study", 30), UnifracStudy(tmp_path / "other", 30)
    paths = study.parts("unweighted", 3)
    other.inputs["tree"].write_text(other.inputs["tree"].read_text().replace("f0:", "f0:1"))
    larger = UnifracStudy(tmp_path / "larger", 31)
    for wrong, message in [
        (paths[:2], "got stripes up to 10 in the last file; expected stripes up to 15"),
        ([paths[0], paths[2]], "got stripes 10 to 15 of 30 samples; expected stripes from 5"),
        ([paths[0], *other.parts("unweighted", 3)[1:]], "got stripes of another table or tree"),
        (larger.parts("unweighted", 3), "got stripes 0 to 5 of 31 samples; expected .* 30 samples"),
    ]:
        with pytest.raises(InputError, match=message):
            study.whole("unweighted", wrong)


@needs_ssu
def test_jobs_that_cannot_be_are_the_users_problem(tmp_path, monkeypatch):
    study = UnifracStudy(tmp_path / "study", 9)
    with pytest.raises(InputError, match=r"unifrac.partitions: got 5 for 9 samples; .* 4\."):
        study.part("unweighted", 0, 5)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"unifrac.partitions: .*not installed.*set it to auto"):
        study.part("unweighted", 0, 2)


@needs_ssu
def test_what_ssu_leaves_incomplete_is_noticed(tmp_path):
    study = UnifracStudy(tmp_path / "study", 30)
    path, ids = tmp_path / "p.bin", study.sample_ids
    command = ["ssu", "-i", study.inputs["table"], "-t", study.inputs["tree"], "-o", path]
    command += ["-m", "unweighted_fp64", "--mode", "partial", "--start", "3", "--stop", "6"]
    subprocess.run(command, check=True, capture_output=True)
    found = read_partial(path, ids)
    assert (found.start, found.stop, found.samples) == (3, 6, 30)
    complete = path.read_bytes()
    for size in (0, 20, 60, len(complete) - 200, len(complete) - 4):
        path.write_bytes(complete[:size])
        with pytest.raises(RuntimeError, match="no complete file of stripes"):
            read_partial(path, ids)
    path.write_bytes(complete)
    with pytest.raises(RuntimeError, match="other samples"):
        read_partial(path, ids[::-1])


def jobs(**unifrac_section) -> set[str]:
    """Return the metrics that several jobs share."""
    study = {"datasets": {"demo": {"simulate": {}}}, "models": {"base": {}}}
    config = load({**study, "unifrac": unifrac_section})
    return {name for name in METRICS if slices.unifrac_jobs(config, "demo", name) > 1}


def test_unifrac_alone_is_shared_by_jobs():
    assert jobs() == jobs(partitions=1, engine="scikit-bio") == set()
    assert jobs(partitions=4) == set(SSU_METRICS)
    with pytest.raises(InputError, match="unifrac: got 4 `partitions` with the engine scikit-bio"):
        jobs(partitions=4, engine="scikit-bio")
