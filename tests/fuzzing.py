"""Changes of files, and how many of them are tried."""

import io
import os
import signal
import sys
from collections.abc import Callable
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any

import psutil
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st

from aam.data.importing import hdf5
from aam.util.errors import InputError

TRIED = int(os.environ.get("FUZZ", "40"))
TOKENS = [
    *(b"", b"\0", b"\t", b"\n", b"\r", b'"', b"'", b"#", b";", b":", b"(", b")", b",", b"[", b"{"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", "é".encode(), b"NaN", b"inf", b"-1", b"1e400", b"9" * 400),
    *(b"null", b"true", b"#q2:types", b"#q2:missing\tblank", b"()" * 500, b"&a [*a]", b".."),
    b"\x1b",
]  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@st.composite
def damaged(draw: Any, content: bytes) -> bytes:
    """Return the content after a few changes: bits flipped, spans cut or doubled, tokens put in."""
    for _ in range(draw(st.integers(1, 4))):
        start, stop = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        kind = draw(st.sampled_from(["flip", "cut", "double", "token", "end"]))
        if kind == "flip" and start < len(content):
            flipped = bytes([content[start] ^ (1 << draw(st.integers(0, 7)))])
            content = content[:start] + flipped + content[start + 1 :]
        elif kind == "cut":
            content = content[:start] + content[min(stop, start + 40) :]
        elif kind == "double":
            content = content[:stop] + content[start:]
        elif kind == "token":
            content = content[:start] + draw(st.sampled_from(TOKENS)) + content[start:]
        else:
            content = content[:stop]
    return content


def fuzzed(function: Callable[..., None]) -> Callable[..., None]:
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    few = {"derandomize": True} if TRIED < 1000 else {}
    return settings(max_examples=TRIED, deadline=10_000, suppress_health_check=quiet, **few)(
        function
    )


def refused(read: Callable[[], Any], start: str = "") -> bool:
    """Whether reading ends with one message that begins so, and names a remedy."""
    said = ""
    try:
        read()
    except InputError as error:
        said = str(error)
    assert not said or said.startswith(start)
    assert not said or "Hint: " in said
    event("refused" if said else "accepted")
    return bool(said)


def forked(_command: Any, *, input: bytes, **_options: Any) -> SimpleNamespace:
    """Do what `subprocess.run` does of the program that reads HDF5, without the time of its start.

    The memory of the program comes on top of what the tests have reserved.
    """
    with TemporaryFile() as out, TemporaryFile() as told:
        process = os.fork()
        if not process:
            signal.alarm(5)  # Not LEAST_S: what never ends has to be ended within the deadline.
            sys.stdin = SimpleNamespace(buffer=io.BytesIO(input))
            sys.stdout = SimpleNamespace(buffer=out)
            hdf5.LEAST_BYTES += psutil.Process().memory_info().vms
            try:
                hdf5.main()
            except BaseException as error:  # noqa: BLE001  A child must not go on with the tests.
                told.write(str(error).encode())
            out.flush()
            told.flush()
            os._exit(told.tell() > 0)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        out.seek(0)
        told.seek(0)
        return SimpleNamespace(returncode=code, stdout=out.read(), stderr=told.read())
