"""Curves of a run for TensorBoard, in addition to those that history.parquet keeps."""

import logging
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
FLUSHED_EVERY_S = 10
"""Seconds between writes to the file, so that an open TensorBoard can follow."""


class CurveWriter:
    """Writes scalars for TensorBoard, until `close`.

    What cannot be written costs the curves and one warning, never the run.

    Parameters
    ----------
    folder
        Folder of the curves; None: nothing is written.
    first_step
        Steps that were done before. TensorBoard hides what an earlier start wrote behind this step,
        so that a run that goes on has one curve. With 0 the curves of an earlier run are removed.
    """

    def __init__(self, folder: Path | None, first_step: int) -> None:
        self._writer: Any = None
        if folder is None:
            return
        try:
            # The package takes seconds to load, and not every run wants it.
            from torch.utils.tensorboard import SummaryWriter

            if first_step == 0:
                for left in folder.glob("events.out.tfevents.*"):
                    left.unlink()
            self._writer = SummaryWriter(
                str(folder), purge_step=first_step + 1, flush_secs=FLUSHED_EVERY_S
            )
        except (ImportError, OSError) as error:
            logger.warning("no curves for TensorBoard: %s", error)

    def add(self, step: int, name: str, value: float | None) -> None:
        """Add one point to a curve; None: nothing is added."""
        if self._writer is not None and value is not None:
            self._try(self._writer.add_scalar, name, value, step)

    def close(self) -> None:
        """Write out what waits, and close the file."""
        if self._writer is not None:
            self._try(self._writer.close)
            self._writer = None

    def _try(self, write: Any, *arguments: object) -> None:
        try:
            write(*arguments)
        except OSError as error:
            logger.warning("no more curves for TensorBoard: %s", error)
            self._writer = None
