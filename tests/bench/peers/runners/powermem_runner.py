"""PowerMem: `add(infer=False)` and `search` on its SQLite store, vectors and FTS5 fused."""

from __future__ import annotations

from powermem import Memory as PowerMem

from .loop import Given, Turn, serve


class Runner:
    def __init__(self, given: Given) -> None:
        openai = {"api_key": "none", "openai_base_url": f"{given.url}/v1"}
        self._memory = PowerMem(
            config={
                "vector_store": {
                    "provider": "sqlite",
                    "config": {"database_path": str(given.folder / "memory.db"), "collection_name": "memories"},
                },
                "llm": {"provider": "openai", "config": {**openai, "model": "none"}},
                "embedder": {
                    "provider": "openai",
                    "config": {**openai, "model": given.model, "embedding_dims": given.dimension},
                },
                "telemetry": {"enable_telemetry": False},
                "audit": {"enabled": False},
                "intelligent_memory": {"enabled": False},
            }
        )

    def add(self, turns: list[Turn]) -> None:
        for turn in turns:
            metadata = {"turn": turn["id"], "said_at": turn["at"]}
            self._memory.add(turn["said"], user_id=turn["channel"], metadata=metadata, infer=False)

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        found = self._memory.search(query, user_id=channel, limit=limit)
        return [hit["metadata"]["turn"] for hit in found["results"]]


if __name__ == "__main__":
    serve(Runner)
