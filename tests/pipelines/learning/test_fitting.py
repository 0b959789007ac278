"""Fitting to one person: small, bounded, the same every time, and proposed only where it gains on days left out."""

from __future__ import annotations

import numpy as np
import pytest
from dreamd.pipelines.learning.fitting import LEAST, SHARE, fit, gain_by_days_left_out, ranks
from dreamd.pipelines.learning.listwise import Example, Values, learn

SHIPPED = np.array([2.0, -1.0, 0.0])
OWN = np.array([2.0, 1.0, 0.0])
"""What this person goes by: the second feature, which is shipped as a bad sign, is a good one."""


def asked(count: int, weights: Values, seed: int = 1) -> list[Example]:
    rng = np.random.default_rng(seed)
    examples = []
    for number in range(count):
        rows = rng.normal(size=(20, 3))
        noisy = rows @ weights + rng.gumbel(size=20)
        examples.append(Example("own", f"2026-11-{1 + number % 8:02}", rows, noisy == noisy.max(), 1))
    return examples


def test_weights_move_the_right_way_the_same_every_time_and_stay_near_the_shipped() -> None:
    examples = asked(80, OWN)
    fitted = fit(examples, SHIPPED)
    assert np.array_equal(fitted, fit(examples, SHIPPED))
    assert fitted[1] > SHIPPED[1] + 0.5
    assert (np.abs(fitted - SHIPPED) <= SHARE * np.abs(SHIPPED) + LEAST + 1e-9).all()


def test_the_fewer_the_questions_weigh_the_less_is_changed() -> None:
    examples = asked(80, OWN)
    changes = [float(np.abs(learn(examples, l2, SHIPPED) - SHIPPED).sum()) for l2 in (0.01, 0.1, 1.0, 100.0)]
    assert changes == sorted(changes, reverse=True)
    assert changes[-1] < 0.05


def test_a_feature_that_never_differs_keeps_its_shipped_weight() -> None:
    examples = [
        Example(one.dataset, one.group, np.column_stack([one.features[:, :2], np.ones(20)]), one.gold, 1)
        for one in asked(40, OWN)
    ]
    assert fit(examples, np.array([2.0, -1.0, 0.7]))[2] == pytest.approx(0.7)


def test_what_a_person_goes_by_is_a_real_gain_on_days_left_out() -> None:
    gain = gain_by_days_left_out(asked(80, OWN), SHIPPED, SHIPPED, np.random.default_rng(1))
    assert gain.is_real
    assert gain.after > gain.before + 0.05


def test_what_is_as_shipped_is_no_gain() -> None:
    gain = gain_by_days_left_out(asked(80, SHIPPED), SHIPPED, SHIPPED, np.random.default_rng(1))
    assert not gain.is_real


def test_the_answers_of_a_liar_are_hardly_ever_a_gain() -> None:
    rng = np.random.default_rng(3)
    liars = [
        [Example("own", e.group, e.features, rng.permutation(e.gold), 1) for e in asked(60, OWN, n)] for n in range(12)
    ]
    real = sum(gain_by_days_left_out(liar, SHIPPED, SHIPPED, np.random.default_rng(1)).is_real for liar in liars)
    assert real <= 1


def test_the_rank_is_that_of_the_best_gold() -> None:
    example = Example("own", "day", np.array([[1.0], [3.0], [2.0]]), np.array([True, False, True]), 2)
    assert ranks([example], [example.features[:, 0]]).tolist() == [0.5]
