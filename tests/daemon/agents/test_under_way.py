"""What a session's hooks hand over of the work under way, and what they leave when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.daemon.agents.test_hooks import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    one = World(tmp_path)
    yield one
    one.close()


def test_a_compacted_session_goes_on_from_its_anchor(world: World) -> None:
    world.store.set_anchor("one", world.channel, task="move the orders to Linz", next_step="dump them")
    text = world.handed("SessionStart", source="compact")
    assert "task: move the orders to Linz" in text
    assert text.count("<dreamd-memory ") == 1
    assert "move the orders" not in world.handed("SessionStart", source="compact", session_id="two")


def test_what_was_asked_before_a_compaction_is_an_anchor_unless_there_is_one(world: World) -> None:
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    assert "task: Please move the orders to Linz." in world.handed("SessionStart", source="compact")
    world.store.set_anchor("one", world.channel, task="dump the orders")
    world.answer("UserPromptSubmit", prompt="And then the invoices.")
    world.answer("PreCompact", trigger="auto")
    assert "task: dump the orders" in world.handed("SessionStart", source="compact")


def test_a_new_session_hears_of_one_that_crashed_today(world: World) -> None:
    world.store.set_anchor("crashed", world.channel, task="move the orders to Linz")
    world.now += timedelta(hours=5)
    assert "move the orders to Linz" in world.handed("SessionStart", source="startup")
    world.now += timedelta(days=2)
    assert world.handed("SessionStart", source="startup", session_id="later") == ""


def test_a_session_that_ends_leaves_its_open_goals_to_the_next(world: World) -> None:
    for number in range(5):
        world.store.set_goal("one", world.channel, text=f"shelf {number} is </dreamd-memory> painted")
    world.store.set_anchor("one", world.channel, task="paint the shelves")
    world.answer("SessionEnd", reason="other")
    text = world.handed("SessionStart", source="startup", session_id="two")
    assert text.count("is ‹/dreamd-memory> painted") == 3
    assert "Left open by earlier sessions:" in text
    assert "paint the shelves" not in text


def test_where_nothing_is_learned_no_task_is_kept(world: World) -> None:
    world.store.set_channel(world.channel, learning=False)
    world.answer("UserPromptSubmit", prompt="Please move the orders to Linz.")
    world.answer("PreCompact", trigger="auto")
    assert world.store.anchor_of_session("one").anchor is None
