"""From a file's bytes to what is searched: pure, so that a rebuild gives what the writes gave."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePosixPath
from posixpath import normpath
from typing import NamedTuple, TypeVar

from .. import okf
from ..filters import ALWAYS, FOREVER, Payload, fold, fold_tag
from ..limits import NEIGHBOURS
from ..model import GLOBAL_CHANNEL, PROMOTED_FROM, Kind, Level, Memory, NodeId, SessionHead, Turn
from ..okf import session
from ..okf.entity_page import ALIASES, EntityPage, entity_of, key_of
from ..okf.memory_file import reworded_at
from ..okf.notes import Reference, references_in
from ..roles import Role
from ..text import acts
from ..text.dates import format_date
from ..text.words import entities_in

# The version of these rules; raise it with every change, so that an index made by older rules is rebuilt.
PROJECTION_VERSION = 15

# The characters of each neighbour that are taken: long answers in full would drown the turn between them, any@5 by
# keyword .31 against .49 when cut (BEAM, ten chats).
NEIGHBOUR_CHARS = 250

# Characters of a text that may be a question.
LONGEST_ASKING_CHARS = 8000

# Files under this folder are read as sessions.
SESSIONS = "sessions/"

# In the id of a turn, and of no memory: between the session's id and the ordinal of the turn.
TURN_MARK = "#"

# The arrow from a memory to the one that took its place.
SUCCESSOR = "superseded_by"

# The arrow from a memory to one that probably took its place; both are kept.
LATER = "later"

# The first arrow of a fact whose words its person changed, to the turn that it was drawn from: they hold instead of
# what was said there.
REWORDS = "rewords"

# The arrow from a memory that waits for review, and what it points at, which is no node.
AWAITS, THE_PERSON = "awaits", "person:"

STRAY_SESSION = "it is a session outside of `sessions/`: its turns are not found until it is back below that folder"

# The arrow between two memories that a person or a dream related.
RELATES = "relates"

# The arrow from a memory to one that its text links to; the index looks its target up by name when it is asked.
LINKS = "links"

# The arrow from the page of a person or a thing to a turn that names it.
MENTIONS_LINK = "mentions"

# The key of a memory that is in every envelope of its channel, and its priority, from 1.
CURATED, DEFAULT_PRIORITY, MOST_PRIORITY = "curated", 5, 10

# The field for filters of what no answer holds.
FORGOTTEN = "forgotten"

# The key of a document that recall leaves out, with the value false.
SEARCHED = "searched"

# The speaker of a note that was written down elsewhere.
IMPORT = "import"

# Roles that name a part, not a person: they say nothing about the text.
PEOPLE_ROLES = frozenset(role.value for role in Role)


_Unsaid = TypeVar("_Unsaid", int, None)

# A footnote of a page as a dream writes it: it says where a line comes from, which the page's links say as well.
FOOTNOTE = re.compile(r"^\[\^[tm]\d{1,6}\]: \[[^\]\n]{0,400}\]\(/[^)\n]{1,1000}\)$\n?", re.MULTILINE)


class Cue(StrEnum):
    """The occasion at which an agent's act recalls a node."""

    ERROR = "error"
    EDIT = "edit"
    FILE = "file"


class Node(NamedTuple):
    """One thing that can be found and shown: a memory, a session or a turn.

    A tuple, since a question reads forty: a frozen dataclass of so many fields takes five times as long to make.

    `ordinal` is a turn's place in its session, or a fact's among those of its turn. `text` is what is shown, `context`
    are its neighbours' words, which help keyword search alone. `live`: recall may return it without being asked for
    archived memories; after `stale_after` it is marked as out of date. A fact that does not rank is found by the turn
    that it was drawn from, and shown for it. `curated` is the priority, 1 to 10, of one that is in every envelope.
    `agent`, `task` and `user` are those of its session, `entities` are folded: of whom or what it is, and who spoke.
    `forgotten`, or erased: it stays out of answers whatever these ask for.
    """

    node_id: NodeId
    path: str
    level: Level
    kind: Kind
    title: str
    text: str
    context: str = ""
    channel: str = GLOBAL_CHANNEL
    live: bool = True
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    stale_after: datetime | None = None
    session_id: NodeId | None = None
    ordinal: int = 0
    role: str = ""
    external_id: str | None = None
    offset: int = 0
    certainty: float | None = None
    tags: tuple[str, ...] = ()
    curated: int = 0
    ranks: bool = True
    agent: str | None = None
    task: str | None = None
    user: str | None = None
    entities: tuple[str, ...] = ()
    forgotten: bool = False

    @property
    def since(self) -> datetime | None:
        """From when it holds, as far as that is known: since it was said, or said again after something else held."""
        return self.valid_from or self.created_at

    @property
    def speaker(self) -> str:
        """The speaker's name or role, "" for what is neither turn nor document."""
        return self.role if self.kind in (Kind.TURN, Kind.DOCUMENT) else ""

    @property
    def asks(self) -> bool:
        """True if the text ends with a question; a long one is a document or a program's output."""
        return len(self.text) <= LONGEST_ASKING_CHARS and self.text.rstrip().endswith(("?", "？"))

    @property
    def size_bytes(self) -> int:
        """The length of the text in UTF-8."""
        return len(self.text.encode())

    @property
    def time_s(self) -> int | None:
        """The time that it is of, in seconds of the epoch."""
        return _epoch(self.created_at, None)

    @property
    def searchable(self) -> bool:
        """A session's own node is shown and listed; its turns are found."""
        return self.kind is not Kind.SESSION and bool(self.text.strip())

    def heading(self) -> str:
        """Return the text in front of a node where it is embedded and matched: its speaker or title."""
        if self.kind is Kind.TURN:
            return "" if self.role in PEOPLE_ROLES else self.role
        return "" if self.text.startswith(self.title.rstrip("….")) else self.title

    def payload(self) -> dict[str, Payload]:
        """Return the fields for filters: texts, and instants as whole seconds of the epoch, never null."""
        return {
            "node": self.node_id,
            "channel": self.channel,
            "level": self.level.value,
            "kind": self.kind.value,
            "session": self.session_id,
            "live": int(self.live),
            "ranks": int(self.ranks),
            "valid_from": _epoch(self.valid_from or self.created_at, ALWAYS),
            "valid_to": _epoch(self.valid_to, FOREVER),
            "time": self.time_s,
            "size": self.size_bytes,
            **self.marks(),
        }

    def marks(self) -> dict[str, Payload]:
        """Return the fields for filters that few nodes have, or that have several values: those that are not null."""
        marks: dict[str, Payload] = {"agent": self.agent, "task": self.task, "user": self.user}
        marks |= {"tags": tuple(dict.fromkeys(map(fold_tag, self.tags))), "entity": self.entities}
        marks[FORGOTTEN] = "yes" if self.forgotten else None
        marks |= {"role": self.speaker, "asks": "yes" if self.asks else None}
        return {field: value for field, value in marks.items() if value}

    @property
    def version(self) -> str:
        """The hash of what is shown and edited of a memory: links that dreamd adds to its file leave it as it is."""
        shown = repr((self.title, self.text, self.kind.value, self.tags, self.curated))
        return hashlib.sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def digest(self) -> str:
        """Return the hash of all that the index holds of this node."""
        return hashlib.sha256(repr(tuple(self)).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Link:
    """`source` points at `target`: it `cites` it as evidence, `supersedes` or `contradicts` it, `relates` to it.

    It was `superseded_by` it, one arrow at most, or probably so: `later`. It `rewords` what was said in it. `weight`, 0
    to 1, is how close those are of which one `relates` to the other.
    """

    source: NodeId
    target: NodeId
    kind: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Projection:
    """The nodes and links of one file, or of the tail of a session; `entity` is read from the page of one.

    `names` are the keys by which a link in a text finds it, and `references` the links in its own text.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...] = ()
    parsed_to: int = 0
    problem: str | None = None
    entity: EntityPage | None = None
    names: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()


def is_turn(node_id: NodeId) -> bool:
    """Return True for the id of a turn, SESSION#N."""
    return TURN_MARK in node_id


def is_session(path: str) -> bool:
    """Return True for a file that is read as a session."""
    return path.startswith(SESSIONS)


def project_memory(path: str, data: bytes, written_at: datetime) -> Projection:
    """Read a concept file; a broken one is kept searchable by its text, its `problem` said.

    A fact that its person reworded is of the time when they did, and is its own unit instead of its turn's.
    """
    document = okf.parse(data)
    memory = okf.to_memory(path, document, written_at)
    problem = document.problem or (STRAY_SESSION if memory.kind is Kind.SESSION else None)
    links = tuple(memory_links(memory))
    if (at := reworded_at(memory, written_at)) is not None:
        memory = replace(memory, created_at=at, valid_from=at)
        links = (*(Link(memory.node_id, turn, REWORDS) for turn in memory.sources[:1]), *links)
    node, entity = memory_node(memory), entity_of(memory)
    names = tuple(_names(memory, entity))
    return Projection((node,), links, len(data), problem, entity, names, tuple(references_in(node.text)))


# The fields of a memory that its node has as they are; its text is without footnotes.
_SHARED = tuple(one.name for one in fields(Memory) if one.name in Node._fields and one.name != "text")


def memory_node(memory: Memory) -> Node:
    """Return the node of a memory from its file alone; the index knows if its successor is there."""
    return Node(
        **{name: getattr(memory, name) for name in _SHARED},
        text=FOOTNOTE.sub("", memory.text).strip() or memory.description,
        live=not memory.is_archived,
        ranks=memory.extra.get(SEARCHED) is not False,
        stale_after=okf.instant(memory.extra.get("stale_after")),
        ordinal=_ordinal(memory.extra.get("ordinal")),
        context=_keys(memory),
        role=memory.said_by or (IMPORT if is_imported(memory) else ""),
        curated=priority_of(memory),
        agent=_name(memory.extra.get("agent_id")),
        task=_name(memory.extra.get("task_id")),
        user=_name(memory.extra.get("user_id")),
        entities=_entities(*_named_in(memory), memory.slot.subject if memory.slot else "", memory.said_by or ""),
    )


def memory_links(memory: Memory) -> Iterable[Link]:
    """Yield the memory's links, in the file's order, each once."""
    related = related_to(memory)
    arrows = [("cites", memory.sources), ("supersedes", memory.supersedes), ("contradicts", memory.contradicts)]
    arrows.append((LATER, memory.later))
    arrows.append((SUCCESSOR, (memory.superseded_by,) if memory.superseded_by else ()))
    arrows.append((RELATES, tuple(related)))
    arrows.append((PROMOTED_FROM, ids_listed(memory.extra.get(PROMOTED_FROM))))
    arrows.append((AWAITS, (THE_PERSON,) if memory.is_waiting else ()))
    entity = entity_of(memory)
    arrows.append((MENTIONS_LINK, entity.mentions if entity else ()))
    seen: set[tuple[str, str]] = set()
    for kind, targets in arrows:
        for target in targets:
            if (target, kind) not in seen:
                seen.add((target, kind))
                yield Link(memory.node_id, target, kind, related[target] if kind == RELATES else 1.0)


def _names(memory: Memory, entity: EntityPage | None) -> Iterable[str]:
    """Yield the keys of a memory's names: its file's, its title and its aliases.

    A fact that was drawn from a turn has its file's alone: its title is a sentence.
    """
    named = [PurePosixPath(memory.path).stem]
    if memory.level is not Level.FACT or not any(map(is_turn, memory.sources)):
        named += [memory.title, *ids_listed(memory.extra.get(ALIASES))]
    keys = (*map(key_of, named), *(entity.keys if entity else ()))
    return dict.fromkeys(key for key in keys if key)


def keys_of_reference(path: str, reference: Reference) -> list[str]:
    """Return the keys of a link's target, that of the file at `path` has; the first that is known counts.

    That of a path begins with a slash. A note that was imported lies elsewhere than its author knows, so a relative
    path is a name as well.
    """
    target = PurePosixPath(reference.target)
    if not reference.is_path and len(target.parts) == 1:
        return [key_of(reference.target)]
    file = target if reference.is_path else target.with_name(f"{target.name}.md")
    at = file if reference.target.startswith("/") else PurePosixPath("/", path).parent / file
    roots = [at] if reference.is_path else [PurePosixPath("/", file), at]
    keys = dict.fromkeys(normpath(str(one)) for one in roots)
    return [*keys, *([] if reference.target.startswith("/") else [key_of(target.stem)])]


def cues_of(node: Node) -> set[int]:
    """Return the keys, hashed, by which a node is found at an act of an agent: 63 bits each.

    The turn of an edit is found by its file, a failed result by its error, and a fact by the
    files that it names.
    """
    keys: list[tuple[Cue, str]] = []
    if node.kind is Kind.TURN:
        if (called := acts.call_of(node.text)) is not None:
            if called[0] in acts.EDITS:
                keys.append((Cue.EDIT, acts.file_key(called[1])))
        elif (ended := acts.result_of(node.text)) is not None and ended[1] and ended[0] not in acts.LOOKS:
            keys += [(Cue.ERROR, key) for key in acts.error_keys(ended[2])]
    elif node.level is Level.FACT and node.kind is not Kind.DOCUMENT:
        keys += [(Cue.FILE, name) for name in acts.files_named(node.text)]
    return {cue_key(cue, key) for cue, key in keys if key}


def cue_key(cue: Cue, key: str) -> int:
    """Return the hash under which a cue lies in the index: no text of a session is in it."""
    digest = hashlib.blake2b(f"{cue.value}\0{key}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def read_head(path: str, data: bytes) -> tuple[SessionHead, str | None]:
    """Return the head of a session's file, and the problem of its frontmatter, if there is one."""
    document = okf.parse(data)
    return session.head_of(path, document), document.problem


def project_session(path: str, data: bytes, head: SessionHead) -> Projection:
    """Read a whole session: its own node and its turns."""
    parsed = session.parse(data, from_offset=0, session_id=head.session_id, next_ordinal=1)
    turns = with_neighbours([turn_node(turn, path, head) for turn in parsed.turns])
    problem = "its last turn is torn" if parsed.torn else None
    return Projection((session_node(path, head), *turns), (), parsed.end, problem)


def project_appended(path: str, tail: bytes, head: SessionHead, before: Sequence[Node], from_offset: int) -> Projection:
    """Read what was appended to a session at a byte offset.

    `before` holds the last 2 * NEIGHBOURS turns in front of it (fewer where there are fewer). The last NEIGHBOURS of
    them are answered again: they gained neighbours.
    """
    next_ordinal = before[-1].ordinal + 1 if before else 1
    parsed = session.parse(tail, from_offset=0, session_id=head.session_id, next_ordinal=next_ordinal)
    turns = [turn_node(turn, path, head)._replace(offset=turn.offset + from_offset) for turn in parsed.turns]
    problem = "its last turn is torn" if parsed.torn else None
    settled = max(0, len(before) - NEIGHBOURS)
    return Projection(tuple(with_neighbours([*before, *turns])[settled:]), (), from_offset + parsed.end, problem)


def session_node(path: str, head: SessionHead) -> Node:
    """Return the session's own node, which is shown and listed, never matched."""
    return Node(
        node_id=head.session_id,
        path=path,
        level=Level.SESSION,
        kind=Kind.SESSION,
        title=head.title or head.session_id,
        text=head.title,
        channel=head.channel,
        created_at=head.started_at,
        session_id=head.session_id,
        agent=head.agent_id,
        task=head.task_id,
        user=head.user_id,
    )


def turn_node(turn: Turn, path: str, head: SessionHead) -> Node:
    """One turn, without its neighbours yet."""
    return Node(
        node_id=turn.node_id,
        path=path,
        level=Level.SESSION,
        kind=Kind.TURN,
        title=_one_line(turn.text),
        text=turn.text,
        channel=head.channel,
        live=turn.text != session.ERASED,
        forgotten=turn.text == session.ERASED,
        created_at=turn.at or head.started_at,
        session_id=turn.session_id,
        ordinal=turn.ordinal,
        role=turn.role,
        external_id=turn.external_id,
        offset=turn.offset,
        agent=head.agent_id,
        task=head.task_id,
        user=head.user_id,
        entities=_entities(turn.role),
    )


def with_neighbours(turns: Sequence[Node]) -> list[Node]:
    """Give each turn its neighbours' words: their speakers and beginnings."""
    said = [_said(turn) for turn in turns]
    around = ([*said[max(0, i - NEIGHBOURS) : i], *said[i + 1 : i + 1 + NEIGHBOURS]] for i in range(len(turns)))
    return [turn._replace(context="\n".join(words)) for turn, words in zip(turns, around, strict=True)]


def _said(turn: Node) -> str:
    heading, text = turn.heading(), "" if turn.text == session.ERASED else turn.text[:NEIGHBOUR_CHARS]
    return f"{heading}: {text}" if heading else text


def _keys(memory: Memory) -> str:
    """Return what a fact is found by beside its words: whom and what it is about, and the days that it means."""
    return "\n".join([*memory.about, *map(format_date, memory.days)])


def _named_in(memory: Memory) -> tuple[str, ...]:
    """Return what a memory says that it is about; of a statement that was kept by itself, what it names."""
    if memory.about or memory.sources or memory.level is not Level.FACT or memory.kind is Kind.DOCUMENT:
        return memory.about
    return entities_in(memory.text)


def _entities(*names: str) -> tuple[str, ...]:
    """Return names as filters compare them, each once; a role names a part, and nobody."""
    return tuple(dict.fromkeys(fold(name) for name in names if name.strip() and name not in PEOPLE_ROLES))


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def related_to(memory: Memory) -> dict[NodeId, float]:
    """Map the nodes that a memory is related to, `relates: [{title: NODE, weight, because}]`, to the weight, 0 to 1."""
    entries = memory.extra.get(RELATES)
    listed = entries if isinstance(entries, list) else []
    found = (entry for entry in listed if isinstance(entry, Mapping) and isinstance(entry.get("title"), str))
    return {entry["title"]: _weight(entry.get("weight")) for entry in found}


def _weight(value: object) -> float:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return 1.0
    return min(max(float(value), 0.0), 1.0)


def ids_listed(value: object) -> tuple[str, ...]:
    """Return the ids, or names, in a list of a file's frontmatter; () where it is none."""
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _ordinal(value: object) -> int:
    return value if isinstance(value, int) and 0 < value < 2**31 else 0


def is_imported(memory: Memory) -> bool:
    """Check for a statement from elsewhere, which is of another day than that on which it was kept."""
    return bool(memory.extra.get("learned_at")) and not memory.sources


def priority_of(memory: Memory) -> int:
    """Return the priority of a curated memory: of one without a number the middle, 0 for any other."""
    value = memory.extra.get(CURATED)
    if value is True:
        return DEFAULT_PRIORITY
    return min(value, MOST_PRIORITY) if type(value) is int and value > 0 else 0


def _one_line(text: str, limit: int = 80) -> str:
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _epoch(at: datetime | None, unsaid: _Unsaid) -> int | _Unsaid:
    if at is None:
        return unsaid
    return math.floor((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
