"""A process that must not outlive the one that started it."""

import os
import threading
import time

SECONDS_BETWEEN_LOOKS = 1.0


def end_with(parent: int) -> None:
    """End this process at once when the one that started it is gone.

    Parameters
    ----------
    parent
        Process ID of that one, by its own word: it may be gone before this process can ask.
    """
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
