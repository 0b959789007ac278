"""The method that proves the memory's worth, or does not: a person's own questions, put again to it and to the
means that are there without it.

Each past question whose answer is known (a memory that was of use then) is put to four: nothing, a search for its words
in the sessions, the files that agent programs read by themselves, and dreamd. A hit is a text that carries the words of
that answer which the question does not hold. Nothing of it is counted or kept.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.params import Params
from ...ipc.protocol import Refused
from ...store import estimate_tokens, replace_file, term_stems
from ...store.model import GLOBAL_CHANNEL, Level, NodeId, StoreError
from ..clock import utc_now

if TYPE_CHECKING:
    from ...store import MemoryStore

BUDGET_TOKENS = 500
"""The tokens that dreamd and the search may each tell; the files are whole in every prompt of their program."""

CARRIED = 0.7
"""The share of an answer's own words that a text must hold; and the fewest words that tell an answer."""
FEWEST = 2

MOST_QUESTIONS, MOST_SESSIONS, MOST_FACTS, SHOWN = 300, 400, 5000, 60
NOTHING, SEARCH, FILES, DREAMD = "nothing", "search in sessions", "programs' files", "dreamd"
FEW_QUESTIONS = 30
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")

UNKNOWN = (
    "An expected answer is a memory that dreamd told once, and that was used, opened or praised. What it never found is"
    " in no question here, which favours it.",
    "A text that carries the answer's words need not have helped, and other words may say the same.",
    "The questions are put to the memory of today, which has learned since.",
    "Files count as carrying an answer wherever it stands in them; a program may read only their beginning.",
)


NO_FILES = "No file that a program reads by itself is known in these projects, so that row says nothing."


class ProofParams(Params):
    """The new page (`NAME.html`, an absolute path; `NAME.svg` is written beside it), and the days of the questions."""

    path: Annotated[str, Field(min_length=6, max_length=4096, pattern=r"\.html$")]
    days: Annotated[int, Field(strict=True, ge=1, le=30)] = 30


@dataclass(slots=True)
class Contestant:
    """The figures of one of them: answers that it carried, tokens, lines, and those of statements replaced since."""

    name: str
    hits: int = 0
    tokens: int = 0
    lines: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class ProofAnswer:
    """The files that were written, the questions of the time, those whose answer is known, and the four.

    `told`, `used` and `contradicted` count the lines that agents were handed in that time: all, those whose words came
    in the next turn or that were of use, and those whose statement had been replaced by then.
    """

    path: str
    card: str
    days: int
    questions: int
    judged: int
    contestants: Sequence[Contestant]
    told: int
    used: int
    contradicted: int
    notes: Sequence[str] = field(default=UNKNOWN)


@dataclass(frozen=True, slots=True)
class Case:
    """A past question, the words that carry its answer (any of these sets), and who carried it."""

    text: str
    channel: str | None
    wanted: tuple[frozenset[str], ...]
    carried: set[str] = field(default_factory=set)


class ProofMethods:
    """The method; it runs in a thread of long ones."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def prove(self, params: ProofParams, call: Call) -> ProofAnswer:
        """Put the questions of some days again, and write the outcome as a page and a card."""
        page, card = Path(params.path), Path(params.path).with_suffix(".svg")
        for file in filter(os.path.lexists, (page, card)):
            raise Refused(f"{file} exists.", "Name a new file: no file is overwritten.")
        if not page.is_absolute() or not page.parent.is_dir():
            raise Refused(f"{page} and {card.name} cannot be written.", "Name a new file in a folder that is there.")
        since = utc_now() - timedelta(days=params.days)
        asked = [one for one in self._store.exports.asked() if one.last_at >= since][:MOST_QUESTIONS]
        cases = [case for one in asked if (case := self._case(one.text, one.channel, one.gold)) is not None]
        contestants = self._put(cases, call)
        notes = UNKNOWN if contestants[2].lines or not cases else (*UNKNOWN, NO_FILES)
        told = self._told(since)
        answer = ProofAnswer(str(page), str(card), params.days, len(asked), len(cases), contestants, *told, notes)
        replace_file(card, drawn(answer).encode())
        replace_file(page, as_page(answer, cases).encode())
        return answer

    def _case(self, text: str, channel: str | None, gold: Iterable[NodeId]) -> Case | None:
        """Return a question with the words of its known answers, None where none of them tells anything."""
        asked = term_stems(text)
        wanted = []
        for node_id in gold:
            try:
                words = self._store.show(node_id, wanted=False).text
            except StoreError:  # it was purged, or is gone
                continue
            wanted += [own for part in _SENTENCE.split(words) if len(own := term_stems(part) - asked) >= FEWEST]
        return Case(text, channel, tuple(wanted)) if wanted else None

    def _put(self, cases: Sequence[Case], call: Call) -> list[Contestant]:
        nothing, search, files, dreamd = (Contestant(name) for name in (NOTHING, SEARCH, FILES, DREAMD))
        turns, texts, replaced = _Turns(self._store), {}, self._replaced()
        for number, case in enumerate(cases):
            call.raise_if_cancelled()
            call.progress("prove", number, len(cases))
            channel = case.channel or GLOBAL_CHANNEL
            found = turns.search(channel, term_stems(case.text))
            _count(search, case, [text for _, text in found], [node_id for node_id, _ in found], replaced)
            if channel not in texts:
                texts[channel] = [str(document.value) for _, document in self._store.documents(("files", channel))]
            _count(files, case, texts[channel], (), replaced)
            envelope = self._store.exports.replay(case.text, channel, BUDGET_TOKENS)
            # A replaced statement that stands there as replaced contradicts nobody.
            plain = [one.node_id for one in envelope.slots if "until" not in one.text.partition(":")[0]]
            _count(dreamd, case, [one.text for one in envelope.slots], plain, replaced)
        return [nothing, search, files, dreamd]

    def _replaced(self) -> frozenset[NodeId]:
        """Return the facts that another has replaced, and the turns that only such facts were drawn from."""
        facts = self._store.facts(None, MOST_FACTS)
        live = {source for fact in facts if fact.is_live for source in fact.sources}
        gone = [fact for fact in facts if fact.superseded_by is not None]
        return frozenset({fact.node_id for fact in gone} | {one for fact in gone for one in fact.sources} - live)

    def _told(self, since: datetime) -> tuple[int, int, int]:
        """Count the lines that agents were handed, those of use, and those whose statement was replaced by then."""
        gone = {fact.node_id: fact.valid_to for fact in self._store.facts(None, MOST_FACTS) if not fact.is_live}
        told = used = contradicted = 0
        for text in self._store.told.since(since):
            for line in text.lines if not text.lost else ():
                ended = gone.get(line.node_id) if line.node_id else None
                told, used = told + 1, used + (line.became in ("used", "useful"))
                contradicted += ended is not None and ended <= text.at and "until" not in line.text.partition(":")[0]
        return told, used, contradicted


class _Turns:
    """The sentences of the sessions of each channel, searched by words as grep would, the most words first."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._held: dict[str, list[tuple[NodeId, str, frozenset[str]]]] = {}

    def search(self, channel: str, asked: frozenset[str]) -> list[tuple[NodeId, str]]:
        """Return the sentences with the most words of a question, the newest first among equals, within the budget."""
        if channel not in self._held:
            self._held[channel] = list(self._read(channel))
        counted = [(len(asked & stems), place) for place, (_, _, stems) in enumerate(self._held[channel])]
        left, found = BUDGET_TOKENS, []
        for number, place in sorted(counted, reverse=True):
            node_id, text, _ = self._held[channel][place]
            left -= estimate_tokens(text)
            if not number or left < 0:
                break
            found.append((node_id, text))
        return found

    def _read(self, channel: str) -> Iterator[tuple[NodeId, str, frozenset[str]]]:
        for session in reversed(self._store.list(channel=channel, level=Level.SESSION, limit=MOST_SESSIONS)):
            for turn in self._store.turns_of(session.node_id):
                for text in filter(None, _SENTENCE.split(turn.text)) if turn.live else ():
                    yield turn.node_id, text, term_stems(text)


def _count(
    one: Contestant, case: Case, lines: Sequence[str], nodes: Iterable[NodeId], replaced: frozenset[NodeId]
) -> None:
    text = "\n".join(lines)
    # Sentence by sentence: of a longer text only the first terms are read, as of a question.
    stems = frozenset[str]().union(*(term_stems(part) for part in _SENTENCE.split(text)))
    if any(len(own & stems) >= CARRIED * len(own) for own in case.wanted):
        one.hits += 1
        case.carried.add(one.name)
    one.tokens += estimate_tokens(text) if text else 0
    one.lines += len(lines)
    one.replaced += sum(times for node_id, times in Counter(nodes).items() if node_id in replaced)


# ---- the page and the card


def verdict(answer: ProofAnswer) -> str:
    """Return the figures as a sentence, and that they say little where the questions are few."""
    if not answer.judged:
        return f"Of {answer.questions} questions of {answer.days} days no answer is known: nothing can be said yet."
    best, search = answer.contestants[-1], answer.contestants[1]
    known = f"Of {answer.judged} questions whose answer is known"
    text = f"{known}, dreamd carried it {best.hits} times, a search in the sessions {search.hits}."
    few = f" That is fewer than {FEW_QUESTIONS}: it says little." if answer.judged < FEW_QUESTIONS else ""
    return text + few


def drawn(answer: ProofAnswer) -> str:
    """Draw the card: a bar each for the questions whose answer was carried, and its tokens a question."""
    bars = []
    for place, one in enumerate(answer.contestants):
        top, width = 92 + 44 * place, 250 * one.hits / max(answer.judged, 1)
        each = one.tokens / max(answer.judged, 1)
        bars.append(
            f'<text x="24" y="{top + 17}">{escape(one.name)}</text><rect x="180" y="{top}" width="250" height="24"'
            f' rx="4" fill="#e4dfd3"/><rect x="180" y="{top}" width="{width:.1f}" height="24" rx="4"'
            f' fill="{"#17756a" if one.name == DREAMD else "#8d889c"}"/><text x="442" y="{top + 17}">'
            f"{one.hits} of {answer.judged} · {each:,.0f} tokens</text>"
        )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 300" width="640" height="300" role="img">'
        f"<title>{escape(verdict(answer))}</title>"
        '<rect width="640" height="300" rx="12" fill="#faf8f3"/><g font-family="system-ui,sans-serif" font-size="14"'
        ' fill="#1f1d2b"><text x="24" y="40" font-size="20">My own questions, put again</text>'
        f'<text x="24" y="64" fill="#5c586d">{answer.judged} of {answer.questions} questions of {answer.days} days'
        f" have a known answer</text>{''.join(bars)}"
        '<text x="24" y="284" font-size="11" fill="#5c586d">Carried: the answer’s words were in what was told. '
        "Known answers are those that dreamd once told.</text></g></svg>\n"
    )


def as_page(answer: ProofAnswer, cases: Sequence[Case]) -> str:
    """Return the page: the card, the figures with their limits, and the questions."""
    from ...pipelines.report.html import document

    rows = "".join(
        f'<tr><th scope="row">{escape(one.name)}</th><td class="right">{one.hits}</td>'
        f'<td class="right">{one.tokens / max(answer.judged, 1):,.0f}</td><td class="right">{one.lines}</td>'
        f'<td class="right">{one.replaced}</td></tr>'
        for one in answer.contestants
    )
    told = (
        f"In that time agents were handed {answer.told} lines; {answer.used} of them were used or praised, and"
        f" {answer.contradicted} told what had been replaced by then."
    )
    carried = [(case.text[:300], ", ".join(sorted(case.carried)) or "none") for case in cases[:SHOWN]]
    asked = "".join(f'<li>{escape(text)} <span class="note">{escape(names)}</span></li>' for text, names in carried)
    main = (
        f'<article><p class="lead">{escape(verdict(answer))}</p>{drawn(answer)}<section><h2>Figures</h2><table><thead>'
        '<tr><th scope="col">who</th><th scope="col" class="right">carried</th><th scope="col" class="right">tokens a'
        ' question</th><th scope="col" class="right">lines</th><th scope="col" class="right">replaced since</th>'
        f"</tr></thead><tbody>{rows}</tbody></table><p>{escape(told)}</p></section><section><h2>Not known</h2><ul>"
        f"{''.join(f'<li>{escape(note)}</li>' for note in answer.notes)}</ul></section>"
        f"<section><h2>The questions, and who carried the answer</h2><ul>{asked}</ul></section></article>"
    )
    return document("What the memory was worth", main, "Written by dreamd, for you alone: it holds your questions.")


PROOF_METHODS: tuple[Method[Any, Any], ...] = (
    Method("prove", ProofParams, ProofAnswer, ProofMethods.prove, long=True),
)
