"""The version of the package, below everything that names it."""

__version__ = "1.0.0"
