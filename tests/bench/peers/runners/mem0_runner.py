"""mem0: `add(infer=False)` and `search`, with its default store (Qdrant on disk) and its BM25 arm where it loads."""

from __future__ import annotations

from mem0 import Memory as Mem0

from .loop import Given, Turn, serve


class Runner:
    def __init__(self, given: Given) -> None:
        embedder = {"model": given.model, "openai_base_url": f"{given.url}/v1", "api_key": "none"}
        store = {
            "collection_name": "turns",
            "embedding_model_dims": given.dimension,
            "path": str(given.folder / "qdrant"),
            "on_disk": True,
        }
        self._memory = Mem0.from_config(
            {
                "embedder": {"provider": "openai", "config": embedder},
                "vector_store": {"provider": "qdrant", "config": store},
                "llm": {"provider": "openai", "config": {"api_key": "none", "openai_base_url": f"{given.url}/v1"}},
                "history_db_path": str(given.folder / "history.db"),
            }
        )

    def add(self, turns: list[Turn]) -> None:
        for turn in turns:
            message = {"role": "user", "name": turn["speaker"], "content": turn["said"]}
            metadata = {"turn": turn["id"], "said_at": turn["at"]}
            self._memory.add([message], user_id=turn["channel"], metadata=metadata, infer=False)

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        # Its threshold of .1 on the cosine is its own default and stays.
        found = self._memory.search(query, top_k=limit, filters={"user_id": channel})
        return [hit["metadata"]["turn"] for hit in found["results"]]


if __name__ == "__main__":
    serve(Runner)
