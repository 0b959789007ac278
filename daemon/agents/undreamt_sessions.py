"""The facts to be of sessions since the last dream: judged in the background, for the next session's start.

Nothing is written: a dream judges the same turns again, and its own facts take the place of these.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from ...store.model import Level, Memory, NodeId, Turn

if TYPE_CHECKING:
    from ...store import MemoryStore

# Sessions that are held, those judged last: a dream comes before there are more.
MOST_SESSIONS = 24
# Turns of a session that are judged, some milliseconds each.
MOST_TURNS = 600
# The end of a transcript is written after the hook of the end was called.
AFTER_END_S, AFTER_ANSWER_S = 2.0, 60.0


class UndreamtSessions:
    """The facts to be of sessions that no dream has read. Every method may be called from any thread."""

    def __init__(self, store: MemoryStore, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._changed = threading.Condition()
        self._due_s: dict[NodeId, float] = {}
        self._facts: OrderedDict[NodeId, Sequence[Memory]] = OrderedDict()
        self._is_stopped = False
        self._prepare: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="undreamt-sessions", daemon=True)

    def start(self, prepare: Callable[[], object] = lambda: None) -> None:
        """Judge the newest sessions in the background, and from now on those that are named; first call `prepare`."""
        self._prepare = prepare
        self._thread.start()

    def stop(self) -> None:
        """Stop after the session that is being judged."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def judge_later(self, session_id: NodeId, *, ended: bool) -> None:
        """Judge a session's turns when they are all written: soon after its end, later where it goes on."""
        with self._changed:
            self._due_s[session_id] = time.monotonic() + (AFTER_END_S if ended else AFTER_ANSWER_S)
            self._changed.notify_all()

    def facts_of(self, channel: str) -> list[Memory]:
        """Return the facts to be of a channel: of turns that are still there, and that no dream has read by now."""
        with self._changed:
            held = [fact for facts in self._facts.values() for fact in facts if fact.channel == channel]
        return list(self._store.undreamt(held))

    def judge(self, session_id: NodeId) -> None:
        """Judge the turns of a session that no dream has read."""
        # Loaded here, since no start of a session is to wait for it.
        from ...pipelines.stages.consolidate import facts_of

        channel, read_to = self._store.channel_of_session(session_id), self._store.dreamt_to(session_id)
        nodes = self._store.turns_of(session_id)[-MOST_TURNS:] if channel else []
        if not nodes or nodes[-1].ordinal <= read_to:
            return
        turns = [
            Turn(session_id, node.ordinal, node.role, node.text, node.created_at, node.external_id) for node in nodes
        ]
        facts = facts_of(session_id, channel or "", turns, read_to + 1, self._now())
        with self._changed:
            self._facts[session_id] = facts
            self._facts.move_to_end(session_id)
            while len(self._facts) > MOST_SESSIONS:
                self._facts.popitem(last=False)

    def _run(self) -> None:
        self._try(self._prepare)
        for listed in reversed(self._store.list(level=Level.SESSION, limit=MOST_SESSIONS)):
            self._try(partial(self.judge, listed.node_id))
        while (session_id := self._next()) is not None:
            self._try(partial(self.judge, session_id))

    def _next(self) -> NodeId | None:
        """Wait for a session that is due; None when stopped."""
        with self._changed:
            while not self._is_stopped:
                session_id = min(self._due_s, key=self._due_s.__getitem__, default=None)
                wait_s = None if session_id is None else self._due_s[session_id] - time.monotonic()
                if session_id is not None and wait_s is not None and wait_s <= 0:
                    del self._due_s[session_id]
                    return session_id
                self._changed.wait(wait_s)
        return None

    def _try(self, job: Callable[[], object]) -> None:
        if self._is_stopped:
            return
        try:
            job()
        except Exception as error:  # a job's boundary: the dream reads every session all the same
            logger.warning("a session could not be judged before its dream ({})", type(error).__name__)
