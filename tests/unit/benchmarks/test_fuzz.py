from benchmarks import fuzz

REPORT = """\
tests/fuzz/test_readers.py::test_files[tsv]:

  - during reuse phase (0.01 seconds):
    - 20 passing, 0 failing, and 0 invalid test cases
  - during generate phase (0.45 seconds):
    - Typical runtimes: ~ 0-4 ms, of which < 1ms in data generation
    - 180 passing, 0 failing, and 50 invalid test cases
    - Events:
      * 60.00%, refused
      * 20.00%, accepted

  - Stopped because settings.max_examples=200

tests/fuzz/test_results.py::test_every_change:

  - during generate phase (0.84 seconds):
    - 200 passing, 0 failing, and 0 invalid test cases
    - Events:
      * 100.00%, refused
"""


def test_what_was_tried_is_counted_and_rounds_go_on(monkeypatch, tmp_path, capsys):
    seeds = []

    def round_of(seed, _):
        seeds.append(seed)
        return fuzz.tried(REPORT)

    monkeypatch.setattr(fuzz, "round_of", round_of)
    for number in (2, 3):
        of_each, table = str(number * fuzz.OF_A_ROUND), str(tmp_path / "fuzz.tsv")
        monkeypatch.setattr("sys.argv", ["fuzz", "--of-each", of_each, "--table", table])
        fuzz.main()
    assert seeds == [0, 1, 2]
    said = capsys.readouterr().out
    assert "| test_files[tsv] | 600 | 450 | 150 |" in said
    assert "| test_every_change | 600 | 600 | 0 |" in said
