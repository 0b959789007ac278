"""Anchors: a short record of the work of a session's agent, which survives its context and the daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Final

from ..core import Core
from ..door import outgoing
from ..ledger.work import set_anchor, work_text
from ..model import InvalidInput, NodeId
from ..results import Anchor, FoundAnchor
from ..text.fence import fenced, unmarked

# The size of an anchor: the characters of all its texts, and its decisions; the oldest decisions are dropped.
MOST_CHARS: Final = 2000
MOST_DECISIONS: Final = 8

# A session with a younger anchor, and without an end, may be going on beside the one that asks.
STILL_AT_WORK: Final = timedelta(hours=1)


class Anchors:
    """Keeps and finds anchors. Every method may be called from any thread; `gate` is held while one is changed."""

    def __init__(self, core: Core, gate: Lock) -> None:
        self._core = core
        self._door = core.door
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._gate = gate

    def set(
        self,
        session_id: NodeId,
        channel: str,
        *,
        task: str | None = None,
        plan: str | None = None,
        decisions: Sequence[str] = (),
        next_step: str | None = None,
    ) -> FoundAnchor:
        """Change a session's anchor; it survives a power cut when this returns.

        A None leaves its part as it is, and decisions are added to the known ones; but another task starts with the
        given parts alone. Raises InvalidInput for an anchor that is empty, or too long without decisions, and
        StoreReadOnly where learning is off.
        """
        self._core.calls.note()
        session_id = self._door.checked_session(session_id, channel)
        self._core.switches.refuse_if_off(channel)
        task, plan, next_step = map(self._clean, (task, plan, next_step))
        decided = [text for given in decisions if (text := self._clean(given))]
        with self._gate:
            known = self._ledger.anchor(session_id)
            if known is None or (task and known.task and task != known.task):
                known = Anchor(session_id, channel, self._now())
            anchor = _bounded(
                replace(
                    known,
                    channel=channel,
                    set_at=self._now(),
                    task=known.task if task is None else task,
                    plan=known.plan if plan is None else plan,
                    decisions=_newest((*known.decisions, *decided)),
                    next_step=known.next_step if next_step is None else next_step,
                    ended_at=None,
                )
            )
            self._writer.write(*set_anchor(anchor)).result()
        return _found(anchor)

    def of_session(self, session_id: NodeId) -> FoundAnchor:
        """Return the anchor of a session."""
        self._core.calls.note()
        return _found(self._ledger.anchor(self._door.session_name(session_id)))

    def of_channel(self, channel: str) -> FoundAnchor:
        """Return the newest anchor of a channel, of any session."""
        self._core.calls.note()
        return _found(next(iter(self._ledger.anchors(channel, 1)), None))

    def recover(self, channel: str, session_id: NodeId | None = None) -> FoundAnchor:
        """Return the anchor from which a session goes on: its own, else the newest of its channel that did not end."""
        self._core.calls.note()
        if session_id is not None and (own := self.of_session(session_id)).anchor is not None:
            return own
        lost = next((anchor for anchor in self._ledger.anchors(channel) if anchor.ended_at is None), None)
        return _found(lost, tuple(self._warnings(lost)) if lost else ())

    def _warnings(self, anchor: Anchor) -> Iterator[str]:
        minutes = int((self._now() - anchor.set_at).total_seconds() // 60)
        if self._now() - anchor.set_at < STILL_AT_WORK:
            yield f"it is of session {anchor.session_id}, set {minutes} min ago, which may still be at work"
        else:
            yield f"it is of session {anchor.session_id}, which did not say that it ended"

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else self._door.line(text)


def _newest(decisions: Sequence[str]) -> tuple[str, ...]:
    """Return the last decisions, each once, at its last place."""
    once = dict.fromkeys(reversed(decisions))
    return tuple(reversed(list(once)[:MOST_DECISIONS]))


def _bounded(anchor: Anchor) -> Anchor:
    """Drop the oldest decisions until the whole fits. Raises InvalidInput for one that is empty, or never fits."""
    while anchor.decisions and len(work_text(anchor)) > MOST_CHARS:
        anchor = replace(anchor, decisions=anchor.decisions[1:])
    if not work_text(anchor).strip():
        raise InvalidInput("the anchor says nothing", hint="Give a task, a plan, decisions or a next step.")
    if (size := len(work_text(anchor))) > MOST_CHARS:
        raise InvalidInput(
            f"the anchor has {size:,} characters, more than {MOST_CHARS:,}", hint="A plan is best named by its path."
        )
    return anchor


def _found(anchor: Anchor | None, notes: tuple[str, ...] = ()) -> FoundAnchor:
    if anchor is None:
        return FoundAnchor(None)
    shown = replace(
        anchor,
        task=outgoing(anchor.task),
        plan=outgoing(anchor.plan),
        decisions=tuple(map(outgoing, anchor.decisions)),
        next_step=outgoing(anchor.next_step),
    )
    return FoundAnchor(shown, fenced("\n".join(_lines(shown))), notes)


def _lines(anchor: Anchor) -> Iterator[str]:
    yield f"what the agent of session {unmarked(anchor.session_id)} was doing, as of {anchor.set_at:%d %b %Y %H:%M} UTC"
    said = [("task", anchor.task), ("plan", anchor.plan)]
    said += [("decided", text) for text in anchor.decisions]
    for name, text in (*said, ("next step", anchor.next_step)):
        if text:
            yield f"{name}: {unmarked(text)}"
