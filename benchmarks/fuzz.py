"""Damaged files by the hundred thousand, in rounds that go on where they were ended.

`python -m benchmarks.fuzz --of-each 100000` runs `tests/fuzz`: a round tries 5000 inputs of each
kind, with a seed of its own. It keeps a table of the rounds, and ends at the first input that
neither got one clear message nor was read rightly, or that took too long.

`python -m benchmarks.fuzz --labels 2000` takes small studies with odd names through whole first
answers (`benchmarks.label_draws`), and goes on behind one that fails.
"""

import argparse
import os
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from aam.util.atomic import write_tsv
from benchmarks import label_draws
from benchmarks.label_draws import count_draws, explain
from benchmarks.speed.tables import markdown_table

OF_A_ROUND = 5000
LONGEST_LINE = 2000
"""Characters: longer lines of a report have the files that are damaged, whole."""
KIND = re.compile(r"^tests/fuzz/\S+::(\S+):$", re.MULTILINE)
CASES = re.compile(r"(\d+) passing, 0 failing, and (\d+) invalid test cases")
EVENT = re.compile(r"([\d.]+)%, (accepted|refused)$", re.MULTILINE)


def tried(report: str) -> pd.DataFrame:
    """Return how many inputs of each kind were refused and accepted, by Hypothesis's statistics."""
    _, *parts = KIND.split(report)
    rows = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        # Shares are of all cases, those among them that could not be made, too.
        passed, invalid = np.sum([[*map(int, counts)] for counts in CASES.findall(text)], axis=0)
        shares = {name: float(share) / 100 for share, name in EVENT.findall(text)}
        counts = {name: round(share * (passed + invalid)) for name, share in shares.items()}
        rows.append({"kind": kind, "tried": passed, "refused": 0, "accepted": 0} | counts)
    return pd.DataFrame(rows)


def round_of(seed: int, processes: int) -> pd.DataFrame:
    """Try inputs of every kind; end the program where one of them fails."""
    command = [
        *(
            sys.executable,
            "-m",
            "pytest",
            "tests/fuzz",
            "-k",
            "not alias and not labels",
            "-n",
            str(processes),
        ),
        *("--dist", "load", "--hypothesis-show-statistics", f"--hypothesis-seed={seed}"),
    ]
    options = {**os.environ, "FUZZ": str(OF_A_ROUND), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=options, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        short_lines = [line for line in done.stdout.splitlines() if len(line) < LONGEST_LINE]
        sys.exit("\n".join([*short_lines, f"round {seed} failed: the input stands above"]))
    return tried(done.stdout)


def try_labels(draws: int, first: int) -> bool:
    """Try studies with odd names, print those that fail and counts, and return whether none did."""
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for seed, outcome in count_draws(draws, Path(folder), first):
            counts[outcome.what] += 1
            if outcome.what not in label_draws.GOOD:
                print(explain(seed, outcome), flush=True)
    ends = ("refused", "answered", "crashed", "silent")
    print(markdown_table(["drawn", *ends], [[str(draws), *(str(counts[end]) for end in ends)]]))
    return counts.keys() <= set(label_draws.GOOD)


def main() -> None:
    """Carry out the rounds that are not in the table yet, and print their sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of-each", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--table", type=Path, default=Path("results/fuzz.tsv"))
    parser.add_argument("--labels", type=int, help="draws of studies with odd names, alone")
    parser.add_argument("--first", type=int, default=0, help="seed of the first of these draws")
    options = parser.parse_args()
    if options.labels is not None:
        warnings.simplefilter("ignore")
        sys.exit(0 if try_labels(options.labels, options.first) else 1)
    rounds = [pd.read_csv(options.table, sep="\t")] if options.table.exists() else []
    first = int(rounds[0]["round"].max()) + 1 if rounds else 0
    for seed in range(first, -(-options.of_each // OF_A_ROUND)):
        start = time.perf_counter()
        cases = round_of(seed, options.processes)
        rounds.append(cases.assign(round=seed, seconds=time.perf_counter() - start))
        write_tsv(options.table, pd.concat(rounds))
        took = time.perf_counter() - start
        print(f"round {seed}: {cases['tried'].sum():,} inputs in {took:.0f} s", flush=True)
    columns = ["tried", "refused", "accepted"]
    sums = pd.concat(rounds).groupby("kind", sort=False)[columns].sum().reset_index()
    print(markdown_table(["kind", *columns], [[*map(str, row)] for row in sums.to_numpy()]))


if __name__ == "__main__":
    main()
