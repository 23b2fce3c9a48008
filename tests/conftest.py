import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.warm import IMPORTED, Warm

pytest_plugins = ["training_fixtures", "study_fixtures", "bench_fixtures"]
# No test may fail because the machine is busy.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# References that the user of this machine has got must not have a part in any test.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / "no-references-of-aam")


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    """Return a process with all that a first answer needs, and the package of this checkout."""
    process = Warm(*IMPORTED)
    yield process
    process.close()
