"""A page as a browser shows it."""

import html
import shutil
import subprocess
from pathlib import Path

import pytest

needs_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")


def open_page(page: Path, *, profile: Path) -> tuple[str, list[str]]:
    """Return what a page shows after its scripts have run, and what the browser complains of.

    `profile` is a folder for what the browser keeps.
    """
    options = "--headless --no-sandbox --disable-gpu --disable-background-networking".split()
    options += ["--enable-logging=stderr", f"--user-data-dir={profile}"]
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return html.unescape(done.stdout), complaints
