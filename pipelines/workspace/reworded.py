"""Facts that their person reworded: the new words hold since the file was written, whenever the old were said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ...store import okf
from ...store.model import Memory, NodeId
from ...store.okf.memory_file import BY_HAND, EDITED_AT, body_hash, is_reworded
from ...store.text.quotes import title_of_fact
from .view import View


def reworded(view: View, facts: Iterable[Memory]) -> dict[NodeId, datetime]:
    """Return which of some facts were reworded since a dream last dated them, and when."""
    found: dict[NodeId, datetime] = {}
    for fact in facts:
        if is_reworded(fact) and (whole := view.memory(fact.node_id)) is not None and is_reworded(whole):
            at = view.written_at(fact.path)
            if at is not None and (whole.since is None or at > whole.since):
                found[fact.node_id] = at
    return found


def dated(view: View, fact: Memory, at: datetime) -> Mapping[str, Any]:
    """Return the keys that date a fact's new words, and by which the next rewording is told from this one.

    A title that begins with the old words begins with the new.
    """
    whole = view.memory(fact.node_id) or fact
    has_first_title = okf.path_for(fact.level, whole.title, fact.node_id, fact.channel) == fact.path
    title = {"title": title_of_fact(whole.text)} if has_first_title else {}
    return {EDITED_AT: at.isoformat(), "valid_from": at.isoformat(), BY_HAND: body_hash(whole.text)} | title
