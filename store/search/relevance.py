"""Relevance: how probably a turn or a memory, and each of its sentences, answers a question.

A logistic score of few features, with weights as a reader would set them: near in meaning, holds the question's rare
words (the turn with the one before it, and the sentence), said by a person, said rather than done, right after the most
relevant turn.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

from ..index.projection import Node
from ..limits import FEWEST_WORDS, LEAST_SHARE, LONG_CHARS
from ..model import NodeId
from ..redaction import redact
from ..roles import MACHINES, Role
from ..text.acts import is_note_of_change, without_removed_lines
from ..text.fence import speaker_name, unmarked
from ..text.quotes import read_reply, with_steps
from ..text.sentences import Sentence as Piece
from ..text.sentences import joined, rows_in, split
from ..text.spelling import beginning_of_name, names_asked, unnamed
from ..text.token_count import estimate_tokens
from ..text.words import stem, without_possessive
from .gathering import AnswerRecords, Candidate, Ranking
from .supersession import FactState

FUSED, COSINE, COVER, COVER_OF_SENTENCE = 8.0, 8.0, 1.0, 2.0
PERSON, ASSISTANT, SAID, PUT_IN, DONE = 1.0, -0.7, 2.0, 0.0, -4.0
AFTER_THE_BEST, BEFORE_THE_BEST = 3.0, 1.0
BIAS = -11.5

# Nothing answers where no turn is nearer in meaning and none holds this share of the question's rare words.
#
# On the readers' benchmark 12 of 15 questions about another project abstain so, and one of 115 that have an answer.
FAR_COSINE, FAR_COVER = 0.30, 0.40

# A text with so many of a question's words is near it, however long the question is.
ENOUGH_WORDS = 3

# The factor of the confidence where the question has a name that occurs in no passage read: Anna's dog may be
# Berta's, but hardly is. Of the readers' 115 questions that have an answer one (in German) names such a word.
UNREAD_NAME_FACTOR = 0.3


# The first sentences of a text, which may be shown without a word of the question.
FIRST = 5

# The sections of a long text whose sentences may be shown, for each SECTIONS_TOKENS of a larger budget again as many.
SECTIONS, SECTIONS_TOKENS = 3, 1000

# Those more must hold this share of the question's words that the best section holds: else the note is of more than it.
MORE_COVER = 0.5

# A turn of one paragraph up to this long is shown whole.
WHOLE_TOKENS = 40

# So is a numbered list: a procedure without one of its steps is a wrong one.
WHOLE_LIST_TOKENS = 160

# Fitted to 16,770 hits of twelve sets (`python -m tests.bench.ranking --calibrate`); of each invented person by the
# other sets, what is said and what is so differ by .02 in the mean. The best hit of a question is right in half of the
# cases, so that even a good one is seldom surer than .5.
CONFIDENCE_SLOPE, CONFIDENCE_BIAS = 0.409, -2.319

# An assistant asks where the end of its turn holds a question mark; so much of the answer is told with it.
ASKED_CHARS, ANSWER_CHARS = 160, 80

# Signs that a text is more than a paragraph.
_MARKDOWN = re.compile(r"\n\s*\n|^\s*(?:#|```|~~~|\||[-*+] )", re.MULTILINE)

# The record of a deed of a program, "[Bash: ls]".
_DEED = re.compile(r"\s*\[")


class Weighed(NamedTuple):
    """A section of a long text, characters [start, end), and its logit less that of the whole text."""

    start: int
    end: int
    gain: float


@dataclass(frozen=True, slots=True)
class Passage:
    """A node that may answer, found as `unit`, and the turns said before and after it.

    `said` are the stems of the question's words in it; `logit` is how probably it answers, before its sentences are
    read.
    """

    unit: NodeId
    node: Node
    before: Node | None
    said: frozenset[str]
    logit: float
    sections: Sequence[Weighed] = ()
    after: Node | None = None

    @property
    def told(self) -> str:
        """The text of which its sentences are pieces: that of its node, of an edit without what it took out."""
        return without_removed_lines(self.node.text)

    def weight_of(self, text: str) -> float:
        """Return the weight of a text of the passage by how it came: said, put in by an edit, or a record of a deed."""
        return PUT_IN if is_note_of_change(self.node.text) else _weight(text)

    def sentences(self) -> Iterator[tuple[Piece, str]]:
        """Yield its sentences in order, each with the turn that it replies to where it is too short to be understood.

        A turn that is so short and replies to nothing has none. Rows of tables count only where no program made them.
        An assistant's question or proposal comes with the answer to it.
        """
        pieces = [one for one in pieces_of(self.node.text) if one.shape != "row" or self.node.role not in MACHINES]
        if len(pieces) != 1 or len(pieces[0].text.split()) >= FEWEST_WORDS:
            answer = self._answer()
            yield from ((piece, answer) for piece in pieces)
        elif self.before is not None and not is_deed(self.before) and (asked := pieces_of(self.before.text)):
            other = self.before.role != self.node.role
            reply_to = f'{f"to {speaker_name(self.before.role)}:" if other else "after"} "{unmarked(asked[-1].text)}"'
            yield pieces[0], reply_to

    def _answer(self) -> str:
        """Return the beginning of what a person said to an assistant's question, "" where there was none."""
        after = self.after
        asks = self.node.role == Role.ASSISTANT and "?" in self.node.text[-ASKED_CHARS:]
        if not asks or after is None or after.role in MACHINES:
            return ""
        words = " ".join(after.text[:ANSWER_CHARS].split())
        if len(after.text) > ANSWER_CHARS:
            words = words.rpartition(" ")[0] + " …"
        return f'{speaker_name(after.role)}: "{unmarked(words)}"'

    def pieces(self) -> list[Piece]:
        """Return its sentences, in order."""
        return [piece for piece, _ in self.sentences()]

    def gain(self, place: int) -> float:
        """Return how much more probably than its text a sentence at this place answers, as a logit.

        0 in a short text, -inf where the text has sections and none of them holds the place.
        """
        if not self.sections:
            return 0.0
        return max((one.gain for one in self.sections if one.start <= place < one.end), default=-math.inf)


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of a passage, at its place in it, what it replies to, and how probably it answers, 0 to 1."""

    passage: Passage
    place: int
    text: str
    reply_to: str
    relevance: float
    is_step: bool = False


class Option(NamedTuple):
    """A sentence that may be shown, with the fact that it states, if any.

    `relevance` orders the options: it is at least that of the sentence by itself.
    """

    relevance: float
    sentence: AnswerSentence
    state: FactState | None

    @property
    def node(self) -> Node:
        """The node that has it."""
        return self.sentence.passage.node

    @property
    def unit(self) -> NodeId:
        """The name under which that node was found."""
        return self.sentence.passage.unit


def words_of(fact: Node) -> tuple[str, str]:
    """Return a fact's words on one line, and what they reply to, if it is a reply."""
    words, reply_to = read_reply(fact.text)
    return " ".join(words.split()), f'to "{unmarked(reply_to)}"' if reply_to else ""


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages that are read for a question, and how near the nearest is.

    `nodes` are all that were read, by id; `unread` are the names in the question that none of them holds. `cosine` is
    None without vectors; `cover` is the best share of the question's words, `shared_words` their number. `is_of_time`:
    the question asks about a time alone, and they are of that time.
    """

    passages: Sequence[Passage]
    nodes: Mapping[NodeId, Node]
    words: Words
    rarity: Rarity
    cosine: float | None
    cover: float
    shared_words: int
    unread: Sequence[str] = ()
    is_of_time: bool = False

    @property
    def trust(self) -> float:
        """Return the factor of a confidence by the names that occur in no passage."""
        return UNREAD_NAME_FACTOR if self.unread else 1.0

    @property
    def note(self) -> str:
        """Return a note on these names, "" if there are none."""
        return f"nothing that was found names {', '.join(self.unread)}" if self.unread else ""

    @property
    def is_far(self) -> bool:
        """Return True if nothing is near the question, in meaning or in words: then no answer is better than these."""
        if self.is_of_time:
            return not self.passages
        if self.cosine is None:
            return self.cover == 0.0
        return self.cosine < FAR_COSINE and self.cover < FAR_COVER and self.shared_words < ENOUGH_WORDS

    def relevances(self) -> dict[NodeId, float]:
        """Return how relevant each unit is beside the others, 0 to 1."""
        return {
            one.unit: self.trust * _probability(one.logit, self.rarity.share(one.said), _weight(one.node.text))
            for one in self.passages
        }

    def confidence(self) -> dict[NodeId, float]:
        """Return how probably each unit answers, 0 to 1."""
        return {unit: confidence_of(relevance) for unit, relevance in self.relevances().items()}

    def sentences(self) -> list[AnswerSentence]:
        """Return the sentences of every passage that may be shown beside the most relevant one, in no order.

        These are the sentences with a word of the question, and the first ones of a text that is not long: an answer
        begins with its subject. A question ("Can you help me with that?") needs a word of the question.
        """
        least = LEAST_SHARE * max((_probability(one.logit, 0.0) for one in self.passages), default=0.0)
        return [
            sentence
            for one in self.passages
            if _probability(one.logit, 1.0) >= least
            for sentence in self._sentences_of(one)
        ]

    def _sentences_of(self, passage: Passage) -> Iterator[AnswerSentence]:
        for place, (piece, reply_to) in enumerate(passage.sentences()):
            is_opening = place < FIRST and not passage.sections
            is_row = piece.shape == "row"  # every row has the words of the table's head
            own = passage.node.text[piece.start : piece.end] if is_row else piece.text
            cover = self._cover_of(passage, own, reply_to)
            if cover > 0.0 or (is_opening and not is_row and not piece.text.endswith("?")):
                logit = passage.logit + passage.gain(piece.start)
                relevance = _probability(logit, cover, passage.weight_of(piece.text))
                yield AnswerSentence(passage, place, piece.text, reply_to, relevance, piece.steps > 0)

    def weighed(self, passage: Passage, sections: Sequence[Section], most: int = SECTIONS) -> list[Weighed]:
        """Return the sections that are nearest to the question, at most so many, each with its gain."""
        best = max((one.cosine for one in sections if one.cosine is not None), default=0.0)
        whole = self.rarity.share(passage.said)
        texts = [passage.node.text[one.start : one.end] for one in sections]
        shares = [self.rarity.share(self.words.found(text)) for text in texts]
        gains = [
            Weighed(
                one.start,
                one.end,
                COSINE * ((one.cosine or 0.0) - best) + COVER * (share - whole),
            )
            for one, share in zip(sections, shares, strict=True)
        ]
        nearest = nlargest(most, zip(gains, shares, strict=True), key=lambda one: one[0].gain)
        least = MORE_COVER * max(shares, default=0.0)
        return [one for place, (one, share) in enumerate(nearest) if place < SECTIONS or share >= least > 0.0]

    def nearest_sentence(self, node: Node, sections: Sequence[Section]) -> tuple[int, int]:
        """Return the place of the sentence that holds most of the question's words in the nearest chunk of a long text.

        The chunk itself where it has no sentence.
        """
        whole = self.words.found(node.text)
        passage = Passage(node.node_id, node, None, whole, 0.0)
        nearest = self.weighed(passage, sections)[0]
        inside = [one for one in pieces_of(node.text) if nearest.start <= one.start < nearest.end]
        if not inside:
            return nearest.start, nearest.end
        first = inside[0].start
        held = self.words.places(node.text[first : max(one.end for one in inside)], whole)
        shares = [self.rarity.share({stem for at, stem in held if one.start <= first + at < one.end}) for one in inside]
        best = inside[shares.index(max(shares))]
        return best.start, best.end

    def relevance(self, passage: Passage, text: str) -> float:
        """Return how probably a text of a passage answers, 0 to 1."""
        return _probability(passage.logit, self._cover(text), passage.weight_of(text))

    def _cover_of(self, passage: Passage, text: str, reply_to: str) -> float:
        """Return the cover of a sentence of a passage, which has no other words than this."""
        if reply_to:
            return self._cover(f"{text} {reply_to}")
        return self.rarity.share(self.words.found(text, passage.said)) if passage.said else 0.0

    def _cover(self, text: str) -> float:
        return self.rarity.share(self.words.found(text))


class Words:
    """The stems of a question's words, found in texts without stemming all of a text."""

    def __init__(self, stems: Iterable[str]) -> None:
        self._begun = {one: one[:-1] if len(one) > 3 else one for one in stems}
        """The beginning that a word shares with its stem: "happi" stands for "happy"."""

    def found(self, text: str, among: Iterable[str] | None = None) -> frozenset[str]:
        """Return the stems that a text holds a word of, of all or `among` some."""
        text = text.lower()
        return frozenset(one for one in among or self._begun if _find_word(text, self._begun[one], one) >= 0)

    def places(self, text: str, among: Iterable[str]) -> list[tuple[int, str]]:
        """Return where a text holds words with some stems, each with its stem."""
        text = text.lower()
        found: list[tuple[int, str]] = []
        for one in among:
            at = _find_word(text, self._begun[one], one)
            while at >= 0:
                found.append((at, one))
                at = _find_word(text, self._begun[one], one, at + 1)
        return found


def _find_word(text: str, begun: str, stem_of_it: str, start: int = 0) -> int:
    """Return where the first word begins so and has this stem, -1 for none; a pattern takes twenty times as long."""
    start = text.find(begun, start)
    while start >= 0:
        end = start + len(begun)
        if start == 0 or not text[start - 1].isalnum():
            while end < len(text) and text[end].isalnum():
                end += 1
            if stem(text[start:end]) == stem_of_it:
                return start
        start = text.find(begun, end)
    return -1


class Rarity:
    """The weight of each stem of a question: its inverse document frequency among the texts that are read.

    After Robertson and Spärck Jones, with .5 added to each count.
    """

    def __init__(self, stems: Iterable[str], texts: Sequence[frozenset[str]]) -> None:
        among = Counter(one for text in texts for one in text)
        self._weights = {one: math.log(1 + (len(texts) - among[one] + 0.5) / (among[one] + 0.5)) for one in stems}
        self._whole = sum(self._weights.values())
        self._most = math.log(1 + (len(texts) - 0.5) / 1.5)

    def share(self, found: Iterable[str]) -> float:
        """Return the share of the question's words that these stems are, the rare ones counting more, 0 to 1."""
        return self.weight(found) / self._whole if self._whole else 0.0

    def weight(self, found: Iterable[str]) -> float:
        """Return the weight of these stems together."""
        return sum(self._weights[one] for one in found)

    def share_of_two(self, found: Iterable[str]) -> float:
        """Return the weight of the two rarest of these stems, as a share of what two weigh that one text alone has.

        So it means the same in a store of three memories and in one of thousands.
        """
        return sum(nlargest(2, (self._weights[one] for one in found))) / (2 * self._most)


def passages_of(ranking: Ranking, records: AnswerRecords, read: int, beside: int = 0) -> Passages:
    """Weigh the `read` best candidates and the turns on both sides of the `beside` best, as `fetch` read them."""
    candidates = ranking.candidates[:read]
    nodes = records.nodes
    turns = {name for one in candidates[:beside] for name in records.beside[one.unit] if name is not None}
    shown = _shown(ranking, candidates, turns, records)
    cosines = _cosines(ranking, candidates, turns & shown.keys())
    terms = ranking.question.stems
    words = Words(terms)
    said = {node_id: words.found(node.text) for node_id, node in nodes.items()}
    shared = [said[node.node_id] for node in shown.values()]
    rarity = Rarity(terms, shared)
    fused = {one.unit: one.score for one in candidates}
    near = {
        unit: FUSED * fused.get(unit, 0.0)
        + COSINE * max(0.0, cosines.get(unit, 0.0))
        + COVER * rarity.share(said[node.node_id] | said.get(records.beside[unit][0] or "", frozenset()))
        + BIAS
        for unit, node in shown.items()
    }
    best = max(near.values(), default=0.0)
    return Passages(
        [
            Passage(
                unit,
                node,
                nodes.get(before or ""),
                said[node.node_id],
                near[unit] + _speaker(node) + _place(near.get(before or ""), near.get(after or ""), best),
                after=nodes.get(after or ""),
            )
            for unit, node in shown.items()
            for before, after in [records.beside[unit]]
        ],
        nodes,
        words,
        rarity,
        max(cosines.values(), default=None),
        max(map(rarity.share, shared), default=0.0),
        max(map(len, shared), default=0),
        _names_not_read(ranking, said.values(), nodes.values()),
        ranking.is_of_time,
    )


def _shown(
    ranking: Ranking, candidates: Sequence[Candidate], turns: AbstractSet[NodeId], records: AnswerRecords
) -> dict[NodeId, Node]:
    """Return the nodes that may be shown, by unit: those of candidates, and some turns beside the best."""
    nodes = records.nodes
    shown: dict[NodeId, Node] = {}
    for one in candidates:
        node = nodes.get(one.unit) or nodes.get(records.best[one.unit][0])
        if node is not None:  # it may have been forgotten since it was ranked
            shown[one.unit] = node
    if ranking.question.shows_facts:
        for unit in sorted((turns & nodes.keys()) - shown.keys()):
            if ranking.question.scope.admits(nodes[unit]) and nodes[unit].session_id != ranking.session:
                shown[unit] = nodes[unit]
    return shown


def _cosines(ranking: Ranking, candidates: Sequence[Candidate], turns: AbstractSet[NodeId]) -> dict[NodeId, float]:
    """Return the cosines of candidates, as the search found them, and of turns beside the best."""
    found = {one.unit: one.scores["vector"] for one in candidates if "vector" in one.scores}
    missing = turns - found.keys()
    return found | (ranking.cosines(missing) if missing else {})


def _names_not_read(ranking: Ranking, said: Iterable[frozenset[str]], nodes: Collection[Node]) -> list[str]:
    """Return the names in the question that occur in no node read, nor in its speaker, title, channel or year."""
    question = ranking.question
    missing = question.stems.difference(*said)
    if not missing or not (names := names_asked(question.words, missing)):
        return []
    texts = [" ".join((one.text, one.role, one.title, one.channel, _year(one))) for one in nodes]
    unread = [name for name in names if not any(map(_begins_like(name).search, texts))]
    shown = redact(question.words).text if unread else ""  # the question may hold a secret
    unread = [name for name in unread if name in shown]
    return unnamed([*map(without_possessive, unread)], texts) if unread else []


def with_sections(
    passages: Passages, ranking: Ranking, records: AnswerRecords, budget_tokens: int = SECTIONS_TOKENS
) -> Passages:
    """Weigh the sections of long texts, each by its own chunk: a long note answers by one of its parts.

    By more of them for a larger budget: who asks for 4,000 tokens wants all that a note says of the question.
    """
    sections = sections_of([one.node for one in passages.passages], ranking, records)
    most = SECTIONS * max(1, budget_tokens // SECTIONS_TOKENS)
    weighed = [
        replace(one, sections=passages.weighed(one, sections[one.node.node_id], most))
        if one.node.node_id in sections
        else one
        for one in passages.passages
    ]
    return replace(passages, passages=weighed)


@dataclass(frozen=True, slots=True)
class Section:
    """A chunk of a long text: characters [start, end), and its cosine with the question, None without vectors."""

    start: int
    end: int
    cosine: float | None


def sections_of(nodes: Iterable[Node], ranking: Ranking, records: AnswerRecords) -> dict[NodeId, list[Section]]:
    """Return the chunks of those nodes that are long, by node, in the order of the text."""
    chunks = records.chunks([node.node_id for node in nodes if len(node.text) > LONG_CHARS])
    cosines = ranking.cosines([one.chunk_id for listed in chunks.values() for one in listed]) if chunks else {}
    return {
        node_id: [Section(one.start, one.end, cosines.get(one.chunk_id)) for one in listed]
        for node_id, listed in chunks.items()
    }


def _begins_like(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(beginning_of_name(without_possessive(name)))}", re.IGNORECASE)


def _year(node: Node) -> str:
    return str(node.created_at.year) if node.created_at else ""


def _speaker(node: Node) -> float:
    if node.role == Role.TOOL:
        return DONE - SAID
    return ASSISTANT if node.role == Role.ASSISTANT else PERSON


def _place(before: float | None, after: float | None, best: float) -> float:
    """Return the weight of a turn by the relevance of the turns right before and after it, each as a share of the best.

    None is a turn that is not shown.
    """
    weight = 0.0
    if before is not None:
        weight += AFTER_THE_BEST * math.exp(before - best)
    if after is not None:
        weight += BEFORE_THE_BEST * math.exp(after - best)
    return weight


@lru_cache(maxsize=2048)
def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return the sentences of a text, a short text as one. Cached: the next question reads the same turns.

    Of the note of an edit those that it put in: what it took out holds no more.
    """
    text = without_removed_lines(text)
    line = " ".join(text.split())
    if not _MARKDOWN.search(text.strip()) and estimate_tokens(line) <= WHOLE_TOKENS:
        return (Piece(line, 0, len(text)),) if line else ()
    sentences = joined(with_steps(split(text), text, WHOLE_LIST_TOKENS), text)
    return tuple(sorted((*sentences, *rows_in(text)), key=lambda piece: piece.start))


def is_deed(node: Node) -> bool:
    """Return True for the record of what a program did."""
    return node.role == Role.TOOL or _DEED.match(node.text) is not None


def confidence_of(relevance: float) -> float:
    """Return how probably a text of such relevance answers (Platt 1999), three digits."""
    if relevance <= 0.0:
        return 0.0
    odds = min(relevance, 1.0 - 1e-9) / (1.0 - min(relevance, 1.0 - 1e-9))
    return round(1.0 / (1.0 + math.exp(-CONFIDENCE_SLOPE * math.log(odds) - CONFIDENCE_BIAS)), 3)


def _weight(text: str) -> float:
    return DONE if _DEED.match(text) else SAID


def _probability(logit: float, cover: float, weight: float = SAID) -> float:
    """Return how probably a text of a passage answers, 0 to 1; `cover` is its share of the question's words."""
    logit += weight + COVER_OF_SENTENCE * cover
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, logit))))
