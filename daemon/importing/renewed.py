"""Lines without ids, known by their place in a file: what stands there now may not be what stood there.

A turn at whose place other words are known is named by its words as well, so that it is kept beside them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...store.model import NewTurn, NodeId

if TYPE_CHECKING:
    from ...store import MemoryStore

_BY_PLACE = re.compile(r"line \d+(?:/result)?|.+-[0-9a-f]{6}:\d+")
_DIGITS = 6


def known_by_place(store: MemoryStore, session_id: NodeId) -> Mapping[str, str]:
    """Map the ids of a session's turns that are places to the words that are found there; none for what was erased."""
    return {
        node.external_id: _key(node.text)
        for node in store.turns_of(session_id)
        if node.external_id and not node.forgotten and _BY_PLACE.fullmatch(node.external_id)
    }


def is_by_place(turns: Sequence[NewTurn]) -> bool:
    """Say whether a turn has no id but its place."""
    return any(_BY_PLACE.fullmatch(turn.external_id or "") for turn in turns)


def renewed(store: MemoryStore, turns: Sequence[NewTurn], known: Mapping[str, str]) -> tuple[NewTurn, ...]:
    """Return turns with the ids under which they are to be kept."""
    return tuple(_renewed(turn, known.get(turn.external_id or ""), _key(store.as_kept(turn.text))) for turn in turns)


def _renewed(turn: NewTurn, there: str | None, words: str) -> NewTurn:
    return turn if there in (None, words) else replace(turn, external_id=f"{turn.external_id} {words}")


def _key(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:_DIGITS]
