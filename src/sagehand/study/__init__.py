"""Experiments: the rendered cell that data sets are made in, and later runs, metrics and reports."""
