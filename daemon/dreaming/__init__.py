"""The dreams of the daemon: their schedule, their process and its bounds, and their landing."""
