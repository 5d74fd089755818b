"""Sagehand: a robot's old hand."""
