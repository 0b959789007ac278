"""The merge of versions of one memory that were written on several machines, none of which knew of the other.

A pure function of the versions: every machine that has the same ones makes the same file of them, byte for byte.
Nothing is dropped that a person wrote: of two texts the later one stays, and the earlier becomes a memory of its own,
either replaced by it, where the judge of statements is sure of that, or disputed, for `dreamctl review`.

A session is a tree of turns, each of which names the one that it was written after, and its lines are the paths through
that tree. Of the turns that follow one turn the earliest goes on in its line; each other begins a line that is named by
it. So the lines are a function of the set of turns (`session_lines`): the union of two machines' turns commutes, and
adding a turn again changes nothing, whatever the order in which segments arrive. A turn that no other machine was told
of is none of that set yet: it gives way to those that are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final

from .. import okf
from ..model import InvalidInput, Kind, Level, Memory, NewTurn, NodeId, Status, Turn
from ..okf import session
from ..okf.memory_file import BY_HAND, EDITED_AT, body_hash, is_edited_page
from ..text.judging import EarlierStatement, Relation, judge

ONE_MATTER: Final = 0.9
"""The cosine that two versions of one fact are judged with: they were one text, so they are of one matter."""

_OF_THE_WORDS: Final = frozenset({"title", "description", "slot", "provenance", BY_HAND, EDITED_AT, "type", "kind"})
"""Keys that follow the text, whichever is taken."""

_OF_A_LINE: Final = re.compile(r"-fork-[0-9a-f]{8}$")
"""The end of the id of a line that is not its session's first."""

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """The content of a memory's file on one machine; `name` orders versions of one time."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class ToldTurn:
    """A turn as an entry tells it; its session and ordinal are those where it was written.

    `after` is the key of the turn before it, "" for the first of a session, None where that is not told. `writer` names
    the segment, "" for the turn in the file here.
    """

    turn: Turn
    after: str | None
    writer: str = ""


@dataclass(frozen=True, slots=True)
class LineTurn:
    """A turn with its place in a line; `here` are the turns in files here that it is, none or mostly one."""

    turn: Turn
    here: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Arranged:
    """The new bytes of the session files in which a turn moves (None: it is empty now), and the new ids of turns."""

    files: Mapping[NodeId, bytes | None]
    ids: Mapping[NodeId, NodeId]


@dataclass(frozen=True, slots=True)
class Merged:
    """One file of several versions.

    `beside` are the memories that keep the texts which this one does not have. `rivals` are pairs of memories that both
    replaced this one, the earlier first.
    """

    data: bytes
    beside: tuple[tuple[NodeId, bytes], ...] = ()
    rivals: tuple[tuple[NodeId, NodeId], ...] = ()


def merged(versions: Sequence[MemoryVersion], before: bytes | None) -> Merged:
    """Return the merge of one or more versions; `before` is the last that all of them come from, None if unknown.

    Example: before, it was "Deploys are on Thursday". One machine tags it `ops`, another changes the text to "Deploys
    are on Friday now": the merge has the new text and the tag. If the first had changed the text too, to "Deploys are
    by hand", its text would be kept beside the later one, and the two be disputed.
    """
    first, *others = sorted(versions, key=lambda version: (_written_at(version.data), version.name))
    result = Merged(first.data)
    for version in others:
        one = _merged_two(result.data, version.data, before)
        result = Merged(one.data, (*result.beside, *one.beside), (*result.rivals, *one.rivals))
    return result


def turn_key(turn: Turn) -> str:
    """Return the name of a turn within its session, which the next one is written after; nothing of its text is in it.

    A purge erases the text and leaves the key: else turns would name a hash of an erased text, or nothing.
    """
    at = turn.at.astimezone(UTC).isoformat() if turn.at else None
    told = json.dumps([turn.ordinal, turn.role, at, turn.external_id])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def lasting_name(turn: Turn) -> str:
    """Return the name of a turn that stays when it moves to another line of its session, and when it is purged."""
    return f"{root_of(turn.session_id)}!{turn.external_id or turn_key(turn)}"


def root_of(session_id: NodeId) -> NodeId:
    """Return the session that a line began in; of any other session itself."""
    return _OF_A_LINE.sub("", session_id)


def told_of(turns: Sequence[Turn]) -> list[ToldTurn]:
    """Return the turns of a file, each after the one before it."""
    keys = ["", *map(turn_key, turns)]
    return [ToldTurn(turn, after) for turn, after in zip(turns, keys, strict=False)]


def session_lines(
    root: NodeId, told: Iterable[ToldTurn], purged: Collection[NodeId] = ()
) -> dict[NodeId, list[LineTurn]]:
    """Return the lines of a session, each with its turns in order: a function of the set of these.

    `purged` are ids and lasting names of sessions and turns that are to be without their texts.

    Example: three machines have fetched turn 1, and go on with 2a, 2b and 3b, 2c. They are said in this order, so `S`
    has 1 and 2a, `S-fork-KEY(2b)` has 2b and 3b, `S-fork-KEY(2c)` has 2c, on every machine.
    """
    nodes = _nodes(root, told)
    by_key, by_number = dict[tuple[bool, str], _Node](), dict[tuple[NodeId, int], list[_Node]]()
    for node in nodes:
        for turn in node.here:
            by_key.setdefault((False, turn_key(turn)), node)
        for one in (one for one in node.told if one.writer):
            by_key.setdefault((True, turn_key(one.turn)), node)
            by_number.setdefault((one.turn.session_id, one.turn.ordinal), []).append(node)
    following = dict[NodeId | int, list[_Node]]()
    for node in nodes:
        node.parent = _parent(node, by_key, by_number)
        following.setdefault(node.place, []).append(node)
    lines = dict[NodeId, list[LineTurn]]()
    for node in nodes:
        if node is not min(following[node.place], key=lambda one: one.precedence):
            node.line = session.session_id(f"{root}-fork-{turn_key(node.told[0].turn)[:8]}")
        else:
            node.line = node.parent.line if node.parent else node.told[0].turn.session_id
        line = lines.setdefault(node.line, [])
        ordinal = max(node.told[0].turn.ordinal, line[-1].turn.ordinal + 1 if line else 1)
        names = {node.line, f"{node.line}#{ordinal}", *(lasting_name(one.turn) for one in node.told)}
        is_erased = session.ERASED in {one.turn.text for one in node.told} or not names.isdisjoint(purged)
        text = session.ERASED if is_erased else node.told[0].turn.text
        turn = replace(node.told[0].turn, session_id=node.line, ordinal=ordinal, text=text)
        line.append(LineTurn(turn, tuple(node.here)))
    return lines


@dataclass(slots=True, eq=False)
class _Node:
    """A turn in the tree, as entries tell it; the first of `told` counts. `here`: as it is in files here."""

    told: list[ToldTurn]
    here: list[Turn] = field(default_factory=list)
    parent: _Node | None = None
    line: NodeId = ""

    def holds_another(self, one: ToldTurn) -> bool:
        """Return True if its writer told of it under another number: the same words at one time are two turns."""
        named, number = one.turn.session_id, one.turn.ordinal
        known = [other.turn for other in self.told if other.writer == one.writer] if one.writer else self.here
        return one.turn.external_id is None and any(
            turn.session_id == named and turn.ordinal != number for turn in known
        )

    @property
    def ordinal(self) -> int:
        """The smallest number that it has anywhere: a turn is after one of a smaller number, so there is no circle."""
        return min(one.turn.ordinal for one in self.told)

    @property
    def place(self) -> NodeId | int:
        """The same for all turns that follow one turn, or begin one session."""
        return id(self.parent) if self.parent else self.told[0].turn.session_id

    @property
    def precedence(self) -> tuple[bool, str, str, str, int, str]:
        """The order of turns that follow one turn."""
        turn = self.told[0].turn
        at = turn.at.astimezone(UTC).isoformat() if turn.at else ""
        return not self.told[0].writer, at, turn.external_id or "", turn.role, turn.ordinal, turn.text


def _nodes(root: NodeId, told: Iterable[ToldTurn]) -> list[_Node]:
    """Return the turns, those of smaller numbers first. An entry of the session itself counts before one of a line."""
    known = dict[object, _Node]()
    nodes: list[_Node] = []
    for one in sorted(told, key=partial(_weight, root)):
        sought, names = _names(one.turn)
        found = next((known[name] for name in sought if name in known), None)
        if found is None or found.holds_another(one):
            found = _Node([one])
            nodes.append(found)
        elif one.writer:
            found.told.append(one)
        if not one.writer:
            found.here.append(one.turn)
        for name in names:
            known.setdefault(name, found)
    return sorted(nodes, key=lambda node: (node.ordinal, node.precedence))


def _weight(root: NodeId, one: ToldTurn) -> tuple[bool, bool, NodeId, bool, bool, str, int, str, str]:
    """Return the order of the entries of one turn: those of its session before those of a line."""
    turn, after = one.turn, one.after or ""
    is_of_line = turn.session_id != root
    told = one.after is None, not after, after, turn.ordinal, turn.text, one.writer
    return not one.writer, is_of_line, turn.session_id, *told


def _names(turn: Turn) -> tuple[Sequence[object], Sequence[object]]:
    """Return by which names a turn is found if it is known, and which it has; its text may have been purged."""
    if turn.external_id is not None:
        return (turn.external_id,), (turn.external_id,)
    place = turn.ordinal, turn.at, turn.role
    if turn.at is not None:
        return (both := (place, (turn.at, turn.role, turn.text))), both
    is_erased = turn.text == session.ERASED
    return (place,) if is_erased else ((*place, turn.text), (*place, session.ERASED)), (place, (*place, turn.text))


def _parent(
    node: _Node, by_key: Mapping[tuple[bool, str], _Node], by_number: Mapping[tuple[NodeId, int], Sequence[_Node]]
) -> _Node | None:
    """Return the turn that another was written after: the one it names, else the nearest of a smaller number.

    A turn that is here alone follows turns here; one of entries follows those of entries, the same everywhere.
    """
    one = node.told[0]
    if one.after == "":
        return None
    named = by_key.get((bool(one.writer), one.after)) if one.after else None
    if named is not None and named.ordinal < node.ordinal:
        return named
    for number in range(one.turn.ordinal - 1, 0, -1):
        before = [some for some in by_number.get((one.turn.session_id, number), ()) if some.ordinal < node.ordinal]
        if before:
            own = [some for some in before if one.writer in {told.writer for told in some.told}]
            return min(own or before, key=lambda some: some.precedence)
    return None


def arranged(
    lines: Mapping[NodeId, Sequence[LineTurn]], images: Mapping[NodeId, bytes], opened: Callable[[NodeId], bytes]
) -> Arranged:
    """Return the files that have the turns of these lines, where turns here have to move; `images` are those here.

    `opened` returns the first bytes of a new file. The bytes before the first turn that differs stay as they are.
    """
    files, ids, is_changed = dict[NodeId, bytes | None](), dict[NodeId, NodeId](), False
    for line in sorted({*lines, *images}):
        turns, image = lines.get(line, ()), images.get(line)
        content = opened(line) if image is None else image
        parsed = session.parse(content, session_id=line)
        stays = [turn in one.here for turn, one in zip(parsed.turns, turns, strict=False)]
        kept = [*stays, False].index(False)
        rest = parsed.turns[kept:]
        content = content[: rest[0].offset] if rest else content + parsed.closing if turns[kept:] else content
        following = parsed.next_ordinal if not rest else parsed.turns[kept - 1].ordinal + 1 if kept else 1
        for number, one in enumerate(turns):
            ordinal = parsed.turns[number].ordinal if number < kept else max(one.turn.ordinal, following)
            ids |= {turn.node_id: named for turn in one.here if (named := f"{line}#{ordinal}") != turn.node_id}
            if number >= kept:
                new, following = one.here[0] if one.here else one.turn, ordinal + 1
                content += session.encode_turn(NewTurn(new.role, new.text, new.at, new.external_id), ordinal)
        files[line] = content if turns else None
        is_changed = is_changed or bool(rest)
    return Arranged({line: data for line, data in files.items() if data != images.get(line)} if is_changed else {}, ids)


def citing_anew(data: bytes, ids: Mapping[NodeId, NodeId], paths: Mapping[NodeId, str]) -> bytes:
    """Return a memory's file that cites turns by their new ids; `paths` are those of their sessions."""
    pattern = re.compile(rb"(?<![\w.-])(?:" + b"|".join(re.escape(one.encode()) for one in ids) + rb")(?!\d)")
    fresh = pattern.sub(lambda found: ids[found[0].decode()].encode(), data)
    if fresh == data:
        return data
    before, after = okf.parse(data), okf.parse(fresh)
    changes: dict[str, Any] = {}
    if before.meta.get(BY_HAND) == body_hash(before.body) and before.body != after.body:
        changes[BY_HAND] = body_hash(after.body)
    sources = _list(after.meta, "sources")
    sessions = {str(one.get("title", "")).partition("#")[0] for one in _mappings(sources)}
    if isinstance(before.meta.get("session_id"), str) and len(sessions) == 1:
        changes["session_id"] = sessions.pop()
    changes["sources"] = [
        {**one, "resource": f"/{paths[own]}"} if (own := str(one.get("title", "")).partition("#")[0]) in paths else one
        for one in _mappings(sources)
    ]
    try:
        return okf.edit(fresh, changes)
    except InvalidInput:  # its person wrote it in a way that no key can be changed in
        return fresh


def _written_at(data: bytes) -> datetime:
    meta = okf.parse(data).meta
    generated = meta.get("generated")
    times = [
        meta.get(EDITED_AT),
        meta.get("valid_from"),
        generated.get("at") if isinstance(generated, Mapping) else None,
    ]
    return max((at for value in times if (at := okf.instant(value))), default=_LONG_AGO)


def _merged_two(earlier: bytes, later: bytes, before: bytes | None) -> Merged:
    if earlier in (later, before):
        return Merged(later)
    if later == before:
        return Merged(earlier)
    old, new, was = okf.parse(earlier), okf.parse(later), okf.parse(before) if before is not None else None
    memory = okf.to_memory("", new)
    if not (old.meta and new.meta) or old.problem or new.problem:  # a note of its person's, without our keys
        return Merged(later, (_beside(earlier, memory.node_id, disputed=True),))
    takes_old, keeps, relation = _texts(earlier, later, before, memory)
    words, other = (old, new) if takes_old else (new, old)
    changes = _keys(words.meta, other.meta, was.meta if was else None, is_page=memory.level is not Level.FACT)
    rivals = [meta.get("superseded_by") for meta in (old.meta, new.meta)]
    beside: tuple[tuple[NodeId, bytes], ...] = ()
    if keeps:
        beside = (_beside(earlier, memory.node_id, disputed=relation is None),)
        key = "contradicts" if relation is None else "supersedes"
        listed = changes.get(key, words.meta.get(key))
        changes[key] = [*(listed if isinstance(listed, list) else ()), beside[0][0]]
    try:
        data = okf.edit(earlier if takes_old else later, changes)
    except InvalidInput:  # its person wrote it in a way that no key can be changed in
        data = earlier if takes_old else later
    is_rival = all(isinstance(one, str) for one in rivals) and rivals[0] != rivals[1]
    return Merged(data, beside, ((str(rivals[0]), str(rivals[1])),) if is_rival else ())


def _texts(earlier: bytes, later: bytes, before: bytes | None, memory: Memory) -> tuple[bool, bool, Relation | None]:
    """Decide whose text stays, True for the earlier's; if the other is kept beside it; and if that is replaced."""
    old, new = okf.parse(earlier).body.strip(), okf.parse(later).body.strip()
    was = None if before is None else okf.parse(before).body.strip()
    if old in (new, was):
        return False, False, None
    if new == was:
        return True, False, None
    if memory.level is not Level.FACT:
        by_hand = is_edited_page(earlier), is_edited_page(later)
        return by_hand == (True, False), by_hand == (True, True), None
    if memory.kind is Kind.DOCUMENT:  # an agent's own, by its key: the last one written counts
        return False, False, None
    found = judge(new, [EarlierStatement("", old, ONE_MATTER)])
    relation = next((one.relation for one in found if one.relation in (Relation.SAME, Relation.UPDATES)), None)
    return False, relation is not Relation.SAME, relation


def _beside(data: bytes, node_id: NodeId, *, disputed: bool) -> tuple[NodeId, bytes]:
    """Return the memory that keeps a text whose own memory has another by now."""
    memory = okf.to_memory("", okf.parse(data))
    own = next(one for one in islice(okf.fact_ids(memory.channel, memory.text), 2) if one != node_id)
    extra = {key: value for key, value in memory.extra.items() if key not in (BY_HAND, "same_as")}
    kept = replace(memory, node_id=own, extra=extra, supersedes=(), later=(), archived_at=None, status=Status.STABLE)
    if disputed:
        return own, okf.from_memory(replace(kept, contradicts=(node_id,), superseded_by=None))
    return own, okf.from_memory(replace(kept, contradicts=(), superseded_by=node_id))


def _keys(
    words: Mapping[str, Any], other: Mapping[str, Any], was: Mapping[str, Any] | None, *, is_page: bool
) -> dict[str, Any]:
    """Return the changes to the frontmatter `words`, whose text stays, by which it has the changes of the other."""
    changes: dict[str, Any] = {}
    for key in sorted(words.keys() | other.keys()):
        mine, its = words.get(key), other.get(key)
        if mine == its or key in _OF_THE_WORDS or (is_page and key == "sources"):
            continue
        if isinstance(mine, list | None) and isinstance(its, list | None):
            listed = _sources if key == "sources" else _union
            value: Any = listed(mine or [], its or [], _list(was, key)) or None
        elif (was is not None and mine == was.get(key)) or (was is None and mine is None):
            value = its
        else:
            continue
        if value != mine:
            changes[key] = value
    return changes


def _list(was: Mapping[str, Any] | None, key: str) -> list[Any]:
    value = (was or {}).get(key)
    return value if isinstance(value, list) else []


def _union(mine: list[Any], its: list[Any], was: list[Any]) -> list[Any]:
    """Return the entries of both, without those that one of the two removed."""
    keys = {_key(one) for one in was}
    both = {_key(one) for one in mine} & {_key(one) for one in its}
    every = {_key(one): one for one in (*its, *mine)}
    ordered = dict.fromkeys(map(_key, (*mine, *its)))
    return [every[key] for key in ordered if key in both or key not in keys]


def _sources(mine: list[Any], its: list[Any], was: list[Any]) -> list[Any]:
    """Return the sources of both; two of one label get others, as no text of a fact refers to them."""
    by_title = {str(one.get("title", "")): one for one in _mappings((*its, *mine))}
    titles = _union([*_titles(mine)], [*_titles(its)], [*_titles(was)])
    labels = okf.source_ids(titles)
    return [{**by_title[title], "id": labels[title]} for title in titles]


def _titles(entries: Iterable[Any]) -> Iterable[str]:
    return (str(one.get("title", "")) for one in _mappings(entries))


def _mappings(entries: Iterable[Any]) -> Iterable[Mapping[str, Any]]:
    return (one for one in entries if isinstance(one, Mapping))


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
