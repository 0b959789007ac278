"""Stores of agent frameworks, kept by the daemon: each module needs the package that it is for, and no other does."""
