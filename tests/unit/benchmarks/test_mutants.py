"""What tries mutants: cosmic-ray, which makes them, is not needed here."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutants import Mutant, UnitTests, choose_tests, draw_mutants, lines_of_statement

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCE = '''@cached
@other
def total(
    numbers: list[int] | None,
) -> int | None:
    """Add them up."""
    result: int | None = 0
    for number in (
        numbers
    ):
        result += (
            number
            + 0
        )
    return result
'''
COUNT = """
def count(number):
    steps = 0
    while number > 0:
        number -= 1
        steps += 1
    return steps
"""
TRIES = """
import sys
from pathlib import Path
from benchmarks import mutants

checkout = Path(sys.argv[1])
mutants.mutated = lambda source, mutant: source.replace(*mutant.operator.split("->"))
mutants.SLACK_S = 2.0
tests = [mutants.UnitTests("tests/unit/small/test_count.py", 0.0, {})]
for change in sys.argv[2:]:
    mutant = mutants.Mutant("aam/small/count.py", change, 0, (2, 0))
    print(mutants.try_mutant(checkout, mutant, tests, limit_s=300))
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (1, range(1, 6)),
        (4, range(1, 6)),
        (7, range(7, 8)),
        (9, range(8, 11)),
        (12, range(11, 15)),
        (15, range(15, 16)),
    ],
)
def test_a_statement_has_all_of_its_lines_and_a_compound_one_its_head(line, expected):
    assert lines_of_statement(SOURCE, line) == expected


def test_annotations_are_found_and_defaults_are_not_among_them():
    found = [(start, end) for start, end in mutants._annotations(ast.parse(SOURCE))]
    assert sorted(found) == [((4, 13), (4, 29)), ((5, 5), (5, 15)), ((7, 12), (7, 22))]


def test_files_that_run_a_line_come_in_order_and_all_where_none_is_seen_to():
    lines = {"aam/data/times.py": frozenset([3, 4])}
    quick, slow = UnitTests("test_ids.py", 1.0, lines), UnitTests("test_folds.py", 9.0, lines)
    named, other = UnitTests("test_times.py", 5.0, lines), UnitTests("test_tree.py", 0.1, {})
    tests = [slow, quick, other, named]
    assert choose_tests(tests, "aam/data/times.py", range(4, 7)) == [named, quick, slow]
    assert choose_tests(tests, "aam/data/times.py", range(9, 10)) == [named, other, quick, slow]


def test_a_place_counts_once_however_many_changes_it_has():
    many = [Mutant("a.py", f"operator {number}", 0, (1, 4)) for number in range(11)]
    one = Mutant("a.py", "number", 0, (2, 0))
    drawn = draw_mutants([*many, one], 40, seed=0)
    assert len(drawn) == 2
    assert one in drawn
    assert drawn == draw_mutants([*many, one], 40, seed=0)


def test_wrong_results_and_endless_loops_are_noticed_and_the_file_is_as_before(tmp_path):
    for folder in ("aam", "aam/small"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "aam/small/count.py").write_text(COUNT)
    tests = tmp_path / "tests/unit/small"
    tests.mkdir(parents=True)
    test = "from aam.small.count import count\n\n\ndef test_it():\n    assert count(3) == 3\n"
    (tests / "test_count.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    changes = ["> 0->>= 0", "> 0->!= 0", "number -= 1->number -= 0"]
    command = [sys.executable, "-c", TRIES, str(tmp_path), *changes]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False", "True"], done.stderr
    assert (tmp_path / "aam/small/count.py").read_text() == COUNT
