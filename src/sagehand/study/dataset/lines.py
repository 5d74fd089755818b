"""Where journals once had their lines from; now :mod:`sagehand.lines` holds them."""

from sagehand.lines import LineFile

__all__ = ["LineFile"]
