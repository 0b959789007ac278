"""Bullets: facts as the lines of a page that cites each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from ...store.keep import okf
from ...store.model import Memory, NodeId
from ..language.dates import format_date

_NEVER = datetime.max.replace(tzinfo=UTC)


def chronological(facts: Sequence[Memory]) -> list[Memory]:
    """Sort facts oldest first, ties by id; those without a time come last."""
    return sorted(facts, key=lambda fact: (fact.created_at or _NEVER, fact.node_id))


def body(facts: Sequence[Memory], heading_of: Callable[[Memory], str]) -> tuple[str, tuple[NodeId, ...]]:
    """Render facts as bullets under headings, each with a footnote; return the text and the cited ids in order."""
    ids = tuple(fact.node_id for fact in facts)
    labels = okf.source_ids(ids)
    lines: list[str] = []
    current = None
    for fact in facts:
        heading = heading_of(fact)
        if heading != current:
            lines += ["", f"## {heading}", ""] if lines else [f"## {heading}", ""]
            current = heading
        lines.append(f"- {' '.join(fact.text.split())} [^{labels[fact.node_id]}]")
    return "\n".join(lines), ids


def by_day(fact: Memory) -> str:
    """Return the day on which a fact was stated, as a heading."""
    return format_date(fact.created_at.date()) if fact.created_at else "Undated"
