"""The history of one node: its changes, as runs recorded them, and the answers and texts that had it.

Changes are read from the runs. Rows of their own have only what no run says: an undo, a redo and, where the settings
ask for it, each time that a memory was found or shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from .. import okf
from ..changes.edits import BY_PAGE
from ..changes.run_kinds import FORGET, MIGRATE
from ..ledger.ledger import Ledger
from ..ledger.records import LINK, Write, note_events, unpacked
from ..ledger.work import TOLD, told_of_row
from ..model import NodeId
from ..results import PERSON, HistoryEvent, Use
from ..settings import StoreSettings

MOST_CHANGES: Final = 500

DREAM, ITSELF = "dream", "dreamd"

# The kinds of run by whose doing they are; all others are a person's.
_DREAMS: Final = frozenset({"daily", "weekly", "compaction"})
_ITS_OWN: Final = frozenset({LINK, "remember", "files", "joined"})


class NodeHistory:
    """Records events of nodes and reads their history. Every method may be called from any thread."""

    def __init__(self, ledger: Ledger, settings: StoreSettings) -> None:
        self._ledger = ledger
        self._level = settings.history

    def read(self, what: str, nodes: Iterable[NodeId], at: datetime, by: str | None, asked: str = "") -> list[Write]:
        """Return the rows of an answer that had these nodes, by the settings with its question."""
        if self._level not in ("reads", "verbose"):
            return []
        detail = {"who": by or ""} | ({"asked": asked} if asked and self._level == "verbose" else {})
        return note_events(what, nodes, at, detail)

    def of(self, node_id: NodeId) -> list[HistoryEvent]:
        """Return the events of a node that the ledger knows, the oldest first."""
        rows = list(self._rows(node_id))
        noted = {(event.what, event.run_id) for event in rows}
        changes = self._changes(node_id)
        undone = [event for event in changes if event.what == "undone" and ("undone", event.run_id) not in noted]
        made = [event for event in changes if event.what != "undone"]
        found = [*made, *undone, *rows, *self._told(node_id), *self._judged(node_id)]
        return sorted(found, key=lambda event: event.at)

    def _changes(self, node_id: NodeId) -> list[HistoryEvent]:
        sql = (
            "SELECT run_id, run.kind, started_at, undone_at, summary, stage, reason, action.state, pre_image,"
            " post_image FROM action JOIN run USING (run_id) WHERE node_id = ? AND action.state != 'conflict'"
            " ORDER BY action.id DESC LIMIT ?"
        )
        rows = reversed(self._ledger.ask(sql, (node_id, MOST_CHANGES)))
        return [event for row in rows for event in _events_of(row)]

    def _rows(self, node_id: NodeId) -> Iterator[HistoryEvent]:
        sql = "SELECT at, kind, detail FROM event WHERE node_id = ? ORDER BY id DESC LIMIT ?"
        for at, what, given in reversed(self._ledger.ask(sql, (node_id, MOST_CHANGES))):
            detail = json.loads(given)
            who = PERSON if "run" in detail else detail.get("who", "")
            yield HistoryEvent(datetime.fromisoformat(at), what, who, detail.get("asked", ""), detail.get("run"))
        for times, at in self._ledger.ask("SELECT times, last_at FROM reinforcement WHERE node_id = ?", (node_id,)):
            why = "" if times == 1 else f"for the last time of {times}"
            yield HistoryEvent(datetime.fromisoformat(at), "said again", "", why)
        for times, at in self._ledger.ask("SELECT shown, last_at FROM usage WHERE node_id = ?", (node_id,)):
            why = "" if times == 1 else f"for the last time of {times}"
            yield HistoryEvent(datetime.fromisoformat(at), "in an answer", "", why)

    def _told(self, node_id: NodeId) -> Iterator[HistoryEvent]:
        rows = self._ledger.ask(f"{TOLD} WHERE instr(lines, ?) > 0 ORDER BY id DESC LIMIT ?", (node_id, MOST_CHANGES))
        for told in map(told_of_row, rows):
            for line in told.lines:
                if line.node_id == node_id:
                    became = f", and {line.became.replace('_', ' ')}" if line.became else ""
                    lost = f", but lost: {told.lost}" if told.lost else ""
                    why = f"at {told.moment} of session {told.session_id}{became}{lost}"
                    yield HistoryEvent(told.at, "told", told.agent, why)

    def channel_of(self, node_id: NodeId) -> str | None:
        """Return the channel that a node had when a run changed it last; None where none did, or its image is gone."""
        sql = "SELECT coalesce(post_image, pre_image) FROM action WHERE node_id = ? ORDER BY id DESC LIMIT 1"
        images = [unpacked(image) for (image,) in self._ledger.ask(sql, (node_id,))]
        return str(okf.parse(images[0]).meta.get("channel")) if images and images[0] else None

    def use_of(self, node_id: NodeId) -> Use:
        """Return how often a node was told and used, and said again."""
        told = self._ledger.ask("SELECT shown, last_at FROM usage WHERE node_id = ?", (node_id,))
        sql = "SELECT count(*) FROM feedback WHERE node_id = ? AND verdict = 'used'"
        ((used,),) = self._ledger.ask(sql, (node_id,))
        again = self._ledger.ask("SELECT times FROM reinforcement WHERE node_id = ?", (node_id,))
        shown, at = told[0] if told else (0, None)
        return Use(shown, at and datetime.fromisoformat(at), used, again[0][0] if again else 0)

    def _judged(self, node_id: NodeId) -> Iterator[HistoryEvent]:
        sql = "SELECT at, verdict FROM feedback WHERE node_id = ? ORDER BY id DESC LIMIT ?"
        for at, verdict in self._ledger.ask(sql, (node_id, MOST_CHANGES)):
            used = verdict == "used"
            what = "used" if used else "judged"
            yield HistoryEvent(datetime.fromisoformat(at), what, "", "" if used else verdict.replace("_", " "))


def _events_of(row: Sequence[Any]) -> Iterator[HistoryEvent]:
    """Yield the change of one action, and its undo."""
    run_id, kind, started_at, undone_at, given, stage, reason, state, *images = row
    summary = json.loads(given)
    before, after = (okf.parse(unpacked(image) or b"").meta if image else None for image in images)
    bodies = [okf.parse(unpacked(image) or b"").body if image else None for image in images]
    is_dream = kind in _DREAMS
    who = DREAM if is_dream else ITSELF if kind in _ITS_OWN or stage == BY_PAGE else str(summary.get("by") or PERSON)
    why = f"{stage}: {reason}" if is_dream and stage else reason
    what = "forgotten" if kind == FORGET and after is None else _change(before, after, bodies)
    if kind == MIGRATE and what in ("kept", "deleted"):  # a move is both, and neither to a person
        if what == "deleted":
            return
        what, who = "moved", ITSELF
    yield HistoryEvent(datetime.fromisoformat(started_at), what, who, why, run_id)
    if state == "undone" and undone_at:
        yield HistoryEvent(datetime.fromisoformat(undone_at), "undone", PERSON, "", run_id)


def _change(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, bodies: Sequence[str | None]) -> str:
    """Name what became of a file, by its frontmatter and its words before and after."""
    if before is None and after is None:  # the images have expired
        return "changed"
    if before is None or after is None:
        return "kept" if before is None else "deleted"
    for key, begun, ended in (("superseded_by", "replaced", "restored"), ("archived_at", "archived", "restored")):
        if before.get(key) != after.get(key):
            return begun if after.get(key) else ended
    if bodies[0] != bodies[1]:
        return "edited"
    for key, said in (("contradicts", "disputed"), ("later", "likely changed"), ("supersedes", "replaced another")):
        if len(after.get(key) or ()) > len(before.get(key) or ()):
            return said
    return "changed"
