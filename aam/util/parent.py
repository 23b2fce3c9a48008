"""A process that must not outlive the one that started it."""

import os
import threading
import time

SECONDS_BETWEEN_LOOKS = 1.0


def end_with_parent() -> None:
    """End this process at once when its parent is gone: the next run does its work again."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)
