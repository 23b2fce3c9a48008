"""A checkout of the workflow in which a tiny study has been carried out completely."""

from pathlib import Path

import pytest
from checkouts import Checkout, copy_of_the_workflow


@pytest.fixture(scope="session")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a checkout in which every stage of the tiny study has run for real."""
    checkout = copy_of_the_workflow(tmp_path_factory.mktemp("workflow") / "checkout")
    done = checkout.run()
    assert done.returncode == 0, done.stdout[-4000:]
    return checkout


@pytest.fixture
def fresh(tmp_path: Path) -> Checkout:
    """Return a checkout in which nothing has run."""
    return copy_of_the_workflow(tmp_path / "checkout")
