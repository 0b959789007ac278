"""People, things and their relations in the index, and the links of texts: their rows, and the queries over them.

The pages are files of the vault, so a rebuild makes the same rows. A relation names its two ends by folded names
(`entity_page.key_of`), which `alias` leads to pages; an end without a page is a text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import apsw

from ..model import GLOBAL_CHANNEL, NodeId
from ..okf.entity_page import EntityPage, key_of
from ..results import EntityLine, RelationLine
from .projection import RELATES, Node, Projection, keys_of_reference

MOST_WALKED: Final = 2000
"""Names that a walk reaches at most."""

MOST_RELATED: Final = 500
"""Relations that are read of some names."""

MOST_REFERRING: Final = 200
"""The memories that link to some others in their text which are read."""

WALK_STEPS, STEP_SHARE = 2, 0.7
"""The links that recall follows, and the share of the score that each leaves.

An envelope of 500 tokens answers 14 of 14 questions over links instead of 12, and 8 of 8 others as before
(docs/presets.md).
"""

NOT_REACHED: Final = (0.0, "")

_ENTITY = "entity.node_id, entity.channel, type, name, entity.key, aliases, mentions, relations"


def write_entity(connection: apsw.Connection, node: Node, page: EntityPage) -> None:
    """Write the rows of a page in place of those that it had; one that is archived has none."""
    remove_entity(connection, node.node_id)
    if not node.live:
        return
    last = page.mentions[-1] if page.mentions else None
    connection.execute(
        "INSERT INTO entity VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(node.node_id, node.channel, page.type.value, page.name, key_of(page.name)),
            *(json.dumps(page.aliases), len(page.mentions), len(page.relations), last),
        ),
    )
    connection.executemany(
        "INSERT OR IGNORE INTO alias VALUES(?, ?, ?)", [(key, node.channel, node.node_id) for key in page.keys]
    )
    connection.executemany(
        "INSERT INTO relation(page, channel, subject, subject_key, relation, object, object_key, what, what_key, words,"
        " turn, since, until) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(node.node_id, node.channel, one.subject, key_of(one.subject), one.relation.value),
                *(one.object, key_of(one.object), one.what, key_of(one.what), one.words, one.turn),
                *(at.isoformat() if at else None for at in (one.since, one.until)),
            )
            for one in page.relations
        ],
    )


def remove_entity(connection: apsw.Connection, node_id: NodeId) -> None:
    """Remove the rows of a page, if it has any."""
    for table, column in (("entity", "node_id"), ("alias", "node_id"), ("relation", "page")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (node_id,))


def write_references(connection: apsw.Connection, projection: Projection) -> None:
    """Write the names of a memory and the links in its text in place of those that it had."""
    node = projection.nodes[0]
    remove_references(connection, node.node_id)
    connection.executemany("INSERT INTO name VALUES(?, ?)", [(key, node.node_id) for key in projection.names])
    connection.executemany(
        "INSERT INTO reference VALUES(?, ?, ?, ?, ?)",
        [
            (node.node_id, rank, choice, key, str(reference))
            for rank, reference in enumerate(projection.references)
            for choice, key in enumerate(keys_of_reference(node.path, reference))
        ],
    )


def remove_references(connection: apsw.Connection, node_id: NodeId) -> None:
    """Remove the names of a memory and the links in its text."""
    connection.execute("DELETE FROM name WHERE node_id = ?", (node_id,))
    connection.execute("DELETE FROM reference WHERE source = ?", (node_id,))


class TextLink(NamedTuple):
    """A link in the text of a memory: as it was written, and the memories that it may mean.

    It is an edge where it means one of them alone.
    """

    source: NodeId
    text: str
    targets: tuple[NodeId, ...]

    @property
    def target(self) -> NodeId | None:
        """The memory that is meant; None for a link that is no edge."""
        return self.targets[0] if len(self.targets) == 1 else None


class Graph:
    """Reads people, things and relations. `channels` None is all of them."""

    def __init__(self, connection: Callable[[], apsw.Connection]) -> None:
        self._connection = connection

    def _rows(self, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
        return self._connection().execute(sql, bindings).fetchall()

    def named(self, name: str, channels: Collection[str] | None) -> list[EntityLine]:
        """Return the pages that have a name, in any case; without one those with a name that holds its words."""
        key = key_of(name)
        exact = f"SELECT DISTINCT {_ENTITY}, last.created_at FROM alias JOIN entity USING(node_id) {_LAST}"
        found = self._lines(f"{exact} WHERE alias.key = ?2 AND {_IN.format('entity')}", channels, key)
        if found or not key:
            return found
        pattern = f"% {'% '.join(key.split())}%"
        return self._lines(f"{exact} WHERE ' ' || alias.key LIKE ?2 AND {_IN.format('entity')}", channels, pattern)

    def page(
        self, channels: Collection[str] | None, kind: str | None, limit: int, offset: int
    ) -> tuple[list[EntityLine], int]:
        """Return a page of the entities, most mentioned first, and their number."""
        where = f"{_IN.format('entity')} AND (?2 IS NULL OR type = ?2)"
        total = self._rows(f"SELECT count(*) FROM entity WHERE {where}", _listed(channels), kind)[0][0]
        sql = f"SELECT {_ENTITY}, last.created_at FROM entity {_LAST} WHERE {where}"
        sql += " ORDER BY mentions DESC, name, entity.node_id LIMIT ?3 OFFSET ?4"
        return self._lines(sql, channels, kind, limit, offset), total

    def by_ids(self, node_ids: Collection[NodeId]) -> list[EntityLine]:
        """Return the entities of some pages."""
        sql = f"SELECT {_ENTITY}, last.created_at FROM entity {_LAST}"
        sql += " WHERE ?1 IS NULL AND entity.node_id IN (SELECT value FROM json_each(?2))"
        return self._lines(sql, None, json.dumps(list(node_ids)))

    def keys_of_pages(self, node_ids: Collection[NodeId]) -> list[str]:
        """Return the folded names of some pages."""
        sql = "SELECT DISTINCT key FROM alias WHERE node_id IN (SELECT value FROM json_each(?1))"
        return [key for (key,) in self._rows(sql, json.dumps(list(node_ids)))]

    def sharing(self, node_ids: Collection[NodeId], channels: Collection[str] | None) -> list[NodeId]:
        """Return the pages of other channels that have the same name, or the name of one as an alias of the other."""
        sql = f"""
        SELECT DISTINCT other.node_id FROM entity AS one JOIN alias ON alias.key = one.key
        JOIN entity AS other ON other.node_id = alias.node_id AND other.type = one.type AND other.channel != one.channel
        WHERE one.node_id IN (SELECT value FROM json_each(?2)) AND {_IN.format("other")}
        """
        return [node_id for (node_id,) in self._rows(sql, _listed(channels), json.dumps(list(node_ids)))]

    def of_turns(self, turns: Collection[NodeId]) -> list[RelationLine]:
        """Return the relations that some turns are the evidence of."""
        return self._relations("?1 IS NULL AND turn IN (SELECT value FROM json_each(?2))", None, json.dumps([*turns]))

    def of_keys(
        self, keys: Collection[str], channels: Collection[str] | None, relation: str | None = None
    ) -> list[RelationLine]:
        """Return the relations with one of these names at an end, the newest first."""
        if not keys:
            return []
        ends = " OR ".join(f"{end}_key IN (SELECT value FROM json_each(?2))" for end in ("subject", "object", "what"))
        where = f"{_IN.format('relation')} AND ({ends}) AND (?3 IS NULL OR relation = ?3)"
        return self._relations(where, channels, json.dumps([*keys]), relation)

    def people(self, keys: Collection[str], channels: Collection[str] | None) -> dict[str, str]:
        """Return the people that some folded names are of, by these: each one's name."""
        sql = f"""
        SELECT alias.key, name FROM alias JOIN entity USING(node_id)
        WHERE type = 'person' AND alias.key IN (SELECT value FROM json_each(?2)) AND {_IN.format("entity")}
        ORDER BY entity.mentions
        """
        return dict(self._rows(sql, _listed(channels), json.dumps([*keys])))

    def from_pages(self, node_ids: Collection[NodeId]) -> list[RelationLine]:
        """Return the relations that lie on some pages."""
        where = "?1 IS NULL AND page IN (SELECT value FROM json_each(?2))"
        return self._relations(where, None, json.dumps([*node_ids]))

    def facts_of(self, turns: Collection[NodeId]) -> list[tuple[NodeId, NodeId, bool, bool]]:
        """Return the facts drawn from some turns: each with its turn, and if it was reworded or replaced since."""
        sql = (
            "SELECT link.source, link.target, link.kind = 'rewords',"
            " EXISTS (SELECT 1 FROM link AS next WHERE next.source = link.source AND next.kind = 'superseded_by')"
            " FROM json_each(?) AS turn CROSS JOIN link ON link.target = turn.value"
            " CROSS JOIN node ON node.node_id = link.source AND node.level = 'L1'"
            " WHERE link.kind IN ('cites', 'rewords') AND link.rank = 0"
        )
        found = self._rows(sql, json.dumps([*turns]))
        return [(fact, turn, bool(reworded), bool(replaced)) for fact, turn, reworded, replaced in found]

    def walk(self, name: str, depth: int, channels: Collection[str] | None) -> dict[str, int]:
        """Return the folded names within some steps of a name, with the fewest steps to each, at most MOST_WALKED.

        A step is a relation in force, in either direction; other names of the same page are no step away.
        """
        rows = self._rows(_WALK, _listed(channels), key_of(name), depth, MOST_WALKED)
        return dict(rows)

    def links_of(self, node_ids: Collection[NodeId]) -> list[tuple[NodeId, NodeId, float]]:
        """Return the pairs of memories, one at least among some, of which the first is related to the second."""
        one = "kind = ?1 AND {} IN (SELECT value FROM json_each(?2))"
        sql = " UNION ".join(f"SELECT source, target, weight FROM link WHERE {one.format(end)}" for end in _ENDS)
        return [(*row,) for row in self._rows(f"{sql} ORDER BY 3 DESC, 1, 2", RELATES, json.dumps([*node_ids]))]

    def references_of(self, node_ids: Collection[NodeId]) -> list[TextLink]:
        """Return the links in the texts of some memories, and of those that link to them, to any memory."""
        rows = self._rows(_REFERRING, json.dumps([*node_ids]), MOST_REFERRING)
        return self._resolved([*dict.fromkeys((*node_ids, *(source for (source,) in rows)))])

    def reached(self, starts: Mapping[NodeId, float]) -> dict[NodeId, tuple[float, NodeId]]:
        """Return the memories up to WALK_STEPS links from some, each with its share of a score and the one before it.

        A walk over links of the weights w1, w2, … brings score · w1 · STEP_SHARE · w2 · STEP_SHARE …; the best counts.
        """
        found: dict[NodeId, tuple[float, NodeId]] = {}
        front = dict(starts)
        for _ in range(WALK_STEPS):
            reached: dict[NodeId, tuple[float, NodeId]] = {}
            for source, target, weight in self._edges(front) if front else ():
                for start, end in ((source, target), (target, source)):
                    brought = (front.get(start, 0.0) * weight * STEP_SHARE, start)
                    known = max(found.get(end, NOT_REACHED), reached.get(end, NOT_REACHED))
                    if start in front and end not in starts and brought > known:
                        reached[end] = brought
            found |= reached
            front = {name: score for name, (score, _) in reached.items()}
        return found

    def _edges(self, node_ids: Collection[NodeId]) -> list[tuple[NodeId, NodeId, float]]:
        """Return the relations of some memories, and the links of texts from and to them, each with its weight."""
        one = "kind = ?1 AND {} IN (SELECT value FROM json_each(?2))"
        sql = " UNION ".join(f"SELECT source, target, weight FROM link WHERE {one.format(end)}" for end in _ENDS)
        sql += " UNION ALL SELECT '', '', 0 WHERE EXISTS (SELECT 1 FROM reference)"
        found = self._rows(sql, RELATES, json.dumps([*node_ids]))
        if any(not source for source, *_ in found):  # texts have links
            found += [(link.source, link.target, 1.0) for link in self.references_of(node_ids) if link.target]
        return [(*row,) for row in found if row[0]]

    def unresolved(self) -> list[TextLink]:
        """Return the links in texts that mean no memory, or several; those of documents are their agents' own."""
        sql = "SELECT DISTINCT source FROM reference JOIN node ON node.node_id = source AND node.kind != 'document'"
        sources = [source for (source,) in self._rows(sql)]
        return [one for one in self._resolved(sources) if one.target is None]

    def _resolved(self, sources: Collection[NodeId]) -> list[TextLink]:
        sql = """SELECT source, rank, reference.text, key, channel FROM reference JOIN node ON node.node_id = source
        WHERE source IN (SELECT value FROM json_each(?)) ORDER BY source, rank, choice"""
        rows = self._rows(sql, json.dumps([*sources]))
        named: dict[str, dict[NodeId, tuple[str, bool]]] = {}
        for key, target, channel, live in self._rows(_NAMED, json.dumps([*{row[3] for row in rows}])):
            named.setdefault(key, {})[target] = (channel, bool(live))
        found: dict[tuple[NodeId, int], TextLink] = {}
        for source, rank, text, key, channel in rows:
            known = found.get((source, rank))
            if known is None or not known.targets:
                found[source, rank] = TextLink(source, text, _meant(named.get(key, {}), source, channel))
        return list(found.values())

    def _lines(self, sql: str, channels: Collection[str] | None, *bindings: Any) -> list[EntityLine]:
        return [
            EntityLine(
                node_id=node_id,
                channel=channel,
                type=kind,
                name=name,
                key=key,
                aliases=tuple(json.loads(aliases)),
                mentions=mentions,
                relations=relations,
                last_at=datetime.fromisoformat(last) if last else None,
            )
            for node_id, channel, kind, name, key, aliases, mentions, relations, last in self._rows(
                sql, _listed(channels), *bindings
            )
        ]

    def _relations(self, where: str, channels: Collection[str] | None, *bindings: Any) -> list[RelationLine]:
        sql = f"""
        SELECT subject, relation, object, what, words, turn, since, until, channel, page,
            (SELECT min(node_id) FROM alias WHERE key = subject_key AND alias.channel = relation.channel),
            (SELECT min(node_id) FROM alias WHERE key = object_key AND alias.channel = relation.channel)
        FROM relation WHERE {where} ORDER BY since DESC, id DESC LIMIT {MOST_RELATED}
        """
        return [
            RelationLine(
                subject=subject,
                relation=relation,
                object=object_,
                what=what,
                words=words,
                turn=turn,
                since=datetime.fromisoformat(since) if since else None,
                until=datetime.fromisoformat(until) if until else None,
                channel=channel,
                page=page,
                subject_id=subject_id,
                object_id=object_id,
            )
            for subject, relation, object_, what, words, turn, since, until, channel, page, subject_id, object_id in (
                self._rows(sql, _listed(channels), *bindings)
            )
        ]


def grouped(entities: Iterable[EntityLine]) -> list[list[EntityLine]]:
    """Group pages of one name and kind, one a channel, the group with most mentions first."""
    groups: dict[tuple[str, str], list[EntityLine]] = {}
    for one in entities:
        groups.setdefault((one.key, one.type), []).append(one)
    return sorted(groups.values(), key=lambda group: (-sum(one.mentions for one in group), group[0].name))


def _meant(named: Mapping[NodeId, tuple[str, bool]], source: NodeId, channel: str) -> tuple[NodeId, ...]:
    """Return the memories of a name that a text of a channel can mean, of those that are the nearest to it.

    `named` maps all of that name to their channel, and if they are live. A live one is nearer than another, and then
    one of the same channel than a global one; other channels are out of reach.
    """
    near: dict[tuple[bool, bool], list[NodeId]] = {}
    for node_id, (of, live) in named.items():
        if node_id != source and of in (channel, GLOBAL_CHANNEL):
            near.setdefault((not live, of != channel), []).append(node_id)
    return tuple(sorted(near[min(near)])) if near else ()


def _listed(channels: Collection[str] | None) -> str | None:
    return None if channels is None else json.dumps(sorted(channels))


_ENDS: Final = ("source", "target")

# A path is looked up among the files, anything else among the names and the ids.
_NAMED: Final = """
SELECT name.key, node.node_id, channel, live FROM json_each(?1) AS wanted CROSS JOIN name ON name.key = wanted.value
JOIN node ON node.node_id = name.node_id
UNION SELECT wanted.value, node.node_id, channel, live FROM json_each(?1) AS wanted
CROSS JOIN node ON node.path = substr(wanted.value, 2) AND node.kind != 'turn' WHERE wanted.value LIKE '/%'
UNION SELECT wanted.value, node.node_id, channel, live FROM json_each(?1) AS wanted
CROSS JOIN node ON node.node_id = wanted.value
"""
_REFERRING: Final = """
SELECT DISTINCT source FROM json_each(?1) AS wanted CROSS JOIN name ON name.node_id = wanted.value
CROSS JOIN reference ON reference.key = name.key
UNION SELECT source FROM json_each(?1) AS wanted CROSS JOIN reference ON reference.key = wanted.value
UNION SELECT source FROM json_each(?1) AS wanted CROSS JOIN node ON node.node_id = wanted.value
CROSS JOIN reference ON reference.key = '/' || node.path
LIMIT ?2
"""
_IN: Final = "(?1 IS NULL OR {}.channel IN (SELECT value FROM json_each(?1)))"
_LAST: Final = "LEFT JOIN node AS last ON last.node_id = entity.last_mention"
_WALK: Final = f"""
WITH RECURSIVE walk(key, depth) AS (
    VALUES(?2, 0)
    UNION
    SELECT other.key, walk.depth FROM walk CROSS JOIN alias ON alias.key = walk.key AND {_IN.format("alias")}
    CROSS JOIN alias AS other ON other.node_id = alias.node_id
    UNION
    SELECT step.object_key, walk.depth + 1 FROM walk CROSS JOIN relation AS step ON step.subject_key = walk.key
    WHERE walk.depth < ?3 AND step.until IS NULL AND {_IN.format("step")}
    UNION
    SELECT step.subject_key, walk.depth + 1 FROM walk CROSS JOIN relation AS step ON step.object_key = walk.key
    WHERE walk.depth < ?3 AND step.until IS NULL AND {_IN.format("step")}
    LIMIT 4 * ?4
)
SELECT key, min(depth) FROM walk GROUP BY key ORDER BY 2, 1 LIMIT ?4
"""
