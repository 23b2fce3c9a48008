import os
import tempfile
from pathlib import Path

pytest_plugins = ["training_fixtures", "study_fixtures", "bench_fixtures"]
# References that the user of this machine has got must not have a part in any test.
os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / "no-references-of-aam")
