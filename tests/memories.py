"""Memories for tests, as a dream writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dreamd.store import okf
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind, Level, Memory, NodeId

from tests.system.waiting import until


def fact(text: str, channel: str = "proj", **fields: Any) -> Memory:
    """Build a fact whose id and path follow from its text; any field may be given."""
    node_id = okf.fact_id(channel, text)
    path = okf.path_for(Level.FACT, text, node_id, channel)
    defaults: dict[str, Any] = {"level": Level.FACT, "kind": Kind.FACT, "title": text, "run": "run-0", "path": path}
    return Memory(node_id=node_id, text=text, channel=channel, **(defaults | fields))


def keep_fact(store: MemoryStore, turn: NodeId, text: str, channel: str) -> NodeId:
    """Keep a fact of a turn, as a dream does; return its id."""
    kept = fact(text, channel, sources=(turn,), said_by="user", session_id=turn.partition("#")[0])
    path = store.paths.vault / kept.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(okf.from_memory(kept))
    store.reconcile()
    until(lambda: not store.status().pending_embeddings)
    return kept.node_id


def facts_in(vault: Path) -> list[Path]:
    """Return the files of facts in a vault, however it is laid out."""
    files = sorted(vault.rglob("*.md"))
    return [path for path in files if okf.parse(path.read_bytes()).meta.get("level") == Level.FACT.value]
