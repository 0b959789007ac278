"""The history: of one node its changes and the answers that had it; of a bundle the decisions that it came about by.

Changes are read from the runs. Rows of their own have only what no run says: an undo, a redo and, where the settings
ask for it, each time that a memory was found or shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from .. import okf
from ..changes.edits import BY_PAGE
from ..changes.run_kinds import DELETED, FORGET, MIGRATE, PURGE, REJECTED, WITHDREW
from ..channel import enclosing
from ..core import Core
from ..door import outgoing
from ..index.tombstones import TURN, UNTOLD
from ..ledger.ledger import Ledger
from ..ledger.records import LINK, PURGED, Write, note_events, stored, unpacked
from ..ledger.work import TOLD, told_of_row
from ..model import COLLEAGUE, GLOBAL_CHANNEL, ActionKind, Level, NodeId
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
    if (what == "kept" or reason == WITHDREW) and after and after.get("provenance") == COLLEAGUE:
        who = str(after.get("said_by"))
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


# ---- the decisions by which a state came about

_RUNS = "SELECT run_id, kind, started_at, ended_at, summary FROM run"
_ACTIONS = (
    "SELECT run_id, run.kind, ordinal, action.kind, node_id, stage, started_at, ended_at, undone_at, action.state,"
    f" refusal, reason FROM action JOIN run USING (run_id) WHERE action.state != '{PURGED}'"
)
_TOMBSTONES = (
    "SELECT fingerprint, run_id, coalesce(kind, ''), at, (SELECT coalesce(post_image, pre_image) FROM action"
    " WHERE run_id = tombstone.run_id"
    " AND instr(char(10) || action.fingerprint || char(10), char(10) || tombstone.fingerprint || char(10)))"
    " FROM tombstone LEFT JOIN run USING (run_id)"
)
_IMAGE = "SELECT coalesce(post_image, pre_image) FROM action WHERE run_id = ? AND ordinal = ?"

_DELETED_BY = {FORGET: "forgotten", DELETED: "deleted"}
_ORDER = ("proposed", "gated", "accepted", "refused", "rejected", "forgotten", "deleted", "replaced", "undone")
"""Of decisions of one moment; those that these do not name come last."""

_WHY = {
    "refused": "a file edited by hand is there",
    "rejected": REJECTED,
    "forgotten": "it was taken back",
    "deleted": "its file was deleted by hand",
    "undone": "the change was undone",
}
"""The words for a change of a memory that is not in the bundle, which is told by its id alone."""


FORBIDS: Final = "forbidden"
"""The decision of a tombstone, with its `key`: no dream proposes it again."""


def decisions(
    core: Core, records: Mapping[NodeId, Mapping[str, Any]], is_within: Callable[[str], bool], *, whole: bool
) -> list[dict[str, Any]]:
    """Return the decisions by which the memories of a bundle came about, the oldest first, and its tombstones.

    A memory that was refused or taken back has no file: its id, the moment, and our own words are all that is told.
    `is_within` tells of a channel whether it is in the bundle. `whole`: with the runs and their gate's verdicts, and
    with such memories of channels that the history does not know any more.
    """
    private = core.switches.channels_off

    def is_told(channel: str | None) -> bool:
        return whole if channel is None else is_within(channel) and private.isdisjoint(enclosing(channel))

    lines: list[dict[str, Any]] = []
    for row in core.ledger.ask(_ACTIONS):
        run_id, _, ordinal, _, node_id, *_ = row
        if node_id in records:
            lines += _of_action(row, is_told=True)
        elif over := [one for one in _of_action(row, is_told=False) if one["decision"] in _WHY]:
            lines += over if is_told(_channel_in(core.ledger.ask(_IMAGE, (run_id, ordinal))[0][0])) else ()
    accepted = {one["id"] for one in lines if one["decision"] == "accepted"}
    for node_id, record in records.items():
        lines += _of_record(record, records, is_first=node_id not in accepted)
    for key, run_id, kind, at, image in core.ledger.ask(_TOMBSTONES):
        turn = next((key.removeprefix(one) for one in (TURN, UNTOLD) if key.startswith(one)), None)
        if is_told(core.lookup.channel_of_session(turn.partition("#")[0]) if turn else _channel_in(image)):
            of = {"action": "tombstone", "id": "", "kind": kind, "ordinal": 0, "run": run_id, "stage": ""}
            lines.append({**of, "at": at, "decision": FORBIDS, "key": key, "reason": "no dream proposes it again"})
    for row in core.ledger.ask(_RUNS) if whole else ():
        lines += _of_run(row)
    rank = {decision: place for place, decision in enumerate(_ORDER)}
    return sorted(
        lines,
        key=lambda one: (
            one["at"],
            one["run"],
            rank.get(one["decision"], len(rank)),
            one["ordinal"],
            one["id"],
            one.get("key", ""),
        ),
    )


def _of_action(row: Sequence[Any], *, is_told: bool) -> Iterator[dict[str, Any]]:
    """Yield the decision about a change, and that it was undone; with the change's own reason where `is_told`."""
    run_id, kind, ordinal, action, node_id, stage, began, ended, undone, state, refusal, reason = row
    of = {"action": action, "id": node_id, "kind": kind, "ordinal": ordinal, "run": run_id, "stage": stage}
    made = "accepted"
    if state == "conflict":
        made = "refused"
    elif action == ActionKind.DELETE.value:
        made = "rejected" if reason == REJECTED else _DELETED_BY.get(kind, made)
    why = refusal or _WHY["refused"] if made == "refused" else outgoing(reason) if is_told else _WHY.get(made, "")
    yield {**of, "at": ended or began, "decision": made, "reason": why}
    if state == "undone":
        yield {**of, "at": undone or ended or began, "decision": "undone", "reason": _WHY["undone"]}


def _of_record(record: Mapping[str, Any], records: Mapping[NodeId, Any], *, is_first: bool) -> Iterator[dict[str, Any]]:
    """Yield that a memory was let in, where no run made it that is in the history, and that another took its place."""
    of = {"id": record["node_id"], "kind": record["kind"], "ordinal": 0, "run": "", "stage": ""}
    at = record["created_at"]
    if is_first:
        why = "it was observed" if record["level"] == Level.SESSION.value else "it was kept as it was said"
        yield {**of, "action": "create", "at": _instant(at), "decision": "accepted", "reason": why}
    if other := record.get("superseded_by"):
        why = f"{other if other in records else 'another'} took its place"
        ended = record.get("valid_to") or at
        yield {**of, "action": "supersede", "at": _instant(ended), "decision": "replaced", "reason": why}


def _instant(at: datetime | None) -> str:
    return stored(at) if at else ""


def _of_run(row: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the number of changes that a run proposed and its gate's verdict, with each refusal; or an erasure."""
    run_id, kind, began, ended, summary = row
    told = json.loads(summary)
    of = {"id": "", "kind": kind, "ordinal": 0, "run": run_id, "stage": ""}
    if kind == PURGE:
        yield {**of, "action": "run", "at": began, "decision": "purged", "reason": "content was erased for good"}
    if not (gate := told.get("gate")):
        return
    dropped, passed = gate.get("dropped", ()), sum(told.get("actions", {}).values())
    number = passed + sum(one.get("actions", 0) for one in dropped)
    yield {**of, "action": "run", "at": began, "decision": "proposed", "reason": f"{number} changes"}
    asked = f"{gate.get('probes', 0)} questions asked, {gate.get('lost', 0)} lost, {gate.get('gained', 0)} gained"
    recall = f"recall {gate.get('recall_before', 1.0):.3f} before, {gate.get('recall_after', 1.0):.3f} after"
    verdict = f"{passed} of {number} changes passed; {asked}; {recall}"
    yield {**of, "action": "gate", "at": ended or began, "decision": "gated", "reason": verdict}
    of = {**of, "kind": "gate", "at": ended or began, "action": "stage", "decision": "refused"}
    for one in dropped:
        why = f"{one.get('actions', 0)} of {one.get('of', 0)} changes left out: {one.get('reason', '')}"
        yield {**of, "stage": one.get("stage", ""), "reason": outgoing(why)}


def _channel_in(image: bytes | None) -> str | None:
    """Return the channel of a file as the history keeps it, None where it does no more."""
    data = unpacked(image)
    return None if data is None else str(okf.parse(data).meta.get("channel", GLOBAL_CHANNEL))
