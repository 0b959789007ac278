"""A store with a past: sessions, what a dream made of them, and the search of its bytes."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import fingerprint
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, Kind, Level, Memory, NewTurn, NodeId, SessionHead
from dreamd.store.okf.memory_file import BY_HAND, body_hash
from dreamd.store.settings import StoreSettings

AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
CHANNEL = "shop"


def opened(folder: Path) -> MemoryStore:
    paths = StorePaths(
        vault=folder / "vault",
        ledger=folder / "ledger.db",
        index=folder / "index" / "index.db",
        embeddings=folder / "index" / "embeddings.db",
        runs=folder / "runs",
    )
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: AT + timedelta(days=20))


def talk(store: MemoryStore, session_id: str, texts: Sequence[str], title: str = "") -> None:
    turns = [NewTurn("user", text, AT + timedelta(minutes=n), f"{session_id}-{n}") for n, text in enumerate(texts, 1)]
    store.observe(SessionHead(session_id, CHANNEL, title, AT, cwd="/src/shop"), turns).result()


def fact(text: str, *sources: NodeId) -> Memory:
    node_id = okf.fact_id(CHANNEL, text)
    return Memory(
        node_id=node_id,
        level=Level.FACT,
        kind=Kind.DECISION,
        title=text[:60],
        text=text,
        channel=CHANNEL,
        created_at=AT,
        session_id=sources[0].partition("#")[0] if sources else None,
        sources=sources,
        path=okf.path_for(Level.FACT, text[:60], node_id),
    )


def page(title: str, facts: Sequence[Memory]) -> Memory:
    labels = okf.source_ids([each.node_id for each in facts])
    text = "## Now\n\n" + "\n".join(f"- “{each.text}” [^{labels[each.node_id]}]" for each in facts)
    return Memory(
        node_id=okf.fact_id(CHANNEL, title),
        level=Level.PROFILE,
        kind=Kind.PROFILE,
        title=title,
        text=text,
        channel=CHANNEL,
        created_at=AT,
        sources=tuple(each.node_id for each in facts),
        path=okf.path_for(Level.PROFILE, title, "", CHANNEL),
        extra={BY_HAND: body_hash(text)},
    )


def dream(store: MemoryStore, run_id: str, memories: Iterable[Memory]) -> None:
    """Apply a run that makes these memories."""
    changeset = changeset_of(run_id, memories)
    applied = store.apply(changeset, summary={"note": "a dream"})
    assert applied.applied == len(changeset.actions), applied.skipped


def changeset_of(run_id: str, memories: Iterable[Memory]) -> Changeset:
    """Return what a dream that makes these memories proposes."""
    made = list(memories)
    paths = {each.node_id: each.path for each in made}
    actions = tuple(
        Action(
            kind=ActionKind.CREATE,
            path=each.path,
            node_id=each.node_id,
            stage="consolidate",
            reason=f"said in {each.session_id}",
            content=okf.from_memory(each, paths),
            fingerprint=fingerprint(each),
        )
        for each in made
    )
    return Changeset(run_id=run_id, actions=actions)


def places_with(folder: Path, words: Iterable[str]) -> list[str]:
    """Return the files, with the word, that hold one of these words, as it stands or compressed."""
    wanted = list(words)
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            data = path.read_bytes()
        except FileNotFoundError:  # of a write that is under way
            continue
        said = data + b"\n".join(_unpacked(data))
        found += [f"{path.name}: {word}" for word in wanted if word.encode() in said or word.lower().encode() in said]
    return found


def _unpacked(data: bytes) -> Iterable[bytes]:
    """Yield what zlib compressed, wherever in the data that begins."""
    for start in re.finditer(b"\x78\x01", data):
        unpacking = zlib.decompressobj()
        read = b""
        try:
            for position in range(start.start(), len(data), 64):
                read += unpacking.decompress(data[position : position + 64])
                if unpacking.eof:
                    break
        except zlib.error:
            pass
        yield read
