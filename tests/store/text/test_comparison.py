# ruff: noqa: E501 - pairs are read side by side
from __future__ import annotations

import pytest
from dreamd.store.text.comparison import DONE, Comparison, compare, denied_part
from dreamd.store.text.statement import read
from hypothesis import given
from hypothesis import strategies as st

DRAFT = "The first draft of the essay has 4,500 words."


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("My Zoom meeting with Professor Danielle is on March 22 at 3 PM.", "The Zoom meeting with Professor Danielle was moved to March 22 at 4:30 PM."),
        ("The deadline of the peer review draft is April 20.", "The deadline of the peer review draft was extended to April 25."),
        ("The repository has 150 commits merged into its branch.", "The commits merged into the branch have now reached 165."),
        ("I secured 3 interviews for producer roles in April 2024.", "I secured 5 interviews for producer roles in April 2024."),
        ("The relocation budget for Toronto is $3,000.", "The relocation budget for Toronto was raised to $3,500."),
    ],
)  # fmt: skip
def test_what_is_said_to_have_changed_is_an_update(earlier: str, later: str) -> None:
    assert compare(earlier, later) is Comparison.UPDATES
    assert compare(later, earlier) is Comparison.NONE


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("The room of the first sprint review holds 12 people.", "The room of the second sprint review now holds 20 people."),
        ("Sprint 1 ends on April 1 with the login page.", "Sprint 2 now ends on April 19 with the login page."),
        ("Chapter 3 of the novel has 1,200 words.", "Chapter 4 of the novel now has 1,900 words."),
        ("I ran 5 km along the river in 2023.", "I ran 8 km along the river in 2024."),
        ("The error rate went from 12% to 1%.", "The conversion rate went from 2% to 3%."),
        (DRAFT, DRAFT),
    ],
)  # fmt: skip
def test_one_doubt_is_enough_to_say_nothing(earlier: str, later: str) -> None:
    assert compare(earlier, later) is Comparison.NONE


@pytest.mark.parametrize(
    ("earlier", "later", "relation"),
    [
        ("My office is in Oslo.", "My office is in Bergen now.", Comparison.UPDATES),
        ("The API timeout is 30 seconds.", "The API timeout is 60 seconds now.", Comparison.UPDATES),
        ("Ana lives in Lisbon.", "Ana now lives in Porto.", Comparison.UPDATES),
        ("My office is in Oslo.", "My office is in Bergen.", Comparison.CONTRADICTS),
        ("Ana lives in Lisbon.", "Boris now lives in Porto.", Comparison.NONE),
        ("Ana's car is red.", "Boris's car is now blue.", Comparison.NONE),
        ("Ana is happy.", "Ana is tired.", Comparison.NONE),
        ("My office is in Oslo.", "My office is not in Bergen.", Comparison.NONE),
    ],
)
def test_what_something_is_can_change(earlier: str, later: str, relation: Comparison) -> None:
    assert compare(earlier, later) is relation


def test_a_denial_contradicts_what_was_told_before() -> None:
    told = "I enrolled in an academic writing course on Coursera."
    assert compare(told, "I have never taken any academic writing course on Coursera.") is Comparison.CONTRADICTS
    assert compare(told, "I will never forget the academic writing course on Coursera.") is Comparison.NONE
    assert (
        compare("Ana met Bryan at the film festival.", "Chiara has never met Otto at the film festival.")
        is Comparison.NONE
    )


def test_a_denial_is_about_the_names_of_its_own_clause() -> None:
    denial = "I use Celery and Redis with Sentry. I have never integrated Flask-Login in this project."
    assert compare("I integrated Flask-Login in my project last week.", denial) is Comparison.CONTRADICTS
    assert compare("Ben visited the old lighthouse.", "Ann has never visited the old lighthouse.") is Comparison.NONE


def test_a_denial_in_a_relative_clause_is_about_what_stands_before_it() -> None:
    denial = "I look at tools like Zotero, which I have never used for any citations."
    assert compare("I used Zotero for the citations of my essay.", denial) is Comparison.CONTRADICTS


def test_what_was_done_is_nearer_to_a_denial_than_what_was_meant() -> None:
    denial = read("I have never completed a first draft of any screenplay.")
    meant = denied_part(denial, read("My goal is to complete a screenplay draft by April."))
    done = denied_part(denial, read("I completed the draft of my screenplay in April."))
    assert done == meant + DONE


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    assert compare(one, one) is Comparison.NONE
    assert compare(one, other) in Comparison
