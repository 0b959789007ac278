"""A memory as a file: its frontmatter and body, its id and path, and whether a person changed its words."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime
from enum import StrEnum
from itertools import count, islice
from typing import Any, Final, NamedTuple, TypeVar

from ..model import GLOBAL_CHANNEL, Kind, Level, Memory, NodeId, StatementSlot, Status
from ..names import as_channel
from . import notes
from .file import OkfFile, parse, render

OKF_VERSION = "0.2"
PRODUCER = "process:dreamd"
ID_CHARACTERS = 13  # of base32: 65 bits, no collision expected below four billion facts

_BASE32 = frozenset("abcdefghijklmnopqrstuvwxyz234567")
_NODE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,119}")

BY_HAND: Final = "body_sha256"
"""The frontmatter key that holds the hash of a body as it was last known: another body was edited by a person since."""

EDITED_AT: Final = "edited_at"
"""The frontmatter key of a fact whose words its person changed: since when these hold."""

_MOST_ALIKE = 9
"""The ids tried for the same words: all but the first are of facts that were repeated after a person reworded one."""

_E = TypeVar("_E", bound=StrEnum)


class _Key(NamedTuple):
    """A key of a memory's file: how it is written, None for a key that is left out, and how it is read.

    `read` returns the value of the field of the same name. It is None for a key that no field of that name comes from.
    """

    write: Callable[[Memory], object]
    read: Callable[[object], Any] | None = None


def _field(name: str, read: Callable[[object], Any]) -> _Key:
    """Return the key of a field that is written as it is, and left out where it is empty."""
    return _Key(lambda memory: None if (value := getattr(memory, name)) == () else value, read)


def to_memory(path: str, doc: OkfFile, created_at: datetime | None = None) -> Memory:
    """Read a concept as a memory. `created_at` is used where the file has no time of writing or of learning.

    A file that is not ours has no `node_id`: it gets one from its path, and counts as a note in `_global`, with the
    title and the date that notes have.
    """
    meta = doc.meta
    node_id = meta.get("node_id")
    ours = isinstance(node_id, str) and _NODE_ID.fullmatch(node_id) is not None
    body = doc.body.removeprefix("\r\n") if doc.body.startswith("\r\n") else doc.body.removeprefix("\n")
    text = body.removesuffix("\n").removesuffix("\r") if body.endswith("\r\n") else body.removesuffix("\n")
    generated = meta.get("generated")
    generated = generated if isinstance(generated, Mapping) else {}
    written_at = instant(generated.get("at")) or instant(meta.get("timestamp"))
    # A note of another program has its day where such programs write it; ours has it in known keys.
    if not ours:
        written_at = notes.date_of(path, meta) or written_at
    read: dict[str, Any] = {name: key.read(meta.get(name)) for name, key in KEYS.items() if key.read}
    if not ours:
        read |= {"level": Level.FACT, "kind": Kind.NOTE, "channel": GLOBAL_CHANNEL}
    extra = {name: value for name, value in meta.items() if name not in KEYS or name in _DERIVED}
    # Keys that `from_memory` derives by itself are no extra: else they would stay when the memory changes.
    if extra.get("type") == type_of(_member(Kind, meta.get("kind"), Kind.NOTE)):
        del extra["type"]
    if extra.get("generated") == _generated(PRODUCER, written_at):
        del extra["generated"]
    title = meta.get("title")
    return Memory(
        node_id=str(node_id) if ours else node_id_of_path(path),
        title=title if ours and isinstance(title, str) else notes.title_of(path, meta, text),
        text=text,
        created_at=instant(meta.get("said_at")) or written_at or instant(meta.get("learned_at")) or created_at,
        sources=tuple(entry["title"] for entry in _sources(meta) if _is_ours(entry)),
        path=path,
        extra=extra,
        **read,
    )


def from_memory(memory: Memory, paths: Mapping[NodeId, str] | None = None) -> bytes:
    """Return the file of a memory. `paths` maps the ids of its sources, sessions or memories, to paths in the vault.

    A source that `memory.extra["sources"]` describes already keeps that description; one without a path is
    written with its id as a scope descriptor.
    """
    meta = {name: key.write(memory) for name, key in KEYS.items()}
    meta |= {name: memory.extra[name] for name in _DERIVED if name in memory.extra}
    described = _sources(memory.extra)
    meta["sources"] = _source_entries(memory.sources, described, paths or {}) or None
    meta = {name: value for name, value in meta.items() if value is not None}
    others = {name: value for name, value in memory.extra.items() if name not in {*meta, *_DERIVED, "sources"}}
    return render(meta | others, f"\n{memory.text}\n")


def source_ids(sources: Iterable[NodeId]) -> dict[NodeId, str]:
    """Return the labels that `from_memory` gives to sources, for footnotes: turns t1, t2, …, memories m2, …"""
    return {node_id: f"{'t' if '#' in node_id else 'm'}{n}" for n, node_id in enumerate(dict.fromkeys(sources), 1)}


def fact_id(channel: str, text: str) -> NodeId:
    """Return the id of a fact: the same content in the same channel is the same fact.

    Spacing and Unicode composition do not count. Case does: "us" is not "US".
    """
    normal = " ".join(unicodedata.normalize("NFC", text).split())
    return _short_hash(_utf8(channel) + b"\0" + _utf8(normal))


def fact_ids(channel: str, text: str) -> Iterator[NodeId]:
    """Yield the id of a fact, then without end those that it takes while a file of the id before holds other words."""
    yield fact_id(channel, text)
    for number in count(2):
        yield fact_id(channel, f"{text}\0{number}")


def is_fact_id(node_id: NodeId) -> bool:
    """Return True if an id has the form of those that facts get of their words."""
    return len(node_id) == ID_CHARACTERS and _BASE32.issuperset(node_id)


def node_id_of_path(path: str) -> NodeId:
    """Return the id of a file that brings none."""
    return f"file-{_short_hash(_utf8(path))}"


def type_of(kind: Kind) -> str:
    """Return the OKF type under which a kind is written."""
    return kind.value.capitalize()


def instant(value: object) -> datetime | None:
    """Read an ISO 8601 instant or day; without an offset it is UTC. Anything else is None."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _generated(by: str, at: datetime | None) -> dict[str, Any]:
    return {"by": by} if at is None else {"by": by, "at": at.isoformat()}


def _sources(meta: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = meta.get("sources")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _is_ours(entry: Mapping[str, Any]) -> bool:
    """Return True if a source's title is a node id, by the label that we write."""
    label, title = entry.get("id"), entry.get("title")
    return isinstance(label, str) and re.fullmatch(r"[tm][0-9]+", label) is not None and isinstance(title, str)


def _source_entries(
    sources: Iterable[NodeId], described: Iterable[Mapping[str, Any]], paths: Mapping[NodeId, str]
) -> list[Mapping[str, Any]]:
    known = {entry["title"]: entry for entry in described if _is_ours(entry)}
    entries: list[Mapping[str, Any]] = []
    for node_id, label in source_ids(sources).items():
        path = paths.get(node_id) or paths.get(node_id.partition("#")[0])
        resource = f"/{path}" if path else known.get(node_id, {}).get("resource", node_id)
        entries.append({**known.get(node_id, {}), "id": label, "resource": resource, "title": node_id})
    return entries + [entry for entry in described if not _is_ours(entry)]


def _member(enum: type[_E], value: object, default: _E) -> _E:
    try:
        return enum(str(value))
    except ValueError:
        return default


def _string(value: object) -> str | None:
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(text for item in value if (text := _string(item))) if isinstance(value, list) else ()


def _tags(value: object) -> tuple[str, ...]:
    """Return a list; a text is split at commas, as many people write lists."""
    if isinstance(value, str):
        return tuple(tag for part in value.split(",") if (tag := part.strip()))
    return _strings(value)


def _days(value: object) -> tuple[date, ...]:
    return tuple(at.date() for text in _strings(value) if (at := instant(text)))


def _slot(value: object) -> StatementSlot | None:
    if not isinstance(value, Mapping):
        return None
    said = [_string(value.get(key)) for key in ("subject", "attribute", "value")]
    return StatementSlot(*(text or "" for text in said)) if any(said) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _short_hash(data: bytes) -> str:
    return base64.b32encode(hashlib.sha256(data).digest())[:ID_CHARACTERS].decode().lower()


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# ---- the words of a file: those that we wrote there last, or a person's


def body_hash(text: str) -> str:
    """Hash a body as it is kept under BY_HAND."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_edited_page(data: bytes) -> bool:
    """Check for a page that a dream wrote, and whose body a person has edited since."""
    document = parse(data)
    return BY_HAND in document.meta and document.meta[BY_HAND] != body_hash(document.body)


def is_edited(memory: Memory) -> bool:
    """Check for a memory with other words than those whose hash is under BY_HAND."""
    return BY_HAND in memory.extra and memory.extra[BY_HAND] != body_hash(memory.text)


def has_known_words(memory: Memory) -> bool:
    """Check for a memory whose words are those that were last known: hashed under BY_HAND, or those of a fact's id."""
    if BY_HAND in memory.extra:
        return bool(memory.extra[BY_HAND] == body_hash(memory.text))
    return _is_named_by_words(memory) and memory.node_id in islice(fact_ids(memory.channel, memory.text), _MOST_ALIKE)


def is_reworded(memory: Memory) -> bool:
    """Check for a fact whose words a person changed since they were last known."""
    return _is_named_by_words(memory) and not has_known_words(memory)


def is_by_hand(memory: Memory) -> bool:
    """Check for a fact that holds a person's words in place of those that were said, dated by a dream or not yet."""
    return EDITED_AT in memory.extra or is_reworded(memory)


def reworded_at(memory: Memory, written_at: datetime | None) -> datetime | None:
    """Return since when a fact holds a person's words in place of those that were said, None for any other memory.

    `written_at`, when its file was written last, dates words that no dream has dated yet.
    """
    return written_at if is_reworded(memory) else instant(memory.extra.get(EDITED_AT))


def _is_named_by_words(memory: Memory) -> bool:
    """Check for a fact that got its id of its words: no document, and no file that a person added."""
    return memory.level is Level.FACT and memory.kind is not Kind.DOCUMENT and is_fact_id(memory.node_id)


# ---- the keys of a file

KEYS: Final[Mapping[str, _Key]] = {
    "type": _Key(lambda memory: type_of(memory.kind)),
    "title": _Key(lambda memory: memory.title),
    "description": _Key(lambda memory: memory.description or None, lambda value: _string(value) or ""),
    "tags": _field("tags", _tags),
    "timestamp": _Key(lambda memory: memory.created_at),
    "generated": _Key(lambda memory: _generated(PRODUCER, memory.created_at)),
    "status": _field("status", lambda value: _member(Status, value, Status.STABLE)),
    "node_id": _Key(lambda memory: memory.node_id),
    "level": _field("level", lambda value: _member(Level, value, Level.FACT)),
    "kind": _field("kind", lambda value: _member(Kind, value, Kind.NOTE)),
    "channel": _field("channel", lambda value: as_channel(_string(value) or "") or GLOBAL_CHANNEL),
    "scope": _field("scope", lambda value: _string(value) or "project"),
    "session_id": _field("session_id", _string),
    "valid_from": _field("valid_from", instant),
    "valid_to": _field("valid_to", instant),
    "tense": _field("tense", _string),
    "certainty": _field("certainty", _number),
    "provenance": _field("provenance", _string),
    "supersedes": _field("supersedes", _strings),
    "superseded_by": _field("superseded_by", _string),
    "contradicts": _field("contradicts", _strings),
    "later": _field("later", _strings),
    "said_by": _field("said_by", _string),
    "said_at": _Key(lambda memory: memory.created_at if memory.said_by else None),
    "about": _field("about", _strings),
    "days": _Key(lambda memory: [day.isoformat() for day in memory.days] or None, _days),
    "slot": _Key(lambda memory: asdict(memory.slot) if memory.slot else None, _slot),
    "archived_at": _field("archived_at", instant),
    "run": _field("run", _string),
}
"""The keys that a memory's file has beside its sources and `Memory.extra`, in the order in which they are written."""

# Derived where the file does not say otherwise.
_DERIVED: Final = ("type", "generated")
