"""From a ranking to hits: the best memories by the text that matched, each after its successors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..index.catalog import Catalog
from ..index.projection import Node
from ..model import Hit, NodeId
from ..results import ExactAnswer
from ..text.sentences import Sentence as Piece
from .gathering import AnswerRecords, Candidate, Ranking, fetch, in_order, scores_by
from .relevance import Passages, Words, passages_of, pieces_of, sections_of
from .scoring import note_of_time
from .supersession import Links, States, links_of, newest_first

# The most characters of a long memory in a hit: the nearest sentence and its surroundings; `show` has the rest.
# A person sees the first ten lines of it, and an agent pays for all of it ten times.
SECTION_CHARS = 1200

# Candidates whose words are read, at least, to decide if anything is near the question.
LEAST_READ = 20

# The size of a section where there are no long texts to take it from, and the most of one.
FALLBACK_CHARS, MOST_CHARS = 3200, 8192


@dataclass(slots=True)
class Recalled:
    """The answer of `recall`. `abstained`: nothing is near enough to be an answer, and `hits` is empty.

    `incomplete`: it abstains although not all that is remembered can be found yet; the notes say why.

    `confidence`, 0 to 1, is that of the best hit. `exact` answer a question for a relation, the newest first.
    """

    hits: list[Hit]
    abstained: bool
    notes: list[str] = field(default_factory=list)
    confidence: float = 0.0
    trace: dict[str, Any] = field(default_factory=dict)
    exact: Sequence[ExactAnswer] = ()
    incomplete: bool = False


def answer(ranking: Ranking, catalog: Catalog, limit: int) -> Recalled:
    """Return the best candidates as hits, each after its successors; none where nothing is near."""
    read = max(limit, LEAST_READ)
    records = fetch(ranking, catalog, read, facts=limit)
    passages = passages_of(ranking, records, read)
    if passages.is_far:
        return Recalled([], True, ranking.notes)
    states, links = put_newest_first(ranking, passages, records, limit)
    found = _hits(ranking, states, links, passages, records, limit)
    notes = [
        *ranking.notes,
        *([passages.note] if found and passages.note else []),
        *note_of_time([(hit.created_at and hit.created_at.date(), hit.text) for hit in found], ranking.asked),
    ]
    sure = [hit for hit in found if hit.confidence >= ranking.question.min_score]
    if faint := len(found) - len(sure):
        notes.append(f"{faint} of {len(found)} hits are less sure than {ranking.question.min_score:g}")
    return Recalled(
        sure, bool(faint) and not sure, notes, confidence=max((hit.confidence for hit in found), default=0.0)
    )


def put_newest_first(ranking: Ranking, passages: Passages, records: AnswerRecords, limit: int) -> tuple[States, Links]:
    """Put a fact's successor or contradiction directly before it, even when the search did not find it.

    A likely successor is put there only if it was found. Return the facts of the `limit` best candidates, and the links
    between units. The facts of candidates further down are not read: none of them can come before the best.
    """
    top = ranking.candidates[:limit]
    states = records.states
    if not ranking.question.shows_facts:
        return states.of_themselves(), Links()
    links = links_of(states, lambda text: bool(passages.words.found(text)))
    if not (links.newer or links.opposed or links.later):
        return states, links
    known = {candidate.unit: candidate for candidate in ranking.candidates}
    order = newest_first([candidate.unit for candidate in top], links, passages.relevances() if links.later else {})
    if ranking.question.scope.where:  # what a filter leaves out is named beside a hit, and is none
        order = [unit for unit in order if unit in known]
    # A unit that came in is read like one that was found, its own facts too: one of them may be what is shown of it.
    found = {candidate.unit for candidate in top}
    came_in = [unit for unit in order if unit not in found]
    if came_in:
        records.read(came_in, came_in)
        states = records.states
    known |= {
        unit: Candidate(unit)
        for unit in came_in
        if unit not in known and unit in records.nodes and not ranking.is_left_out(unit)
    }
    ahead = [known[unit] for unit in order if unit in known]
    # Scores fall from one to the next: what was put before another is at least as good.
    scores = [candidate.score for candidate in ahead]
    for place in range(len(ahead) - 2, -1, -1):
        scores[place] = max(scores[place], scores[place + 1])
    for candidate, score in zip(ahead, scores, strict=True):
        candidate.score = score
    placed = {candidate.unit for candidate in ahead}
    ranking.candidates = ahead + [candidate for candidate in ranking.candidates if candidate.unit not in placed]
    return states, links


def _hits(
    ranking: Ranking, states: States, links: Links, passages: Passages, records: AnswerRecords, limit: int
) -> list[Hit]:
    """Return the best candidates by the text that matched: a turn by its fact that is nearest to the question."""
    scope = ranking.question.scope
    confidence = passages.confidence()
    best = [(one, *records.best.get(one.unit, (one.unit, one.unit))) for one in ranking.candidates[:limit]]
    if missing := [node_id for _, node_id, _ in best if node_id not in records.nodes]:
        records.read(missing, ())
    found: list[tuple[Candidate, Node, NodeId]] = []
    for candidate, node_id, chunk in best:
        if (node := records.nodes.get(node_id)) is not None:  # else it was forgotten since it was ranked
            drawn = states.facts.get(node_id, ())
            facts = [one.fact for one in drawn if not one.is_reworded and scope.admits(one.fact)]
            shown = _nearest(node, facts, passages.words)
            found.append((candidate, shown, chunk if shown.node_id == node_id else node_id))
    evidence = records.evidence([node for _, node, _ in found])
    texts = _sections({chunk: node for _, node, chunk in found}, passages, ranking, records)
    hits = []
    for candidate, node, chunk in found:
        newer, later = _successors(candidate.unit, node, states, links)
        text, part, parts = texts.get(chunk, (node.text, None, None))
        hits.append(
            Hit(
                node_id=node.node_id,
                level=node.level,
                kind=node.kind,
                title=node.title,
                text=text,
                score=round(candidate.score, 4),
                channel=node.channel,
                created_at=node.created_at,
                evidence=evidence[node.node_id],
                contradicts=links.disputes(candidate.unit),
                newer=tuple(dict.fromkeys((*newer, *later))),
                superseded_by=newer,
                stale_after=node.stale_after if node.stale_after and scope.is_past(node.stale_after) else None,
                confidence=confidence.get(candidate.unit, 0.0),
                certainty=node.certainty,
                chunk=part,
                chunks=parts,
            )
        )
    return hits


def _successors(
    unit: NodeId, node: Node, states: States, links: Links
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """Return the units of the successors, and of the likely ones, of the memory that is shown for a unit."""
    state = next((one for one in states.facts.get(unit, ()) if one.fact.node_id == node.node_id), None)
    if state is None:
        return tuple(links.newer.get(unit, ())), tuple(links.later.get(unit, ()))
    newer, later = ((states.unit_of[one.node_id] for one in nodes) for nodes in (state.newer, state.later))
    return tuple(dict.fromkeys(newer)), tuple(dict.fromkeys(later))


def _nearest(node: Node, facts: Sequence[Node], asked: Words) -> Node:
    """Return the first fact that shares most words with the question, or the turn itself if none shares any."""
    shared = [len(asked.found(fact.text)) for fact in facts]
    return facts[shared.index(max(shared))] if any(shared) else node


def _sections(
    nodes: Mapping[NodeId, Node], passages: Passages, ranking: Ranking, records: AnswerRecords
) -> dict[NodeId, tuple[str, int, int]]:
    """Return the section around the nearest sentence of each long text, by the chunk that was found for it.

    Each with the number of the chunk that holds the sentence, from 1, and the number of all.
    """
    sections = sections_of(nodes.values(), ranking, records)
    parents_chars = [len(node.text) for node in nodes.values() if node.node_id in sections]
    texts: dict[NodeId, tuple[str, int, int]] = {}
    for chunk, node in nodes.items():
        if of_it := sections.get(node.node_id):
            nearest = passages.nearest_sentence(node, of_it)
            budget_chars = section_budget(parents_chars, nearest[1] - nearest[0], SECTION_CHARS)
            text = _excerpt(node.text, widened(node.text, pieces_of(node.text), [nearest], budget_chars))
            part = sum(one.start <= nearest[0] for one in of_it)
            texts[chunk] = text, max(1, part), len(of_it)
    return texts


def _excerpt(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the spans of a text with a mark where something is left out."""
    shown = "\n…\n".join(text[start:end].strip() for start, end in spans)
    ahead, behind = ("…" if spans[0][0] > 0 else ""), ("…" if spans[-1][1] < len(text) else "")
    return f"{ahead}{shown}{behind}"


def section_budget(parents_chars: Collection[int], chunk_chars: int, most_chars: int = MOST_CHARS) -> int:
    """Return the characters of a section: the median length of the long texts, within [chunk_chars, most_chars].

    FALLBACK_CHARS where there is no long text.
    """
    usual = int(median(parents_chars)) if parents_chars else FALLBACK_CHARS
    return max(chunk_chars, min(usual, most_chars))


def widened(
    text: str, sentences: Sequence[Piece], spans: Sequence[tuple[int, int]], budget_chars: int
) -> list[tuple[int, int]]:
    """Return spans grown evenly on both sides, by whole sentences, to `budget_chars` together; overlaps are merged.

    Spans are taken in their order while they fit; the first always is. Each round gives each span the sentence before
    it and the one after it, so that none starves another. The result is in the order of the text, and no two overlap.
    """
    taken: list[tuple[int, int]] = []
    for span in spans:
        if not taken or _size(merged([*taken, span])) <= budget_chars:
            taken = merged([*taken, span])
    ends = [(one.start, one.end) for one in sentences]
    grew = True
    while grew:
        grew = False
        for span in taken:
            for wider in (_with_sentence_before, _with_sentence_after):
                grown = merged([*taken, wider(span, ends)])
                if grown != taken and _size(grown) <= budget_chars:
                    taken, grew = grown, True
    return [(_from_heading(text, start), end) for start, end in taken]


def _with_sentence_before(span: tuple[int, int], sentences: Sequence[tuple[int, int]]) -> tuple[int, int]:
    place = bisect_left(sentences, (span[0],)) - 1
    return (sentences[place][0], span[1]) if place >= 0 else span


def _with_sentence_after(span: tuple[int, int], sentences: Sequence[tuple[int, int]]) -> tuple[int, int]:
    place = bisect_left(sentences, (span[1],))
    return (span[0], sentences[place][1]) if place < len(sentences) else span


def _from_heading(text: str, start: int) -> int:
    """Return where the heading right above a place begins, the place itself where there is none."""
    above = text[:start].rstrip()
    line = above.rfind("\n") + 1
    return line if above[line:].lstrip().startswith("#") else start


def merged(spans: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _size(spans: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)


def trace(ranking: Ranking) -> dict[str, Any]:
    """Return the trace of an answer: the time of each step, and each candidate's ranks and scores by arm."""
    by_arm = {
        arm: {unit: rank for rank, unit in enumerate(in_order(scores_by(arm, ranking.candidates)), start=1)}
        for arm in ("keyword", "vector")
    }
    return {
        "timings_ms": ranking.timings_ms,
        "candidates": [
            {
                "unit": candidate.unit,
                "nodes": list(candidate.matched),
                "score": round(candidate.score, 4),
                "ranks": {arm: ranks[candidate.unit] for arm, ranks in by_arm.items() if candidate.unit in ranks},
                "scores": {arm: round(score, 4) for arm, score in candidate.scores.items()},
                **({"over": candidate.over} if candidate.over else {}),
                "priors": {name: rounded for name, added in candidate.priors.items() if (rounded := round(added, 4))},
            }
            for candidate in ranking.candidates
        ],
    }
