"""iai-pme: a turn captured as its transcripts are, `memory_recall` with room for more hits than are asked for."""

from __future__ import annotations

import os
from typing import Any

from .loop import Given, Turn, serve

BUDGET_TOKENS = 60_000
"""Its answer is as long as its budget of tokens; by default five or so turns fit."""


class Runner:
    def __init__(self, given: Given) -> None:
        os.environ |= {
            "IAI_MCP_STORE": str(given.folder / "default"),
            "IAI_MCP_CRYPTO_PASSPHRASE": "bench",
            "IAI_MCP_EMBED_PROVIDER": "http",
            "IAI_MCP_EMBED_URL": f"{given.url}/embed",
            "IAI_MCP_EMBED_DIM": str(given.dimension),
            "IAI_MCP_EMBED_MODEL_ID": given.model,
        }
        from iai_mcp.capture import capture_turn
        from iai_mcp.core import dispatch
        from iai_mcp.store import MemoryStore, flush_record_buffer

        self._capture, self._dispatch, self._flush = capture_turn, dispatch, flush_record_buffer
        self._folder, self._open = given.folder, MemoryStore
        self._stores: dict[str, Any] = {}
        self._turns: dict[str, str] = {}

    def add(self, turns: list[Turn]) -> None:
        for turn in turns:
            kept = self._capture(
                self._store(turn["channel"]),
                cue=f"session {turn['session']}",
                text=turn["said"],
                session_id=turn["session"],
                role="assistant" if turn["speaker"] == "assistant" else "user",
                ts=turn["at"] or None,
                source_uuid=turn["id"],
            )
            if kept["record_id"]:
                self._turns[kept["record_id"]] = turn["id"]
        self._flush(self._store(turns[0]["channel"]))  # as its import of sessions does after each file

    def _store(self, channel: str) -> Any:
        if channel not in self._stores:
            self._stores[channel] = self._open(self._folder / channel)
        return self._stores[channel]

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        found = self._dispatch(
            self._store(channel), "memory_recall", {"cue": query, "session_id": "bench", "budget_tokens": BUDGET_TOKENS}
        )
        return [self._turns[hit["record_id"]] for hit in found["hits"] if hit["record_id"] in self._turns][:limit]


if __name__ == "__main__":
    serve(Runner)
