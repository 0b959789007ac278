"""Slots: subject, attribute and value in the words of the statement, in three languages; none where it has none."""

from __future__ import annotations

import pytest
from dreamd.store.text.judging import EarlierStatement, Relation, judge
from dreamd.store.text.statements import other_value, slot_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "subject", "attribute", "value"),
    [
        ("Deig listens on port 8085 now.", "Deig", "port", "8085"),
        ("The deadline for the sprint is 5 April.", "the sprint", "deadline", "5 April"),
        ("The gateway's timeout is 30 seconds.", "The gateway", "timeout", "30 seconds"),
        ("Peder maintains the museum's pages.", "the museum's pages", "owner", "Peder"),
        ("We talked a while. The wiki runs on Outline.", "The wiki", "runs on", "Outline"),
        ("Jonas wohnt in Husum.", "Jonas", "lives", "Husum"),
        ("Itziar firma los certificados.", "los certificados", "owner", "Itziar"),
    ],
)
def test_a_statement_has_a_slot_in_its_own_words(text: str, subject: str, attribute: str, value: str) -> None:
    slot = slot_of(text)
    assert slot
    assert (slot.subject, slot.attribute, slot.value) == (subject, attribute, value)


@pytest.mark.parametrize(
    "text",
    [
        "The first shop went live in September.",
        "It is Peder who maintains the pages.",
        "Does deig listen on 8085?",
        "Maybe deig listens on 8085.",
        "Thanks, that was quick.",
    ],
)
def test_what_says_no_value_has_none(text: str) -> None:
    assert slot_of(text) is None


def test_another_value_of_the_same_subject_cannot_hold_beside_the_first() -> None:
    assert other_value("Jonas wohnt in Husum.", "Jonas wohnt in Cuxhaven.")
    assert not other_value("Jonas wohnt in Husum.", "Wiebke wohnt in Cuxhaven.")
    assert not other_value("Deig uses Postgres.", "Deig uses Redis.")


def test_with_a_sign_of_change_it_replaces_and_without_one_it_disputes() -> None:
    earlier = [EarlierStatement("a", "The gateway's timeout is 30 seconds.", 0.4)]
    assert [one.relation for one in judge("The gateway's timeout is now 60 seconds.", earlier)] == [Relation.UPDATES]
    assert [one.relation for one in judge("The gateway's timeout is 60 seconds.", earlier)] == [Relation.CONTRADICTS]


@given(st.text(alphabet=st.sampled_from("the port of is on runs listens .,'x8"), max_size=400))
def test_any_text_can_be_looked_at(text: str) -> None:
    slot = slot_of(text)
    assert slot is None or all(part and part in " ".join(text.split()) for part in (slot.subject, slot.value))
