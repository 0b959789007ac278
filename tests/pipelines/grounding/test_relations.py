from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from dreamd.llm.budget import Asker
from dreamd.llm.language_model import misfit
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines.extract.contexts import TurnContext, contexts_of
from dreamd.pipelines.extract.naming import read_turns, words_of
from dreamd.pipelines.grounding.relations import (
    ASKED_MOST,
    CLAIMED_FROM,
    CLAIMS_SCHEMA,
    CONTROL_CLAIMS,
    CONTROLS,
    NOT_STATED,
    RELATIONS,
    SCHEMA,
    STATED,
    judge_by_model,
    relations_by_model,
)
from dreamd.store.judges.name_reader import SPEAKER, NamedSpan, NamesRead
from dreamd.store.model import Turn
from dreamd.store.text.judging import EarlierStatement, Relation

from tests.pipelines.fakes import FakeModel

LATER = "The pages are served by Caddy since Monday."
OLD = EarlierStatement("old", "Nginx serves the pages.", 0.6)
OTHER = EarlierStatement("other", "The pages have a dark theme.", 0.5)
CHANGE = {"relation": "change", "earlier_words": "Nginx", "later_words": "Caddy"}
NONE = {"relation": "unrelated", "earlier_words": "", "later_words": ""}

Say = Callable[[str], dict[str, str]]


def answering(say: Say) -> tuple[Asker, FakeModel]:
    """A model that says this of each earlier statement."""

    def answer(prompt: str) -> dict[str, Any]:
        shown = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"number"')]
        said: dict[str, Any] = {"relations": [{"number": one["number"]} | say(one["earlier"]) for one in shown]}
        assert misfit(said, SCHEMA) == ""
        return said

    model = FakeModel(answer)
    return Asker(model, LlmSettings()), model


def judged(say: Say, *candidates: EarlierStatement, later: str = LATER) -> dict[str, Relation]:
    found = judge_by_model(later, candidates, answering(say)[0], lambda parts, make: make())
    return {one.node_id: one.relation for one in found}


def of(text: str, claim: dict[str, str]) -> Say:
    return lambda shown: claim if shown == text else NONE


def test_a_change_whose_words_stand_in_both_is_believed() -> None:
    assert judged(of(OLD.text, CHANGE), OLD, OTHER) == {"old": Relation.UPDATES}


@pytest.mark.parametrize(
    "claim",
    [
        CHANGE | {"earlier_words": "Apache"},
        CHANGE | {"later_words": "Traefik"},
        CHANGE | {"earlier_words": "the pages", "later_words": "The pages"},
        CHANGE | {"earlier_words": ""},
    ],
)
def test_a_quote_that_stands_nowhere_or_says_the_same_is_not(claim: dict[str, str]) -> None:
    assert judged(of(OLD.text, claim), OLD, OTHER) == {}


def test_a_change_without_a_sign_of_one_is_likely_at_most() -> None:
    assert judged(of(OLD.text, CHANGE), OLD, later="Caddy answers for the pages.") == {"old": Relation.LATER}


def test_what_shares_nothing_is_not_believed() -> None:
    far = EarlierStatement("far", "Rent is due on Friday.", 0.1)
    assert judged(of(far.text, CHANGE | {"earlier_words": "Friday"}), far) == {}


def test_a_wish_changes_nothing() -> None:
    assert judged(of(OLD.text, CHANGE), OLD, later="Maybe Caddy serves the pages some day.") == {}


def test_values_that_differ_are_not_the_same() -> None:
    same = NONE | {"relation": "same"}
    ten, six = EarlierStatement("ten", "The pool holds 10 connections.", 0.8), "The pool is of 6 connections."
    assert judged(of(ten.text, same), ten, later=six) == {}
    assert judged(of(ten.text, same), ten, later="The pool is of 10 connections.") == {"ten": Relation.SAME}


@pytest.mark.parametrize("relation", ["change", "same", "contradiction"])
def test_a_model_that_finds_a_relation_everywhere_is_not_believed(relation: str) -> None:
    assert judged(lambda shown: CHANGE | {"relation": relation}, OLD, OTHER) == {}


def test_a_model_that_answers_by_chance_is_hardly_ever_believed() -> None:
    chance = random.Random(7)
    answers = [CHANGE | {"relation": relation} for relation in RELATIONS]
    believed = [judged(lambda shown: chance.choice(answers), OLD) for _ in range(400)]
    assert sum(map(bool, believed)) <= 2


def test_what_speaks_of_a_change_is_neither_the_same_nor_in_dispute() -> None:
    same, dispute = CHANGE | {"relation": "same"}, CHANGE | {"relation": "contradiction"}
    assert judged(of(OLD.text, same), OLD, later="Caddy serves the pages now.") == {}
    assert judged(of(OLD.text, dispute), OLD, later="Caddy serves the pages now.") == {}
    assert judged(of(OLD.text, dispute), OLD, later="Caddy serves the pages.") == {"old": Relation.CONTRADICTS}


def test_a_model_that_relates_most_of_what_it_is_shown_is_not_believed() -> None:
    many = [EarlierStatement(f"old-{n}", f"Nginx serves the pages {n}.", 0.6) for n in range(6)]
    assert judged(lambda shown: NONE if shown in CONTROLS else CHANGE, *many) == {}


def test_the_nearest_are_shown_with_the_controls() -> None:
    asker, model = answering(lambda shown: NONE)
    many = [EarlierStatement(f"old-{n}", f"Page {n} has a theme.", n / 100) for n in range(30)]
    assert judge_by_model(LATER, many, asker, lambda parts, make: make()) == []
    (prompt,) = model.prompts
    assert prompt.count('{"number"') == ASKED_MOST + len(CONTROLS)
    assert "Page 29 has" in prompt
    assert "Page 2 has" not in prompt
    assert all(control in prompt for control in CONTROLS)


def test_an_answer_that_leaves_the_controls_out_is_not_believed() -> None:
    claim = {"number": 1} | CHANGE
    model = FakeModel(lambda prompt: {"relations": [claim, claim | {"number": 2}, claim | {"number": 3}]})
    found = judge_by_model(LATER, [OLD], Asker(model, LlmSettings()), lambda parts, make: make())
    assert found == []


def test_a_refused_answer_costs_nothing_else() -> None:
    model = FakeModel(lambda prompt: {"relations": []})
    assert judge_by_model(LATER, [OLD], Asker(model, LlmSettings()), lambda parts, make: make()) == []


# ---- relations of people and things

SAID = "karolina = runs accounts at brackenfold, our pilot. marek owns the order rules of ledgerly-api."
ASKED = "Does Torbj\u00f8rn Lium own the order rules?"

Verdict = Callable[[dict[str, Any]], str]
IN_CONTROLS = {control[0]: control[4] for control in CONTROL_CLAIMS}


def judging(verdict: Verdict, copied: Callable[[dict[str, Any], str], str]) -> tuple[Asker, FakeModel]:
    """A model that is right about the controls, and says this of the claims."""

    def answer(prompt: str) -> dict[str, Any]:
        shown = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"number"')]
        said: dict[str, Any] = {
            "claims": [
                {
                    "number": one["number"],
                    "verdict": IN_CONTROLS.get(one["sentence"]) or verdict(one),
                    "first": copied(one, "first"),
                    "second": copied(one, "second"),
                }
                for one in shown
            ]
        }
        assert misfit(said, CLAIMS_SCHEMA) == ""
        return said

    model = FakeModel(answer)
    return Asker(model, LlmSettings()), model


def shown(one: dict[str, Any], name: str) -> str:
    return str(one[name])


def readings(*texts: str) -> tuple[list[TurnContext], dict[str, NamesRead]]:
    turns = [Turn("s", at, "user", text, None, None) for at, text in enumerate(texts, start=1)]
    contexts = contexts_of(turns)
    return contexts, read_turns(contexts)


def asked(
    verdict: Verdict, *texts: str, copied: Callable[[dict[str, Any], str], str] = shown
) -> tuple[dict[str, NamesRead], dict[str, NamesRead], FakeModel]:
    """The readings before and after, and the model."""
    contexts, read = readings(*texts)
    model, fake = judging(verdict, copied)
    return read, relations_by_model(contexts, read, model, lambda parts, make: make()), fake


def test_what_a_model_denies_is_gone_and_what_it_affirms_is_certain() -> None:
    before, denied, _ = asked(lambda one: NOT_STATED, SAID)
    assert [one for one in before["s#1"].relations if one.sureness >= CLAIMED_FROM and one.subject != SPEAKER]
    assert not [one for one in denied["s#1"].relations if one.sureness >= CLAIMED_FROM]
    assert denied["s#1"].names == before["s#1"].names
    _, affirmed, _ = asked(lambda one: STATED, SAID)
    certain = {one.relation for one in affirmed["s#1"].relations if one.sureness == 1.0}
    assert "OWNS" in certain


def test_an_end_has_the_words_that_the_model_copied_and_no_others() -> None:
    whole = "accounts at brackenfold"

    def copied(one: dict[str, Any], name: str) -> str:
        return whole if one[name] in whole else str(one[name])

    contexts, read = readings(SAID)
    model, _ = judging(lambda one: STATED, copied)
    after = relations_by_model(contexts, read, model, lambda parts, make: make())
    ends = {
        words_of(end, contexts[0])
        for one in after["s#1"].relations
        for end in (one.subject, one.object)
        if one.sureness == 1.0 and isinstance(end, NamedSpan)
    }
    assert whole in ends
    model, _ = judging(lambda one: STATED, lambda one, name: "the whole company")
    assert relations_by_model(contexts, read, model, lambda parts, make: make()) == read


def test_a_model_that_affirms_everything_is_not_believed() -> None:
    contexts, read = readings(SAID)
    for every in (STATED, NOT_STATED):
        answer = lambda prompt, every=every: {  # noqa: E731
            "claims": [
                {"number": json.loads(line)["number"], "verdict": every, "first": "", "second": ""}
                for line in prompt.splitlines()
                if line.startswith('{"number"')
            ]
        }
        asker = Asker(FakeModel(answer), LlmSettings())
        assert relations_by_model(contexts, read, asker, lambda parts, make: make()) == read


def test_questions_are_not_asked_about() -> None:
    read, after, model = asked(lambda one: STATED, ASKED)
    assert after == read
    assert model.prompts == []
