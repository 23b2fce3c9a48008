"""What pretraining reports of an encoder, and what the page says of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from aam.report.labels import format_percent, format_quantity, format_score


class EncoderReport(BaseModel):
    """What the page reads of the `scores.json` of a pretraining, which holds more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    parameters: int
    """Number of weights."""
    steps: int
    """Training steps; 0: it was not trained on the study."""
    wall_s: float
    """Seconds that training took."""
    samples_per_s: float | None
    held_out_samples: int
    """Samples that training left out, by which distances and nucleotides are scored."""
    unifrac_pearson: float | None = None
    unifrac_mae: float | None = None
    """Correlation and mean absolute error of distances; None: it learned none."""
    nucleotide_accuracy: float | None = None
    nucleotide_baseline_accuracy: float | None = None
    """Share of masked nucleotides that it names, and that the most frequent base of each position
    names; None: it learned none."""
    near_known_reads: float | None = None
    """Share of reads near an ASV that its start had seen; None: it had no start."""
    provenance: dict[str, str] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of scores."""
        return cls.model_validate_json(path.read_bytes())


def encoder_sentences(report: EncoderReport, *, reads_lineages: bool = False) -> Iterator[str]:
    """Yield what an encoder learned without labels.

    Parameters
    ----------
    report
        What its pretraining wrote.
    reads_lineages
        Whether it reads lineages, whose ranks are masked letter by letter of their words.
    """
    is_trained = report.steps > 0
    if report.unifrac_pearson is not None:
        which = "that it was not trained on" if is_trained else "of this study"
        yield (
            f"Distances between its embeddings of {report.held_out_samples} samples {which} agree "
            f"with their UniFrac distances: Pearson r {format_score(report.unifrac_pearson)}, mean "
            f"absolute error {format_score(report.unifrac_mae)}."
        )
    if report.nucleotide_accuracy is not None and report.nucleotide_baseline_accuracy is not None:
        masked = "masked nucleotides; always guessing the most frequent base of each position"
        if reads_lineages:
            masked = (
                "letters that stand for the names of masked ranks; always guessing the most "
                "frequent letter of each place"
            )
        yield (
            f"It names {format_percent(report.nucleotide_accuracy, 1)} of the {masked} names "
            f"{format_percent(report.nucleotide_baseline_accuracy, 1)}."
        )
    if report.near_known_reads is not None:
        yield (
            f"{format_percent(report.near_known_reads)} of the reads lie near an ASV that the "
            "model it started from had seen."
        )
    size = f"It has {report.parameters:,} parameters."
    if not is_trained:
        yield f"It was not trained on this study: it is used as it came. {size}"
        return
    speed = ""
    if report.samples_per_s is not None:
        speed = f" ({format_quantity(report.samples_per_s)} samples per second)"
    minutes = format_quantity(report.wall_s / 60)
    yield f"Training took {report.steps} steps in {minutes} minutes{speed}. {size}"
