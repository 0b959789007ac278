"""MemPalace: one drawer a turn (its `add_drawer`), searched as its server does, a conversation being a wing."""

from __future__ import annotations

import os

from .loop import Given, Turn, serve


class Runner:
    def __init__(self, given: Given) -> None:
        self._palace = str(given.folder / "palace")
        os.environ |= {
            "MEMPALACE_PALACE_PATH": self._palace,
            "MEMPALACE_EMBEDDING_MODEL": "openai-compat",
            "MEMPALACE_EMBEDDING_API_URL": f"{given.url}/v1/embeddings",
            "MEMPALACE_EMBEDDING_API_MODEL": given.model,
            "MEMPALACE_LANG": "en",  # stop words are left out of its keyword scores only where a language is named
        }
        from mempalace import searcher
        from mempalace.mcp_server import tool_add_drawer

        self._add, self._search = tool_add_drawer, searcher.search_memories
        self._turns: dict[tuple[str, str], str] = {}

    def add(self, turns: list[Turn]) -> None:
        for turn in turns:
            source = turn["id"]  # it keeps a file name alone
            done = self._add(wing=turn["channel"], room=turn["session"], content=turn["said"], source_file=source)
            if not done["success"]:
                raise RuntimeError(done)
            self._turns[turn["channel"], source] = turn["id"]

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        found = self._search(query, self._palace, wing=channel, n_results=limit, candidate_strategy="union", lang="en")
        return [self._turns[channel, hit["source_file"]] for hit in found["results"]]


if __name__ == "__main__":
    serve(Runner)
