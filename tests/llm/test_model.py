"""What fits a schema, and what of an answer is taken."""

from __future__ import annotations

from typing import Any

import pytest
from dreamd.llm.language_model import misfit

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {
                    "turn": {"type": "integer", "minimum": 1, "maximum": 9},
                    "fact": {"type": "string", "maxLength": 5},
                    "sure": {"type": "boolean"},
                    "kind": {"enum": ["a", "b"]},
                },
                "required": ["turn", "fact"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
}


@pytest.mark.parametrize(
    ("facts", "wrong"),
    [
        ([], ""),
        ([{"turn": 1, "fact": "tea", "sure": True, "kind": "a"}], ""),
        ([{"turn": 1, "fact": "tea"}] * 3, "answer.facts"),
        ([{"turn": "1", "fact": "tea"}], "answer.facts[0].turn"),
        ([{"turn": True, "fact": "tea"}], "answer.facts[0].turn"),
        ([{"turn": 1.5, "fact": "tea"}], "answer.facts[0].turn"),
        ([{"turn": 10, "fact": "tea"}], "answer.facts[0].turn"),
        ([{"turn": 1, "fact": "coffee"}], "answer.facts[0].fact"),
        ([{"turn": 1, "fact": "tea", "kind": "c"}], "answer.facts[0].kind"),
        ([{"turn": 1, "fact": "tea", "more": 1}], "answer.facts[0]"),
        ([{"turn": 1, "fact": "tea"}, {"turn": 1}], "answer.facts[1].fact"),
        ("tea", "answer.facts"),
        (None, "answer.facts"),
    ],
)
def test_a_misfit_is_named_by_its_place(facts: Any, wrong: str) -> None:
    assert misfit({"facts": facts}, SCHEMA) == wrong


def test_a_missing_key_is_named() -> None:
    assert misfit({}, SCHEMA) == "answer.facts"
