"""Episodes: sessions in the order of time, joined where they go on, cut where they are long and turn elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from dreamd.pipelines.pages import episodes
from dreamd.pipelines.pages.episodes import LARGEST, Episode, episodes_of
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.store.model import Level, Memory

from tests.pipelines.pages.said import said


def vectors(facts: Sequence[Memory], subjects: Sequence[int]) -> dict[str, Vectors]:
    """Give each fact the direction of its subject."""
    return {one.node_id: np.eye(8, dtype=np.float32)[subject] for one, subject in zip(facts, subjects, strict=True)}


def texts(found: Sequence[Episode]) -> list[list[str]]:
    return [[fact.text for fact in episode.facts] for episode in found]


def test_a_session_is_an_episode_in_the_order_of_its_turns() -> None:
    facts = [said(f"{name} {n}", f"{name}#{n}") for name in ("s9", "s1") for n in (3, 1, 2)]
    found = episodes_of(facts, [], vectors(facts, [0, 0, 0, 1, 1, 1]))
    assert texts(found) == [["s1 1", "s1 2", "s1 3"], ["s9 1", "s9 2", "s9 3"]]


def test_a_session_beside_goes_on_about_the_same_things_and_another_does_not() -> None:
    facts = [said(f"{name} {n}", f"{name}#{n}") for name in ("s1", "s2", "s3", "s30") for n in (1, 2)]
    found = episodes_of(facts, [], vectors(facts, [0, 0, 0, 0, 1, 1, 1, 1]))
    assert [episode.sessions for episode in found] == [["s1", "s2"], ["s3"], ["s30"]]


def test_a_long_session_is_cut_where_it_turns_to_something_else() -> None:
    facts = [said(f"fact {n}", f"s1#{n}") for n in range(1, LARGEST + 6)]
    found = episodes_of(facts, [], vectors(facts, [0 if n < 10 else 1 for n in range(len(facts))]))
    assert [len(episode.facts) for episode in found] == [10, len(facts) - 10]
    assert [text for piece in texts(found) for text in piece] == [fact.text for fact in facts]


def test_a_page_keeps_its_facts_and_takes_what_its_session_adds() -> None:
    facts = [said(f"fact {n}", f"s1#{n}") for n in range(1, 5)]
    page = replace(facts[0], level=Level.SCENARIO, node_id="page", sources=tuple(one.node_id for one in facts[:3]))
    (episode,) = episodes_of(facts, [page], vectors(facts, [0, 0, 0, 1]))
    assert episode.page is page
    assert [fact.text for fact in episode.facts] == [fact.text for fact in facts]


def test_a_full_page_takes_no_more() -> None:
    facts = [said(f"fact {n}", f"s1#{n}") for n in range(1, LARGEST + 4)]
    page = replace(
        facts[0], level=Level.SCENARIO, node_id="page", sources=tuple(one.node_id for one in facts[:LARGEST])
    )
    first, second = episodes_of(facts, [page], vectors(facts, [0] * len(facts)))
    assert (len(first.facts), len(second.facts), second.page) == (LARGEST, 3, None)


def test_facts_without_a_turn_are_in_no_episode() -> None:
    noted = replace(said("Noted by hand."), sources=())
    assert episodes_of([noted], [], vectors([noted], [0])) == []
    assert episodes.SMALLEST > 1
