"""The last sessions of a channel, the newest first, by day or by file. Nothing is ranked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from ..door import outgoing
from ..index.catalog import Catalog
from ..index.projection import Cue, Node, cue_key
from ..model import ALL_CHANNELS, Kind, NodeId
from ..results import RecentSession, RecentTurn
from ..roles import Role
from ..text import acts
from ..text.fence import unmarked
from ..text.sentences import first_sentences

# The newest sessions that are looked through, and those with an edit of a file.
MOST_READ: Final = 30
MOST_EDITS: Final = 200

# The prompts of a session that are named, the files, and the characters of a quote.
MOST_ASKED: Final = 3
MOST_ASKED_OF_ONE: Final = 12
MOST_FILES: Final = 8
QUOTE_CHARS: Final = 200


def recent_sessions(
    catalog: Catalog,
    channel: str,
    limit: int,
    *,
    session: NodeId | None = None,
    day: date | None = None,
    file: str = "",
    left_out: NodeId | None = None,
) -> list[RecentSession]:
    """Return the sessions of a channel, or one of them, with their last prompts, changes and words; the newest first.

    `day`: those with turns of that day. `file`: those that changed a file of this path, or of its end.
    """
    names = [session] if session else _newest(catalog, channel, file)
    most_asked = MOST_ASKED_OF_ONE if session else MOST_ASKED
    found = []
    for name in dict.fromkeys(names):
        turns = [turn for turn in catalog.turns(name) if not turn.forgotten] if name != left_out else []
        one = _session(name, turns, most_asked)
        if one is not None and (day is None or _is_of(one, day)) and (not file or _changed(turns, file)):
            found.append(one)
    return sorted(found, key=lambda one: (one.last_at is not None, one.last_at), reverse=True)[:limit]


def _newest(catalog: Catalog, channel: str, file: str) -> Iterator[NodeId]:
    """Yield the ids of the sessions that come into question."""
    of_channel = None if channel == ALL_CHANNELS else channel
    if file and channel != ALL_CHANNELS:
        key = cue_key(Cue.EDIT, acts.file_key(file))
        edits = catalog.cued({key}, {channel}, "", MOST_EDITS).get(key, ())
        yield from (node.session_id or "" for node in edits)
    yield from (node.node_id for node in catalog.listing(of_channel, None, Kind.SESSION, MOST_READ))


def _session(name: NodeId, turns: Sequence[Node], most_asked: int) -> RecentSession | None:
    if not turns:
        return None
    prose = [turn for turn in turns if acts.call_of(turn.text) is None and acts.result_of(turn.text) is None]
    asked = [turn for turn in prose if turn.role == Role.USER]
    said = [turn for turn in prose if turn.role == Role.ASSISTANT]
    return RecentSession(
        session_id=name,
        channel=turns[0].channel,
        began_at=turns[0].created_at,
        last_at=turns[-1].created_at,
        turns=len(turns),
        asked=tuple(map(_quoted, asked[-most_asked:])),
        answer=_quoted(said[-1]) if said else None,
        edited=tuple(_short(path) for path in _edited(turns)[-MOST_FILES:]),
    )


def _quoted(turn: Node) -> RecentTurn:
    return RecentTurn(turn.node_id, unmarked(outgoing(first_sentences(turn.text, QUOTE_CHARS))))


def _edited(turns: Sequence[Node]) -> list[str]:
    """Return the files that were changed, each once, the latest last."""
    paths = [act.words for act in acts.acts_in((turn.ordinal, turn.text) for turn in turns) if act.is_edit]
    return list(dict.fromkeys(reversed([path for path in paths if path])))[::-1]


def _changed(turns: Sequence[Node], file: str) -> bool:
    wanted = file.strip().lstrip("./~")
    return any(path in (file, wanted) or path.endswith(f"/{wanted}") for path in _edited(turns))


def _short(path: str) -> str:
    return unmarked(outgoing(acts.file_key(path)))


def _is_of(one: RecentSession, day: date) -> bool:
    return one.began_at is not None and one.last_at is not None and one.began_at.date() <= day <= one.last_at.date()
