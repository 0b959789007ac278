"""The judge: what is said of a turn, whatever stands beside it."""

from __future__ import annotations

import pytest
from dreamd.store.judges.judge import KINDS, REPLIES, JudgedTurn, judge

TURNS = [
    JudgedTurn("user", "always squash before merging, one commit per ticket", "Done."),
    JudgedTurn("user", "thanks, see you tomorrow", "Done. Anything else?"),
    JudgedTurn("user", "ok do that", "Should I keep the backups for thirty days?"),
    JudgedTurn(
        "assistant",
        "The build was red because the runner has Node 18 and `vite` 6 needs Node 20; I pinned it.",
        "why is it red?",
    ),
    JudgedTurn("assistant", "Let me look at the file first.", "why is it red?"),
    JudgedTurn("user", ""),
]


def test_what_is_said_of_a_turn_depends_on_no_other() -> None:
    together = judge().turns(TURNS)
    for said, found in zip(TURNS, together, strict=True):
        (alone,) = judge().turns([said])
        assert alone.worth == pytest.approx(found.worth, abs=1e-4)
        assert (alone.kind, alone.reply) == (found.kind, found.reply)


def test_numbers_are_probabilities_and_names_are_known() -> None:
    for said, found in zip(TURNS, judge().turns(TURNS), strict=True):
        assert 0 <= found.worth <= 1
        assert 0 <= found.refuted <= 1
        assert found.kind in KINDS
        assert found.reply in ((*REPLIES,) if said.role == "user" else ("",))
        assert all(0 <= start <= end <= len(said.text) for start, end, _ in found.spans)


def test_a_rule_is_worth_more_than_a_farewell_and_a_cause_more_than_an_announcement() -> None:
    rule, farewell, accepted, cause, announced, nothing = judge().turns(TURNS)
    assert rule.worth > 0.5 > farewell.worth
    assert accepted.reply == "accept"
    assert cause.worth > 0.5 > announced.worth
    assert nothing.worth < 0.5


def test_the_words_that_carry_it_weigh_more_than_those_around_them() -> None:
    text = "haha good morning to you too. the deploy key is rotated every 90 days, Tomasz does it"
    (found,) = judge().turns([JudgedTurn("user", text)])
    at = text.index("the deploy")
    assert found.worth_of([(at, len(text))]) > 2 * found.worth_of([(0, at)])
    assert found.worth_of([]) == 0.0
