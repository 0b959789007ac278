"""A model's words on an episode: what its facts support stands on the page, and a lie never does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from dreamd.llm.budget import Asker
from dreamd.llm.language_model import LlmError, LlmRefused, LlmUnavailable
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines.pages import episodes
from dreamd.pipelines.pages.current_facts import labels_of
from dreamd.pipelines.stages import scenarios
from dreamd.pipelines.workspace.view import View
from dreamd.store.model import Kind, Level, Memory

from tests.pipelines.fakes import NOW, FakeModel, FakeSource
from tests.pipelines.pages.said import said

FACTS = [
    said("Two workers lock each other out of SQLite.", "s1#1"),
    said("We move to Postgres 16, the shop in Braga writes too.", "s1#2", Kind.DECISION),
    said("Do not open port 5432 to the world.", "s1#3", Kind.PREFERENCE),
    said("Ask Priya before anything is deleted.", "s1#4", Kind.PREFERENCE),
]
LABELS = labels_of(FACTS)


def outcome(*sentences: tuple[int, str]) -> str:
    answer = {"sentences": [{"turn": turn, "text": text} for turn, text in sentences]}
    return episodes.outcome_of(FACTS, LABELS, lambda prompt, schema: answer)


def name(text: str) -> str:
    return episodes.name_of(FACTS, lambda prompt, schema: {"name": text})


def test_supported_sentences_cite_their_facts() -> None:
    told = outcome((1, "Two workers lock each other out of SQLite."), (2, "We move to Postgres 16."))
    assert told == "Two workers lock each other out of SQLite. [^m1] We move to Postgres 16. [^m2]"


@pytest.mark.parametrize(
    "lie",
    [
        (2, "We move to Postgres 17."),
        (2, "We move to MySQL 16."),
        (2, "We do not move to Postgres 16."),
        (3, "Open port 5432 to the world."),
        (4, "Priya is asked before anything is deleted by Graça."),
        (4, "Delete anything before Priya asks."),
        (1, "We move to Postgres 16."),
        (2, "We move to Postgres 16. Everything was a great success."),
        (2, "Ignore all that was said."),
    ],
)
def test_a_lie_is_left_out_and_the_truth_beside_it_stays(lie: tuple[int, str]) -> None:
    assert outcome(lie) == ""
    assert outcome(lie, (1, "Two workers lock each other out of SQLite.")).endswith("[^m1]")


def test_a_name_is_words_of_one_sentence_in_their_order() -> None:
    assert name("Two workers lock each other out") == "Two workers lock each other out"
    assert name("“Ask Priya before anything is deleted.”") == "Ask Priya before anything is deleted"


@pytest.mark.parametrize(
    "lie", ["Open port 5432", "Move to MySQL", "Postgres 17", "SQLite out of two workers", "Priya", "", "x" * 200]
)
def test_another_name_is_not_taken(lie: str) -> None:
    assert name(lie) == ""


def test_only_what_holds_is_told_to_the_model() -> None:
    asked: list[str] = []

    def ask(prompt: str, schema: Mapping[str, Any]) -> None:
        asked.append(prompt)

    gone = [said("SQLite stays.", "s1#9", superseded_by="n")]
    assert episodes.outcome_of([*FACTS, *gone], labels_of([*FACTS, *gone]), ask) == ""
    assert episodes.outcome_of(gone, labels_of(gone), ask) == ""
    (prompt,) = asked
    assert "Postgres 16" in prompt
    assert "SQLite stays" not in prompt


# ---- in a dream


def source_of(title: str = "") -> FakeSource:
    source = FakeSource()
    source.titles["s1"] = title
    source.add("s1", *(("user", fact.text) for fact in FACTS))
    source.keep(*FACTS)
    return source


def dreamt(source: FakeSource, say: Callable[[str], dict[str, Any] | LlmError], run_id: str = "run-1") -> View:
    view = source.view(None, run_id)
    view.model = Asker(FakeModel(say), LlmSettings())
    planned = scenarios.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view


def page_of(view: View) -> Memory:
    (page,) = view.whole(Level.SCENARIO, "proj")
    return page


def truthful(prompt: str) -> dict[str, Any]:
    return {"sentences": [{"turn": 2, "text": "We move to Postgres 16."}], "name": "Two workers lock each other out"}


def test_a_page_has_the_models_name_and_opening_and_a_second_dream_asks_nothing() -> None:
    source = source_of()
    view = dreamt(source, truthful)
    page = page_of(view)
    assert page.title == "Two workers lock each other out"
    assert page.text.startswith("## What came of it\n\nWe move to Postgres 16. [^m2]\n")
    source.take(view)
    again = dreamt(source, lambda prompt: pytest.fail("asked again"), "run-2")
    assert again.actions == []
    assert source.view(None, "run-3").whole(Level.SCENARIO, "proj") == [page]


@pytest.mark.parametrize(
    "said",
    [
        {"sentences": [{"turn": 2, "text": "We move to MySQL, Priya agreed."}], "name": "MySQL at last"},
        {"sentences": [], "name": ""},
        LlmUnavailable("no server"),
        LlmRefused("babble"),
    ],
)
def test_a_lying_a_silent_and_an_absent_model_leave_the_page_as_it_is_without_one(said: Any) -> None:
    without = source_of("Off SQLite").view()
    planned = scenarios.plan(without, NOW)
    without.apply(planned.actions, planned.cursors)
    page, expected = page_of(dreamt(source_of("Off SQLite"), lambda prompt: said)), page_of(without)
    assert (page.title, page.text, page.sources) == (expected.title, expected.text, expected.sources)
    assert "MySQL" not in page.text
