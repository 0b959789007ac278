"""The merge of versions of one memory that were written on several machines, none of which knew of the other.

A pure function of the versions: every machine that has the same ones makes the same file of them, byte for byte.
Nothing is dropped that a person wrote: of two texts the later one stays, and the earlier becomes a memory of its own,
either replaced by it, where the judge of statements is sure of that, or disputed, for `dreamctl review`.

A session is not merged but forked: turns that went on elsewhere keep their numbers, those of one machine become a
session of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from .. import okf
from ..changes.session_plans import is_among
from ..model import InvalidInput, Kind, Level, Memory, NewTurn, NodeId, SessionHead, Status, Turn
from ..okf import session
from ..okf.memory_file import BY_HAND, EDITED_AT, body_hash, is_edited_page
from ..text.judging import EarlierStatement, Relation, judge

ONE_MATTER: Final = 0.9
"""The cosine that two versions of one fact are judged with: they were one text, so they are of one matter."""

_OF_THE_WORDS: Final = frozenset({"title", "description", "slot", "provenance", BY_HAND, EDITED_AT, "type", "kind"})
"""Keys that follow the text, whichever is taken."""

_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class MemoryVersion:
    """The content of a memory's file on one machine; `name` orders versions of one time."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Forked:
    """A session without the turns that became one of their own, that one, and the new id of each such turn."""

    kept: bytes
    line: bytes
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


def forked(image: bytes, first: int, line: SessionHead, there: bytes | None, elsewhere: Sequence[Turn]) -> Forked:
    """Move a session's turns from number `first` on to the session `line`, whose file is `there` so far.

    A turn that is among those of `elsewhere` is not moved: it comes in with these, under its number there.

    Example: on A a session has the turns 1, 2a, 3a; on B, which had fetched 1, the turns 1, 2b. B, which syncs second,
    keeps 1 and takes in 2a and 3a; 2b is the turn 2 of the session SESSION-on-B, on both.
    """
    whole = session.parse(image)
    own = session.head_of("", okf.parse(image)).session_id
    parsed = session.parse(there) if there else None
    content = there + parsed.closing if there and parsed else session.open_file(line)
    held, following = list(parsed.turns) if parsed else [], parsed.next_ordinal if parsed else 1
    ids: dict[NodeId, NodeId] = {}
    moved = [turn for turn in whole.turns if turn.ordinal >= first]
    for turn in moved:
        if same := next((one for one in elsewhere if is_same_turn(turn, one)), None):
            ids[f"{own}#{turn.ordinal}"] = f"{own}#{same.ordinal}"
            continue
        found = next((one for one in held if is_same_turn(turn, one)), None)
        ordinal = found.ordinal if found else max(turn.ordinal, following)
        ids[f"{own}#{turn.ordinal}"] = f"{line.session_id}#{ordinal}"
        if found is None:
            following = ordinal + 1
            content += session.encode_turn(NewTurn(turn.role, turn.text, turn.at, turn.external_id), ordinal)
    return Forked(image[: moved[0].offset] if moved else image, content, ids)


def is_same_turn(one: Turn, other: Turn) -> bool:
    """Return True for one turn on two machines: by its external id, or else by its time, role and words."""
    if one.external_id is not None or other.external_id is not None:
        return one.external_id == other.external_id
    return is_among(one, (other,))


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
