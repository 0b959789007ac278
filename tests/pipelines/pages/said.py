"""Facts as quotes, for the tests of pages: who said what in which turn of which session, on which day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dreamd.store.model import Kind, Memory

from tests import memories

START = datetime(2026, 3, 2, 9, tzinfo=UTC)


def said(text: str, turn: str = "s1#1", kind: Kind = Kind.FACT, **fields: Any) -> Memory:
    """Build a fact that was said in a turn; sessions s1, s2 … are days apart, and turns a minute."""
    session, _, ordinal = turn.partition("#")
    at = START + timedelta(days=int(session.strip("s")) - 1, minutes=int(ordinal))
    by = fields.pop("by", "user")
    return memories.fact(
        text,
        kind=kind,
        said_by=by,
        created_at=at,
        valid_from=at,
        sources=(turn,),
        session_id=session,
        **fields,
    )
