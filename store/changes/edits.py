"""A memory edited by hand: its words, title, kind, tags and place in envelopes, as a pure change of its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from .. import okf
from ..door import outgoing
from ..index.projection import CURATED, FOOTNOTE, Node, memory_node
from ..limits import LONGEST_CURATED, STATED_CERTAINTY
from ..model import AWAITS_REVIEW, Edit, InvalidInput, Kind, Level, Memory
from ..okf.memory_file import BY_HAND, EDITED_AT, body_hash
from ..text.fence import unmarked_lines
from ..text.quotes import title_of, title_of_fact
from ..text.statements import slot_of
from .decisions import with_body

CORRECTED: Final = "user_corrected"
"""The provenance of words, or of a kind, that a person put in place of others."""

EDITED: Final = "a person edited it"

# Characters of the title that is made of a statement's words.
TITLE_CHARS: Final = 79


def version_of_file(path: str, data: bytes) -> str:
    """Return the version of a memory as its file is now."""
    return memory_node(okf.to_memory(path, okf.parse(data))).version


def edited(memory: Memory, data: bytes, edit: Edit, now: datetime, kept: Callable[[str], str]) -> bytes:
    """Return the file of a memory after an edit; `kept` takes secrets out of its new words.

    Raises InvalidInput for a page of another kind, an empty text, or one that is too long for every envelope.
    """
    node = memory_node(memory)
    changes: dict[str, Any] = {}
    text = None
    if edit.text is not None and not _is_shown(edit.text, node):
        text = _with_footnotes(kept(edit.text), memory.text)
        changes |= _reworded(memory, text, now)
    if edit.title is not None and edit.title != memory.title:
        changes["title"] = edit.title
    if edit.kind is not None and edit.kind is not memory.kind:
        changes |= _of_kind(memory, edit.kind)
    if edit.tags is not None and edit.tags != memory.tags:
        changes["tags"] = list(edit.tags) or None
    if edit.always is not None and edit.always != node.curated:
        changes[CURATED] = edit.always or None
    shown = node.text if text is None else text
    if (edit.always or (node.curated and text is not None and edit.always is None)) and len(shown) > LONGEST_CURATED:
        raise InvalidInput(
            f"{memory.node_id} is too long for every envelope", hint=f"{LONGEST_CURATED} characters fit."
        )
    if text is not None and not okf.parse(data).meta:  # a note of its person's, who may not want our keys in it
        return f"{text}\n".encode()
    content = okf.edit(data, changes)
    return content if text is None else with_body(content, text)


def _is_shown(text: str, node: Node) -> bool:
    """Return True for the words that a memory has, or that are shown of it."""
    return text.strip() in (node.text.strip(), unmarked_lines(outgoing(node.text)).strip())


def _with_footnotes(text: str, before: str) -> str:
    """Return new words with those footnotes of the old ones that they refer to; they are not shown for an edit."""
    notes = [note.strip() for note in FOOTNOTE.findall(before)]
    left = [note for note in notes if note.partition(":")[0] in text and note not in text]
    return "\n".join((text, "", *left)) if left else text


def _reworded(memory: Memory, text: str, now: datetime) -> dict[str, Any]:
    changes: dict[str, Any] = {"provenance": CORRECTED, "certainty": STATED_CERTAINTY, AWAITS_REVIEW: None}
    # A page without the hash of these words is a person's, and no dream writes it anew.
    if memory.level is not Level.FACT:
        return changes
    slot = slot_of(text)
    changes |= {EDITED_AT: now.isoformat(), "valid_from": now.isoformat(), BY_HAND: body_hash(text)}
    changes["slot"] = asdict(slot) if slot and memory.slot else None
    if memory.title in (title_of_fact(memory.text), title_of(memory.text, TITLE_CHARS)):
        changes["title"] = title_of_fact(text)  # the one before was made of words that it no longer has
    return changes


def _of_kind(memory: Memory, kind: Kind) -> dict[str, Any]:
    if memory.level is not Level.FACT or memory.kind is Kind.DOCUMENT:
        raise InvalidInput(f"{memory.node_id} is a {memory.kind}, and stays one", hint="Facts alone change their kind.")
    return {"kind": kind.value, "type": okf.type_of(kind), "provenance": CORRECTED}
