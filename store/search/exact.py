"""Exact answers: the person or thing that answers a short question, with the sentence that says so.

A relation of the people and things answers first ("who owns payments?"); a question for a person else by the one person
whom the sentence nearest to it names. Semantic search is the way in to both: they are looked for in the best hits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..index.catalog import Catalog
from ..index.graph import Graph
from ..index.projection import Node
from ..index.visibility import Scope
from ..model import Hit, NodeId
from ..okf.entity_page import key_of
from ..results import ExactAnswer, RelationLine
from ..text.sentences import on_one_line, split
from ..text.words import content_stems

LONGEST_CHARS: Final = 160
BEST_HITS, MOST_TURNS = 5, 6

# The shares of a question's content words that an answer's sentence says, chosen on 60 questions for relations over six
# people, each with a reader of names that had not seen them.
LEAST_OF_HIT: Final = 0.33
LEAST_ELSEWHERE: Final = 0.5
LEAST_BESIDE_BEST: Final = 0.5

LEAST_CONFIDENCE: Final = 0.27
"""The confidence of the best hit from which a sentence alone may answer; a relation may at any."""

_WHO = frozenset(
    "who whom whose who's whos wer wen wem wessen qui quién quien quiénes quem hvem chi wie kto kdo".split()
)
_WHAT = frozenset(
    "what what's whats which where was welche welcher welches welchen welchem wo wohin womit worauf que qu'est quoi "
    "quel quelle quels quelles où ou qué cuál cuáles dónde adónde qual quais onde hva hvilken hvilket hvor che cosa "
    "quale dove wat welke waar".split()
)
_PEOPLE_FIRST = frozenset({"OWNS", "WORKS_FOR", "REPORTS_TO", "KNOWS", "HANDED_OVER_TO"})
_PEOPLE_LAST = frozenset({"REPORTS_TO", "KNOWS", "HANDED_OVER_TO", "CREATED_BY"})


@dataclass(frozen=True, slots=True)
class ExactQuestion:
    """A short question: the stems of its content words, its runs of up to three words, and if it asks for a person."""

    stems: frozenset[str]
    names: frozenset[str]
    who: bool


def asked_by(question: str) -> ExactQuestion | None:
    """Return a short question, read; None for any other text."""
    words = [word.strip("¿?,.:") for word in question.casefold().split()]
    asking = set(words[:4]) & (_WHO | _WHAT)
    if len(question) > LONGEST_CHARS or not asking or not (stems := frozenset(content_stems(question))):
        return None
    return ExactQuestion(stems, frozenset(_runs(question)), bool(asking & _WHO))


def answers_to(
    asked: ExactQuestion, found: Sequence[Hit], catalog: Catalog, graph: Graph, scope: Scope
) -> list[ExactAnswer]:
    """Return the answer to a question, whose turn is in the scope; none of several, for all but one are wrong."""
    cited = catalog.evidence([hit.node_id for hit in found[:BEST_HITS]], scope)
    turns = list(dict.fromkeys(one.node_id for hit in found[:BEST_HITS] for one in cited[hit.node_id]))
    answers = _of_relations(asked, turns, catalog, graph, scope)
    if not answers and asked.who and found and found[0].confidence >= LEAST_CONFIDENCE:
        nodes = catalog.nodes(turns[:MOST_TURNS])
        answers = _of_people(asked, [node for node in nodes.values() if scope.admits(node)], graph, scope)
    return answers if len(answers) == 1 else []


def _of_relations(
    asked: ExactQuestion, turns: Sequence[NodeId], catalog: Catalog, graph: Graph, scope: Scope
) -> list[ExactAnswer]:
    answers: dict[str, tuple[float, ExactAnswer]] = {}
    near = {*turns}
    for line in [*graph.of_turns(turns), *graph.of_keys(asked.names, scope.channels)]:
        answer, key, share = _answering_end(line, asked) if line.in_force else ("", "", 0.0)
        least = LEAST_OF_HIT if line.turn in near else LEAST_ELSEWHERE
        if answer and share >= least and (key not in answers or share > answers[key][0]):
            answers[key] = (share, ExactAnswer(answer, line.words, line.turn, line))
    shown = [one for _, one in answers.values()]
    relations = [one.relation for one in shown if one.relation]
    nodes = catalog.nodes({node for line in relations for node in (line.turn, line.page)})
    told = {node_id for node_id, node in nodes.items() if scope.admits(node)}
    return [one for one in shown if one.relation and {one.turn, one.relation.page} <= told]


def _answering_end(relation: RelationLine, asked: ExactQuestion) -> tuple[str, str, float]:
    """Return the end of a relation that answers, its page or folded name, and the share of the question that it says.

    The other end, or what was handed over, is named by the question; the answer is not. "" where neither end answers.
    """
    ends = {"subject": relation.subject, "object": relation.object}
    pages = {"subject": relation.subject_id, "object": relation.object_id}
    stems = {end: frozenset(content_stems(name)) for end, name in ends.items()}
    what = frozenset(content_stems(relation.what))
    said = frozenset(content_stems(relation.words)).union(what, *stems.values())
    for end, other in (("subject", "object"), ("object", "subject")):
        is_person = relation.relation in (_PEOPLE_FIRST if end == "subject" else _PEOPLE_LAST)
        if asked.who == is_person and (stems[other] | what) & asked.stems and not stems[end] & asked.stems:
            return ends[end], pages[end] or key_of(ends[end]), len(asked.stems & said) / len(asked.stems)
    return "", "", 0.0


def _of_people(asked: ExactQuestion, turns: Sequence[Node], graph: Graph, scope: Scope) -> list[ExactAnswer]:
    """Return the one person whom the newest of the sentences near the question names; none where it names two."""
    said = [(node, sentence) for node in turns for sentence in _stated(node.text)]
    people = graph.people({run for _, sentence in said for run in _runs(sentence)}, scope.channels)
    near = []
    for node, sentence in said:
        share = len(asked.stems & frozenset(content_stems(sentence))) / len(asked.stems)
        named = {people[run] for run in _runs(sentence) if run in people and run not in asked.names}
        if named and share >= LEAST_OF_HIT:
            near.append((share, node, sentence, named))
    best = max((share for share, *_ in near), default=0.0)
    close = [one for one in near if one[0] >= LEAST_BESIDE_BEST * best]
    if not close:
        return []
    _, node, sentence, named = max(close, key=lambda one: (one[1].created_at is not None, one[1].created_at, one[0]))
    return [ExactAnswer(name, on_one_line(sentence), node.node_id) for name in named] if len(named) == 1 else []


def _stated(text: str) -> Iterator[str]:
    """Yield the sentences of a text that do not ask."""
    for sentence in split(text):
        if not sentence.text.rstrip().endswith("?"):
            yield sentence.text


def _runs(text: str) -> Iterator[str]:
    """Yield the runs of up to three words, folded as the names of entities are."""
    words = key_of(text).split()
    for size in (1, 2, 3):
        for at in range(len(words) - size + 1):
            yield " ".join(words[at : at + size])
