"""QIIME 2 plugin of AAM, which calls the command `aam` of another environment."""

__version__ = "1.0.0"
