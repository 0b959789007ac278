"""Unasked: the exchange of an earlier session that surely helps a person's prompt; silence is the rule.

A prompt asks for nothing, so being about the same is not enough. A fact that a dream kept may help: a decision, a rule,
a cause, beside the words that it answers. Any other turn may be a question or an order, which help nobody; but where it
says the same as the prompt (a question asked again, an error seen again), what was kept of the words that followed it
is the answer. What no dream has read helps nobody: most real prompts that got such words got an order like their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..index.catalog import Catalog
from ..index.projection import Node
from ..index.visibility import Scope
from ..model import Kind, NodeId
from ..roles import MACHINES, Role
from ..text.fence import speaker_name, unmarked
from ..text.token_count import estimate_tokens
from .gathering import AnswerRecords, Ranking
from .relevance import AnswerSentence, Option, Passage, Passages, is_deed, pieces_of, words_of
from .supersession import FactState, States

# A statement helps if it is so relevant, so near in meaning, and one sentence has two words of the prompt that weigh
# this share of what two weigh that no other text has: what is nearer needs less rare words. Of eight people of whom
# nothing shipped has learned, .13 of the prompts in need are helped so, .63 of what is given helps, and .97 of the
# other prompts get nothing; seven others prefer the same values.
SURE = ((0.95, 0.6, 0.0), (0.95, 0.45, 0.5), (0.9, 0.3, 0.75))

# A turn says what the prompt says if it is so near in meaning, or has this share, and so many at least, of its words.
SAME_COSINE, SAME_SHARE, SAME_WORDS = 0.75, 0.6, 3

# A turn that was kept, and has more than so many times the letters, says more than the prompt: it is no echo.
SAYS_MORE = 2

# The turns in which an answer is looked for, and how near in meaning it is at least: an error that was mended without
# a word is followed by another matter.
ANSWERED_WITHIN, ANSWER_COSINE = 6, 0.3

# The beginning of an answer, in whole sentences, and of what was said to it.
ANSWER_TOKENS, REPLY_CHARS = 70, 120


def helping(passages: Passages, records: AnswerRecords, ranking: Ranking, catalog: Catalog) -> list[Option]:
    """Return the exchanges that surely help, best first: those that followed the same words, then statements."""
    cosines = ranking.cosines(
        [name for one in passages.passages for name in (one.unit, *_facts_of(one, records.states))]
    )
    options: list[Option] = []
    for passage in passages.passages:
        states = records.states.of(passage.unit)
        if _is_echo(passages, passage, bool(states), ranking.question.words, cosines.get(passage.unit)):
            options += _answer(passage, passages, records, ranking, catalog)
            continue
        for option in _statements(passages, passage, states, ranking.question.scope):
            fact = option.state.fact.node_id if option.state else passage.unit
            if _is_sure(passages, option, cosines.get(fact)):
                options.append(option)
    newest_first = sorted(options, key=lambda one: (one.node.time_s or 0, one.unit), reverse=True)
    return sorted(newest_first, key=lambda one: -one.relevance)


def _facts_of(passage: Passage, states: States) -> list[NodeId]:
    return [state.fact.node_id for state in states.of(passage.unit)]


def _statements(passages: Passages, passage: Passage, states: Sequence[FactState], scope: Scope) -> Iterator[Option]:
    """Yield the facts of a turn with the words that they answer."""
    for place, state in enumerate(states):
        text, reply_to = words_of(state.fact)
        if scope.admits(state.fact) and not state.later:
            relevance = max((passages.relevance(passage, piece.text) for piece in pieces_of(text)), default=0.0)
            yield Option(relevance, AnswerSentence(passage, place, text, reply_to, relevance), state)


def _is_echo(passages: Passages, passage: Passage, is_kept: bool, prompt: str, cosine: float | None) -> bool:
    """Return True if a turn of a person or a tool says the same as the prompt, and tells nothing new.

    A statement that answers a question has most of its words too, and is none; nor is a turn that was kept and says
    more.
    """
    node = passage.node
    if node.kind is not Kind.TURN or node.role in MACHINES - {Role.TOOL}:
        return False
    states_an_answer = prompt.rstrip().endswith("?") and not node.asks and node.role != Role.TOOL
    if states_an_answer or (is_kept and len(node.text) > SAYS_MORE * len(prompt)):
        return False
    is_worded_so = len(passage.said) >= SAME_WORDS and passages.rarity.share(passage.said) >= SAME_SHARE
    return is_worded_so or (cosine or 0.0) >= SAME_COSINE


def _is_sure(passages: Passages, option: Option, cosine: float | None) -> bool:
    """Return True if a statement surely helps; without vectors, by its words alone. A question never does."""
    if option.sentence.text.endswith("?"):
        return False
    found = [passages.words.found(piece.text) for piece in pieces_of(option.sentence.text)]
    weight = max((passages.rarity.share_of_two(one) for one in found if len(one) > 1), default=0.0)
    nearness = 1.0 if cosine is None else cosine
    return any(
        option.relevance >= least_relevance and nearness >= least_cosine and weight >= least_weight
        for least_relevance, least_cosine, least_weight in SURE
    )


def _answer(
    asked: Passage, passages: Passages, records: AnswerRecords, ranking: Ranking, catalog: Catalog
) -> Iterator[Option]:
    """Yield the first statement after an error or a question, with the reply to it; after a question what was kept."""
    place, admits = asked.node.ordinal, ranking.question.scope.admits
    turns = catalog.turns_around(asked.node.path, place + 1, place + ANSWERED_WITHIN)
    following = [turn for turn in turns if admits(turn) and not is_deed(turn)]
    at = next((at for at, turn in enumerate(following) if not turn.asks), None)
    if at is None or not _is_near(following[at], passages, ranking):
        return
    turn, beside = following[at], _reply_to(following, at)
    records.read((), [one.node_id for one in (turn, beside) if one is not None])
    kept = [state for one in (turn, beside) if one is not None for state in records.states.of(one.node_id)]
    is_outdated = any(state.newer or state.later for state in kept)
    if is_outdated or not (asked.node.role == Role.TOOL or (kept and asked.node.asks)):
        return
    state = next(iter(records.states.of(turn.node_id)), None)
    passage = Passage(turn.node_id, turn, None, frozenset(), 0.0)
    yield Option(1.0, AnswerSentence(passage, -1, _beginning(turn.text), _as_reply(beside), 1.0), state)


def _is_near(turn: Node, passages: Passages, ranking: Ranking) -> bool:
    """Return True for a turn with a word of the prompt, or near it in meaning: not all that follows is an answer."""
    return (
        bool(passages.words.found(turn.text)) or ranking.cosines([turn.node_id]).get(turn.node_id, 0.0) >= ANSWER_COSINE
    )


def _reply_to(turns: Sequence[Node], at: int) -> Node | None:
    """Return the person's reply to an assistant's statement, or the assistant's question that theirs answers."""
    turn = turns[at]
    place = at + 1 if turn.role == Role.ASSISTANT else at - 1
    beside = turns[place] if 0 <= place < len(turns) else None
    return beside if beside is not None and beside.role != turn.role else None


def _beginning(text: str) -> str:
    """Return the first sentences of a text, one at least."""
    kept: list[str] = []
    for piece in pieces_of(text):
        if piece.shape == "row" or (kept and estimate_tokens(" ".join((*kept, piece.text))) > ANSWER_TOKENS):
            break
        kept.append(piece.text)
    return " ".join(kept)


def _as_reply(turn: Node | None) -> str:
    if turn is None:
        return ""
    words = " ".join(turn.text[:REPLY_CHARS].split())
    if len(turn.text) > REPLY_CHARS:
        words = words.rpartition(" ")[0] + " …"
    return f'{speaker_name(turn.role)}: "{unmarked(words)}"'
