"""Learning to rank: what is learned from made-up questions, of which the answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from .listwise import Example, Values, cross_validated, learn

TRUE = np.array([2.0, -1.0, 0.0])


def made(count: int, seed: int = 1) -> list[Example]:
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        rows = rng.normal(size=(20, 3))
        noisy = rows @ TRUE + rng.gumbel(size=20)
        examples.append(Example("made up", f"chat {number % 4}", rows, noisy == noisy.max(), 1))
    return examples


def test_the_weights_that_made_the_answers_are_found() -> None:
    assert learn(made(600), l2=1e-6) == pytest.approx(TRUE, abs=0.2)


def test_a_feature_that_never_differs_and_a_question_without_answer_change_nothing() -> None:
    examples = made(60)
    weights = learn(examples)
    more = [
        Example(one.dataset, one.group, np.column_stack([one.features, np.ones(20)]), one.gold, 1) for one in examples
    ]
    more.append(Example("made up", "chat 0", np.ones((5, 4)), np.zeros(5, bool), 1))
    assert learn(more) == pytest.approx([*weights, 0.0], abs=1e-4)


def test_a_question_is_scored_by_weights_of_other_conversations() -> None:
    examples = made(40)
    seen: list[set[str]] = []

    def learned(some: Sequence[Example]) -> Values:
        seen.append({one.group for one in some})
        return np.array([1.0, 0.0, 0.0])

    scores = cross_validated(examples, learned)
    assert sorted(map(len, seen)) == [3, 3, 3, 3]
    assert np.array_equal(scores[0], examples[0].features[:, 0])
