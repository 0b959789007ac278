"""Memories for tests, as a dream writes them."""

from __future__ import annotations

from typing import Any

from dreamd.store import okf
from dreamd.store.model import Kind, Level, Memory


def fact(text: str, channel: str = "proj", **fields: Any) -> Memory:
    """Build a fact whose id and path follow from its text; any field may be given."""
    node_id = okf.fact_id(channel, text)
    path = okf.path_for(Level.FACT, text, node_id)
    defaults: dict[str, Any] = {"level": Level.FACT, "kind": Kind.FACT, "title": text, "run": "run-0", "path": path}
    return Memory(node_id=node_id, text=text, channel=channel, **(defaults | fields))
