"""langmem: its `search_memory` tool over LangGraph's InMemoryStore, a namespace a conversation; vectors alone."""

from __future__ import annotations

from typing import Any

from langchain_openai import OpenAIEmbeddings
from langgraph.store.memory import InMemoryStore
from langmem import create_search_memory_tool

from .loop import Given, Turn, serve


class Runner:
    def __init__(self, given: Given) -> None:
        embeddings = OpenAIEmbeddings(
            model=given.model,
            base_url=f"{given.url}/v1",
            api_key="none",
            check_embedding_ctx_length=False,  # or it would send tokens of another model instead of text
        )
        self._store = InMemoryStore(index={"dims": given.dimension, "embed": embeddings, "fields": ["content"]})
        self._tools: dict[str, Any] = {}

    def add(self, turns: list[Turn]) -> None:
        for turn in turns:
            value = {"content": turn["said"], "said_at": turn["at"]}
            self._store.put(("memories", turn["channel"]), turn["id"], value)

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        if channel not in self._tools:
            self._tools[channel] = create_search_memory_tool(
                ("memories", channel), store=self._store, response_format="content_and_artifact"
            )
        _, found = self._tools[channel].func(query, limit=limit)
        return [hit.key for hit in found]


if __name__ == "__main__":
    serve(Runner)
