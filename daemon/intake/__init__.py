"""Readers of what other programs wrote: one file a format, each yielding sessions."""
