"""Memories of any size, made once and kept on the disk: the vault's files, and an index that has read them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from dreamd.daemon.clock import utc_now
from dreamd.daemon.settings import Settings, store_paths
from dreamd.store import MemoryStore, StorePaths, okf
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.index.projection import PROJECTION_VERSION
from dreamd.store.model import Kind, Level, Memory, NewTurn, SessionHead
from dreamd.store.okf import session

from ..table import say
from .bulk import File, Filling, adopt
from .sentences import Saying, Sentences

VERSION = 2
"""Raise it with every change of what is made here."""

SESSION_TURNS, TURNS_A_FACT = 40, 10
CHANNEL, OTHERS = "growth", 10
"""Nine sessions of ten are of the channel that is asked in; the others are spread over so many more."""

BEGAN = datetime(2023, 1, 2, 8, tzinfo=UTC)
DAYS = 1000

WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class Grown:
    """A memory of `size` turns and facts together. `folder` is a daemon's own."""

    folder: Path
    size: int

    @property
    def turns(self) -> int:
        """Its turns; the others are facts drawn from them, as dreams leave them."""
        return self.size * TURNS_A_FACT // (TURNS_A_FACT + 1)

    @property
    def paths(self) -> StorePaths:
        """Where its parts lie."""
        return store_paths(Settings(data_dir=self.folder / "data"))


def memory(size: int, sentences: Sentences, embedder: Embedder, kept: Path) -> Grown:
    """Return the memory of this size; what was made before is used again."""
    grown = Grown(kept / f"v{VERSION}-{PROJECTION_VERSION}-{embedder.dimension}-{size}", size)
    if not (grown.folder / WHOLE).exists():
        began = time.monotonic()
        shutil.rmtree(grown.folder, ignore_errors=True)
        _make(grown, sentences, embedder)
        (grown.folder / WHOLE).touch()
        say(f"{size:,} memories made in {time.monotonic() - began:.0f} s")
    adopt(grown.paths.index, embedder)
    return grown


def _make(grown: Grown, sentences: Sentences, embedder: Embedder) -> None:
    MemoryStore.open(grown.paths, Settings().store, embedder, utc_now).close()  # its marker, and a ledger that knows it
    with Filling(grown.paths, sentences, embedder) as filling:
        for file in chain(_sessions(grown, sentences), _facts(grown, sentences)):
            filling.add(file)


def _sessions(grown: Grown, sentences: Sentences) -> Iterator[File]:
    for first in range(0, grown.turns, SESSION_TURNS):
        head = _head(first, grown)
        said = [sentences.turn(number) for number in range(first, min(grown.turns, first + SESSION_TURNS))]
        turns = [
            NewTurn(("user", "assistant")[place % 2], saying.text, _at(head, place))
            for place, saying in enumerate(said)
        ]
        yield File(session.path_of(head), session.open_file(head) + session.encode_turns(turns, 1), said)


def _facts(grown: Grown, sentences: Sentences) -> Iterator[File]:
    for number in range(grown.size - grown.turns):
        turn = number * TURNS_A_FACT
        yield _fact(number, sentences.fact(turn), turn % SESSION_TURNS, _head(turn - turn % SESSION_TURNS, grown))


def _fact(number: int, saying: Saying, place: int, head: SessionHead) -> File:
    memory = Memory(
        node_id=f"fact-{number}",
        level=Level.FACT,
        kind=Kind.FACT,
        title=saying.text[:60],
        text=saying.text,
        channel=head.channel,
        created_at=_at(head, place),
        session_id=head.session_id,
        sources=(f"{head.session_id}#{place + 1}",),
        said_by=("user", "assistant")[place % 2],
    )
    data = okf.from_memory(memory, {head.session_id: session.path_of(head)})
    return File(okf.path_for(memory.level, memory.title, memory.node_id), data, [saying])


def _head(first: int, grown: Grown) -> SessionHead:
    number = first // SESSION_TURNS
    began = BEGAN + timedelta(days=DAYS * first / grown.turns)
    channel = f"{CHANNEL}-{number // 10 % OTHERS}" if number % 10 == 9 else CHANNEL
    return SessionHead(f"s{number}", channel, f"Session {number}", began)


def _at(head: SessionHead, place: int) -> datetime:
    return (head.started_at or BEGAN) + timedelta(seconds=30 * place)
