"""The means of a run."""

from dataclasses import dataclass

from aam.train.watch import Notes


@dataclass(frozen=True)
class Pace:
    """Means of a run that do not change its result.

    Attributes
    ----------
    name
        What is trained, for progress lines.
    workers
        Processes that assemble batches for an accelerator; a CPU assembles its own.
    checkpoint_every_s
        Seconds between checkpoints.
    deadline
        Instant of `time.monotonic` to leave by, with a checkpoint; None: none.
    max_memory_gb
        Memory that a step may take; None: what is free.
    notes
        What is written about the run.
    """

    name: str
    workers: int = 0
    checkpoint_every_s: float = 60.0
    deadline: float | None = None
    max_memory_gb: float | None = None
    notes: Notes = Notes()
