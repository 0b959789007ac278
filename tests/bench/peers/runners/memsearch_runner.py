"""memsearch: markdown files, one a session with a heading a turn, searched by vector and BM25 at once."""

from __future__ import annotations

import asyncio
import bisect
from pathlib import Path

from memsearch import MemSearch

from .loop import Given, Turn, serve


class Runner:
    def __init__(self, given: Given) -> None:
        self._given = given
        self._notes = given.folder / "notes"
        self._loop = asyncio.new_event_loop()
        self._lines: dict[str, tuple[list[int], list[str]]] = {}
        self._notes.mkdir()
        self._memory = MemSearch(
            [self._notes],
            embedding_provider="openai",
            embedding_model=given.model,
            embedding_base_url=f"{given.url}/v1",
            embedding_api_key="none",
            milvus_uri=str(given.folder / "milvus.db"),
        )

    def add(self, turns: list[Turn]) -> None:
        files: dict[Path, list[Turn]] = {}
        for turn in turns:
            files.setdefault(self._notes / turn["channel"] / f"{turn['session']}.md", []).append(turn)
        for file, session in files.items():
            self._write(file, session)
            self._loop.run_until_complete(self._memory.index_file(file))

    def _write(self, file: Path, turns: list[Turn]) -> None:
        """Write a session; keep at which line each turn begins, by which a hit is told."""
        lines: list[str] = []
        starts: list[int] = []
        for turn in turns:
            starts.append(len(lines) + 1)
            # A line of the text that looks like a heading would make another chunk of it.
            body = turn["text"].replace("\n#", "\n\\#")
            lines += [f"## {turn['speaker']}", *body.split("\n"), ""]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))
        self._lines[str(file)] = (starts, [turn["id"] for turn in turns])

    def search(self, channel: str, query: str, limit: int) -> list[str]:
        # A long turn is several of its chunks, so more are asked for than turns are wanted.
        hits = self._loop.run_until_complete(
            self._memory.search(query, top_k=2 * limit, source_prefix=self._notes / channel)
        )
        found = []
        for hit in hits:
            starts, ids = self._lines[hit["source"]]
            found.append(ids[bisect.bisect_right(starts, hit["start_line"]) - 1])
        return list(dict.fromkeys(found))


if __name__ == "__main__":
    serve(Runner)
