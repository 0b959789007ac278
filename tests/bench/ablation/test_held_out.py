"""The learned default is judged by weights that never saw the conversation that is asked about."""

from __future__ import annotations

import numpy as np

from ..datasets import Question
from ..ranking.listwise import Example
from .gathering import Asked
from .held_out import held_out


def asked(channel: str, values: list[float], gold: int) -> Asked:
    """Return a question of four candidates with one feature."""
    features = np.array(values, np.float64)[:, None]
    example = Example("set", channel, features, np.arange(4) == gold, 1)
    return Asked(Question("?", frozenset({f"t{gold}"}), "kind", "", channel), ("t0", "t1", "t2", "t3"), {}, example)


def test_a_conversation_is_ranked_by_what_others_teach() -> None:
    rising = [0.0, 1.0, 2.0, 3.0]
    questions = [asked("a", rising, 0), asked("b", rising, 3), asked("c", rising, 3)]
    found = held_out(questions)
    assert found is not None
    assert found[0] == ("t3", "t2", "t1", "t0")  # by b and c, which say that more is better
    assert len(found) == 3


def test_without_a_learned_default_nothing_is_held_out() -> None:
    plain = Asked(Question("?", frozenset({"t0"}), "kind", "", "a"), ("t0",), {}, None)
    assert held_out([plain]) is None
