import psutil

from benchmarks import checkpointing


def test_both_ways_are_printed_side_by_side(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(checkpointing, "WIDTH", 16)
    checkpointing.main([str(tmp_path), "--megabytes", "0.4", "--repeats", "1"])
    page = capsys.readouterr().out
    for words in ("| synchronous | ", "| background | ", "blocked", "- checkpoint: 0.4 MB"):
        assert words in page
    assert f"- cores: {psutil.cpu_count()}\n" in page
    assert not list(tmp_path.iterdir())
