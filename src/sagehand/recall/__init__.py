"""Recalling the past cases that matter."""
