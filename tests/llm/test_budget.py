"""The budget: what a dream may ask, and when it stops asking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dreamd.llm.budget import Allowance, Asker, asker_for
from dreamd.llm.language_model import LlmAborted, LlmEndless, LlmError, LlmRefused, LlmUnavailable
from dreamd.llm.settings import LlmSettings

from tests.llm.scripted import ScriptedModel

SCHEMA: dict[str, Any] = {"type": "object"}
Said = dict[str, Any] | LlmError


def asker(
    say: Callable[[str], Said], allowance: Allowance | None = None, **settings: Any
) -> tuple[Asker, ScriptedModel]:
    model = ScriptedModel(say)
    ticks = iter(range(10_000))
    return Asker(model, LlmSettings(**settings), allowance, lambda: float(next(ticks))), model


def in_turn(*said: Said) -> Callable[[str], Said]:
    answers = iter(said)
    return lambda prompt: next(answers)


def test_calls_and_tokens_are_counted() -> None:
    it, model = asker(lambda prompt: {"fact": "tea"})
    assert it.ask("What?", SCHEMA) == {"fact": "tea"}
    assert (it.spent.calls, it.spent.tokens, it.spent.seconds) == (1, 20, 1)
    it.release()
    assert model.released == 1


def test_tokens_are_estimated_where_the_server_does_not_count() -> None:
    it, model = asker(lambda prompt: {})
    model.tokens = 0
    it.ask("x" * 300, SCHEMA)
    assert it.spent.tokens == 101


def test_a_model_that_was_not_asked_is_not_released() -> None:
    it, model = asker(lambda prompt: {})
    it.release()
    assert model.released == 0


def test_a_bad_answer_is_asked_for_once_more_with_the_reason() -> None:
    it, model = asker(in_turn(LlmRefused("It was no JSON."), {"fact": "tea"}))
    assert it.ask("What?", SCHEMA) == {"fact": "tea"}
    assert "It was no JSON." in model.prompts[1]
    assert it.spent.repairs == 1
    assert it.spent.failures == 0


def test_a_second_bad_answer_is_refused() -> None:
    it, _ = asker(in_turn(LlmRefused("no"), LlmRefused("no")))
    with pytest.raises(LlmRefused):
        it.ask("What?", SCHEMA)
    assert it.spent.calls == 2


def test_an_endless_answer_is_not_asked_for_again() -> None:
    it, _ = asker(lambda prompt: LlmEndless("on and on"))
    with pytest.raises(LlmRefused):
        it.ask("What?", SCHEMA)
    assert it.spent.calls == 1


def test_an_absent_model_is_not_asked_twice() -> None:
    it, _ = asker(lambda prompt: LlmUnavailable("gone"))
    with pytest.raises(LlmUnavailable, match="gone"):
        it.ask("What?", SCHEMA)
    assert it.spent.calls == 1


def test_failures_in_a_row_open_the_circuit_for_the_rest_of_the_dream() -> None:
    it, _ = asker(lambda prompt: LlmUnavailable("gone"), failures_in_a_row=2)
    for _ in range(5):
        with pytest.raises(LlmUnavailable):
            it.ask("What?", SCHEMA)
    assert it.spent.calls == 2
    assert it.why_not == "2 failures in a row, the last: gone"


def test_an_answer_between_two_failures_closes_the_circuit() -> None:
    gone = LlmUnavailable("gone")
    it, _ = asker(in_turn(gone, {"a": 1}, gone, {"b": 2}), failures_in_a_row=2)
    for _ in range(2):
        with pytest.raises(LlmUnavailable):
            it.ask("What?", SCHEMA)
        assert it.ask("What?", SCHEMA)
    assert it.why_not == ""


def test_calls_and_tokens_are_bounded_by_the_allowance() -> None:
    it, model = asker(lambda prompt: {}, Allowance(calls=2, tokens=10**6))
    it.ask("?", SCHEMA)
    it.ask("?", SCHEMA)
    with pytest.raises(LlmUnavailable, match="calls are used up"):
        it.ask("?", SCHEMA)
    assert len(model.prompts) == 2

    it, model = asker(lambda prompt: {}, Allowance(calls=100, tokens=50))
    it.ask("?", SCHEMA)
    it.ask("?", SCHEMA)
    with pytest.raises(LlmUnavailable, match="tokens are used up"):
        it.ask("x" * 60, SCHEMA)
    assert len(model.prompts) == 2
    assert it.spent.tokens <= 50


def test_without_an_allowance_no_call_is_made() -> None:
    it, model = asker(lambda prompt: {}, Allowance(calls=0, tokens=0))
    with pytest.raises(LlmUnavailable):
        it.ask("?", SCHEMA)
    assert model.prompts == []


def test_an_aborted_call_is_made_again() -> None:
    it, model = asker(in_turn(LlmAborted("stop"), LlmAborted("stop"), {"fact": "tea"}))
    assert it.ask("What?", SCHEMA) == {"fact": "tea"}
    assert it.spent.aborts == 2
    assert it.spent.failures == 0
    it.abort()
    assert model.aborted == 1


def test_no_asker_without_a_configured_and_present_model() -> None:
    assert asker_for(LlmSettings()) == (None, "")
    absent = LlmSettings(provider="ollama", model="tiny", base_url="http://127.0.0.1:9")
    found, why = asker_for(absent)
    assert found is None
    assert "Cannot reach Ollama at" in why
