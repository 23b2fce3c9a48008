"""Checkouts of the workflow: one in which a tiny study has been carried out, and empty ones."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from checkouts import Checkout, copy_of_the_workflow

from tests.warm import IMPORTED, NETWORKS, Warm


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Return a checkout in which every stage of the tiny study has run for real."""
    root = tmp_path_factory.mktemp("workflow") / "checkout"
    checkout = copy_of_the_workflow(root)
    warm = Warm(*IMPORTED, *NETWORKS, root=root, is_edited=True)
    checkout = replace(checkout, warm=warm)
    done = checkout.run()
    assert done.returncode == 0, done.stdout[-4000:]
    yield checkout
    warm.close()


@pytest.fixture
def cold(tmp_path: Path) -> Checkout:
    """Return a checkout in which nothing has run, and whose commands start Python."""
    return copy_of_the_workflow(tmp_path / "checkout")


@pytest.fixture
def fresh(cold: Checkout, warm: Warm) -> Checkout:
    """Return a checkout in which nothing has run; its commands are forks of one process."""
    return replace(cold, warm=warm)
