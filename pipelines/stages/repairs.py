"""Repairs of a file that are safe without a person, all in one action; a person's own words are left alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from ...store import okf
from ...store.model import Action, InvalidInput, Kind, Level, NodeId
from ...store.okf.memory_file import BY_HAND, body_hash, has_known_words, is_edited_page
from ...store.redaction import redact
from ..workspace.proposals import is_curated
from ..workspace.view import View

LINK = re.compile(r"(?<!!)\[[^\]\n]{0,400}\]\((/[^)\s#]{1,400}\.md)(?:#[^)\s]{0,400})?\)")
_ID_OF_PATH = re.compile(r"--([A-Za-z0-9_]+)\.md$")
_LABEL = re.compile(r"[tm]\d+")


@dataclass(slots=True)
class File:
    """A memory's file under repair.

    `is_dreamt`: a dream wrote it. `known` are the paths among `places`.
    """

    path: str
    data: bytes
    document: okf.OkfFile
    is_dreamt: bool
    places: Mapping[NodeId, str]
    known: Set[str]
    reasons: list[str] = field(default_factory=list)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The frontmatter as it was read."""
        return self.document.meta

    @property
    def is_ours(self) -> bool:
        """True if a dream wrote the file and no person has edited its text since."""
        if self.meta.get("level") != Level.FACT:
            return self.is_dreamt and BY_HAND in self.meta
        return self.is_dreamt and not is_curated(okf.to_memory(self.path, self.document))

    @property
    def node_id(self) -> NodeId:
        """The id of the memory in the file."""
        return str(self.meta.get("node_id") or okf.node_id_of_path(self.path))

    def change(self, data: bytes, reason: str) -> None:
        """Apply a repair and note its reason."""
        self.data = data
        self.reasons.append(reason)


def read(path: str, data: bytes, places: Mapping[NodeId, str], known: Set[str]) -> File:
    """Parse a file for the repairs."""
    document = okf.parse(data)
    is_dreamt = bool(document.meta.get("run")) and not document.problem and not is_edited_page(data)
    return File(path, data, document, is_dreamt, places, known)


def mend(view: View, file: File) -> Action | None:
    """Build the action of all repairs of a file; None if there is none, or a person undid just that."""
    before = file.data
    if file.document.problem:
        return None
    for repair in REPAIRS:
        repair(file)
    if file.data == before:
        return None
    tombstone_key = "lint:" + sha256(file.path.encode() + b"\0" + file.data).hexdigest()[:32]
    if view.is_forbidden(tombstone_key):
        return None
    return Action.replacing(
        file.path,
        file.node_id,
        before,
        file.data,
        stage="lint",
        reason="; ".join(file.reasons),
        fingerprint=tombstone_key,
    )


def moved(target: str, places: Mapping[NodeId, str]) -> str | None:
    """Return the present path of a broken link's target, found by the id in its name."""
    found = _ID_OF_PATH.search(target)
    place = places.get(found[1]) if found else None
    return f"/{place}" if place else None


def entries(meta: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sources of a file that are mappings."""
    listed = meta.get("sources")
    return [dict(entry) for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def clean_tags(tags: object) -> list[str] | None:
    """Return tags without blanks and repetitions, in the first spelling; None for a value that is no list of tags."""
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return None
    kept: dict[str, str] = {}
    for tag in tags:
        if name := " ".join(tag.split()).lstrip("#"):
            kept.setdefault(name.casefold(), name)
    return list(kept.values())


def _secrets(file: File) -> None:
    redacted = redact(file.data.decode("utf-8", "replace"))
    if not file.is_dreamt or not redacted.found:
        return
    clean = redacted.text.encode()
    if has_known_words(okf.to_memory(file.path, file.document)):
        clean = okf.edit(clean, {BY_HAND: body_hash(okf.parse(clean).body)})
    file.change(clean, f"a secret was removed ({', '.join(sorted(set(redacted.found)))})")


def _sources(file: File) -> None:
    """Update the paths of sources."""
    listed = entries(file.meta)
    mended = []
    for entry in listed:
        place = file.places.get(str(entry.get("title", "")).partition("#")[0])
        is_ours = _LABEL.fullmatch(str(entry.get("id", "")))
        mended.append(entry | {"resource": f"/{place}"} if place and is_ours else entry)
    if mended != listed and file.meta.get("node_id"):
        file.change(okf.edit(file.data, {"sources": mended}), "its sources have moved")


def _links(file: File) -> None:
    """Update the links of a dream's page."""
    targets = {target for target in LINK.findall(file.document.body) if target.removeprefix("/") not in file.known}
    ways = {target: place for target in sorted(targets) if (place := moved(target, file.places))}
    if not ways or not file.is_ours:
        return
    head, body = _halves(file.data)
    for target, place in ways.items():
        body = body.replace(f"]({target}".encode(), f"]({place}".encode())
    data = head + body
    if BY_HAND in file.meta:
        data = okf.edit(data, {BY_HAND: body_hash(okf.parse(data).body)})
    file.change(data, "the targets of its links have moved")


def _tags(file: File) -> None:
    tags = clean_tags(file.meta.get("tags"))
    if tags is not None and tags != file.meta.get("tags") and file.is_ours:
        file.change(okf.edit(file.data, {"tags": tags or None}), "its tags were cleaned up")


def _type(file: File) -> None:
    """Add the missing type of a file of ours, from its kind."""
    kind = file.meta.get("kind")
    if str(file.meta.get("type") or "").strip() or kind not in list(Kind) or not file.is_ours:
        return
    file.change(okf.edit(file.data, {"type": okf.type_of(Kind(str(kind)))}), "its type was missing")


def _successor(file: File) -> None:
    """Revive a memory whose successor is gone, whoever wrote it."""
    successor = file.meta.get("superseded_by")
    if not isinstance(successor, str) or successor in file.places or not file.meta.get("node_id"):
        return
    with contextlib.suppress(InvalidInput):  # a file that cannot be edited is reported
        file.change(okf.edit(file.data, {"superseded_by": None, "valid_to": None}), "its successor is gone")


def _halves(data: bytes) -> tuple[bytes, bytes]:
    """Split a file into frontmatter, fences included, and body."""
    size = len(okf.parse(data).body.encode())
    return data[: len(data) - size], data[len(data) - size :]


REPAIRS: tuple[Callable[[File], None], ...] = (_secrets, _type, _sources, _links, _tags, _successor)
"""In this order: a secret is removed before anything else."""
