"""Checks of a stage's actions by rules, before anything is searched.

Probes measure what recall loses in this run; the rules hold what probes cannot see: sessions and facts keep their
words, a person's text is not rewritten, memories in use are not archived, a memory is superseded only by a newer one of
the same subject, and new text is supported by the turns that it cites.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ...store import okf
from ...store.changes.decisions import is_reviewed
from ...store.changes.standing import SAME_AS
from ...store.model import Action, Level, Memory, NodeId
from ...store.text.words import words
from ...store.vault.vault import is_derived
from ..grounding.overlap import invents, overlap
from ..workspace.diff import Change
from ..workspace.proposals import most_superseded
from ..workspace.view import View
from .details import says_less
from .quoting import is_quote, marked_quotes

_BESIDE_QUOTE = re.compile(
    r"\[[^\]]{0,80}\]|^\s*- (?:~~)?(?:[^“”]{0,60}?: (?=“)|\d{1,2} \w+ \d{4}: )|(?<=”|~) \([^()“”]{0,60}\)"
    r"| \((?:perhaps replaced since|in question)\)(?= \[|$)"
)
"""The parts of a line beside what it quotes: footnote and days, day and speaker in front, how long it held."""

SAME_SUBJECT = 0.3
"""Cosine from which two memories may have the same subject; random ones of one conversation lie around .2."""

FACT_SUPPORT, LINE_SUPPORT, REPEAT_SUPPORT = 0.4, 0.45, 0.3
"""The smallest share of a new fact, of a page's line, of a repeated fact that its sources must contain. Of 3,174 facts
of LoCoMo 1 % lie below .43; of their pages no line lies below 1.0, and with shuffled words nine in ten below .44."""

CUT_QUOTES = "{n} of {of} quotes are not whole sentences of what they cite"
"""The reason against a fact or a page's line without a part of its sentence: a name, a number, a "because"."""

STRAY_SHARE = 0.05
"""The share of a stage's chances that may break a rule with exceptions; one breach always may."""

ARCHIVED_SHARE, ARCHIVED_AT_LEAST = 0.01, 10
"""The largest share of the living memories that a run may archive: the design's own bound."""

PAGES_SHARE, PAGES_AT_LEAST = 0.2, 10
"""The largest share of scenarios and profiles that a run may remove: they can be made again from their sources."""


@dataclass(slots=True)
class Losses:
    """The number of memories that a run's stages have taken away so far, beside what there was before it."""

    living: int
    pages: int
    archived: int = 0
    replaced: int = 0
    pages_gone: int = 0

    def beyond(self) -> Iterator[str]:
        """Yield a reason for each number that is too large for one run."""
        most_archived = max(ARCHIVED_AT_LEAST, int(ARCHIVED_SHARE * self.living))
        most_pages = max(PAGES_AT_LEAST, int(PAGES_SHARE * self.pages))
        for what, verb, lost, most in (
            ("facts", "archive", self.archived, most_archived),
            ("facts", "supersede", self.replaced, most_superseded(self.living)),
            ("pages", "remove", self.pages_gone, most_pages),
        ):
            if lost > most:
                yield f"it would {verb} {lost:,} {what}, one run may {verb} {most:,}"


@dataclass(slots=True)
class _Counts:
    """The breaches of each rule by one stage, by the reason that is given: a template of `{n}` and `{of}`."""

    broken: Counter[str] = field(default_factory=Counter)
    stray: Counter[str] = field(default_factory=Counter)
    chances: Counter[str] = field(default_factory=Counter)

    def never(self, reason: str) -> None:
        """Count a breach of a rule without exceptions."""
        self.broken[reason] += 1

    def seldom(self, reason: str, *, strays: bool) -> None:
        """Count a chance to break a rule with exceptions; `reason` is given beyond STRAY_SHARE and one breach."""
        self.chances[reason] += 1
        self.stray[reason] += strays

    def reasons(self) -> Iterator[str]:
        """Yield the reasons against the stage."""
        for reason, times in self.broken.items():
            yield reason.format(n=times)
        for reason, times in self.stray.items():
            if times > max(1.0, STRAY_SHARE * self.chances[reason]):
                yield reason.format(n=times, of=self.chances[reason])


class ActionChecker:
    """Checks what stages propose, one after the other, against the view as it was before each."""

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

    def check(self, actions: Sequence[Action]) -> tuple[list[str], Losses]:
        """Return the reasons against a stage, [] if none, and what the run's losses would be with it."""
        counts, losses = _Counts(), replace(self.losses)
        last = {action.path: action.content for action in actions}
        changes = [
            Change.of(path, self._view.read(path), content) for path, content in last.items() if not is_derived(path)
        ]
        after = {change.after.node_id: change.after for change in changes if change.after}
        related = self._related(changes, after)
        for change in changes:
            self._check_change(change, after, related, counts, losses)
        return [*counts.reasons(), *losses.beyond()], losses

    # ---- one change

    def _check_change(
        self,
        change: Change,
        after: Mapping[NodeId, Memory],
        related: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        old, new = change.before, change.after
        if change.path.startswith("sessions/") or Level.SESSION in {old and old.level, new and new.level}:
            counts.never("sessions changed: {n}")
        elif old is None and new is not None:
            self._check_new(new, after, counts)
        elif old is not None and old.level is Level.FACT:
            self._check_fact(old, new, after, related, counts, losses)
        elif old is not None:
            self._check_page(change, old, new, after, counts, losses)

    def _check_new(self, new: Memory, after: Mapping[NodeId, Memory], counts: _Counts) -> None:
        said = self._texts(new.sources, after)
        if not said:
            counts.seldom("{n} new memories cite no source that exists", strays=True)
        elif new.level is Level.FACT:
            # A fact of an answer holds its question too, so its sources are read one by one and in sequence.
            share = overlap(new.text, [*said, " ".join(reversed(said))], self._names(new.sources))
            counts.seldom("{n} of {of} new facts are not supported by the turns they cite", strays=share < FACT_SUPPORT)
            counts.seldom(
                "{n} of {of} new facts hold numbers or denials that their turns do not", strays=invents(new.text, said)
            )
            if new.said_by:
                counts.seldom(CUT_QUOTES, strays=not is_quote(new.text, said))
        else:
            self._check_lines(new, said, counts)

    def _check_lines(self, page: Memory, said: Sequence[str], counts: _Counts) -> None:
        for line in page.text.splitlines():
            if line.strip() and not line.startswith(("#", "[^")):
                strays = overlap(_BESIDE_QUOTE.sub(" ", line), said) < LINE_SUPPORT
                counts.seldom("{n} of {of} lines of pages are not supported by their sources", strays=strays)
        for quote in marked_quotes(page.text):
            counts.seldom(CUT_QUOTES, strays=not is_quote(quote, said))

    def _check_fact(
        self,
        old: Memory,
        new: Memory | None,
        after: Mapping[NodeId, Memory],
        related: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        if new is None:
            counts.never("facts deleted: {n}")
            return
        if words(old.text) != words(new.text):
            counts.never("facts reworded: {n}")
        if (old.node_id, old.channel, old.level, old.created_at) != (
            *(new.node_id, new.channel, new.level, new.created_at),
        ):
            counts.never("facts moved to another channel, level or time: {n}")
        if new.sources[: len(old.sources)] != old.sources:
            counts.never("facts that lose evidence: {n}")
        for turn in new.sources[len(old.sources) :]:
            said = self._texts((turn,), after)
            share = overlap(old.text, said, self._names((turn,)))
            counts.seldom("{n} of {of} added sources do not support their fact", strays=share < REPEAT_SUPPORT)
        if old.is_live and not new.is_live:
            self._check_retired(old, new, after, related, counts, losses)
        elif old.superseded_by and new.is_live and old.superseded_by not in new.supersedes:
            newer = after.get(old.superseded_by) or self._view.memory(old.superseded_by)
            if newer is not None:
                counts.never("facts that hold again though a newer one replaced them: {n}")
        for node_id in set(new.later) - set(old.later):
            newer = after.get(node_id) or self._view.memory(node_id)
            if newer is None or _since(newer) < _since(old):
                counts.never("facts said to be changed by older ones: {n}")

    def _check_retired(
        self,
        old: Memory,
        new: Memory,
        after: Mapping[NodeId, Memory],
        related: Collection[tuple[NodeId, NodeId]],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        if said_already := new.extra.get(SAME_AS):
            self._check_repeated(new, said_already, after, counts)
            return
        if new.superseded_by is None:
            losses.archived += old.node_id in self._facts
            if old.node_id in self._used or is_reviewed(old.extra):
                counts.never("memories archived though in use: {n}")
            learned_at = okf.instant(old.extra.get("learned_at")) or old.created_at
            if learned_at is not None and learned_at > self._youngest:
                counts.never("memories archived too soon after they were learned: {n}")
            return
        losses.replaced += old.node_id in self._facts
        newer = after.get(new.superseded_by) or self._view.memory(new.superseded_by)
        if newer is None or newer.level is not Level.FACT or newer.channel != old.channel:
            counts.never("facts superseded by a missing memory: {n}")
            return
        if _since(newer) < _since(old):
            counts.never("newer facts superseded by older ones: {n}")
        counts.seldom(
            "{n} of {of} facts are superseded by ones of another subject",
            strays=(old.node_id, newer.node_id) not in related,
        )
        counts.seldom(
            "{n} of {of} facts are superseded by ones that only say less", strays=says_less(newer.text, old.text)
        )

    def _check_repeated(
        self, new: Memory, said_already: object, after: Mapping[NodeId, Memory], counts: _Counts
    ) -> None:
        """Check a fact that says the same as another: that one must hold, or what has taken its place."""
        named = said_already if isinstance(said_already, list) else [said_already]
        kept = [self._holding(str(node_id), after) for node_id in named]
        if not any(one and one.is_live and one.channel == new.channel for one in kept):
            counts.never("facts archived as repeated, of which no other says the same: {n}")

    def _holding(self, node_id: NodeId, after: Mapping[NodeId, Memory]) -> Memory | None:
        """Return a memory, or the last that has taken its place."""
        memory, passed = None, set[NodeId]()
        successor: NodeId | None = node_id
        while successor and successor not in passed:
            passed.add(successor)
            memory = after.get(successor) or self._view.memory(successor)
            successor = memory.superseded_by if memory else None
        return memory

    def _check_page(
        self,
        change: Change,
        old: Memory,
        new: Memory | None,
        after: Mapping[NodeId, Memory],
        counts: _Counts,
        losses: Losses,
    ) -> None:
        gone = new is None or (old.is_live and not new.is_live)
        rewritten = new is not None and words(old.text) != words(new.text)
        if change.is_by_hand and (new is None or rewritten):
            counts.never("pages changed that a person wrote or edited: {n}")
        losses.pages_gone += gone and old.node_id in self._pages
        if new is not None and rewritten:
            said = self._texts(new.sources, after)
            if not said:
                counts.never("pages left without a source: {n}")
            self._check_lines(new, said, counts)

    # ---- sources

    def _texts(self, sources: Sequence[NodeId], after: Mapping[NodeId, Memory]) -> list[str]:
        found = (self._text(node_id, after) for node_id in sources)
        return [text for text in found if text]

    def _text(self, node_id: NodeId, after: Mapping[NodeId, Memory]) -> str:
        session_id, separator, _ = node_id.partition("#")
        if separator:
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
        """Return the speakers of the sessions that are cited: a fact has their names where they said "I" and "you"."""
        sessions = {source.partition("#")[0] for source in sources if "#" in source}
        return " ".join(self._turns(session_id)[""] for session_id in sorted(sessions))

    def _related(self, changes: Sequence[Change], after: Mapping[NodeId, Memory]) -> set[tuple[NodeId, NodeId]]:
        """Return the pairs, older and newer, in which one supersedes the other and both have the same subject."""
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
        return {(a.node_id, b.node_id) for (a, b), near in zip(pairs, cosines, strict=True) if near >= SAME_SUBJECT}


def _since(memory: Memory) -> float:
    return memory.since.timestamp() if memory.since else 0.0


def _used(view: View, since: datetime) -> set[NodeId]:
    """Return the memories that were recalled since then, or that answered a question that is kept."""
    used = {node_id for node_id, usage in view.history.usage.items() if usage.last_at > since}
    return used | {node_id for probe in view.history.probes for node_id in probe.gold}
