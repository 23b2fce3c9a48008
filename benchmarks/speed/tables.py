"""Tables as Markdown pages that say what they were measured on."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

from aam.report.labels import format_quantity
from aam.util.digests import provenance


def page(title: str, *parts: str, about: Mapping[str, str]) -> str:
    """Return a Markdown page.

    Parameters
    ----------
    title
        Its heading.
    *parts
        Its paragraphs and tables.
    about
        What its figures were measured on, words by name.

    Returns
    -------
    str
        The heading, the parts, and a list of what the figures were measured on.
    """
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    return "\n\n".join([f"# {title}", *parts, "## Measured on", facts]) + "\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells of each row; rows shorter than the head are filled with empty cells.

    Returns
    -------
    str
        The lines of the table.
    """
    filled = [[*row, *[""] * (len(head) - len(row))] for row in rows]
    first, *others = [f"| {' | '.join(cells)} |" for cells in (head, *filled)]
    return "\n".join([first, "|---" * len(head) + "|", *others])


def spread(median: float, iqr: float) -> str:
    """Return a median with its interquartile range in text.

    Parameters
    ----------
    median, iqr
        In the same unit; an `iqr` of NaN is left out.

    Returns
    -------
    str
        ``12 (0.3)`` for instance.
    """
    if pd.isna(iqr):
        return format_quantity(median)
    return f"{format_quantity(median)} ({format_quantity(iqr)})"


def about_run(
    settings: Mapping[str, Any], inputs: Mapping[str, Any], device: Mapping[str, str], threads: int
) -> dict[str, str]:
    """Return what figures were measured on and from, words by name.

    Parameters
    ----------
    settings
        Those of the benchmark as plain types, with `repeats`; their digest is part of the words.
    inputs
        Files that were read, by name.
    device
        Words on the device by name, as `probe_hardware` returns them.
    threads
        Threads of the measurements.

    Returns
    -------
    dict
        The machine, the device, the measurements, and provenance of settings and files.
    """
    return {
        **machine(),
        **device,
        "threads": str(threads),
        "repeats": str(settings["repeats"]),
        **provenance(settings, inputs),
    }


def machine() -> dict[str, str]:
    """Return what the figures were measured on, and the commit of the code."""
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text(encoding="utf-8").splitlines() if cpu.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "commit": _commit(),
        "processor": names[0] if names else platform.processor(),
        "cores": str(psutil.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _commit() -> str:
    """Return the commit of the checkout that runs, marked where files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown: not in a checkout of Git"
    return done.stdout.strip()
