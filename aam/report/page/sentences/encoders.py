"""Sentences on what an encoder learned without labels."""

from aam.report.labels import format_percent, format_quantity, format_score


def describe_distances(samples: int, r: float, error: float, *, is_trained: bool) -> str:
    """Say how well embeddings agree with true distances.

    Parameters
    ----------
    samples
        Number of samples whose distances were compared.
    r, error
        Pearson correlation and mean absolute error of the distances.
    is_trained
        Whether the encoder was trained on other samples of this study.
    """
    which = "that it was not trained on" if is_trained else "of this study"
    return (
        f"Distances between its embeddings of {samples} samples {which} agree with their UniFrac "
        f"distances: Pearson r {format_score(r)}, mean absolute error {format_score(error)}."
    )


def describe_masked_nucleotides(accuracy: float, constant: float) -> str:
    """Say which share of masked nucleotides an encoder fills in, and which a constant guess."""
    return (
        f"It names {format_percent(accuracy, 1)} of the masked nucleotides; always guessing the "
        f"most frequent base of each position names {format_percent(constant, 1)}."
    )


def describe_known_reads(share: float) -> str:
    """Say how much of a study is near what an encoder started from."""
    return (
        f"{format_percent(share)} of the reads lie near an ASV that the model it started from had "
        "seen."
    )


def describe_untrained(parameters: int) -> str:
    """Say that an encoder was not trained on the study."""
    return (
        "It was not trained on this study: it is used as it came. It has "
        f"{parameters:,} parameters."
    )


def describe_training(
    steps: int, minutes: float, samples_per_s: float | None, parameters: int
) -> str:
    """Say what the training of an encoder took.

    Parameters
    ----------
    steps, minutes
        How long it was trained.
    samples_per_s
        Its speed, where it was measured.
    parameters
        Number of its parameters.
    """
    speed = ""
    if samples_per_s is not None:
        speed = f" ({format_quantity(samples_per_s)} samples per second)"
    return (
        f"Training took {steps} steps in {format_quantity(minutes)} minutes{speed}. It has "
        f"{parameters:,} parameters."
    )
