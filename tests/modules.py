"""Every module of the project that can be imported here."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Iterator

ROOMS = ("daemon", "ipc", "llm", "pipelines", "store")
FOREIGN = {"anthropic", "langgraph", "agents"}
"""Packages of the adapters, which are no part of this environment: `make test-adapters` has them."""


def modules() -> Iterator[types.ModuleType]:
    """Import and yield each module but `__main__` and the adapters of packages that are not here."""
    for room in ROOMS:
        package = importlib.import_module(f"dreamd.{room}")
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                try:
                    yield importlib.import_module(found.name)
                except ModuleNotFoundError as missing:
                    if (missing.name or "").partition(".")[0] not in FOREIGN:
                        raise
