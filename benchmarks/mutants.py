"""Mutation score of packages: how many small changes of their code their unit tests notice.

    make mutants PACKAGES="data evaluate"
    python -m benchmarks.mutants data evaluate --mutants 40

cosmic-ray makes the mutants: another operator or number, a condition turned round, a loop without
a turn. A sample stands for the package: places are drawn with a seed, and one of the changes that
are possible at each, so that an operator, which has eleven, counts no more than a condition. Each
mutant is tried in a copy of the checkout, in a fork of this process, by those files of
`tests/unit/<package>` that run the statement, until one fails. Annotations are left as they are,
for no test can tell.

It prints the score of each package with Wilson's interval of 95 %, and the mutants that no test
noticed. The sample is in random order: what is printed while it runs is the score so far.
"""

import argparse
import ast
import difflib
import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

REPOSITORY = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.prefix, "mutants")
"""Where `make mutants` installs cosmic-ray and coverage, which nothing else needs."""
IMPORTED = (
    *("hypothesis", "numpy", "pandas", "pydantic", "pytest", "pyarrow.parquet", "h5py", "biom"),
    *("scipy.sparse", "scipy.spatial", "scipy.stats", "sklearn.ensemble", "sklearn.linear_model"),
    *("sklearn.model_selection", "sklearn.neighbors", "matplotlib.figure", "openpyxl"),
    *("torch", "lightning_fabric", "safetensors.torch", "skbio"),
)
"""What the forks need not import again. Of the checkout nothing may be among it."""
SLACK_S = 20.0
TIMES_LONGER = 3.0
"""A mutant may take so many times the seconds of its tests, and the slack on top."""
STATUS_OF_NO_TEST = 5


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    module: str
    """Path in the checkout."""
    operator: str
    """Name that cosmic-ray has for the kind of change."""
    occurrence: int
    """Number of the place, among those of the module where this operator can change something."""
    start: tuple[int, int]
    """Line, from 1, and column, from 0."""

    @property
    def line(self) -> int:
        """Line of the change, from 1."""
        return self.start[0]


@dataclass(frozen=True)
class UnitTests:
    """A file of tests that pass without a mutant."""

    path: str
    cpu_s: float
    lines: Mapping[str, frozenset[int]]
    """Lines of each module of the package that it runs."""


@dataclass(frozen=True)
class Ended:
    """How a fork ended."""

    status: int
    """Exit status of pytest; the number of a signal, negative, where one ended it."""
    cpu_s: float


def main(
    packages: Sequence[str],
    *,
    number: int,
    seed: int,
    limit_s: float,
    only: set[int],
    also: Sequence[str],
) -> str:
    """Try a sample of mutants of each package.

    Parameters
    ----------
    packages
        Folders of `aam`, each with tests in `tests/unit`.
    number
        Mutants of each.
    seed
        Of the sample.
    limit_s
        Seconds after which a mutant's tests are taken to hang, whatever processor time they had.
    only
        Numbers of mutants in the sample, to try these again; empty: all.
    also
        Files of tests elsewhere that are run, too.

    Returns
    -------
    str
        Scores and mutants that survived, in Markdown.
    """
    scores = ["| package | mutants | noticed | score | interval |", "|---|---|---|---|---|"]
    survived = []
    with TemporaryDirectory(prefix="aam-mutants-") as folder:
        copy = Path(folder, "aam")
        copy_checkout(copy)
        for module in IMPORTED:
            importlib.import_module(module)
        for package in packages:
            mutants = list_mutants(copy, package)
            sample = draw_mutants(mutants, number, seed)
            tests = measure_tests(copy, package, also, limit_s)
            noticed = tried = 0
            for place, mutant in enumerate(sample):
                if only and place not in only:
                    continue
                began_s = time.monotonic()
                is_noticed = try_mutant(copy, mutant, tests, limit_s)
                tried += 1
                noticed += is_noticed
                if not is_noticed:
                    survived += [f"\n{package} {place}:", *show(copy, mutant)]
                _say(
                    f"{package} {place} {'noticed' if is_noticed else 'SURVIVED'} "
                    f"{mutant.module}:{mutant.line} {mutant.operator} "
                    f"({time.monotonic() - began_s:.0f} s; {noticed} of {tried})"
                )
            scores.append(score_row(package, len(mutants), tried, noticed))
    return "\n".join([*scores, *survived])


def copy_checkout(folder: Path) -> None:
    """Copy what git knows of the checkout, as it is now; nothing is changed in the checkout itself.

    Parameters
    ----------
    folder
        Folder to make.
    """
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)


def list_mutants(checkout: Path, package: str) -> list[Mutant]:
    """Return all mutants of a package, always in the same order.

    Parameters
    ----------
    checkout
        Folder of the package `aam`.
    package
        Folder there.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    mutants = []
    for path in sorted(checkout.glob(f"aam/{package}/**/*.py")):
        source = path.read_text(encoding="utf-8")
        module, nodes = str(path.relative_to(checkout)), [*ast_nodes(get_ast(source))]
        annotations = [*_annotations(ast.parse(source))]
        for operator in sorted(operator_names()):
            kind = get_operator(operator)
            if kind.arguments():
                continue
            starts = (start for node in nodes for start, _ in kind().mutation_positions(node))
            for occurrence, start in enumerate(starts):
                if not any(first <= start < last for first, last in annotations):
                    mutants.append(Mutant(module, operator, occurrence, start))
    return mutants


def draw_mutants(mutants: Sequence[Mutant], number: int, seed: int) -> list[Mutant]:
    """Return a sample: places, and a change of each.

    Parameters
    ----------
    mutants
        All of a package.
    number
        Places to draw; all where there are fewer.
    seed
        Of the draw.
    """
    changes: dict[tuple[str, tuple[int, int]], list[Mutant]] = {}
    for mutant in mutants:
        changes.setdefault((mutant.module, mutant.start), []).append(mutant)
    draw = random.Random(seed)
    places = draw.sample([*changes.values()], min(number, len(changes)))
    return [draw.choice(place) for place in places]


def _annotations(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where annotations begin and end: lines from 1, columns from 0."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                assert found.end_lineno is not None
                assert found.end_col_offset is not None
                end = found.end_lineno, found.end_col_offset
                yield (found.lineno, found.col_offset), end


def lines_of_statement(source: str, line: int) -> range:
    """Return the lines of the innermost statement at a line; of a compound one those of its head.

    Parameters
    ----------
    source
        Code of a module.
    line
        Number of a line, from 1.
    """
    narrowest = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt | ast.ExceptHandler):
            continue
        decorators = [one.lineno for one in getattr(node, "decorator_list", [])]
        first, last = min([node.lineno, *decorators]), node.end_lineno or node.lineno
        body = getattr(node, "body", None)
        if body:
            last = max(node.lineno, body[0].lineno - 1)
        # Inner statements come later.
        if first <= line <= last:
            narrowest = range(first, last + 1)
    return narrowest


def measure_tests(
    checkout: Path, package: str, also: Sequence[str], limit_s: float
) -> list[UnitTests]:
    """Run the tests of a package without a mutant, a file at a time, and see what each runs.

    Parameters
    ----------
    checkout
        A copy.
    package
        Folder of `aam` and of `tests/unit`.
    also
        Further files of tests, by their paths in the checkout.
    limit_s
        Seconds that a file may take, ten times that of a mutant.

    Raises
    ------
    SystemExit
        The package has no tests, or one fails.
    """
    tests = []
    paths = sorted(checkout.glob(f"tests/unit/{package}/test_*.py"))
    if not paths:
        raise SystemExit(f"tests/unit/{package} has no tests: name another package")
    for path in [*paths, *(checkout / name for name in also)]:
        name = str(path.relative_to(checkout))
        record = checkout / ".lines"
        run = partial(_run_traced, checkout, package, name, record)
        ended = in_fork(run, checkout, limit_s=10 * limit_s)
        if ended.status:
            report = (checkout / ".report").read_text(encoding="utf-8", errors="replace")
            raise SystemExit(f"{report[-3000:]}\n{name} fails without a mutant: mend it first")
        lines = ast.literal_eval(record.read_text(encoding="utf-8"))
        own = {module: frozenset(numbers) for module, numbers in lines.items()}
        tests.append(UnitTests(name, ended.cpu_s, own))
        _say(f"{name} passes ({ended.cpu_s:.0f} s of processor time)")
    return tests


def _run_traced(checkout: Path, package: str, name: str, record: Path) -> int:
    """Run a file of tests and write the lines that it runs of each module of the package."""
    import coverage

    tracer = coverage.Coverage(
        data_file=None, config_file=False, include=[f"{checkout}/aam/{package}/*"]
    )
    tracer.start()
    status = _run_tests([name])
    tracer.stop()
    data = tracer.get_data()
    paths = {Path(path): data.lines(path) or [] for path in data.measured_files()}
    lines = {str(path.relative_to(checkout)): numbers for path, numbers in paths.items()}
    record.write_text(repr(lines), encoding="utf-8")
    return status


def try_mutant(checkout: Path, mutant: Mutant, tests: Sequence[UnitTests], limit_s: float) -> bool:
    """Return whether a test notices a mutant.

    Parameters
    ----------
    checkout
        A copy; it is as before in the end.
    mutant
        The change.
    tests
        Those of the package.
    limit_s
        Seconds after which tests are taken to hang.
    """
    path = checkout / mutant.module
    source = path.read_text(encoding="utf-8")
    running = choose_tests(tests, mutant.module, lines_of_statement(source, mutant.line))
    cpu_s = TIMES_LONGER * sum(test.cpu_s for test in running) + SLACK_S
    names = [test.path for test in running]
    try:
        path.write_text(mutated(source, mutant), encoding="utf-8")
        # Compiled code is recognized by seconds and size, which may both be the same.
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        ended = in_fork(partial(_run_tests, names), checkout, limit_s=limit_s, cpu_s=cpu_s)
    finally:
        path.write_text(source, encoding="utf-8")
    if ended.status == STATUS_OF_NO_TEST:
        raise SystemExit(f"pytest found no test in {names}")
    return ended.status != 0


def choose_tests(tests: Sequence[UnitTests], module: str, lines: range) -> list[UnitTests]:
    """Return the files that run some lines, those first that are named like the module or quick.

    Parameters
    ----------
    tests
        All files of the package.
    module
        Path in the checkout.
    lines
        Lines of a statement.

    Returns
    -------
    list of UnitTests
        All, where none is seen to run it: other processes of the tests may.
    """
    stem = Path(module).stem
    found = [test for test in tests if test.lines.get(module, frozenset()).intersection(lines)]
    return sorted(found or tests, key=lambda test: (stem not in test.path, test.cpu_s))


def mutated(source: str, mutant: Mutant) -> str:
    """Return the code of a module with a change."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    assert code is not None, "the place was found before"
    return str(code)


def show(checkout: Path, mutant: Mutant) -> list[str]:
    """Return the lines that a mutant changes, as a diff."""
    source = (checkout / mutant.module).read_text(encoding="utf-8")
    changed = mutated(source, mutant).splitlines()
    diff = difflib.unified_diff(source.splitlines(), changed, mutant.module, lineterm="", n=1)
    return [line for line in diff if line != "+++ "]


def in_fork(
    work: Callable[[], int], checkout: Path, *, limit_s: float, cpu_s: float | None = None
) -> Ended:
    """Do something in a fork of this process that imports the package of a copy.

    Parameters
    ----------
    work
        What it does; it returns an exit status.
    checkout
        The copy, whose file `.report` gets what is printed.
    limit_s
        Seconds after which it is killed.
    cpu_s
        Seconds of processor time after which it is killed, so that other work on the machine does
        not matter; None: no limit.
    """
    began_s = time.monotonic()
    child = os.fork()
    if child == 0:
        _work_and_exit(work, checkout, cpu_s)
    ended = 0
    try:
        while not ended:
            time.sleep(0.05)
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if not ended and time.monotonic() - began_s > limit_s:
                break
    finally:
        if not ended:
            os.killpg(child, signal.SIGKILL)
            _, status, usage = os.wait4(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime)


def _work_and_exit(work: Callable[[], int], checkout: Path, cpu_s: float | None) -> NoReturn:
    """Work as a process of its own, in the copy, and end."""
    status = 1
    try:
        os.setsid()
        os.chdir(checkout)
        report = os.open(checkout / ".report", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(report, stream)
        if cpu_s is not None:
            sys.dont_write_bytecode = True
            resource.setrlimit(resource.RLIMIT_CPU, (ceil(cpu_s), ceil(cpu_s) + 5))
        os.environ |= {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        sys.path[:] = [str(checkout), *(path for path in sys.path if Path(path) != REPOSITORY)]
        for name in [name for name in sys.modules if name.startswith("benchmarks")]:
            del sys.modules[name]
        package = importlib.import_module("aam").__file__
        assert package is not None
        assert Path(package).is_relative_to(checkout), f"tests would run {package}"
        status = work()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run_tests(names: Sequence[str]) -> int:
    """Run files of tests until one fails."""
    import pytest

    return int(pytest.main(["--exitfirst", "-p", "no:cacheprovider", *names]))


def score_row(package: str, mutants: int, tried: int, noticed: int) -> str:
    """Return a row of the table of scores.

    Parameters
    ----------
    package
        Its name.
    mutants
        All of them.
    tried, noticed
        Those of the sample.
    """
    from scipy.stats import binomtest

    interval = binomtest(noticed, tried).proportion_ci(method="wilson")
    return (
        f"| `aam.{package}` | {mutants} | {noticed} of {tried} | {100 * noticed / tried:.0f} % | "
        f"{100 * interval.low:.0f} to {100 * interval.high:.0f} % |"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packages", nargs="+", help="folders of aam, such as data")
    parser.add_argument("--mutants", type=int, default=40, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900, help="longest seconds of a mutant")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="numbers to try again")
    parser.add_argument("--also", nargs="+", default=[], help="files of tests elsewhere to run")
    parser.add_argument("--tools", type=Path, default=TOOLS, help="folder of cosmic-ray")
    given = parser.parse_args()
    # Last, so that no version of these packages hides one of the environment.
    sys.path.append(str(given.tools))
    print(
        main(
            given.packages,
            number=given.mutants,
            seed=given.seed,
            limit_s=given.limit,
            only=set(given.only),
            also=given.also,
        )
    )
