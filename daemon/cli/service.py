"""The commands that have the daemon started for a person: install, uninstall."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from .terminal import Terminal


def install_arguments(parser: ArgumentParser) -> None:
    """install takes nothing more."""


def install(options: Namespace, terminal: Terminal) -> int:
    """Write the service's files and start it."""
    return 0


def uninstall_arguments(parser: ArgumentParser) -> None:
    """uninstall takes nothing more."""


def uninstall(options: Namespace, terminal: Terminal) -> int:
    """End the service and remove its files; the vault stays."""
    return 0
