"""What a killed job leaves beside its outputs (see `aam.util.atomic`)."""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path


def remove_leftovers(outputs: Iterable[Path | list[Path]]) -> None:
    """Remove the halves of outputs that an earlier process could not finish.

    Parameters
    ----------
    outputs
        What this process alone is about to write; lists of paths too.
    """
    for output in outputs:
        for final in output if isinstance(output, list) else [output]:
            name = re.compile(rf"\.partial-\d+-{re.escape(final.name)}")
            found = final.parent.iterdir() if final.parent.is_dir() else ()
            for path in [path for path in found if name.fullmatch(path.name)]:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
