"""Asking a vision-language model: one question in, one valid tool call out."""
