"""Anchors: a short record of the work of a session's agent, which survives its context and the daemon.

An agent writes its own part; the work that hooks saw stands beside that, and changes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Final

from ..core import Core
from ..door import outgoing
from ..ledger.work import own_text, set_anchor
from ..model import InvalidInput, NodeId
from ..results import Anchor, FoundAnchor
from ..text import acts
from ..text.fence import fenced, unmarked

# The size of an anchor: the characters of its agent's texts, and its decisions; the oldest decisions are dropped.
MOST_CHARS: Final = 2000
MOST_DECISIONS: Final = 8

# The size of the work seen: the characters of a prompt or a command, files, and turns in which they are looked for.
LONGEST_SEEN: Final = 300
MOST_EDITED: Final = 8
LAST_TURNS: Final = 200

# A session with a younger anchor, and without an end, may be going on beside the one that asks.
STILL_AT_WORK: Final = timedelta(hours=1)


class Anchors:
    """Keeps and finds anchors. Every method may be called from any thread; `gate` is held while one is changed.

    `at_work` returns the sessions that gave a sign of life lately.
    """

    def __init__(self, core: Core, gate: Lock, at_work: Callable[[], Collection[NodeId]]) -> None:
        self._core = core
        self._door = core.door
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._gate = gate
        self._at_work = at_work

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
            if known is None:
                known = Anchor(session_id, channel, self._now())
            elif task and known.task and task != known.task:
                known = replace(known, plan="", decisions=(), next_step="")
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
        return _found(anchor, is_own=True)

    def see(self, session_id: NodeId, channel: str, asked: str, folder: str = "") -> None:
        """Note the work of a session, in place of its last note; nothing where learning is off.

        That is its last prompt, the files that it changed last, named as from `folder`, and the command that fails.
        """
        session_id = self._door.checked_session(session_id, channel)
        if self._core.switches.is_off(channel) or not (asked := self._door.line(asked)[:LONGEST_SEEN]):
            return
        turns = self._core.catalog.turns(session_id)[-LAST_TURNS:]
        done = acts.acts_in((turn.ordinal, turn.text) for turn in turns)
        edited = [self._door.line(path.removeprefix(f"{folder}/"))[:LONGEST_SEEN] for path in _edited(done)]
        failing = self._door.line(_failing(done))[:LONGEST_SEEN]
        with self._gate:
            known = self._ledger.anchor(session_id) or Anchor(session_id, channel, self._now())
            known = replace(known, set_at=self._now(), ended_at=None, channel=channel)
            seen = replace(known, asked=asked, edited=tuple(edited[-MOST_EDITED:]), failing=failing)
            self._writer.write(*set_anchor(seen)).result()

    def of_session(self, session_id: NodeId) -> FoundAnchor:
        """Return the anchor of a session, in words for its own agent."""
        self._core.calls.note()
        return _found(self._ledger.anchor(self._door.session_name(session_id)), is_own=True)

    def of_channel(self, channel: str) -> FoundAnchor:
        """Return the newest anchor of a channel, of any session."""
        self._core.calls.note()
        return _found(next(iter(self._ledger.anchors(channel, 1)), None))

    def lost(self, channel: str, session_id: NodeId) -> FoundAnchor:
        """Return the newest anchor of another session of a channel that did not end, and gave no sign of life lately.

        One that is at work elsewhere, as in another terminal, is none that was lost.
        """
        self._core.calls.note()
        idle = self._now() - STILL_AT_WORK
        alive = {self._door.session_name(session_id), *self._at_work()}
        lost = (one for one in self._ledger.anchors(channel) if one.ended_at is None and one.session_id not in alive)
        return _found(next((one for one in lost if one.set_at < idle), None))

    def recover(self, channel: str, session_id: NodeId | None = None) -> FoundAnchor:
        """Return the anchor from which a session goes on: its own, else the newest of its channel that did not end."""
        self._core.calls.note()
        if session_id is not None and (own := self.of_session(session_id)).anchor is not None:
            return own
        lost = next((anchor for anchor in self._ledger.anchors(channel) if anchor.ended_at is None), None)
        return _found(lost, tuple(self._warnings(lost)) if lost else ())

    def _warnings(self, anchor: Anchor) -> Iterator[str]:
        minutes = int((self._now() - anchor.set_at).total_seconds() // 60)
        if self._now() - anchor.set_at < STILL_AT_WORK or anchor.session_id in self._at_work():
            yield f"it is of session {anchor.session_id}, set {minutes} min ago, which may still be at work"
        else:
            yield f"it is of session {anchor.session_id}, which did not say that it ended"

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else self._door.line(text)


def _edited(done: Iterable[acts.Act]) -> list[str]:
    """Return the files that were changed, the latest last, each once."""
    edited: dict[str, None] = {}
    for act in done:
        if act.is_edit and act.words:
            edited.pop(act.words, None)
            edited[act.words] = None
    return list(edited)


def _failing(done: Iterable[acts.Act]) -> str:
    """Return the command that failed last, "" if it was called again since and did not."""
    failing = ""
    for act in done:
        if act.tool == acts.SHELL:
            failing = act.words if act.failed else "" if act.words == failing else failing
    return failing


def _newest(decisions: Sequence[str]) -> tuple[str, ...]:
    """Return the last decisions, each once, at its last place."""
    once = dict.fromkeys(reversed(decisions))
    return tuple(reversed(list(once)[:MOST_DECISIONS]))


def _bounded(anchor: Anchor) -> Anchor:
    """Drop the oldest decisions until the whole fits. Raises InvalidInput for one that is empty, or never fits."""
    while anchor.decisions and len(own_text(anchor)) > MOST_CHARS:
        anchor = replace(anchor, decisions=anchor.decisions[1:])
    if not own_text(anchor).strip():
        raise InvalidInput("the anchor says nothing", hint="Give a task, a plan, decisions or a next step.")
    if (size := len(own_text(anchor))) > MOST_CHARS:
        raise InvalidInput(
            f"the anchor has {size:,} characters, more than {MOST_CHARS:,}", hint="A plan is best named by its path."
        )
    return anchor


def _found(anchor: Anchor | None, notes: tuple[str, ...] = (), *, is_own: bool = False) -> FoundAnchor:
    if anchor is None:
        return FoundAnchor(None)
    shown = replace(
        anchor,
        task=outgoing(anchor.task),
        plan=outgoing(anchor.plan),
        decisions=tuple(map(outgoing, anchor.decisions)),
        next_step=outgoing(anchor.next_step),
        asked=outgoing(anchor.asked),
        edited=tuple(map(outgoing, anchor.edited)),
        failing=outgoing(anchor.failing),
    )
    return FoundAnchor(shown, fenced("\n".join(_lines(shown, is_own=is_own))), notes)


def _lines(anchor: Anchor, *, is_own: bool) -> Iterator[str]:
    """Yield an anchor in words: for its own agent, or for another, which is told whose it is."""
    who = "you were" if is_own else f"the agent of session {unmarked(anchor.session_id)} was"
    yield f"what {who} doing, as of {anchor.set_at:%d %b %Y %H:%M} UTC"
    said = [("task", anchor.task), ("plan", anchor.plan)]
    said += [("decided", text) for text in anchor.decisions]
    said += [("next step", anchor.next_step)]
    # The last prompt is the task, where the agent did not name one.
    said += [("asked last" if own_text(anchor).strip() else "task", anchor.asked)]
    said += [("files changed", ", ".join(anchor.edited)), ("failed last", anchor.failing)]
    for name, text in said:
        if text:
            yield f"{name}: {unmarked(text)}"
