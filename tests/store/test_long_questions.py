"""What a question may cost the others: a pasted log or a page of marks is cut, and what it begins ends."""

from __future__ import annotations

import pytest
from dreamd.store.find import search
from dreamd.store.find.query_text import READ_CHARS
from dreamd.store.keep import deadline
from dreamd.store.memory import MemoryStore
from dreamd.store.model import InvalidInput

from .conftest import OpenStore

LOG = "Why does the billing service fail? " + '"(*)[] NEAR( 0x7f3a ERROR at line 17; ' * 2000


@pytest.fixture
def billing(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Give a store that looks at the clock often."""
    monkeypatch.setattr(deadline, "STEPS", 20)
    store = open_store()
    store.remember("The billing service fails when its disk is full.").result()
    store.rebuild()  # which embeds it
    return store


def test_a_pasted_log_is_answered_by_its_beginning_and_says_so(billing: MemoryStore) -> None:
    found = billing.recall(LOG)
    assert found.hits[0].text == "The billing service fails when its disk is full."
    assert any(f"{READ_CHARS:,} characters" in note for note in found.notes)
    assert any(f"{READ_CHARS:,} characters" in note for note in billing.context(LOG).notes)


def test_words_that_take_too_long_to_look_up_are_left_to_the_meaning(
    billing: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "KEYWORD_S", 0.0)
    found = billing.recall("The billing service fails when its disk is full.")
    assert [hit.text for hit in found.hits] == ["The billing service fails when its disk is full."]
    assert [note for note in found.notes if "meaning alone" in note]
    monkeypatch.undo()
    assert not billing.recall("billing service").notes


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_an_empty_question_is_refused(billing: MemoryStore, blank: str) -> None:
    for ask in (billing.recall, billing.context):
        with pytest.raises(InvalidInput, match="empty") as caught:
            ask(blank)
        assert caught.value.hint
