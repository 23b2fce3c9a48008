"""P-values of several comparisons, corrected for their number.

This module imports neither SciPy nor scikit-learn, so that the page of results starts quickly.
"""

from collections.abc import Mapping

Comparison = dict[str, float | int | None]
"""Figures of a comparison by name, as `aam.evaluate.comparison.compare` returns them."""


def correct_p_values(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Correct the p-values of several comparisons for their number, by the method of Holm.

    Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Stat. 6:65.

    Parameters
    ----------
    comparisons
        What `compare` returned, by name.

    Returns
    -------
    dict
        The same with `holm_p`, the corrected `corrected_t_p`; None where there is none.
    """
    p_values = {name: comparison["corrected_t_p"] for name, comparison in comparisons.items()}
    ranked = sorted((p, name) for name, p in p_values.items() if p is not None)
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, (p, name) in enumerate(ranked):
        # A p-value is never less than that of a comparison before it.
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[name] = largest
    return {
        name: {**comparison, "holm_p": adjusted.get(name)}
        for name, comparison in comparisons.items()
    }
