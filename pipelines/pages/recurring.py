"""Recurrence: the same pitfall, procedure, correction or wish in several sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...store.model import Kind, Memory, NodeId
from ..workspace.view import Vectors
from .holding import newest_first
from .quotes import dated, labels_of, line, place_of

RECURS = (
    ("Refused", frozenset({Kind.NEGATIVE})),
    ("Procedures", frozenset({Kind.PROCEDURE})),
    ("Corrections and wishes", frozenset({Kind.CORRECTION, Kind.PREFERENCE})),
)
ALIKE = 0.6
"""Cosine from which two facts of one kind are about the same thing; random ones of one project lie around .2."""

FEWEST_SESSIONS, FEWEST_GROUPS, MOST_GROUPS, MOST_LINES = 2, 2, 8, 4

Groups = list[tuple[str, list[list[Memory]]]]


def recurring(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> Groups:
    """Return the groups of living facts that come up in several sessions, by heading; [] where they make no page."""
    found: Groups = []
    for heading, kinds in RECURS:
        alike = _alike([fact for fact in newest_first(facts) if fact.is_live and fact.kind in kinds], vectors)
        groups = [group for group in alike if len(_sessions(group)) >= FEWEST_SESSIONS]
        groups.sort(key=lambda group: -len(_sessions(group)))
        found += [(heading, groups[:MOST_GROUPS])] if groups else []
    return found if sum(len(groups) for _, groups in found) >= FEWEST_GROUPS else []


def body(parts: Groups) -> tuple[str, tuple[NodeId, ...]]:
    """Render each group as its newest fact, with the earlier ones below; return the text and the cited ids."""
    labels = labels_of([fact for _, groups in parts for group in groups for fact in group[:MOST_LINES]])
    lines: list[str] = []
    for heading, groups in parts:
        lines += [*([""] if lines else []), f"## {heading}", ""]
        for first, *rest in groups:
            lines.append(line(first, labels[first.node_id], dated))
            lines += [f"  {line(fact, labels[fact.node_id], dated)}" for fact in rest[: MOST_LINES - 1]]
    return "\n".join(lines), tuple(labels)


def _alike(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> list[list[Memory]]:
    """Put each fact to the first group whose newest fact it is like."""
    groups: list[list[Memory]] = []
    for fact in facts:
        near = (group for group in groups if float(vectors[group[0].node_id] @ vectors[fact.node_id]) >= ALIKE)
        group = next(near, None)
        if group is None:
            groups.append([fact])
        else:
            group.append(fact)
    return groups


def _sessions(group: Sequence[Memory]) -> set[str]:
    """Return the sessions in which any fact of a group was said, or said again."""
    own = {place_of(fact)[0] for fact in group}
    return own | {source.partition("#")[0] for fact in group for source in fact.sources if "#" in source}
