"""Stages to try the gate with: some do harm, of many kinds and strengths, and some do none. All are drawn by a seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any

from dreamd.pipelines.stages import consolidate, profiles, scenarios
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import Action, ActionKind, Level, Memory, Status
from dreamd.store.okf.memory_file import body_hash
from dreamd.store.text.sentences import sentences_of

Plan = Callable[["Sandbox", int], Iterator[Action]]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The memory that a stage is planted in."""

    view: View
    rng: random.Random
    now: datetime

    def facts(self, *, noted: bool = False) -> list[Memory]:
        """Return living facts in random order: those drawn from turns, or those that a person noted."""
        found = [m for m in self.view.memories(Level.FACT) if bool(m.sources) != noted and not m.superseded_by]
        self.rng.shuffle(found)
        return found

    def whole(self, memory: Memory) -> Memory:
        """Return a memory with every field of its file."""
        found = self.view.memory(memory.node_id)
        assert found is not None
        return found

    def changed(self, memory: Memory, **changes: Any) -> Action:
        """Build the action that writes a changed memory."""
        data = self.view.read(memory.path)
        assert data is not None
        new = replace(self.whole(memory), **changes)
        if "text" in changes and memory.level is not Level.FACT:
            new = replace(new, extra={**new.extra, "body_sha256": body_hash(new.text)})
        return Action(
            kind=ActionKind.REPLACE, path=memory.path, node_id=memory.node_id, stage="planted", reason="planted",
            pre_sha256=sha256(data).hexdigest(), content=okf.from_memory(new, self.view.session_paths()),
        )  # fmt: skip

    def created(self, memory: Memory, text: str, **changes: Any) -> Action:
        """Build the action that writes a new fact like another, with another text."""
        node_id = okf.fact_id(memory.channel, text)
        path = okf.path_for(Level.FACT, text[:40], node_id, memory.channel)
        new = replace(memory, node_id=node_id, text=text, title=text[:40], path=path, **changes)
        return Action(
            kind=ActionKind.CREATE, path=path, node_id=node_id, stage="planted", reason="planted",
            content=okf.from_memory(new, self.view.session_paths()),
        )  # fmt: skip

    def fresh(self) -> list[Memory]:
        """Return the facts that an honest stage would draw from unread turns."""
        planned = consolidate.plan(self.view, self.now)
        return [
            okf.to_memory(action.path, okf.parse(action.content))
            for action in planned.actions
            if action.kind is ActionKind.CREATE and action.content
        ]

    def nearest(self, count: int) -> list[tuple[Memory, Memory]]:
        """Return pairs of near facts, the older first: each of some facts with the nearest other."""
        some = [fact for fact in self.facts() if fact.created_at][:600]
        vectors = self.view.vectors([fact.text for fact in some])
        near = vectors @ vectors.T
        pairs, used = [], set[int]()
        for one in range(len(some)):
            near[one, one] = -1
            other = int(near[one].argmax())
            same = some[one].channel == some[other].channel
            if same and not {one, other} & used and some[one].created_at != some[other].created_at:
                used |= {one, other}
                pairs.append(tuple(sorted((some[one], some[other]), key=lambda fact: fact.created_at or self.now)))
        return pairs[:count]  # type: ignore[return-value]

    def pairs(self, kind: str, count: int) -> list[tuple[Memory, Memory]]:
        """Return notes of which the second speaks of the first, and differs so; the older first."""
        notes = [self.whole(note) for note in self.facts(noted=True)]
        newer = {note.tags[0]: note for note in notes if kind in note.tags}
        found = [(note, newer[note.tags[0]]) for note in notes if len(note.tags) == 1 and note.tags[0] in newer]
        return found[:count]

    def said(self, fact: Memory) -> str:
        """Return what the turn says that a fact cites first."""
        session_id = fact.sources[0].partition("#")[0]
        return next(turn.text for turn in self.view.turns(session_id) if turn.node_id == fact.sources[0])

    def quoting(self, share_percent: int, cut: Callable[[str], str]) -> Iterator[Action]:
        """Draw facts that quote the sentences of their turns, a share of them cut."""
        for fact in self.fresh():
            sentences = sentences_of(self.said(fact))
            if self.rng.random() * 100 < share_percent:
                sentences = [cut(sentence) for sentence in sentences]
            if text := " ".join(sentence for sentence in sentences if sentence):
                yield self.created(fact, text, said_by="user")


def _superseded(sandbox: Sandbox, pairs: Sequence[tuple[Memory, Memory]]) -> Iterator[Action]:
    for old, new in pairs:
        yield sandbox.changed(old, superseded_by=new.node_id, valid_to=sandbox.now)
        yield sandbox.changed(new, supersedes=(old.node_id,), valid_from=new.created_at)


def _archived(sandbox: Sandbox, memories: Sequence[Memory]) -> Iterator[Action]:
    for memory in memories:
        yield sandbox.changed(memory, status=Status.DEPRECATED, archived_at=sandbox.now)


# -- what does harm


def merge_at_random(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede facts by any later fact of their channel."""
    facts = sorted(sandbox.facts()[: 2 * count], key=lambda fact: (fact.channel, fact.created_at or sandbox.now))
    for old, new in zip(facts[::2], facts[1::2], strict=False):
        if old.channel == new.channel:
            yield sandbox.changed(old, superseded_by=new.node_id, valid_to=sandbox.now)


def merge_notes_at_random(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede a person's notes by any later note of their channel."""
    notes = sandbox.facts(noted=True)[: 4 * count]
    notes.sort(key=lambda note: (note.channel, note.created_at or sandbox.now))
    pairs = [(old, new) for old, new in zip(notes[::2], notes[1::2], strict=False) if old.channel == new.channel]
    for old, new in pairs[:count]:
        yield sandbox.changed(old, superseded_by=new.node_id, valid_to=sandbox.now)


def archive_what_is_used(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Archive what was shown lately."""
    used = [m for n in sorted(sandbox.view.history.usage) if (m := sandbox.view.memory(n)) and m.level is Level.FACT]
    yield from _archived(sandbox, sandbox.rng.sample(used, min(count, len(used))))


def archive_notes(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Archive what a person noted, and rests on nothing else."""
    yield from _archived(sandbox, sandbox.facts(noted=True)[:count])


def archive_much(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Archive any facts, too many."""
    yield from _archived(sandbox, sandbox.facts()[:count])


def older_wins(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede the newer of two near facts by the older."""
    for old, new in sandbox.nearest(count):
        yield sandbox.changed(new, superseded_by=old.node_id, valid_to=sandbox.now)
        yield sandbox.changed(old, supersedes=(new.node_id,))


def strip(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Keep of facts their first words."""
    for fact in sandbox.facts()[:count]:
        yield sandbox.changed(fact, text=" ".join(fact.text.split()[:3]))


def strip_what_is_new(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that say that something was said."""
    for number, fact in enumerate(sandbox.fresh()):
        speaker = fact.text.split()[0].strip(":,")
        bare = f"{speaker} talked about something, part {number}"
        yield sandbox.created(fact, bare if sandbox.rng.random() * 100 < share_percent else fact.text)


def swap_words(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Exchange two words of facts."""
    for fact in sandbox.facts()[:count]:
        words = fact.text.split()
        one, other = sandbox.rng.sample(range(len(words)), 2) if len(words) > 1 else (0, 0)
        words[one], words[other] = words[other], words[one]
        yield sandbox.changed(fact, text=" ".join(words))


def shuffle_what_is_new(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts with their words in disorder."""
    for fact in sandbox.fresh():
        words = fact.text.split()
        if sandbox.rng.random() * 100 < share_percent:
            sandbox.rng.shuffle(words)
        yield sandbox.created(fact, " ".join(words))


def other_evidence(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that cite what does not say so."""
    fresh = sandbox.fresh()
    for fact in fresh:
        strays = sandbox.rng.random() * 100 < share_percent
        yield sandbox.created(fact, fact.text, sources=sandbox.rng.choice(fresh).sources if strays else fact.sources)


def other_numbers(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Change the numbers of facts, or deny them."""
    for fact in sandbox.facts()[:count]:
        text = re.sub(r"\d+", lambda match: str(int(match[0]) + 3), fact.text)
        yield sandbox.changed(fact, text=text if text != fact.text else f"It is not true that {fact.text}")


def delete(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Delete facts."""
    for fact in sandbox.facts()[:count]:
        yield replace(sandbox.changed(fact), kind=ActionKind.DELETE, content=None)


def rewrite_pages(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Put the lines of other pages into pages."""
    pages = [sandbox.whole(m) for level in (Level.PROFILE, Level.SCENARIO) for m in sandbox.view.memories(level)]
    for page in sandbox.rng.sample(pages, min(count, len(pages))):
        yield sandbox.changed(page, text=sandbox.rng.choice(pages).text)


def shuffle_pages(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Put the words of pages in disorder."""
    for page in sandbox.view.memories(Level.SCENARIO)[:count]:
        words = sandbox.whole(page).text.split(" ")
        sandbox.rng.shuffle(words)
        yield sandbox.changed(page, text=" ".join(words))


def remove_pages(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Delete scenarios."""
    for page in sandbox.view.memories(Level.SCENARIO)[:count]:
        yield replace(sandbox.changed(page), kind=ActionKind.DELETE, content=None)


def take_evidence(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Let facts rest on the turns of other facts."""
    facts = sandbox.facts()[: count + 1]
    for fact, other in pairwise(facts):
        yield sandbox.changed(fact, sources=other.sources)


def add_evidence(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Let facts rest on turns that have nothing to do with them, too."""
    facts = sandbox.facts()[: count + 1]
    for fact, other in pairwise(facts):
        yield sandbox.changed(fact, sources=(*fact.sources, *other.sources))


def move(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Put facts into another project."""
    for fact in sandbox.facts()[:count]:
        yield sandbox.changed(fact, channel="elsewhere")


def crowd(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """State much that nobody said, in words that are often asked for."""
    said = [turn.text for session in sandbox.view.sessions()[:20] for turn in sandbox.view.turns(session.session_id)]
    fact = sandbox.facts(noted=True)[0]
    for number in range(count):
        words = " ".join(sandbox.rng.choice(said) for _ in range(2)).split()
        text = f"{' '.join(sandbox.rng.sample(words, min(18, len(words))))} {number}"
        yield sandbox.created(fact, text, channel=sandbox.rng.choice(sandbox.view.sessions()).channel)


def lose_reasons(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by later ones that leave out why."""
    yield from _superseded(sandbox, sandbox.pairs("no-reason", count))


def lose_names(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by later ones that leave out whose."""
    yield from _superseded(sandbox, sandbox.pairs("no-name", count))


def lose_numbers(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by later ones that leave out since when."""
    yield from _superseded(sandbox, sandbox.pairs("no-number", count))


def hold_again(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Let hold again what a newer note has replaced."""
    channels = sorted({note.channel for note in sandbox.facts(noted=True)})
    known = [note for channel in channels for note in sandbox.view.whole(Level.FACT, channel)]
    for note in [note for note in known if note.superseded_by][:count]:
        yield sandbox.changed(note, superseded_by=None, valid_to=None)


def changed_by_the_older(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Say of newer notes that older ones have probably taken their place."""
    for old, new in sandbox.pairs("other-value", count):
        yield sandbox.changed(new, later=(old.node_id,))


def quote_fragments(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that quote the first words of sentences."""
    yield from sandbox.quoting(share_percent, lambda sentence: " ".join(sentence.split()[:4]))


def quote_without_reasons(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that quote sentences up to a "because"."""
    why = re.compile(r",?\s(?:because|since|so|to|'cause|and)\s.*", re.DOTALL)
    yield from sandbox.quoting(share_percent, lambda sentence: why.sub(".", sentence))


def quote_without_names(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that quote sentences without the names in them."""
    yield from sandbox.quoting(share_percent, lambda sentence: re.sub(r"(?<=\w )[A-Z]\w+(?:'s)?", "it", sentence))


def pages_without_details(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Take names and numbers out of the lines of pages."""
    for page in sandbox.view.memories(Level.SCENARIO)[:count]:
        lines = sandbox.whole(page).text.splitlines()
        bare = [re.sub(r"(?<=\w )(?:[A-Z]\w+|\d+)", "it", line) if line.startswith("- ") else line for line in lines]
        yield sandbox.changed(page, text="\n".join(bare))


HARMFUL: tuple[tuple[Plan, tuple[int, ...]], ...] = (
    (merge_at_random, (12, 60, 400)),
    (merge_notes_at_random, (6, 15, 40)),
    (archive_what_is_used, (2, 5, 20)),
    (archive_notes, (5, 9, 40)),
    (archive_much, (60, 300, 1500)),
    (older_wins, (5, 25, 80)),
    (strip, (5, 50, 500)),
    (strip_what_is_new, (15, 40, 100)),
    (swap_words, (8, 100)),
    (shuffle_what_is_new, (20, 60, 100)),
    (other_evidence, (25, 100)),
    (other_numbers, (10, 150)),
    (delete, (1, 30, 400)),
    (rewrite_pages, (5, 60)),
    (shuffle_pages, (10, 80)),
    (remove_pages, (60, 150)),
    (take_evidence, (10, 200)),
    (add_evidence, (40, 300)),
    (move, (5, 200)),
    (crowd, (100, 600)),
    (lose_reasons, (4,)),
    (lose_names, (4,)),
    (lose_numbers, (4,)),
    (hold_again, (2,)),
    (changed_by_the_older, (3,)),
    (quote_fragments, (15, 50)),
    (quote_without_reasons, (60,)),
    (quote_without_names, (60,)),
    (pages_without_details, (40,)),
)


# -- what does none


def new_facts(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts from what nobody has read yet, of some of the turns."""
    for fact in sandbox.fresh():
        if sandbox.rng.random() * 100 < share_percent:
            yield sandbox.created(fact, fact.text)


def all_that_is_due(sandbox: Sandbox, step: int) -> Iterator[Action]:
    """Do what a dream would do: facts, scenarios, profiles, as far as asked."""
    view = View(sandbox.view._snapshot, sandbox.view.history, sandbox.view._embed, "tonight")
    for stage in (consolidate, scenarios, profiles)[:step]:
        planned = stage.plan(view, sandbox.now)
        view.apply(planned.actions, planned.cursors)
    yield from view.actions


def reinforce(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Let facts rest on a later turn that says the same words."""
    for fact in sandbox.facts()[:count]:
        turns = sandbox.view.turns(fact.sources[0].partition("#")[0])
        by_id = {turn.node_id: turn for turn in turns}
        said = set(by_id[fact.sources[0]].text.lower().split()) if fact.sources[0] in by_id else set()
        again = [t.node_id for t in turns if t.node_id not in fact.sources and said <= set(t.text.lower().split())]
        yield sandbox.changed(fact, sources=(*fact.sources, *again[:1]), tags=(*fact.tags, "said again"))


def newer_wins(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by their corrections."""
    notes = {note.text: note for note in sandbox.facts(noted=True)}
    pairs = [(old, notes[f"{text} again"]) for text, old in notes.items() if f"{text} again" in notes]
    for old, new in sandbox.rng.sample(pairs, min(count, len(pairs))):
        yield sandbox.changed(old, superseded_by=new.node_id, valid_to=sandbox.now)
        yield sandbox.changed(new, supersedes=(old.node_id,), valid_from=sandbox.now - timedelta(days=1))


def newer_facts_win(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede the older of two near facts by the newer."""
    for old, new in sandbox.nearest(count):
        yield sandbox.changed(old, superseded_by=new.node_id, valid_to=new.created_at)
        yield sandbox.changed(new, supersedes=(old.node_id,))


def archive_a_few(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Archive a few facts that nobody was shown lately."""
    yield from _archived(sandbox, [f for f in sandbox.facts() if f.node_id not in sandbox.view.history.usage][:count])


def reformat(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Set facts in other type, and give them tags."""
    for fact in sandbox.facts()[:count]:
        yield sandbox.changed(fact, text=f"**{fact.text}**\n", tags=(*fact.tags, "tidied"))


def flag(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Say of pairs that a person must decide."""
    for one, other in sandbox.nearest(count):
        yield sandbox.changed(one, contradicts=(other.node_id,))
        yield sandbox.changed(other, contradicts=(one.node_id,))


def remake_pages(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Write pages anew of the facts that they rest on, in another order."""
    for page in sandbox.view.memories(Level.SCENARIO)[:count]:
        lines = [line for line in sandbox.whole(page).text.splitlines() if line.startswith("- ")]
        sandbox.rng.shuffle(lines)
        yield sandbox.changed(page, text="\n".join(["## Anew", "", *lines]))


def newer_value(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by later ones with another owner and place, and without a reason."""
    yield from _superseded(sandbox, sandbox.pairs("other-value", count))


def other_date(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Supersede notes by later ones that write the date otherwise."""
    yield from _superseded(sandbox, sandbox.pairs("other-date", count))


def changed_by_the_newer(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Say of older notes that newer ones have probably taken their place."""
    for old, new in sandbox.pairs("other-value", count):
        yield sandbox.changed(old, later=(new.node_id,))


def quote_sentences(sandbox: Sandbox, share_percent: int) -> Iterator[Action]:
    """Draw facts that quote whole sentences, a share of them the longest one alone."""
    for fact in sandbox.fresh():
        sentences = sentences_of(sandbox.said(fact))
        if sandbox.rng.random() * 100 < share_percent:
            sentences = [max(sentences, key=len)]
        yield sandbox.created(fact, " ".join(sentences), said_by="user")


def same_names(sandbox: Sandbox, count: int) -> Iterator[Action]:
    """Write pages anew in other words around the same lines, under one heading for each day."""
    for page in sandbox.view.memories(Level.SCENARIO)[:count]:
        lines = sandbox.whole(page).text.splitlines()
        yield sandbox.changed(page, text="\n".join(line.replace("## ", "## What was said on ") for line in lines))


HARMLESS: tuple[tuple[Plan, tuple[int, ...]], ...] = (
    (new_facts, (5, 20, 35, 50, 70, 80, 90, 100)),
    (all_that_is_due, (1, 2, 3, 3)),
    (reinforce, (3, 10, 30, 80, 200, 500, 1000)),
    (newer_wins, (1, 2, 4, 6, 8, 10)),
    (newer_facts_win, (2, 4, 6, 8, 12, 15)),
    (archive_a_few, (1, 2, 4, 6, 8, 10)),
    (reformat, (10, 50, 200, 1000)),
    (flag, (3, 10, 40, 100)),
    (remake_pages, (2, 10, 40, 100, 150)),
    (newer_value, (3, 8)),
    (other_date, (3, 8)),
    (changed_by_the_newer, (3,)),
    (quote_sentences, (20, 60, 100)),
    (same_names, (5, 60)),
)
