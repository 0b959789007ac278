"""The gate: whether a dream may become real."""
