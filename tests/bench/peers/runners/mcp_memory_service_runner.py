"""mcp-memory-service: its sqlite-vec storage and `retrieve_hybrid`.

A conversation is a database of its own: the BM25 arm sees no partition of one.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Any

from .loop import Given, Turn, serve

BATCH = 64


class Runner:
    def __init__(self, given: Given) -> None:
        os.environ |= {
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_MEMORY_SQLITE_PATH": str(given.folder / "memory.db"),
            "MCP_MEMORY_BASE_DIR": str(given.folder),
            "MCP_EXTERNAL_EMBEDDING_URL": f"{given.url}/v1/embeddings",
            "MCP_EXTERNAL_EMBEDDING_MODEL": given.model,
            "MCP_CONSOLIDATION_ENABLED": "false",
            "MCP_QUALITY_SYSTEM_ENABLED": "false",
        }
        from mcp_memory_service.models.memory import Memory
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
        from mcp_memory_service.utils.hashing import generate_content_hash

        self._memory, self._hash = Memory, generate_content_hash
        self._loop = asyncio.new_event_loop()
        self._folder, self._open = given.folder, SqliteVecMemoryStorage
        self._stores: dict[str, Any] = {}

    def add(self, turns: list[Turn]) -> None:
        for start in range(0, len(turns), BATCH):
            batch = turns[start : start + BATCH]
            store = self._store(batch[0]["channel"])
            self._loop.run_until_complete(store.store_batch([self._as_memory(turn) for turn in batch]))

    def _store(self, channel: str) -> Any:
        if channel not in self._stores:
            store = self._open(str(self._folder / f"{channel}.db"))
            self._loop.run_until_complete(store.initialize())
            self._stores[channel] = store
        return self._stores[channel]

    def _as_memory(self, turn: Turn) -> Any:
        at = datetime.fromisoformat(turn["at"]).timestamp() if turn["at"] else None
        return self._memory(
            content=turn["said"],
            content_hash=self._hash(turn["said"]),
            tags=[turn["speaker"]],
            memory_type="conversation",
            metadata={"turn": turn["id"], "conversation_id": turn["session"]},
            created_at=at,
        )

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        found = self._loop.run_until_complete(self._store(channel).retrieve_hybrid(query, n_results=limit))
        return [hit.memory.metadata["turn"] for hit in found]


if __name__ == "__main__":
    serve(Runner)
