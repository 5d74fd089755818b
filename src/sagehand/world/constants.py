"""Constants of nature that several rooms share; what the project set itself stands where it is used."""

from __future__ import annotations

__all__ = ["GRAVITY"]

GRAVITY = 9.81
"""Acceleration of free fall [m/s²]."""
