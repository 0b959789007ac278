"""At a prompt an exchange is handed over that surely helps it, and never the person's own question or order."""

from __future__ import annotations

import pytest
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Kind, NewTurn, SessionHead

from tests import memories
from tests.system.waiting import until

PORT = "The staging database of the orders service listens on port 6543."
ASKED = "Which port does the staging database of the orders service listen on?"
QUESTION = "Why is the build on the arm runner so slow?"
ANSWER = "The arm runner has no ccache; mount /var/ccache and the build takes 3 minutes."
ERROR = "panic: unknown time zone Africa/Lagos\n\ngoroutine 1 [running]:\nmain.main()"
CAUSE = "The image is built from scratch and has no time zone files; import time/tzdata in main.go."


def hear(store: MemoryStore, *said: tuple[str, str], session: str = "s1") -> None:
    """Keep the turns of a session."""
    store.observe(SessionHead(session, "shop"), [NewTurn(role, text) for role, text in said]).result()
    until(lambda: not store.status().pending_embeddings)


def keep(store: MemoryStore, turn: str, text: str) -> None:
    """Keep a fact of a turn, as a dream does."""
    memories.keep_fact(store, turn, text, "shop")


def handed(store: MemoryStore, prompt: str) -> str:
    """Return what a prompt of another session is handed."""
    return store.context(prompt, budget_tokens=250, channel="shop", session="now", only_sure=True).text


def test_a_question_that_is_asked_again_brings_what_was_kept_of_its_answer(store: MemoryStore) -> None:
    hear(store, ("user", QUESTION), ("assistant", ANSWER))
    assert handed(store, QUESTION) == ""
    keep(store, "s1#2", ANSWER)
    text = handed(store, QUESTION)
    assert ANSWER in text
    assert QUESTION not in text


def test_a_question_that_nobody_answered_brings_nothing(store: MemoryStore) -> None:
    hear(store, ("user", QUESTION))
    assert handed(store, QUESTION) == ""


def test_an_order_that_is_given_again_brings_nothing(store: MemoryStore) -> None:
    order = "commit the changes of the arm runner and push them"
    hear(store, ("user", order), ("assistant", "Committed the changes of the arm runner as 1a2b3c4 and pushed them."))
    assert handed(store, order) == ""


def test_an_error_that_was_seen_before_brings_its_cause_and_what_was_said_to_it(store: MemoryStore) -> None:
    hear(
        store,
        ("assistant", "[Bash: ./wayfinder]"),
        ("tool", f"[Bash failed]\n{ERROR}"),
        ("assistant", CAUSE),
        ("user", "do that"),
    )
    text = handed(store, ERROR)
    assert f'{CAUSE} (user: "do that")' in text
    assert "goroutine" not in text


def test_what_follows_an_error_about_another_matter_is_no_answer(store: MemoryStore) -> None:
    hear(store, ("tool", f"[Bash failed]\n{ERROR}"), ("assistant", "Shall we have lunch?"), ("user", "At noon, yes."))
    assert handed(store, ERROR) == ""


def test_a_proposal_comes_with_its_refusal(store: MemoryStore) -> None:
    proposal = "For feature flags of the depots I suggest LaunchDarkly."
    hear(
        store,
        ("user", "How do we do feature flags for the depots?"),
        ("assistant", proposal),
        ("user", "no, it costs more than our database"),
    )
    keep(store, "s1#3", "no, it costs more than our database")
    text = handed(store, "How do we do feature flags for the depots?")
    assert f'{proposal} (user: "no, it costs more than our database")' in text


@pytest.mark.parametrize("others", [0, 2, 40])
def test_a_memory_helps_in_a_small_store_as_in_a_large_one(store: MemoryStore, others: int) -> None:
    for number in range(others):
        store.remember(f"Parcel {number} goes to house {number} of the harbour road.", channel="shop").result()
    store.remember(PORT, kind=Kind.VALUE, channel="shop").result()
    until(lambda: not store.status().pending_embeddings)
    assert "port 6543" in handed(store, ASKED)
    assert handed(store, "Rename the variable in the parser.") == ""


def test_a_question_that_was_kept_helps_nobody(store: MemoryStore) -> None:
    store.remember("On which port does the staging database of the orders service listen?", channel="shop").result()
    store.settle()
    assert handed(store, ASKED) == ""


def test_what_no_dream_has_kept_helps_nobody(store: MemoryStore) -> None:
    hear(store, ("user", PORT))
    assert handed(store, ASKED) == ""
    keep(store, "s1#1", PORT)
    assert "port 6543" in handed(store, ASKED)


def test_one_exchange_is_handed_over_and_none_twice(store: MemoryStore) -> None:
    second_port = "The staging database of the orders service listens on a second port too, 6544."
    hear(store, ("user", PORT))
    keep(store, "s1#1", PORT)
    hear(store, ("user", second_port), session="s2")
    keep(store, "s2#1", second_port)
    first = store.context(ASKED, channel="shop", only_sure=True)
    assert len(first.slots) == 1
    given = [slot.words for slot in first.slots]
    second = store.context(ASKED, channel="shop", only_sure=True, given=given)
    assert len(second.slots) == 1
    assert second.slots[0].words not in given
