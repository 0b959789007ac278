"""What is told without being asked for: few rare words of a prompt count, many usual ones do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from dreamd.store.index.projection import Node
from dreamd.store.model import Kind, Level
from dreamd.store.roles import Role
from dreamd.store.search.relevance import SURE_RELEVANCE, AnswerSentence, Passage, Passages, Rarity, Words

PROMPT = ["gatus", "hetzner", "next", "one", "shop", "stage", "swap", "today"]
READ = [
    frozenset({"next", "one", "shop"}),
    frozenset({"next", "shop", "today"}),
    frozenset({"one", "next", "today"}),
    frozenset({"stage"}),
]
OTHERS: list[frozenset[str]] = [frozenset()] * 16


def sentence(
    text: str, said: Sequence[str], relevance: float = 0.9, role: Role = Role.USER
) -> tuple[Passages, AnswerSentence]:
    """Return a sentence that holds some of the prompt's words, among twenty texts of which a few say the usual ones."""
    node = Node(node_id="s#1", path="s.md", level=Level.SESSION, kind=Kind.TURN, title="", text=text, role=role)
    passage = Passage("s#1", node, None, frozenset(said), 0.0)
    texts = [*READ, *OTHERS]
    passages = Passages([passage], {}, Words(PROMPT), Rarity(PROMPT, texts), 0.5, 0.5, 3)
    return passages, AnswerSentence(passage, 0, text, "", relevance)


@pytest.mark.parametrize(
    ("text", "said", "is_sure"),
    [
        ("staging swaps on hetzner", ("stage", "swap", "hetzner"), True),
        ("gatus watches staging", ("gatus", "stage"), True),
        ("the next shop is one for today", ("next", "shop", "one", "today"), False),
        ("gatus is there", ("gatus",), False),
    ],
)
def test_two_rare_words_are_sure_and_four_usual_ones_are_not(text: str, said: Sequence[str], is_sure: bool) -> None:
    passages, one = sentence(text, said)
    assert passages.is_sure(one) is is_sure


def test_what_is_not_more_relevant_than_not_is_not_sure() -> None:
    passages, one = sentence("gatus watches staging", ("gatus", "stage"), relevance=SURE_RELEVANCE - 0.01)
    assert not passages.is_sure(one)


def test_what_an_assistant_said_needs_rarer_words() -> None:
    passages, one = sentence("gatus watches staging", ("gatus", "stage"), role=Role.ASSISTANT)
    assert passages.is_sure(one) is False
