"""What figures get of the configuration."""

from aam.config.sections.base import StageSettings


class PlotSettings(StageSettings):
    """What draws the figures of a rule, and what they depend on besides files."""

    draw: dict[str, str] = {}
    """By the name of a figure the function that draws it: a module of `aam.report.figures` and a
    name in it, as the table `aam.config.figures` has them."""
    depth: int | None = None
    """Depth that is marked on the curves of rarefaction."""
    columns: list[str] | None = None
    """Metadata columns each of which colours an ordination."""
