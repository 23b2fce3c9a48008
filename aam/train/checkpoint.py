"""Complete, atomic checkpoints of a training run, in a folder that is no declared output."""

import logging
import shutil
from pathlib import Path
from typing import Any

import torch

from aam.util.atomic import atomic_path

logger = logging.getLogger(__name__)
KEPT = 2


class Checkpoints:
    """The checkpoints of one run.

    Parameters
    ----------
    folder
        Where they lie; None: nothing is written and nothing is found.
    fingerprint
        Digest of settings, code and inputs; a checkpoint with another one is never resumed.
    """

    def __init__(self, folder: Path | None, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Write the state after `step` steps and delete all but the newest two."""
        if self.folder is None:
            return
        with atomic_path(self.folder / f"step-{step:09d}.pt") as partial:
            torch.save({"fingerprint": self.fingerprint, "step": step, **state}, partial)
        for old in self._files()[:-KEPT]:
            old.unlink()

    def load(self) -> dict[str, Any] | None:
        """Return the newest state of this run, or None; says so when another run's is set aside."""
        for path in reversed(self._files()):
            state = torch.load(path, map_location="cpu", weights_only=True)
            if state["fingerprint"] == self.fingerprint:
                logger.info("resuming after step %d from %s", state["step"], path)
                return state
            logger.info("%s is of other settings, code or inputs: starting anew", path)
            path.unlink()
        return None

    def clear(self) -> None:
        """Delete the folder of a finished run, with what a killed process left half-written."""
        if self.folder is not None and self.folder.exists():
            shutil.rmtree(self.folder)

    def _files(self) -> list[Path]:
        return [] if self.folder is None else sorted(self.folder.glob("step-*.pt"))
