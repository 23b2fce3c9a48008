"""Licences of everything that is installed with AAM, from its own metadata."""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FREE = (
    *("MIT", "BSD", "0BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "BSL"),
    *("Zlib", "CC0", "HPND", "Unlicense", "LLVM", "Public Domain"),
)
"""What may be used in any program."""
FILE_BY_FILE = {"certifi", "hypothesis", "pathspec"}
"""Of the Mozilla Public License: changes to their own files stay open, and AAM changes none."""
READ_BY_HAND = {
    "conda-inject": "MIT",
    "docutils": "Public Domain; BSD-2-Clause; its Emacs mode, GPL, is not installed",
    "snakemake-interface-common": "MIT",
    "snakemake-interface-logger-plugins": "MIT",
    "snakemake-interface-report-plugins": "MIT",
    "snakemake-interface-scheduler-plugins": "MIT",
    "snakemake-interface-storage-plugins": "MIT",
}
"""Packages whose metadata say nothing or too much: what their repository has."""


def licence(package: str) -> str:
    """Return what a package says of its licence."""
    about = metadata(package)
    classifiers = about.get_all("Classifier") or []
    named = [name.split(" :: ")[-1] for name in classifiers if name.startswith("License")]
    first_line = (about.get("License") or "").partition("\n")[0]
    return about.get("License-Expression") or "; ".join(named) or first_line


def test_every_dependency_may_be_used_and_passed_on() -> None:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    packages = [line.partition("==")[0].lower() for line in lines if "==" in line]
    assert len(packages) > 100
    unknown = {}
    installed = 0
    for package in packages:
        try:
            text = licence(package)
        except PackageNotFoundError:
            # Packages of other systems or Python versions stand in the list, too.
            continue
        installed += 1
        parts = re.split(r"\s*(?:;|\bAND\b|\bWITH\b)\s*", text)
        if package in FILE_BY_FILE | {*READ_BY_HAND}:
            continue
        if not text or not all(any(name in part for name in FREE) for part in parts):
            unknown[package] = text
    assert unknown == {}
    assert installed > 50
