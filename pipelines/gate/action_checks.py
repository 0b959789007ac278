"""The examiner: what a stage would take from the memory, told from its actions alone, before anything is searched.

Probes see what recall loses tonight. What they cannot see is held to rules here: what was said stays as it was said,
nothing of a person's is rewritten, what is used is not archived, a memory gives way only to a newer one of the same
subject, and what is new is said by what it cites.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...store.changes.decisions import is_reviewed
from ...store.keep import okf
from ...store.keep.files.vault import is_derived
from ...store.model import Action, Level, Memory, NodeId
from ...store.text.normal_form import words
from ..language.overlap import invents, overlap
from ..workspace.diff import Change, is_living
from ..workspace.view import View

_FOOTNOTE = re.compile(r"\[\^[^\]]*\]")

KIN_COSINE = 0.35
"""Two memories nearer than this may speak of the same thing; random ones of one conversation lie around .2."""

SAID_FACT, SAID_LINE, SAID_AGAIN = 0.4, 0.45, 0.3
"""How much of a new fact, of a page's line, of a fact that is said to be said again, its sources must say. Of 3,174
facts of LoCoMo 1 % lie below .43; of their pages no line lies below 1.0, and with their words in disorder nine in
ten do below .44."""

STRAY_SHARE = 0.05
"""So much of what a stage proposes may break a rule that knows exceptions (at least one): beyond, it is a habit."""

ARCHIVED_SHARE, ARCHIVED_AT_LEAST = 0.01, 10
"""What may fade in a night, of the living memories: the design's own bound."""

REPLACED_SHARE, REPLACED_AT_LEAST = 0.05, 20
"""What may give way to something newer in a night: a person changes their mind about a few things a day."""

PAGES_SHARE, PAGES_AT_LEAST = 0.2, 10
"""What of the scenarios and profiles may go: they are made again of what they rest on."""


@dataclass(slots=True)
class Losses:
    """What tonight's stages took so far, of what was there before."""

    living: int
    pages: int
    archived: int = 0
    replaced: int = 0
    pages_gone: int = 0

    def beyond(self) -> Iterator[str]:
        """Say of what they are too many for one night."""
        for what, lost, of, share, at_least in (
            ("archives too much", self.archived, self.living, ARCHIVED_SHARE, ARCHIVED_AT_LEAST),
            ("replaces too much", self.replaced, self.living, REPLACED_SHARE, REPLACED_AT_LEAST),
            ("takes away too many pages", self.pages_gone, self.pages, PAGES_SHARE, PAGES_AT_LEAST),
        ):
            if lost > max(at_least, share * of):
                yield f"it {what} for one night ({lost})"


@dataclass(slots=True)
class _Counts:
    """What one stage does against the rules, and how often it had the opportunity."""

    broken: dict[str, int] = field(default_factory=dict)
    stray: dict[str, int] = field(default_factory=dict)
    chances: dict[str, int] = field(default_factory=dict)

    def never(self, what: str) -> None:
        self.broken[what] = self.broken.get(what, 0) + 1

    def seldom(self, what: str, *, strays: bool) -> None:
        self.chances[what] = self.chances.get(what, 0) + 1
        self.stray[what] = self.stray.get(what, 0) + strays

    def reasons(self) -> Iterator[str]:
        for what, times in self.broken.items():
            yield f"{what} ({times})"
        for what, times in self.stray.items():
            if times > max(1.0, STRAY_SHARE * self.chances[what]):
                yield f"{what} ({times} of {self.chances[what]})"


class Examiner:
    """Examines what stages propose, one after the other, on the view as it was before each."""

    def __init__(self, view: View, now: datetime) -> None:
        self._view = view
        settings = view.settings.decay
        self._used = _used(view, now - timedelta(days=settings.unused_days))
        self._youngest = now - timedelta(days=settings.least_age_days)
        self._said: dict[NodeId, dict[NodeId, str]] = {}
        memories = view.memories()
        self._pages = {memory.node_id for memory in memories if memory.level is not Level.FACT}
        self._facts = {memory.node_id for memory in memories if memory.level is Level.FACT}
        self.losses = Losses(len(memories), len(self._pages))

    def examine(self, actions: Sequence[Action]) -> tuple[list[str], Losses]:
        """Say what is wrong with a stage, [] if nothing, and what tonight's losses would be with it."""
        counts, losses = _Counts(), Losses(**{name: getattr(self.losses, name) for name in Losses.__slots__})
        changes = [change for change in self._changes(actions) if not is_derived(change.path)]
        after = {change.after.node_id: change.after for change in changes if change.after}
        kin = self._kin(changes, after)
        for change in changes:
            self._look(change, after, kin, counts, losses)
        return [*counts.reasons(), *losses.beyond()], losses

    # ---- one change

    def _changes(self, actions: Iterable[Action]) -> list[Change]:
        last = {action.path: action for action in actions}
        return [Change.of(path, self._view.read(path), action.content) for path, action in last.items()]

    def _look(
        self,
        change: Change,
        after: Mapping[NodeId, Memory],
        kin: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        old, new = change.before, change.after
        if change.path.startswith("sessions/") or Level.SESSION in {old and old.level, new and new.level}:
            counts.never("it changes what was said")
        elif old is None and new is not None:
            self._look_at_new(new, after, counts)
        elif old is not None and old.level is Level.FACT:
            self._look_at_fact(old, new, after, kin, counts, losses)
        elif old is not None:
            self._look_at_page(change, old, new, after, counts, losses)

    def _look_at_new(self, new: Memory, after: Mapping[NodeId, Memory], counts: _Counts) -> None:
        said = self._texts(new.sources, after)
        if not said:
            counts.seldom("it states what rests on nothing", strays=True)
        elif new.level is Level.FACT:
            # An answer is told with its question, so its sources are read one by one and one after the other.
            share = overlap(new.text, [*said, " ".join(reversed(said))], self._names(new.sources))
            counts.seldom("it states what is not said where it says so", strays=share < SAID_FACT)
            counts.seldom("it states numbers or denials that nobody said", strays=invents(new.text, said))
        else:
            self._look_at_lines(new, said, counts)

    def _look_at_lines(self, page: Memory, said: Sequence[str], counts: _Counts) -> None:
        for line in page.text.splitlines():
            if line.strip() and not line.startswith("#"):
                strays = overlap(_FOOTNOTE.sub(" ", line), said) < SAID_LINE
                counts.seldom("its pages say what their sources do not", strays=strays)

    def _look_at_fact(
        self,
        old: Memory,
        new: Memory | None,
        after: Mapping[NodeId, Memory],
        kin: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        if new is None:
            counts.never("it deletes facts")
            return
        if words(old.text) != words(new.text):
            counts.never("it rewrites facts")
        if (old.node_id, old.channel, old.level, old.created_at) != (
            *(new.node_id, new.channel, new.level, new.created_at),
        ):
            counts.never("it moves facts to another place or time")
        if new.sources[: len(old.sources)] != old.sources:
            counts.never("it takes evidence from facts")
        for turn in new.sources[len(old.sources) :]:
            said = self._texts((turn,), after)
            share = overlap(old.text, said, self._names((turn,)))
            counts.seldom("it adds evidence that does not say so", strays=share < SAID_AGAIN)
        if is_living(old) and not is_living(new):
            self._look_at_gone(old, new, after, kin, counts, losses)

    def _look_at_gone(
        self,
        old: Memory,
        new: Memory,
        after: Mapping[NodeId, Memory],
        kin: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        if new.superseded_by is None:
            losses.archived += old.node_id in self._facts
            if old.node_id in self._used or is_reviewed(old.extra):
                counts.never("it archives what is used")
            learned_at = okf.instant(old.extra.get("learned_at")) or old.created_at
            if learned_at is not None and learned_at > self._youngest:
                counts.never("it archives what is young")
            return
        losses.replaced += old.node_id in self._facts
        newer = after.get(new.superseded_by) or self._view.memory(new.superseded_by)
        if newer is None or newer.level is not Level.FACT or newer.channel != old.channel:
            counts.never("it lets facts give way to nothing")
            return
        if _said_at(newer) < _said_at(old):
            counts.never("it lets the newer give way to the older")
        counts.seldom("it lets facts give way to others", strays=(old.node_id, newer.node_id) not in kin)

    def _look_at_page(
        self,
        change: Change,
        old: Memory,
        new: Memory | None,
        after: Mapping[NodeId, Memory],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        gone = new is None or (is_living(old) and not is_living(new))
        rewritten = new is not None and words(old.text) != words(new.text)
        if change.is_by_hand and (new is None or rewritten):
            counts.never("it changes what a person wrote")
        losses.pages_gone += gone and old.node_id in self._pages
        if new is not None and rewritten:
            said = self._texts(new.sources, after)
            if not said:
                counts.never("it leaves pages without evidence")
            self._look_at_lines(new, said, counts)

    # ---- what memories rest on

    def _texts(self, sources: Sequence[NodeId], after: Mapping[NodeId, Memory]) -> list[str]:
        found = (self._text(node_id, after) for node_id in sources)
        return [text for text in found if text]

    def _text(self, node_id: NodeId, after: Mapping[NodeId, Memory]) -> str:
        session_id, mark, _ = node_id.partition("#")
        if mark:
            return self._turns(session_id).get(node_id, "")
        memory = after.get(node_id) or self._view.memory(node_id)
        return memory.text if memory else ""

    def _turns(self, session_id: NodeId) -> dict[NodeId, str]:
        if session_id not in self._said:
            turns = self._view.turns(session_id)
            self._said[session_id] = {turn.node_id: turn.text for turn in turns} | {
                "": " ".join({turn.role for turn in turns})
            }
        return self._said[session_id]

    def _names(self, sources: Sequence[NodeId]) -> str:
        """Who speaks where these are from: a fact has their names where they said "I" and "you"."""
        sessions = {source.partition("#")[0] for source in sources if "#" in source}
        return " ".join(self._turns(session_id)[""] for session_id in sorted(sessions))

    def _kin(self, changes: Sequence[Change], after: Mapping[NodeId, Memory]) -> set[tuple[NodeId, NodeId]]:
        """The pairs, older and newer, in which one gives way to the other and both speak of the same thing."""
        pairs = []
        for change in changes:
            old, new = change.before, change.after
            if old and new and new.superseded_by and new.superseded_by != old.superseded_by:
                newer = after.get(new.superseded_by) or self._view.memory(new.superseded_by)
                pairs += [(old, newer)] if newer else []
        if not pairs:
            return set()
        vectors = self._view.vectors([memory.text for pair in pairs for memory in pair])
        cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
        return {(a.node_id, b.node_id) for (a, b), near in zip(pairs, cosines, strict=True) if near >= KIN_COSINE}


def _said_at(memory: Memory) -> float:
    at = memory.created_at or memory.valid_from
    return at.timestamp() if at else 0.0


def _used(view: View, since: datetime) -> set[NodeId]:
    """What was shown lately, or was of use for a question that is kept."""
    used = {node_id for node_id, usage in view.history.usage.items() if usage.last_at > since}
    return used | {node_id for probe in view.history.probes for node_id in probe.gold}
