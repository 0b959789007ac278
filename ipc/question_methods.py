"""The methods that answer a question: recall and context, with notes on the limits of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, TypeVar

from ..store import estimate_tokens, first_sentences, within
from ..store.channel import channels_in_reach, may_read, of_one_project
from ..store.filters import Clause, Filter, Group
from ..store.model import ALL_CHANNELS, Hit, Level
from ..store.results import About, Elsewhere, EntityGraph, Shown
from .answers import (
    CandidateAnswer,
    ContextAnswer,
    PlainAnswer,
    RecallAnswer,
    RecentAnswer,
    TraceAnswer,
    WhyNotAnswer,
    widened,
)
from .call import Call, Method
from .channels import (
    Names,
    channel_for,
    found_elsewhere,
    full_id,
    full_name,
    lasting,
    node_of,
    not_looked_in,
    nothing_there,
    searched_by,
    session_of,
)
from .filter_params import FilterParams
from .params import AboutParams, ContextParams, EntitiesParams, Params, RecallParams, RecentParams

if TYPE_CHECKING:
    from ..store import MemoryStore

ANSWER_S = 20.0
"""A search or a page that takes longer is cancelled; by then its client has been answered, or has left."""

MAX_TEXT_BYTES = 2**19
"""The size of an answer's texts: half a line. Escapes, and all that is no text, fit into the other half."""

LONGEST_ESCAPE = len("\\u0000")

TOLD_CHARS, MOST_TOLD_LINES = 160, 12
"""The most characters of a memory, and memories, that are recorded of an agent's question."""

FILTERED = "only what the filter lets pass was looked at"

AnyParams = TypeVar("AnyParams", bound=Params)
Answer = TypeVar("Answer")


def bounded(run: Callable[[Any, AnyParams, Call], Answer]) -> Callable[[Any, AnyParams, Call], Answer]:
    """Cancel a method that only reads when it takes longer than ANSWER_S."""

    @wraps(run)
    def run_in_time(store: Any, params: AnyParams, call: Call) -> Answer:
        # A request that waited for its thread may have been cancelled meanwhile.
        call.raise_if_cancelled()
        with within(ANSWER_S):
            return run(store, params, call)

    return run_in_time


@bounded
def recall(store: MemoryStore, params: RecallParams, call: Call) -> RecallAnswer:
    """Find the memories that answer a question."""
    if params.like is not None:
        return _like(store, params, params.like)
    if params.queries is not None:
        return _each(store, params, params.queries, call)
    channel = searched_by(store, params)
    session = _asking(store, params, channel)
    where = filter_of(params.filter, store.channel_names_with)
    found = store.recall(
        params.query,
        limit=params.limit,
        channel=channel,
        session=session,
        agent=_reading(params),
        levels=params.levels,
        include_archived=params.include_archived,
        as_of=params.as_of,
        where=where,
        explain=params.explain or params.why_not is not None,
        min_score=params.min_score,
        max_facts=params.max_facts,
    )
    hits, left_out = hits_that_fit(store.code.looked_up(found.hits, params.cwd))
    notes = list(found.notes)
    if left_out:
        notes.append(f"{left_out} more hits are too long for one answer; ask for fewer, or `show` them one by one")
    elsewhere: Sequence[Elsewhere] = ()
    # Hits of other channels are shown only where the question named no channel and its own is empty: a new project
    # should not look as if nothing was known, and a project with memories should not get those of another.
    if found.abstained:
        reasons, is_empty = why_nothing(store, params, channel)
        notes += reasons
        if is_empty:
            elsewhere = elsewhere_that_fits(lasting(store.elsewhere(params.query, params.limit, session)))
    _note_told(store, params, channel, session, [(hit.node_id, hit.text or hit.title) for hit in hits])
    answer = RecallAnswer(
        hits, found.abstained, notes, channel, found.confidence, elsewhere, found.exact, found.incomplete
    )
    if params.explain:
        answer = replace(answer, trace=trace_answer(found.trace))
    # `wanted=False`: to ask why a memory was not found is no use of it, and must not keep it from fading.
    if params.why_not is not None:
        node = store.show(node_of(store, params.user_id, params.why_not), wanted=False)
        ruled_out_by = store.ruled_out_by(node.node_id, where)
        answer = replace(answer, why_not=why_not(node, params, answer, found.trace, ruled_out_by, session))
    return answer


def _like(store: MemoryStore, params: RecallParams, named: str) -> RecallAnswer:
    """Find the memories that are similar to one; by default in its own channel and the global one."""
    node = store.show(node_of(store, params.user_id, named), wanted=False)
    channel = channel_for(params.user_id, node.channel)
    if params.channel is not None:
        channel = searched_by(store, params)
    found = store.recall(
        node.text or node.title,
        limit=params.limit,
        channel=channel,
        levels=params.levels or (() if node.level is Level.SESSION else (Level.FACT,)),
        include_archived=params.include_archived,
        where=filter_of(params.filter, store.channel_names_with),
        like=node.node_id,
        min_score=params.min_score,
        max_facts=params.max_facts,
    )
    hits, left_out = hits_that_fit(found.hits)
    notes = [f"{left_out} more hits are too long for one answer; ask for fewer"] if left_out else []
    return RecallAnswer(hits, found.abstained, notes, channel, found.confidence)


def _each(store: MemoryStore, params: RecallParams, queries: Sequence[str], call: Call) -> RecallAnswer:
    """Answer each of several questions as it is answered alone; their texts share one line."""
    most_bytes = MAX_TEXT_BYTES // len(queries)
    answers = []
    for query in queries:
        call.raise_if_cancelled()
        answer = recall(store, params.model_copy(update={"query": query, "queries": None}), call)
        hits, left_out = hits_that_fit(answer.hits, most_bytes)
        notes = [
            *answer.notes,
            *([f"{left_out} more hits are too long for one answer; ask for fewer"] if left_out else []),
        ]
        elsewhere = elsewhere_that_fits(answer.elsewhere, most_bytes)
        found = answer.abstained, notes, answer.channel, answer.confidence, elsewhere, answer.exact, answer.incomplete
        answers.append(PlainAnswer(hits, *found))
    confidence = max(one.confidence for one in answers)
    return RecallAnswer([], all(one.abstained for one in answers), [], answers[0].channel, confidence, answers=answers)


@bounded
def context(store: MemoryStore, params: ContextParams, call: Call) -> ContextAnswer:
    """Return one text within a token budget for an agent."""
    channel = searched_by(store, params)
    session = _asking(store, params, channel)
    envelope = store.context(
        params.query,
        budget_tokens=params.budget_tokens,
        channel=channel,
        session=session,
        agent=_reading(params),
        as_of=params.as_of,
        where=filter_of(params.filter, store.channel_names_with),
        min_score=params.min_score,
        max_facts=params.max_facts,
    )
    _note_told(store, params, channel, session, [(slot.node_id, slot.text) for slot in envelope.slots])
    notes = list(envelope.notes)
    if envelope.abstained:
        reasons, is_empty = why_nothing(store, params, channel)
        notes += reasons
        if is_empty:
            notes += found_elsewhere(lasting(store.elsewhere(params.query)))
    return widened(ContextAnswer, envelope, notes=tuple(notes), channel=channel)


@bounded
def recent(store: MemoryStore, params: RecentParams, call: Call) -> RecentAnswer:
    """Return the last sessions, with their prompts and changes."""
    channel = searched_by(store, params)
    session = params.session and full_id(store, params.user_id, params.session)
    session_of(store, params.user_id, session)
    asking = store.session_at_work(None, params.agent_id, channel)
    found = store.recent(channel, params.limit, session=session, day=params.day, file=params.file, left_out=asking)
    return RecentAnswer(channel, found)


def _asking(store: MemoryStore, params: RecallParams | ContextParams, channel: str) -> str | None:
    """Return the session that asks. An agent may ask about another channel than that which it works in."""
    return store.session_at_work(params.session, params.agent_id, channel if params.channel is None else None)


def _reading(params: RecallParams | ContextParams) -> str | None:
    """Return the agent that has the files of the channel in its context: the one that works there."""
    return params.agent_id if params.channel is None else None


def _note_told(
    store: MemoryStore,
    params: RecallParams | ContextParams,
    channel: str,
    session: str | None,
    found: Sequence[tuple[str, str]],
) -> None:
    """Record in short the answer to an agent: each memory by its first words."""
    if params.agent_id and session:
        shown = [(first_sentences(text, TOLD_CHARS), node_id) for node_id, text in found[:MOST_TOLD_LINES]]
        text = "\n".join(words for words, _ in shown)
        moment = "recall" if isinstance(params, RecallParams) else "context"
        tokens = sum(estimate_tokens(whole) for _, whole in found)
        asked_by = session, channel, params.agent_id
        store.told.note_answer(*asked_by, moment, text, tokens, nodes=shown, asked=params.query)


@bounded
def about(store: MemoryStore, params: AboutParams, call: Call) -> About:
    """Return the knowledge of a person or a thing."""
    channel = searched_by(store, params)
    return store.about(params.name, channel, params.budget_tokens)


@bounded
def entities(store: MemoryStore, params: EntitiesParams, call: Call) -> EntityGraph:
    """Return a page of the people and things, most mentioned first, with their relations."""
    channel = searched_by(store, params)
    return store.entities(channel, params.type, params.limit, params.offset)


QUESTION_METHODS: tuple[Method[Any, Any], ...] = (
    Method("recall", RecallParams, RecallAnswer, recall, blocking=True, activity=True, first=True),
    Method("recent", RecentParams, RecentAnswer, recent, blocking=True, activity=True, first=True),
    Method("context", ContextParams, ContextAnswer, context, blocking=True, activity=True, first=True),
    Method("about", AboutParams, About, about, blocking=True, activity=True, first=True),
    Method("entities", EntitiesParams, EntityGraph, entities, blocking=True),
)


# ---- the filter and the channels of a question


def filter_of(given: FilterParams | None, names: Names) -> Filter:
    """Return the store's form of a filter, in which the short names of channels are full ones."""
    return _with_full_names(given.normalised(), names) if given is not None else ()


def _with_full_names(clauses: Filter, names: Names) -> Filter:
    def with_full_names(one: Clause) -> Clause:
        if isinstance(one, Group):
            return Group(*(_with_full_names(part, names) for part in (one.must, one.should, one.must_not)))
        if one.field != "channel" or one.op != "in":
            return one
        known = names(str(one.values[0]))
        full = [(str(name), full_name(str(name), known)) for name in one.values]
        meant = (of_one_project(found) if found != name else (name,) for name, found in full)
        return replace(one, values=tuple(chain.from_iterable(meant)))

    return tuple(map(with_full_names, clauses))


def why_nothing(store: MemoryStore, params: RecallParams | ContextParams, channel: str) -> tuple[list[str], bool]:
    """Return notes on why a question found nothing, and whether its channel, which it did not name, is empty.

    The reason is its filter, an empty channel that it named, or the channels that were not searched; then come words
    that it may have meant.
    """
    sizes = {
        name: size
        for name, size in store.channels().items()
        if params.user_id is None or may_read(params.user_id, name)
    }
    if params.filter is not None:
        notes = [FILTERED]
    elif params.channel is not None and channel != ALL_CHANNELS and (empty := nothing_there(channel, sizes)):
        notes = empty
    else:
        notes = not_looked_in(channel, sizes)
    if words := store.meant(params.query, channel):
        notes.append(f"did you mean {' and '.join(words)}?")
    is_of_all = params.channel is None and params.user_id is None
    return notes, is_of_all and not sizes.get(channel) and not (params.filter or params.as_of)


# ---- the size of an answer


def cut_to_bytes(text: str, size_bytes: int | None = None) -> str:
    """Return the longest beginning of a text that takes at most `size_bytes` (MAX_TEXT_BYTES) in a JSON string."""
    size_bytes = MAX_TEXT_BYTES if size_bytes is None else size_bytes
    # The usual case without a look at the characters: even if each became the longest escape, the text would fit.
    if len(text) * LONGEST_ESCAPE <= size_bytes:
        return text
    size = 0
    for end, character in enumerate(text):
        size += (
            LONGEST_ESCAPE if character < " " else 2 if character in '"\\' else len(character.encode(errors="replace"))
        )
        if size > size_bytes:
            return text[:end]
    return text


def hits_that_fit(hits: Iterable[Hit], most_bytes: int | None = None) -> tuple[list[Hit], int]:
    """Return the hits whose texts fit into one answer, the first cut if it must be, and the number left out."""
    fit: list[Hit] = []
    left_out, left_bytes = 0, MAX_TEXT_BYTES if most_bytes is None else most_bytes
    for hit in hits:
        # The first hit is cut rather than left out, so that an answer is never empty for its size alone.
        text = cut_to_bytes(hit.text, left_bytes)
        is_cut = len(text) < len(hit.text)
        if left_out or (fit and is_cut):
            left_out += 1
            continue
        fit.append(replace(hit, text=text) if is_cut else hit)
        left_bytes -= len(text.encode(errors="replace"))
    return fit, left_out


def elsewhere_that_fits(found: Iterable[Elsewhere], most_bytes: int | None = None) -> list[Elsewhere]:
    """Return the hits of other channels that fit into one answer."""
    fit, _ = hits_that_fit((hit for place in found for hit in place.hits), most_bytes)
    channels = dict.fromkeys(hit.channel for hit in fit)
    return [Elsewhere(channel, tuple(hit for hit in fit if hit.channel == channel)) for channel in channels]


# ---- the explanation of an answer


def trace_answer(trace: Mapping[str, Any]) -> TraceAnswer:
    """Return the steps of a search."""
    return TraceAnswer(trace["timings_ms"], [CandidateAnswer(**candidate) for candidate in trace["candidates"]])


def why_not(
    node: Shown,
    asked: RecallParams,
    answer: RecallAnswer,
    trace: Mapping[str, Any],
    ruled_out_by: Mapping[str, Sequence[str]],
    session: str | None = None,
) -> WhyNotAnswer:
    """Return the place of a memory in the search, from 1, or the reason why it has none.

    `ruled_out_by` are the fields by which the filter leaves it out, with its own values. `session` is the asking one.
    """
    candidates: Sequence[Mapping[str, Any]] = trace.get("candidates") or ()
    turn = _unit_of(node)
    # Search ranks a fact under the turn that it was drawn from, unless the question asks for levels or filters.
    is_found_by_turn = node.live and not asked.levels and asked.filter is None
    ids = {node.node_id, turn} if is_found_by_turn else {node.node_id}
    place = next((i for i, one in enumerate(candidates, 1) if not ids.isdisjoint((one["unit"], *one["nodes"]))), None)
    if place is not None:
        found = candidates[place - 1]
        it = "it" if node.node_id in (found["unit"], *found["nodes"]) else f"{turn}, which it was drawn from,"
        reason = f"the limit was {asked.limit}" if place > asked.limit else f"{it} is among the answers"
        reason = "nothing that was found is near enough to answer" if answer.abstained else reason
        if moved := found["priors"].get("trust"):
            reason += f"; feedback moved its score by {moved:+.2f}"
    elif not node.live and not asked.include_archived:
        reason = "it is archived, or a newer one has taken its place (include_archived looks there too)"
    elif asked.levels and node.level not in asked.levels:
        reason = f"its level is {node.level}"
    elif answer.channel != ALL_CHANNELS and node.channel not in channels_in_reach(answer.channel, session):
        reason = f"its channel is {node.channel}"
    elif session and session == turn.partition("#")[0]:
        reason = "it was said in the session that asks, which has it"
    elif ruled_out_by:
        reason = f"the filter leaves it out: {', '.join(starmap(_value_in_words, ruled_out_by.items()))}"
    else:
        reason = f"neither its words nor its meaning were among the nearest; {len(candidates)} others were looked at"
    return WhyNotAnswer(node.node_id, place, reason)


def _unit_of(node: Shown) -> str:
    """Return the turn by which search finds a fact, or a node's own id."""
    return node.evidence[0].node_id if node.level is Level.FACT and node.evidence else node.node_id


def _value_in_words(field: str, values: Sequence[str]) -> str:
    """Return a memory's value of a field as a clause: "its kind is note", "it has no tags"."""
    if not values:
        return f"it has no {field}"
    shown = [datetime.fromtimestamp(int(value), UTC).isoformat() for value in values] if field == "time" else values
    return f"its {field} {'is' if len(shown) == 1 else 'are'} {', '.join(shown)}"
