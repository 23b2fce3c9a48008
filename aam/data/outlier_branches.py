"""Which branches of a tree are outliers: so long that what lies behind them is mostly artefacts."""

from collections.abc import Iterable

from aam.util.notes import Note

LONG_BRANCH = 0.6
"""Length, in substitutions per site, from which on a branch of a 16S tree is an outlier if only few
tips lie behind it: the limit by which the corpus of the reference tree was cleaned."""
LARGEST_OUTLIER = 0.01
"""Largest fraction of the tips that lie behind an outlier branch; one tip always may."""
DROP = "rarefaction: {long_branches: drop}"
"""What leaves out the features behind outlier branches, as a configuration has it."""
MUCH_OF_TREE = 0.05
"""Fraction of the length of a tree from which on outlier branches limit the trust in UniFrac."""


def without_dropped_branches(notes: Iterable[Note], *, is_dropped: bool) -> list[Note]:
    """Return notes without the advice to leave out features, where that is done.

    The tree is imported without knowledge of the rarefaction, which may change after it.

    Parameters
    ----------
    notes
        What was decided for the user.
    is_dropped
        Whether features behind outlier branches are left out.
    """
    return [note for note in notes if not (is_dropped and DROP in note.text)]
