"""Which branches of a tree are outliers: so long that what lies behind them is mostly artefacts."""

LONG_BRANCH = 0.6
"""Length, in substitutions per site, from which on a branch of a 16S tree is an outlier if only few
tips lie behind it: the limit by which the corpus of `config/corpus.yaml` was cleaned."""
LARGEST_OUTLIER = 0.01
"""Largest fraction of the tips that lie behind an outlier branch; one tip always may."""
MUCH_OF_TREE = 0.05
"""Fraction of the length of a tree from which on outlier branches limit the trust in UniFrac."""
