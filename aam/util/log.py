"""Logging of a stage: to the rule's log file and to standard error."""

import logging
import sys
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def start(log_file: Path | None) -> None:
    """Send records to standard error and, when given, to `log_file`; uncaught errors too."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if log_file is not None:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(log_file, encoding="utf-8"))
    logging.basicConfig(
        level=logging.INFO, format=FORMAT, datefmt="%H:%M:%S", handlers=handlers, force=True
    )
    logging.captureWarnings(True)
    sys.excepthook = lambda *error: logging.getLogger("aam").critical(
        "stopped by an error", exc_info=error
    )
