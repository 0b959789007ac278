"""The rows of the ledger that hold what is purged, and the statements that remove it from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from ..model import NodeId, tombstone_keys
from ..results import Anchor
from .answered import forget_answers
from .journal import sha256
from .records import Write, clear_flag, lift_tombstone, packed, unpacked
from .work import ANCHORS, GOALS, anchor_of_row, erase_work, forget_handed, goal_of_row, set_anchor, set_goal, work_text

ROWS_AT_ONCE: Final = 64
"""Actions read at once, with their images."""

PURGED: Final = "purged"
"""The state of an action of which nothing is left but that it was: no undo carries it out."""

_ERASE_ACTION: Final = (
    f"UPDATE action SET state = '{PURGED}', path = '', node_id = '', reason = '', refusal = NULL, fingerprint = NULL,"
    " pre_sha256 = NULL, post_sha256 = NULL, pre_image = NULL, post_image = NULL WHERE id = ?"
)
_CHANGE_ACTION: Final = (
    "UPDATE action SET path = ?, reason = ?, refusal = ?, pre_sha256 = ?, post_sha256 = ?,"
    " pre_image = ?, post_image = ? WHERE id = ?"
)

Ask = Callable[..., Sequence[Any]]
"""Runs a query with its values; returns the rows."""


class Eraser(Protocol):
    """Says what is purged."""

    @property
    def ids(self) -> Collection[NodeId]:
        """The nodes that are purged."""
        ...

    def scrubbed(self, path: str, data: bytes) -> bytes | None:
        """Return a file without what is purged, None where nothing of it stays."""
        ...

    def renamed(self, path: str) -> str:
        """Return a path without what is purged."""
        ...

    def is_gone(self, path: str, node_id: NodeId) -> bool:
        """Return True for a memory that goes."""
        ...

    def cleaned(self, text: str) -> str:
        """Return a short text without what is purged."""
        ...

    def takes_work(self, session_id: NodeId, text: str) -> bool:
        """Return True for an anchor or a goal that goes."""
        ...


def erasures(ask: Ask, eraser: Eraser) -> Iterator[Write]:
    """Yield the statements that leave nothing of what is purged in the ledger; none where there is nothing of it."""
    yield from _actions(ask, eraser)
    yield from _texts(ask, eraser, "run", "run_id", "summary", clean_json)
    yield from _texts(ask, eraser, "tombstone", "fingerprint", "reason")
    yield from _texts(ask, eraser, "feedback", "id", "query")
    yield from _texts(ask, eraser, "event", "id", "detail")
    yield from _questions(ask, eraser)
    yield from _files(ask, eraser)
    yield from _work(ask, eraser)
    if ask("SELECT 1 FROM answered LIMIT 1"):
        yield forget_answers()
    if ask("SELECT 1 FROM handed LIMIT 1"):
        yield forget_handed()
    for table in ("usage", "reinforcement", "feedback", "event"):
        for (node_id,) in ask(f"SELECT DISTINCT node_id FROM {table}"):
            if node_id in eraser.ids:
                yield Write(f"DELETE FROM {table} WHERE node_id = ?", (node_id,))
    sessions = {node_id.partition("#")[0] for node_id in eraser.ids}
    for (name,) in ask("SELECT name FROM flag WHERE name LIKE 'named:%'"):  # a transcript's path holds its session's id
        if any(session in name for session in sessions):
            yield clear_flag(name)
    for stage, key in ask("SELECT stage, session_id FROM cursor"):
        if eraser.cleaned(key) != key:
            yield Write("DELETE FROM cursor WHERE stage = ? AND session_id = ?", (stage, key))


def _actions(ask: Ask, eraser: Eraser) -> Iterator[Write]:
    numbers = [row[0] for row in ask(f"SELECT id FROM action WHERE state != '{PURGED}' ORDER BY id")]
    for start in range(0, len(numbers), ROWS_AT_ONCE):
        for row in ask(
            "SELECT id, path, node_id, reason, refusal, fingerprint, pre_sha256, post_sha256, pre_image, post_image"
            " FROM action WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(numbers[start : start + ROWS_AT_ONCE]),),
        ):
            yield from _action(row, eraser)


def _action(row: Sequence[Any], eraser: Eraser) -> Iterator[Write]:
    number, path, node_id, reason, refusal, fingerprint, *hashes_and_images = row
    hashes, images = hashes_and_images[:2], [unpacked(image) for image in hashes_and_images[2:]]
    kept = [None if image is None else eraser.scrubbed(path, image) for image in images]
    if eraser.is_gone(path, node_id) or any(
        new is None and old is not None for old, new in zip(images, kept, strict=True)
    ):
        yield Write(_ERASE_ACTION, (number,))
        yield from (lift_tombstone(key) for key in tombstone_keys(fingerprint))
        return
    said = [eraser.renamed(path), *(None if text is None else eraser.cleaned(text) for text in (reason, refusal))]
    if kept != images or said != [path, reason, refusal]:
        hashes = [held if new is None else sha256(new) for held, new in zip(hashes, kept, strict=True)]
        yield Write(_CHANGE_ACTION, (*said, *hashes, *map(packed, kept), number))


def _texts(
    ask: Ask,
    eraser: Eraser,
    table: str,
    key: str,
    column: str,
    clean: Callable[[Eraser, str], str] = lambda eraser, text: eraser.cleaned(text),
) -> Iterator[Write]:
    for number, text in ask(f"SELECT {key}, {column} FROM {table} WHERE {column} IS NOT NULL"):
        if (kept := clean(eraser, text)) != text:
            yield Write(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (kept, number))


def clean_json(eraser: Eraser, text: str) -> str:
    """Return a JSON text whose strings, keys of objects among them, are cleaned."""

    def clean(value: Any) -> Any:
        match value:
            case str():
                return eraser.cleaned(value)
            case list():
                return list(map(clean, value))
            case dict():
                return {eraser.cleaned(key): clean(item) for key, item in value.items()}
        return value

    before = json.loads(text)
    after = clean(before)
    return text if after == before else json.dumps(after, ensure_ascii=False, sort_keys=True)


def _questions(ask: Ask, eraser: Eraser) -> Iterator[Write]:
    """Remove questions that tell what is purged, or that it alone answered; of others, forget that it was shown."""
    for number, text, shown, gold in ask("SELECT id, text, shown, gold FROM question"):
        listed = json.loads(shown), json.loads(gold)
        kept = [[node_id for node_id in ids if node_id not in eraser.ids] for ids in listed]
        if eraser.cleaned(text) != text or (listed[1] and not kept[1]):
            yield Write("DELETE FROM question WHERE id = ?", (number,))
        elif kept != list(listed):
            yield Write(
                "UPDATE question SET shown = ?, gold = ? WHERE id = ?", (*(json.dumps(ids) for ids in kept), number)
            )


def _work(ask: Ask, eraser: Eraser) -> Iterator[Write]:
    """Remove the anchors and goals that go; of others, clean each text."""
    anchors = [anchor_of_row(row) for row in ask(ANCHORS)]
    goals = [goal_of_row(row) for row in ask(GOALS)]
    gone = [one for one in anchors if eraser.takes_work(one.session_id, work_text(one))]
    closed = [one for one in goals if eraser.takes_work(one.session_id, one.text)]
    yield from erase_work([one.session_id for one in gone], [one.goal_id for one in closed])
    for anchor in anchors:
        if anchor not in gone and (kept := _cleaned_anchor(anchor, eraser)) != anchor:
            yield set_anchor(kept)[0]
    for goal in goals:
        if goal not in closed and (text := eraser.cleaned(goal.text)) != goal.text:
            yield set_goal(replace(goal, text=text))[0]


def _cleaned_anchor(anchor: Anchor, eraser: Eraser) -> Anchor:
    return replace(
        anchor,
        task=eraser.cleaned(anchor.task),
        plan=eraser.cleaned(anchor.plan),
        decisions=tuple(map(eraser.cleaned, anchor.decisions)),
        next_step=eraser.cleaned(anchor.next_step),
    )


def _files(ask: Ask, eraser: Eraser) -> Iterator[Write]:
    """Remove the contents that wait for a person: files that vanished, and changes that an edit kept out."""
    for path, image in ask("SELECT path, image FROM withheld"):
        content = unpacked(image)
        kept = content if content is None else eraser.scrubbed(path, content)
        if content is not None and kept is None:
            yield Write("DELETE FROM withheld WHERE path = ?", (path,))
        elif kept != content:
            yield Write("UPDATE withheld SET image = ? WHERE path = ?", (packed(kept), path))
    for seq, path, content in ask("SELECT seq, path, content FROM journal WHERE state = 'conflict'"):
        text = (content or b"").decode("utf-8", "replace")
        if eraser.scrubbed(path, content or b"") != (content or b"") or eraser.cleaned(text) != text:
            yield Write("DELETE FROM journal WHERE seq = ?", (seq,))
