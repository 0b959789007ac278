"""Quoting: what of a turn can be told by itself, and its sentences side by side."""
