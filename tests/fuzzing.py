"""Changes of files, and how many of them are tried."""

import io
import os
import signal
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
from hypothesis import HealthCheck, settings
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
    return bool(said)


def forked(_command: Any, *, input: bytes, **_options: Any) -> SimpleNamespace:
    """Do what `subprocess.run` does of the program that reads HDF5, without the time of its start.

    The memory of the program comes on top of what the tests have reserved.
    """
    files = [os.memfd_create(name) for name in ("stdout", "stderr")]
    process = os.fork()
    if not process:
        signal.alarm(hdf5.LEAST_S)
        stdout, stderr = (os.fdopen(each, "wb") for each in files)
        sys.stdin, sys.stdout = (
            SimpleNamespace(buffer=each) for each in (io.BytesIO(input), stdout)
        )
        hdf5.LEAST_BYTES += psutil.Process().memory_info().vms
        try:
            hdf5.main()
        except BaseException as error:  # noqa: BLE001  A child must not go on with the tests.
            stderr.write(str(error).encode())
        stdout.flush()
        stderr.flush()
        os._exit(stderr.tell() > 0)
    status = os.waitpid(process, 0)[1]
    out, err = (os.pread(each, os.fstat(each).st_size, 0) for each in files)
    for each in files:
        os.close(each)
    return SimpleNamespace(returncode=os.waitstatus_to_exitcode(status), stdout=out, stderr=err)
