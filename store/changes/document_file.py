"""The file of a document: its key in the frontmatter, a text as the body, any other value as JSON there."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from .. import okf
from ..door import Door
from ..index.projection import SEARCHED
from ..model import Conflict, InvalidInput, Kind, Level, Memory, NodeId
from ..names import key_complaint, label_complaint
from ..results import Document
from ..roles import Role
from ..text.fence import plain

# The folder of the vault below which documents lie, one folder for each part of their space's name.
FOLDER: Final = "documents"

# The parts of a space's name: 16 of a request, and before them that of its user.
MOST_PARTS: Final = 17

# The size of a value in JSON: a line of the wire holds it, with its key, its space and the rest of an answer.
MOST_VALUE_BYTES: Final = 2**20 - 2**15

# The keys that a put sets or removes: the document is live again, even if the replaced one was archived.
_REPLACED: Final = (
    *("timestamp", "generated", "said_at", "channel", "format", "updated_at", "ttl_minutes", "stale_after", SEARCHED),
    *("status", "archived_at", "superseded_by", "valid_to"),
)

_INFERRED: Final = "inferred"
_ID_CHARACTERS: Final = 16  # of base32: 80 bits
_VERSION_DIGITS: Final = 16


def clean_space(space: Sequence[str], door: Door) -> tuple[str, ...]:
    """Return a space's name without secrets. Raises InvalidInput for one that cannot be a name."""
    if not 0 < len(space) <= MOST_PARTS:
        raise InvalidInput(f"a space's name has 1 to {MOST_PARTS} parts, and this one has {len(space)}")
    for part in space:
        if why := label_complaint(part):
            raise InvalidInput(f"{door.shown(part)} is no part of a space's name: it {why}")
    return tuple(map(door.name, space))


def clean_key(key: str, door: Door) -> str:
    """Return a key without a secret in it. Raises InvalidInput for one that cannot be a key."""
    if why := key_complaint(key):
        raise InvalidInput(f"{door.shown(key)} is no key: it {why}", hint="Use one line of words.")
    return door.name(key)


def clean_value(value: Any, door: Door) -> tuple[Any, int]:
    """Return a value without secrets, and their number: in every text of it, and where one text names another."""
    if isinstance(value, str):
        clean = door.redacted(value)
        return clean.text, len(clean.found)
    parts, found = _clean_parts(value, door)
    whole = door.redacted(_as_json(parts))
    if whole.found:
        try:
            return json.loads(whole.text), found + len(whole.found)
        except ValueError:  # the secret was more than one text of the value
            raise InvalidInput("it holds a secret that cannot be taken out of it") from None
    return parts, found


def _clean_parts(value: Any, door: Door) -> tuple[Any, int]:
    if isinstance(value, str):
        clean = door.redacted(value)
        return clean.text, len(clean.found)
    if isinstance(value, Mapping):
        cleaned = {key: _clean_parts(item, door) for key, item in value.items()}
        return {key: item for key, (item, _) in cleaned.items()}, sum(found for _, found in cleaned.values())
    if isinstance(value, list):
        items = [_clean_parts(item, door) for item in value]
        return [item for item, _ in items], sum(found for _, found in items)
    return value, 0


def check_size(value: Any) -> None:
    """Raise InvalidInput for a value that a line of the wire cannot hold, or that is not Unicode."""
    try:
        size_bytes = len(json.dumps(value, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise InvalidInput("the value holds half of a surrogate pair, which is no character") from None
    if size_bytes > MOST_VALUE_BYTES:
        raise InvalidInput(
            f"the value has {size_bytes:,} bytes, more than {MOST_VALUE_BYTES:,}", hint="Keep it in several documents."
        )


def folder_of(space: Sequence[str]) -> str:
    """Return the folder of a space and the spaces within it; of no space, that of all documents."""
    return "/".join((FOLDER, *map(okf.channel_folder, space)))


def node_id_of(space: Sequence[str], key: str) -> NodeId:
    """Return the id of a document: the same key in the same space is the same document."""
    named = json.dumps([*space, key]).encode()
    return f"doc-{base64.b32encode(hashlib.sha256(named).digest())[:_ID_CHARACTERS].decode().lower()}"


def path_of(space: Sequence[str], key: str) -> str:
    """Return where a document lies."""
    return f"{folder_of(space)}/{okf.slug(key)}--{node_id_of(space, key)}.md"


def version_of(data: bytes) -> str:
    """Return the version of a document's file."""
    return hashlib.sha256(data).hexdigest()[:_VERSION_DIGITS]


def render(
    space: Sequence[str],
    key: str,
    body: str,
    channel: str,
    created_at: datetime,
    updated_at: datetime,
    ttl_minutes: float | None,
    *,
    is_text: bool,
    searched: bool,
) -> bytes:
    """Return the file of a document. Its words count as an assistant's: the least that is believed."""
    extra: dict[str, Any] = {"space": list(space), "key": key, "format": "text" if is_text else "json"}
    extra["updated_at"] = updated_at
    if ttl_minutes is not None:
        extra |= {"ttl_minutes": ttl_minutes, "stale_after": expiry(updated_at, ttl_minutes)}
    if not searched:
        extra[SEARCHED] = False
    memory = Memory(
        node_id=node_id_of(space, key),
        level=Level.SESSION,
        kind=Kind.DOCUMENT,
        title=_title_of(key),
        text=body,
        channel=channel,
        created_at=created_at,
        provenance=_INFERRED,
        said_by=Role.ASSISTANT.value,
        extra=extra,
    )
    return okf.from_memory(memory)


def replaced(path: str, before: bytes, fresh: bytes) -> bytes:
    """Return a document's file with a new value; a person's own keys in its frontmatter stay.

    Raises Conflict for a file that is no document any more: a person made it something else.
    """
    if read_raw(path, before) is None:
        raise Conflict(f"{path} cannot be read as a document", hint="Repair its frontmatter, or move it away.")
    given = okf.parse(fresh).meta
    changes = {name: given.get(name) for name in _REPLACED}
    return okf.with_body_of(okf.edit(before, changes), fresh)


def body_of(value: Any) -> tuple[str, bool]:
    """Return a value as the body of a file, and True where that is the text itself, which a person can edit."""
    if isinstance(value, str) and plain(value) == value:
        return value, True
    return _as_json(value), False


def expiry(at: datetime, ttl_minutes: float) -> datetime:
    """Return when a document that was used at an instant expires."""
    return at + timedelta(minutes=ttl_minutes)


def _title_of(key: str) -> str:
    return Door().title(key.rpartition("/")[2]) or "document"


def renamed(data: bytes, space: Sequence[str], key: str, at: datetime) -> bytes:
    """Return the file of a document under another key."""
    title = _title_of(key)
    named = {"key": key, "node_id": node_id_of(space, key), "title": title, "updated_at": at.isoformat()}
    return okf.edit(data, named)


def read(path: str, data: bytes, door: Door) -> Document | None:
    """Read a document's file, without secrets that a person wrote into it; None if it is no document."""
    found = read_raw(path, data)
    return None if found is None else replace(found, value=clean_value(found.value, door)[0])


def read_raw(path: str, data: bytes) -> Document | None:
    """Read a document's file as it is; None for one that is no document, a copy, or one that was moved."""
    memory = okf.to_memory(path, okf.parse(data))
    space, key, ttl = (memory.extra.get(name) for name in ("space", "key", "ttl_minutes"))
    if memory.kind is not Kind.DOCUMENT or not isinstance(space, list) or not isinstance(key, str):
        return None
    space = tuple(map(str, space))
    at = memory.created_at
    if at is None or path_of(space, key) != path:
        return None
    value = _value(memory)
    return Document(
        space=space,
        key=key,
        value=value,
        node_id=memory.node_id,
        channel=memory.channel,
        version=version_of(data),
        created_at=at,
        updated_at=okf.instant(memory.extra.get("updated_at")) or at,
        expires_at=okf.instant(memory.extra.get("stale_after")),
        ttl_minutes=float(ttl) if isinstance(ttl, int | float) else None,
        searched=memory.extra.get(SEARCHED) is not False,
        size_bytes=len((value if isinstance(value, str) else memory.text).encode("utf-8", "replace")),
    )


def _value(memory: Memory) -> Any:
    """Return the value in a file; JSON that a person broke is a text."""
    if memory.extra.get("format") == "json":
        try:
            return json.loads(memory.text)
        except ValueError:
            return memory.text
    return memory.text


def _as_json(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False, indent=2)
    return written if plain(written) == written else json.dumps(value, indent=2)
