"""Checks of a stage's actions by rules, before anything is searched.

Probes measure the recall of this run; the rules guard the rest: sessions and facts keep their words, a person's text
is not rewritten, memories in use are not archived, a memory is superseded only by a newer one of the same subject, and
new text is supported by the turns that it cites, quotes by whole sentences of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache

from ...store import okf
from ...store.changes.decisions import is_reviewed
from ...store.changes.links import SAME_AS
from ...store.channel import is_of_session, of_one_project
from ...store.model import Action, Kind, Level, Memory, NodeId
from ...store.text.sentences import split
from ...store.text.words import words
from ...store.upkeep.file_copies import PROPOSALS
from ...store.vault.vault import is_derived
from ..extract.attributes import OBSERVED
from ..grounding.verify import invents, overlap
from ..settings import PAGES_AT_LEAST, PAGES_SHARE, SAME_SUBJECT, most_superseded
from ..workspace.proposals import MemoryChange
from ..workspace.view import View
from .details import only_shortens

# The parts of a line outside its quote: footnote, days, speaker, the period in which it was true.
_BESIDE_QUOTE = re.compile(
    r"\[[^\]]{0,80}\]|^\s*- (?:~~)?(?:[^“”]{0,60}?: (?=“)|\d{1,2} \w+ \d{4}: )|(?<=”|~) \([^()“”]{0,60}\)"
    r"| \((?:perhaps replaced since|in question)\)(?= \[|$)"
)
_COMMAND = re.compile(r"`([^`]+)`")

# The smallest share of a new fact, of a page's line, of a repeated fact that its sources must contain. Of 3,174 facts
# of LoCoMo 1 % lie below .43; of their pages no line lies below 1.0, and with shuffled words nine in ten below .44.
FACT_SUPPORT, LINE_SUPPORT, REPEAT_SUPPORT = 0.4, 0.45, 0.3

CUT_QUOTES = "{n} of {of} quotes are not whole sentences of what they cite"
"""The reason against a fact or a page's line without a part of its sentence: a name, a number, a "because"."""

# The share of breaches that a rule with exceptions allows a stage; one breach is always allowed.
STRAY_SHARE = 0.05

# The largest share of the live memories that a run may archive, and the number that it always may: a bound of the
# design.
ARCHIVED_SHARE, ARCHIVED_AT_LEAST = 0.01, 10

_MARKED = re.compile(r"“([^“”]+)”")


@dataclass(slots=True)
class Losses:
    """The number of memories that a run's stages have removed so far, and the numbers before the run."""

    living: int
    pages: int
    archived: int = 0
    replaced: int = 0
    pages_gone: int = 0

    def reasons(self) -> Iterator[str]:
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
    """Checks the proposals of stages, one stage after the other, against the view before each."""

    def __init__(self, view: View, now: datetime) -> None:
        self.view = view
        settings = view.settings.decay
        self.used = _used(view, now - timedelta(days=settings.unused_days))
        self.youngest = now - timedelta(days=settings.least_age_days)
        memories = view.memories()
        self.pages = {memory.node_id for memory in memories if memory.level is not Level.FACT}
        self.facts = {memory.node_id for memory in memories if memory.level is Level.FACT}
        self.losses = Losses(len(memories), len(self.pages))
        self._said: dict[NodeId, dict[NodeId, str]] = {}

    def check(self, actions: Sequence[Action]) -> tuple[list[str], Losses]:
        """Return the reasons against a stage, [] if none, and the run's losses including it."""
        check = _StageCheck(self, actions)
        check.run()
        return [*check.counts.reasons(), *check.losses.reasons()], check.losses

    def turns(self, session_id: NodeId) -> dict[NodeId, str]:
        """Return the text of each turn of a session, and under "" its speakers."""
        if session_id not in self._said:
            turns = self.view.turns(session_id)
            self._said[session_id] = {turn.node_id: turn.text for turn in turns} | {
                "": " ".join({turn.role for turn in turns})
            }
        return self._said[session_id]


class _StageCheck:
    """The check of one stage: each change is compared with the rules, breaches and losses are counted."""

    def __init__(self, checker: ActionChecker, actions: Sequence[Action]) -> None:
        self._checker = checker
        self._view = checker.view
        self.counts, self.losses = _Counts(), replace(checker.losses)
        # Of several actions on a file the last one decides; an earlier state never becomes real.
        last = {action.path: action.content for action in actions}
        self._changes = [
            MemoryChange.of(path, self._view.read(path), content)
            for path, content in last.items()
            if not is_derived(path)
        ]
        self._after = {change.after.node_id: change.after for change in self._changes if change.after}
        self._related = self._pairs_of_one_subject()

    def run(self) -> None:
        """Check every change."""
        for change in self._changes:
            self._check_change(change)

    def _check_change(self, change: MemoryChange) -> None:
        old, new = change.before, change.after
        if old is not None and new is not None and _proposes_alone(old, new):
            return
        if change.path.startswith("sessions/") or Level.SESSION in {old and old.level, new and new.level}:
            self.counts.never("sessions changed: {n}")
        elif old is None and new is not None:
            self._check_new(new)
        elif old is not None and old.level is Level.FACT:
            self._check_fact(old, new)
        elif old is not None:
            self._check_page(change, old, new)

    def _check_new(self, new: Memory) -> None:
        said = self._texts(new.sources)
        if not said:
            self.counts.seldom("{n} new memories cite no source that exists", strays=True)
        elif new.level is Level.FACT:
            # A fact of an answer holds its question too, so its sources are read one by one and in sequence.
            share = overlap(new.text, [*said, " ".join(reversed(said))], self._names(new.sources))
            self.counts.seldom(
                "{n} of {of} new facts are not supported by the turns they cite", strays=share < FACT_SUPPORT
            )
            self.counts.seldom(
                "{n} of {of} new facts hold numbers or denials that their turns do not", strays=invents(new.text, said)
            )
            if new.said_by:
                self.counts.seldom(CUT_QUOTES, strays=not is_quote(new.text, said))
        else:
            self._check_lines(new, said)

    def _check_lines(self, page: Memory, said: Sequence[str]) -> None:
        for line in page.text.splitlines():
            # Headings are the product's words, footnotes link to files: neither needs support.
            if line.strip() and not line.startswith(("#", "[^")):
                # A page of what was observed counts: the commands alone are from the turns.
                told = " ".join(_COMMAND.findall(line)) if page.provenance == OBSERVED else _BESIDE_QUOTE.sub(" ", line)
                strays = overlap(told, said) < LINE_SUPPORT
                self.counts.seldom("{n} of {of} lines of pages are not supported by their sources", strays=strays)
        for quote in marked_quotes(page.text):
            self.counts.seldom(CUT_QUOTES, strays=not is_quote(quote, said))

    def _check_fact(self, old: Memory, new: Memory | None) -> None:
        if new is None:
            self.counts.never("facts deleted: {n}")
            return
        if words(old.text) != words(new.text):
            self.counts.never("facts reworded: {n}")
        if (old.node_id, old.channel, old.level, old.created_at) != (
            *(new.node_id, new.channel, new.level, new.created_at),
        ):
            self.counts.never("facts moved to another channel, level or time: {n}")
        # Sources are only appended: a fact keeps the turns that it was extracted from, in their order.
        if new.sources[: len(old.sources)] != old.sources:
            self.counts.never("facts that lose evidence: {n}")
        for turn in new.sources[len(old.sources) :]:
            said = self._texts((turn,))
            share = overlap(old.text, said, self._names((turn,)))
            self.counts.seldom("{n} of {of} added sources do not support their fact", strays=share < REPEAT_SUPPORT)
        if old.is_live and not new.is_live:
            self._check_retired(old, new)
        # A superseded fact may become live only by superseding its successor in turn, or if that is gone.
        elif old.superseded_by and new.is_live and old.superseded_by not in new.supersedes:
            newer = self._memory(old.superseded_by)
            if newer is not None:
                self.counts.never("facts that hold again though a newer one replaced them: {n}")
        for node_id in set(new.later) - set(old.later):
            newer = self._memory(node_id)
            if newer is None or _since(newer) < _since(old):
                self.counts.never("facts said to be changed by older ones: {n}")

    def _check_retired(self, old: Memory, new: Memory) -> None:
        if said_already := new.extra.get(SAME_AS):
            self._check_repeated(new, said_already)
            return
        if new.superseded_by is None:
            self.losses.archived += old.node_id in self._checker.facts
            if is_of_session(old.channel):  # it was to hold until its session is over, used or not
                return
            if old.node_id in self._checker.used or is_reviewed(old.extra):
                self.counts.never("memories archived though in use: {n}")
            learned_at = okf.instant(old.extra.get("learned_at")) or old.created_at
            if learned_at is not None and learned_at > self._checker.youngest:
                self.counts.never("memories archived too soon after they were learned: {n}")
            return
        self.losses.replaced += old.node_id in self._checker.facts
        newer = self._memory(new.superseded_by)
        if newer is None or newer.level is not Level.FACT or newer.channel not in of_one_project(old.channel):
            self.counts.never("facts superseded by a missing memory: {n}")
            return
        if _since(newer) < _since(old):
            self.counts.never("newer facts superseded by older ones: {n}")
        self.counts.seldom(
            "{n} of {of} facts are superseded by ones of another subject",
            strays=(old.node_id, newer.node_id) not in self._related,
        )
        self.counts.seldom(
            "{n} of {of} facts are superseded by ones that only say less", strays=only_shortens(newer.text, old.text)
        )

    def _check_repeated(self, new: Memory, said_already: object) -> None:
        """Check a fact archived as a repetition: the fact that it repeats, or its last successor, must be live."""
        named = said_already if isinstance(said_already, list) else [said_already]
        kept = [self._last_successor(str(node_id)) for node_id in named]
        if not any(one and one.is_live and one.channel in of_one_project(new.channel) for one in kept):
            self.counts.never("facts archived as repeated, of which no other says the same: {n}")

    def _last_successor(self, node_id: NodeId) -> Memory | None:
        """Return a memory, or the last of its successors."""
        memory, passed = None, set[NodeId]()
        successor: NodeId | None = node_id
        while successor and successor not in passed:
            passed.add(successor)
            memory = self._memory(successor)
            successor = memory.superseded_by if memory else None
        return memory

    def _check_page(self, change: MemoryChange, old: Memory, new: Memory | None) -> None:
        gone = new is None or (old.is_live and not new.is_live)
        rewritten = new is not None and words(old.text) != words(new.text)
        if change.is_by_hand and (new is None or rewritten):
            self.counts.never("pages changed that a person wrote or edited: {n}")
        self.losses.pages_gone += gone and old.node_id in self._checker.pages
        if new is not None and rewritten:
            said = self._texts(new.sources)
            if not said:
                self.counts.never("pages left without a source: {n}")
            self._check_lines(new, said)

    # ---- sources

    def _memory(self, node_id: NodeId) -> Memory | None:
        """Return a memory with the stage's change, if it has one."""
        return self._after.get(node_id) or self._view.memory(node_id)

    def _texts(self, sources: Sequence[NodeId]) -> list[str]:
        found = (self._text(node_id) for node_id in sources)
        return [text for text in found if text]

    def _text(self, node_id: NodeId) -> str:
        session_id, separator, _ = node_id.partition("#")
        if separator:
            return self._checker.turns(session_id).get(node_id, "")
        memory = self._memory(node_id)
        return memory.text if memory else ""

    def _names(self, sources: Sequence[NodeId]) -> str:
        """Return the speakers of the cited sessions: a fact has their names in place of "I" and "you"."""
        sessions = {source.partition("#")[0] for source in sources if "#" in source}
        return " ".join(self._checker.turns(session_id)[""] for session_id in sorted(sessions))

    def _pairs_of_one_subject(self) -> set[tuple[NodeId, NodeId]]:
        """Return the pairs, older and newer, in which one supersedes the other and both have the same subject."""
        pairs = []
        for change in self._changes:
            old, new = change.before, change.after
            if old and new and new.superseded_by and new.superseded_by != old.superseded_by:
                newer = self._memory(new.superseded_by)
                pairs += [(old, newer)] if newer else []
        if not pairs:
            return set()
        vectors = self._view.vectors([memory.text for pair in pairs for memory in pair])
        cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
        return {(a.node_id, b.node_id) for (a, b), near in zip(pairs, cosines, strict=True) if near >= SAME_SUBJECT}


def _proposes_alone(old: Memory, new: Memory) -> bool:
    """Return True for a copy of a file in which nothing changes but what is proposed to a person."""
    left = [{key: value for key, value in one.extra.items() if key != PROPOSALS} for one in (old, new)]
    return old.kind is Kind.DOCUMENT and left[0] == left[1] and replace(old, extra={}) == replace(new, extra={})


def _since(memory: Memory) -> float:
    return memory.since.timestamp() if memory.since else 0.0


def _used(view: View, since: datetime) -> set[NodeId]:
    """Return the memories that were recalled since then, or that answered a question that is kept."""
    used = {node_id for node_id, usage in view.history.usage.items() if usage.last_at > since}
    return used | {node_id for probe in view.history.probes for node_id in probe.gold}


def is_quote(text: str, sources: Sequence[str]) -> bool:
    """Check that each paragraph of a text is some whole sentences of one of the sources, in their order."""
    return all(any(_is_cut_from(one, source) for source in sources) for one in text.split("\n\n") if one.strip())


def marked_quotes(text: str) -> Iterator[str]:
    """Yield the quotes of a page, in the quotation marks that `pages.fact_lines` writes."""
    return (match[1] for match in _MARKED.finditer(text))


def _is_cut_from(paragraph: str, source: str) -> bool:
    # Sentences of the source are removed from the front of the paragraph as they match; a quote leaves nothing. So
    # "A. C." is cut from "A. B. C.", and "C. A." is not, nor is a part of B.
    left = words(paragraph)
    for sentence in _sentences(source):
        marker = int(bool(left) and _is_marker(left[0]) and left[0] != sentence[0])
        if tuple(left[marker : marker + len(sentence)]) == sentence:
            del left[: marker + len(sentence)]
    return not left


def _is_marker(word: str) -> bool:
    """Check for the marker of an item, "1" or "b": a sentence of the source does not include it."""
    return len(word) == 1 or word.isdecimal()


@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(said for sentence in split(text) if (said := tuple(words(sentence.text))))
