"""The dreams of the daemon: when one runs, in which process, within which bounds, and what comes of it."""
