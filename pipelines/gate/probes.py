"""Details: what of a text must not vanish from what is told: its names, its numbers and dates, its reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import sha256
from typing import Protocol

from ...store.index.catalog import Catalog
from ...store.index.projection import Node
from ...store.ledger.questions import Probe
from ...store.model import Hit, NodeId, Slot
from ...store.roles import MACHINES
from ...store.search import hits, packing
from ...store.search.question import Question
from ...store.search.search import Ranking
from ...store.text.languages import entries, languages, phrases
from ...store.text.sentences import sentences_of
from ...store.text.terms import query_terms, term_stems
from ...store.text.words import stem, stems_of, without_possessive
from ..language.content import empty_stems
from ..workspace.proposals import ReplacedTexts
from .shadow_index import ShadowIndex

Detail = frozenset[str]
"""The stems that belong together: one of a name, a number or a date's part, several of a reason."""

REASON_SHARE = 0.7
"""A reason is told where this share of its words stands; a name or a number has one word."""

FEWEST_OF_REASON = 2
"""A reason of fewer words ("that is why") lies in the rest of its sentence."""

BROUGHT_AT_LEAST = 2
"""Words that make a newer text more than a shorter form of the older: "gone" alone may not, "none any more" does."""

_WORD = re.compile(r"[^\W_][\w]*(?:[.'_+#/@:-]+\w+)*")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?=T|\b)")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_OPENS = frozenset(".!?:…\"'“„»*-") | {""}
"""The characters before a word that opens a sentence, a line or a quote: its capital says nothing."""
_IDENTIFIER = re.compile(r"\d|\w[._/@+#:]\w|[a-z][A-Z]|^[A-Z]{2,}$")


@lru_cache(maxsize=8192)
def details_of(text: str, names: frozenset[str] = frozenset()) -> frozenset[Detail]:
    """Return the details of a text. A capital that opens a sentence makes a name only of the words in `names`."""
    found = set[Detail]()
    for sentence in sentences_of(text) or [text]:
        line = _with_plain_dates(sentence)
        for word, opens in _words(line):
            is_name = len(word) > 1 and word[0].isupper() and (not opens or word.lower() in names)
            if is_name or _IDENTIFIER.search(word):
                found.add(frozenset([_stem(word)]))
        found |= set(_reasons(line))
    return frozenset(detail for detail in found if detail - empty_stems())


def told(details: Collection[Detail], text: str) -> frozenset[Detail]:
    """Return the details that a text tells."""
    said = said_in(text)
    return frozenset(one for one in details if len(one & said) >= (REASON_SHARE if len(one) > 1 else 1.0) * len(one))


@lru_cache(maxsize=8192)
def said_in(text: str) -> frozenset[str]:
    """Return the stems of all words of a text, of a date those of its parts."""
    return frozenset(map(_stem, _WORD.findall(_with_plain_dates(text))))


def content_of(text: str) -> frozenset[str]:
    """Return the stems of a text's words that do not carry grammar alone."""
    return said_in(text) - empty_stems()


def says_less(newer: str, older: str) -> bool:
    """Return True if a text leaves out a detail of an older one and brings no other, nor two words."""
    lost = details_of(older) - told(details_of(older), newer)
    brought = content_of(newer) - content_of(older)
    return bool(lost) and len(brought) < BROUGHT_AT_LEAST and not told(details_of(newer), " ".join(brought))


def names_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that these texts write with a capital within a sentence, and no less often than without one."""
    capital, small = Counter[str](), Counter[str]()
    for text in texts:
        for word, opens in _words(text):
            if word[0].islower():
                small[word] += 1
            elif not opens:
                capital[word.lower()] += 1
    return frozenset(word for word, times in capital.items() if times >= small[word] and len(word) > 1)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words of a text without what is contracted behind them, and whether they open a sentence."""
    for match in _WORD.finditer(text.replace("’", "'")):
        yield match.group().partition("'")[0], text[: match.start()].rstrip()[-1:] in _OPENS


def _reasons(line: str) -> Iterator[Detail]:
    for match in phrases("worth.reason").finditer(line):
        reason = content_of(line[match.start() :]) - content_of(match.group())
        yield reason if len(reason) >= FEWEST_OF_REASON else content_of(line)


def _with_plain_dates(text: str) -> str:
    """Write each date as its day, a word for its month, and its year, however it was written."""
    text = _ISO_DATE.sub(lambda match: f"{int(match[3])} month{int(match[2])} {match[1]}", text)
    text = _DOTTED_DATE.sub(lambda match: f"{int(match[1])} month{int(match[2])} {match[3]}", text)
    pattern, months = _dates()
    return pattern.sub(lambda match: f"{int(match[1] or match[4])} month{months[(match[2] or match[3]).lower()]}", text)


@cache
def _dates() -> tuple[re.Pattern[str], dict[str, int]]:
    """Return a pattern of a day beside the name of its month, in any language, and the months' numbers."""
    named = {
        name: number
        for language in languages()
        for number, month in enumerate(entries(language, "months"), start=1)
        for name in (month, month[:3])
    }
    month = "|".join(sorted(named, key=len, reverse=True))
    day = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
    return re.compile(rf"\b{day}\s+(?:of |de )?({month})\b\.?|\b({month})\.?\s+{day}\b", re.IGNORECASE), named


def _stem(word: str) -> str:
    return stem(without_possessive(word.lower()))


HITS = 10
FIRM_HITS = 5
"""The first hits, in which a made-up question must find: at the edge of HITS any new memory may push it out."""

ENVELOPE_TOKENS = 500
ASKED_WORDS = 4
EXPECTED_WORDS = 12
"""Of a memory's words, rarest first: so many ask for it, and so many should be in the envelope that answers."""

WORDS_KEPT = 0.5
"""The share of the rare words told before that must still be told."""

FEWEST_WORDS = 5
MOST_WORDS = 5000
HARD_WORDS = (2, 4)
"""The numbers of common words that ask for what a stage touches: the first that finds it is kept."""

READ_AT_MOST, NOTES_AT_MOST = 4000, 1000
"""Turns, and memories that rest on none, read to generate probes and to count how rare words are."""


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a probe.

    `recall` is the share of its gold in the first HITS hits; `coverage` the share of its words, and `told` its details,
    in an envelope of ENVELOPE_TOKENS tokens; the details in one that is about what was asked. `shown` holds the nodes
    of the hits and of the envelope's lines, with the turns that they cite. `is_firm`: gold is in the first FIRM_HITS.
    """

    recall: float
    coverage: float
    told: frozenset[Detail] = frozenset()
    shown: frozenset[NodeId] = frozenset()
    is_firm: bool = True

    def is_worse_than(self, before: Score) -> bool:
        """Return True if it finds less or tells less."""
        return self.recall < before.recall or self.tells_less_than(before)

    def tells_less_than(self, before: Score) -> bool:
        """Return True if a detail that was told before is not, or most of the words that were."""
        return bool(before.told - self.told) or self.coverage < WORDS_KEPT * before.coverage


@dataclass(frozen=True, slots=True)
class ProbeCase:
    """A probe with the rare words and the details that its answer should tell; `synthetic` unless a person asked it."""

    probe: Probe
    words: frozenset[str]
    synthetic: bool = True
    details: frozenset[Detail] = frozenset()

    def after(self, replaced: ReplacedTexts) -> ProbeCase:
        """Return the case without what only a superseded fact says."""
        gone = told(self.details, replaced.older) - told(self.details, replaced.newer)
        words = self.words - (said_in(replaced.older) - said_in(replaced.newer))
        return replace(self, words=words, details=self.details - gone)


@dataclass(frozen=True, slots=True)
class Touched:
    """A probe of what a stage touches, with its result before the stage."""

    case: ProbeCase
    before: Score


class Searchable(Protocol):
    """An index that answers probes: the shadow index, or the store itself."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog of its nodes."""
        ...

    def rank(self, question: Question) -> Ranking:
        """Rank the nodes that answer a question."""
        ...


def ask(index: Searchable, case: ProbeCase) -> Score:
    """Ask one probe. A superseded memory counts as found if its successor is."""
    probe = case.probe
    ranking = index.rank(Question(text=probe.text, channel=probe.channel, limit=HITS))
    answer = hits.answer(ranking, index.catalog, HITS).hits
    first, shown = _named_by(answer[:FIRM_HITS]), _named_by(answer)
    found = shown | {old for hit in answer for old in replaced_by(index, hit.node_id)}
    envelope = packing.envelope(ranking, index.catalog, ENVELOPE_TOKENS)
    words = stems_of(query_terms(envelope.text, MOST_WORDS))
    return Score(
        len(found & set(probe.gold)) / len(probe.gold),
        len(words & case.words) / len(case.words) if case.words else 1.0,
        _told(case, [slot.text for slot in envelope.slots]),
        frozenset(shown | _named_by(envelope.slots)),
        bool(first & set(probe.gold)),
    )


def _named_by(answers: Iterable[Hit | Slot]) -> set[NodeId]:
    """Return the nodes of hits or of an envelope's lines, and the turns that they cite."""
    return {node_id for one in answers for node_id in (one.node_id, *(turn.node_id for turn in one.evidence))}


def _told(case: ProbeCase, lines: Sequence[str]) -> frozenset[Detail]:
    """Return the details that stand in a line with at least half of the words that were asked for."""
    asked = stems_of(query_terms(case.probe.text))
    about = [line for line in lines if 2 * len(asked & said_in(line)) >= len(asked)]
    return frozenset(detail for line in about for detail in told(case.details, line))


def replaced_by(index: Searchable, node_id: NodeId) -> set[NodeId]:
    """Return all memories that one supersedes, transitively; never one that is newer than its successor."""
    replaced: set[NodeId] = set()
    waiting = list(index.catalog.nodes([node_id]).values())
    while waiting:
        newer = waiting.pop()
        for older in index.catalog.nodes(index.catalog.links(newer.node_id, "supersedes")).values():
            if older.node_id not in replaced and not _is_newer(older, newer):
                replaced.add(older.node_id)
                waiting.append(older)
    return replaced


def _is_newer(one: Node, other: Node) -> bool:
    one_at, other_at = one.valid_from or one.created_at, other.valid_from or other.created_at
    return bool(one_at and other_at and one_at > other_at)


class ProbeGenerator:
    """Generates probes from an index: from the same index always the same."""

    def __init__(self, shadow: ShadowIndex) -> None:
        self._catalog = shadow.catalog
        chosen = spread(self._catalog.turn_ids(), READ_AT_MOST) + spread(self._catalog.facts_alone(), NOTES_AT_MOST)
        self._nodes = self._catalog.nodes(chosen)
        self._counts = Counter(stem for node in self._nodes.values() for stem in term_stems(node.text))
        self._names = names_in(node.text for node in self._nodes.values())

    def real(self, probes: Sequence[Probe]) -> list[ProbeCase]:
        """Return cases for the probes that a person asked, with as much of their gold as is still living."""
        asked = []
        for probe in probes:
            known = self._catalog.nodes(probe.gold)
            if gold := tuple(node_id for node_id in probe.gold if node_id in known and known[node_id].live):
                words = frozenset(stem for node_id in gold for stem in self._expected(known[node_id]))
                details = frozenset(detail for node_id in gold for detail in self._details(known[node_id]))
                asked.append(ProbeCase(Probe(probe.text, probe.channel, gold, probe.last_at), words, False, details))
        return asked

    def synthetic(self, count: int) -> list[ProbeCase]:
        """Generate up to `count` probes, spread over all turns and memories that rest on none."""
        return self.of(self._nodes[node_id] for node_id in spread(list(self._nodes), 2 * count))[:count]

    def of(self, nodes: Iterable[Node]) -> list[ProbeCase]:
        """Generate a probe for each node with at least FEWEST_WORDS content words."""
        return [case for node in nodes if (case := self._case_of(node)) is not None]

    def _case_of(self, node: Node) -> ProbeCase | None:
        words = self._rare(node)
        if len(words) < FEWEST_WORDS:
            return None
        return self._case(node, words[:ASKED_WORDS], self._details(node))

    def harder(self, node: Node, replaced: ReplacedTexts | None = None) -> list[ProbeCase]:
        """Generate probes that ask for a node's details by common words beside them, the hardest first.

        Where a stage supersedes a fact of the node, what both facts say asks, and is all that is expected of it.
        """
        details = self._details(node)
        words = [stem for stem in self._rare(node)[:EXPECTED_WORDS] if frozenset([stem]) not in details][::-1]
        if replaced is None:
            return [self._case(node, words[:count], details) for count in HARD_WORDS if len(words) >= count]
        words = [stem for stem in words if stem in said_in(replaced.newer)]
        return [self._case(node, words[:count], details).after(replaced) for count in HARD_WORDS if words]

    def _case(self, node: Node, stems: Sequence[str], details: frozenset[Detail]) -> ProbeCase:
        spelt = {next(iter(stems_of([word]))): word for word in query_terms(node.text)}
        text = " ".join(spelt[stem] for stem in stems if stem in spelt)
        return ProbeCase(Probe(text, node.channel, (node.node_id,)), frozenset(self._expected(node)), details=details)

    def _details(self, node: Node) -> frozenset[Detail]:
        return frozenset() if node.role in MACHINES else details_of(node.text, self._names)

    def _expected(self, node: Node) -> list[str]:
        """Return the words that its envelope should contain; none of an assistant's, as their long answers are cut."""
        return [] if node.role in MACHINES else self._rare(node)[:EXPECTED_WORDS]

    def _rare(self, node: Node) -> list[str]:
        return sorted(term_stems(node.text), key=lambda stem: (self._counts[stem], stem))


def spread(node_ids: Sequence[NodeId], count: int) -> list[NodeId]:
    """Choose `count` ids in the order of their hashes: spread evenly, and always the same."""
    return sorted(node_ids, key=lambda node_id: sha256(node_id.encode()).digest())[:count]
