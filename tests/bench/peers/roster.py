"""The peers that are measured, and those that cannot be, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Peer:
    """A package and what of it is asked; its runner is `runners/RUNNER_runner.py`, its pins `packages/PACKAGE.txt`."""

    package: str
    runner: str
    retrieval: str

    @property
    def module(self) -> str:
        """What its interpreter runs."""
        return f"runners.{self.runner}_runner"

    @property
    def pins(self) -> Path:
        """Its packages by number."""
        return HERE / "packages" / f"{self.package}.txt"


PEERS = (
    Peer(
        "mem0ai",
        "mem0",
        "vectors in Qdrant on disk and BM25, infer=False; without its spaCy model, which is downloaded",
    ),
    Peer("mempalace", "mempalace", "vectors in Chroma, BM25 rerank, candidates of both"),
    Peer("memsearch", "memsearch", "vectors and BM25 in Milvus Lite, RRF"),
    Peer("mcp-memory-service", "mcp_memory_service", "vectors in sqlite-vec and FTS5, hybrid"),
    Peer("iai-pme", "iai_pme", "memory_recall, its budget raised to hold ten turns; nothing was dreamt"),
    Peer(
        "powermem",
        "powermem",
        "vectors and FTS5 in SQLite, infer=False; its FTS5 takes no question mark, so vectors alone answer",
    ),
    Peer("langmem", "langmem", "vectors in LangGraph's InMemoryStore"),
)
