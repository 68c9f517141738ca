"""What goes wrong with a model that is to be extracted, said so that its owner can change it."""

from __future__ import annotations


class ExtractError(RuntimeError):
    """The model or its examples cannot be used. The message says where and what to do."""


class UnsupportedRegion(RuntimeError):
    """One part of the model cannot become a problem; the others can. The message is the reason."""
