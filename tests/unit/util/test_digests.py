"""Digests beside files: what was damaged since it was written, and what the user replaced."""

import json
import os
from pathlib import Path

import pytest

from aam.util import records
from aam.util.digests import file_digest, provenance, settings_digest
from aam.util.errors import InputError
from aam.util.records import check_digests, claim, forget_digests, user_digests, write_digests


def test_what_a_stage_wrote_is_known_again(tmp_path):
    file, folder = tmp_path / "folds.tsv", tmp_path / "model"
    file.write_bytes(b"sample-id\tfold\na\t0\nb\t1\n")
    folder.mkdir()
    (folder / "weights").write_bytes(bytes(100))
    write_digests([file, folder])
    # Snakemake's own, in every folder that a job made.
    (folder / ".snakemake_timestamp").touch()
    check_digests([file, folder, tmp_path / "of the user"])
    content = file.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 4
        for spoiled in (bytes(damaged), content[:place]):
            file.write_bytes(spoiled)
            with pytest.raises(InputError, match=r"folds\.tsv: got content that its stage did not"):
                check_digests([file])
    (folder / "weights").write_bytes(bytes(99))
    with pytest.raises(InputError, match="delete .*model and run the same command again"):
        check_digests([folder])
    forget_digests([file, folder])
    check_digests([file, folder])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folds.tsv", "model"]


def test_what_a_job_has_checked_is_named_without_being_read_again(tmp_path, monkeypatch):
    file, folder = tmp_path / "folds.tsv", tmp_path / "model"
    file.write_text("sample-id\tfold\n")
    folder.mkdir()
    (folder / "weights").write_bytes(bytes(100))
    write_digests([file, folder])
    check_digests([file, folder])
    models = settings_digest({"parts": [file_digest(folder)] * 2})
    expected = {"folds": file_digest(file), "models": models}
    monkeypatch.setattr(Path, "open", lambda *_: pytest.fail("a file was read again"))
    found = provenance({}, {"folds": file, "models": [folder, folder]})
    assert json.loads(found["aam.inputs"]) == expected


def test_a_file_that_is_replaced_by_an_older_one_is_seen(tmp_path, monkeypatch):
    results, file = tmp_path / "results", tmp_path / "table.tsv"
    results.mkdir()
    file.write_text("one")
    files = {"table": str(file), "absent": str(tmp_path / "no")}
    # What lies beside the results of datasets is the user's, too, and what no stage made.
    for name in ("mine/made", "mine/labels", "raw/labels"):
        files[name] = str(tmp_path / "data" / ".." / "results" / name)
        (results / name).parent.mkdir(exist_ok=True)
        (results / name).write_text("text")
    (results / "mine" / ".made.sha256").write_text("digest\n")
    first = user_digests(files, results, ["mine"])
    assert list(first) == ["table", "mine/labels", "raw/labels"]
    read = []
    monkeypatch.setattr(records, "file_digest", lambda path: read.append(path) or "new")
    assert user_digests(files, results, ["mine"]) == first
    assert read == []
    (tmp_path / "older").write_text("two")
    os.utime(tmp_path / "older", (1, 1))
    (tmp_path / "older").replace(file)
    changed = {**first, "table": "new"}
    assert user_digests(files, results, ["mine"]) == changed
    assert read == [file]
    (results / records.CACHE).write_text("{")
    table = {"table": str(file)}
    assert user_digests(table, results, ["mine"]) == {"table": "new"}
    assert user_digests(table, tmp_path / "nowhere", ["mine"]) == {"table": "new"}
    assert not (tmp_path / "nowhere").exists()


def test_what_a_cache_holds_was_written_by_a_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("SNAKEMAKE_OUTPUT_CACHE", str(tmp_path / "cache"))
    link, entry = tmp_path / "asvs.arrow", tmp_path / "cache" / "entry.arrow"
    link.write_bytes(b"ACGT")
    write_digests([link])
    link.rename(entry)
    link.symlink_to(entry)
    check_digests([link])
    entry.write_bytes(b"ACGA")
    with pytest.raises(InputError, match=r"asvs.arrow: got content .* delete .*entry.arrow and"):
        check_digests([link])


def test_results_of_another_checkout_are_refused(tmp_path):
    one, other, results = (tmp_path / name for name in ("one", "other", "results"))
    results.mkdir()
    for folder in (one, other):
        (folder / ".snakemake" / "metadata").mkdir(parents=True)
    claim(results, one)
    claim(results, one)
    with pytest.raises(InputError, match="made by the checkout .*one"):
        claim(results, other)
    # Results inside of a checkout are copied and moved with it, and its records.
    (one / "results").mkdir()
    claim(one / "results", one)
    assert list((one / "results").iterdir()) == []
    one.rename(tmp_path / "gone")
    with pytest.raises(
        InputError, match="or run the command in .*one; if that is this one, .* delete"
    ):
        claim(results, other)
    (results / records.CHECKOUT).unlink()
    claim(results, other)


def test_results_without_records_of_what_they_were_made_with_are_refused(tmp_path):
    results = tmp_path / "results"
    (results / "study" / "inputs").mkdir(parents=True)
    claim(results, tmp_path)
    (results / "study" / "inputs" / ".table.biom.sha256").touch()
    with pytest.raises(InputError, match="metadata: got no such folder; expected what .*results"):
        claim(results, tmp_path)
    (tmp_path / ".snakemake" / "metadata").mkdir(parents=True)
    claim(results, tmp_path)


def test_results_under_another_path_or_from_another_folder_are_refused(tmp_path, monkeypatch):
    """Snakemake would find no record of what they were made with, and take them for current."""
    made_in = tmp_path / "made here"
    (made_in / "results" / "toy" / "inputs").mkdir(parents=True)
    monkeypatch.chdir(made_in)
    spelled = records.result_folder("results/", "toy")
    assert spelled == "results/toy"
    records.record_results(spelled, None)
    # Nothing was made yet.
    records.require_own_results(str(made_in / spelled), None)
    (made_in / spelled / "inputs" / ".table.biom.sha256").touch()
    records.require_own_results(spelled, None)
    with pytest.raises(InputError, match=r"expected results/toy from .*made here, as they were"):
        records.require_own_results(str(made_in / spelled), None)
    (made_in / "results" / "toy").rename(made_in / "results" / "ibd")
    with pytest.raises(InputError, match=r"got results in results/ibd, .*name of the dataset"):
        records.require_own_results("results/ibd", None)
    (made_in / "results" / "ibd").rename(made_in / "results" / "toy")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="configuration key results_dir"):
        records.require_own_results("made here/results/toy", None)
    # A study is moved as a whole, with Snakemake's records.
    made_in.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    records.require_own_results(spelled, None)
    # Version 1.0 noted no path.
    mark = Path(spelled) / records.TABLE
    mark.write_text('{"table": "", "sha256": ""}')
    records.require_own_results(str(Path(spelled).absolute()), None)
