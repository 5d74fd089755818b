"""The version of sagehand, on the ground: what stamps it into a result need not import the package's front door."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
