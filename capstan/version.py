"""The version of this package, kept apart so that building needs no import of the rest."""

__version__ = "0.1.0"
