"""Results of measurements in a file, each written as soon as it is there.

A call that is cut, by its own time limit, by a scheduler or by a signal, loses the measurement at
hand and no other: the next call takes what is there from the file, and measures the rest.
"""

import hashlib
import json
import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aam.util.atomic import write_text
from benchmarks.speed.subprocess_runner import Measure

logger = logging.getLogger(__name__)
UNTIMED = ("device", "roofline")
"""Kinds of requests that are done whatever the time: what is written needs them."""
Result = dict[str, Any] | None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines; a last line that was cut is removed from it."""
    if not path.exists():
        return []
    whole, _, rest = path.read_text(encoding="utf-8").rpartition("\n")
    if rest:
        write_text(path, whole + "\n" if whole else "")
    return [json.loads(line) for line in whole.splitlines()]


def append_line(path: Path, content: Mapping[str, Any]) -> None:
    """Add an object to a file of JSON lines, on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        handle.write(json.dumps(content) + "\n")
        handle.flush()
        os.fsync(handle.fileno())


class KeptResults:
    """A `Measure` that keeps all results, failures too, and begins nothing more after some time.

    Parameters
    ----------
    path
        File with the results, a line each.
    measure
        Does a request. A result with the key ``cut`` is not kept: the time limit came before its
        end.
    until
        Instant of `time.time` after which a request is answered from the file alone. `measure`
        gets it as the key ``deadline`` of all requests except those of `UNTIMED`.
    """

    def __init__(self, path: Path, measure: Measure, until: float) -> None:
        self.path = path
        self.measure = measure
        self.until = until
        self.waiting: set[str] = set()
        """Parts in which a request had no time."""
        self._part = ""
        self._asked: Counter[str] = Counter()
        self._results: dict[str, list[Result]] = defaultdict(list)
        for line in read_lines(path):
            self._results[line["request"]].append(line["result"])

    def begin(self, part: str) -> None:
        """Begin a part: within it a request that comes again is another repeat."""
        self._part = part
        self._asked.clear()

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.time() > self.until

    def __call__(self, request: Mapping[str, Any]) -> Result:
        """Return the kept result of a request, or do it; None where it failed or had no time."""
        text = json.dumps(request, sort_keys=True, default=str)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        number = self._asked[name]
        self._asked[name] += 1
        if number < len(self._results[name]):
            return self._results[name][number]
        timed = request["kind"] not in UNTIMED
        if timed and self.is_late:
            logger.warning("%s: no time is left for a measurement; call this again", self._part)
            self.waiting.add(self._part)
            return None
        result = self.measure({**request, "deadline": self.until} if timed else request)
        if result is not None and "cut" in result:
            logger.warning("%s: %s", self._part, result["cut"])
            self.waiting.add(self._part)
            return None
        self._results[name].append(result)
        append_line(self.path, {"part": self._part, "request": name, "result": result})
        return result
