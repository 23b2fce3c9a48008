from collections.abc import Iterator

import pytest

from tests.warm import IMPORTED, Warm

pytest_plugins = ["training_fixtures", "study_fixtures", "bench_fixtures"]


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Return a process with all that a first answer needs, and the package of this checkout."""
    process = Warm(*IMPORTED)
    yield process
    process.close()
