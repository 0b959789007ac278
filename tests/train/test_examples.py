from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from .examples import BETWEEN_QUOTES, DATA, Example, People, of_life, quoted, turns_of

LIVES = sorted((DATA / "lives").glob("*.json"))
REPLIES = set("new accept accept_part reject correct answer refine command report question chat".split())
KINDS = set("decision preference correction procedure pitfall person event value finding done intention none".split())
RELATIONS = {"updates", "contradicts", "same", "adds", "unrelated"}


@pytest.mark.parametrize("file", LIVES, ids=lambda file: file.stem)
def test_what_a_life_quotes_and_names_is_there(file: Path) -> None:
    life = json.loads(file.read_text(encoding="utf-8"))
    turns = turns_of(life)

    assert len(turns) >= 160
    for turn in turns.values():
        assert turn["role"] != "user" or turn["reply"] in REPLIES
        assert turn["role"] == "tool" or turn["keep"] in KINDS
        assert set(filter(None, (turn.get("of"), turn.get("refuted_by")))) <= turns.keys()
        if turn["role"] != "tool" and turn["keep"] != "none" and not turn.get("of"):
            assert all(piece in turn["text"] for piece in turn["words"].split(BETWEEN_QUOTES))
    for question in life["questions"]:
        assert {*question["evidence"], *question.get("misleading", ())} <= turns.keys()
        said = " ".join(turns[turn]["text"].lower() for turn in question["evidence"])
        assert all(any(word.lower() in said for word in group) for group in question["gold"])
    for prompt in life["prompts"]:
        assert {*prompt["needs"], *prompt.get("misleading", ())} <= turns.keys()
    for pair in life["pairs"]:
        assert {pair["earlier"], pair["later"]} <= turns.keys()
        assert pair["relation"] in RELATIONS


def test_a_turn_stands_between_what_the_other_side_said() -> None:
    life = {
        "sessions": [
            {
                "id": "s01",
                "turns": [
                    {"n": 1, "role": "user", "text": "which port", "keep": "none", "reply": "new"},
                    {"n": 2, "role": "tool", "text": "[ss -l]"},
                    {"n": 3, "role": "assistant", "text": "It is 80.", "keep": "finding", "refuted_by": "s01#4"},
                    {
                        "n": 4,
                        "role": "user",
                        "text": "no, 8080 now",
                        "keep": "value",
                        "words": "8080",
                        "reply": "correct",
                    },
                ],
            }
        ]
    }

    assert list(of_life("ada", life)) == [
        Example("ada", "user", "which port", "", "It is 80.", "none", (), "new"),
        Example("ada", "assistant", "It is 80.", "which port", "no, 8080 now", "finding", (), refuted=True),
        Example("ada", "user", "no, 8080 now", "It is 80.", "", "value", ((4, 8),), "correct"),
    ]


def test_quoted_pieces_are_found_in_their_order() -> None:
    assert quoted("a b a c", "b … a") == ((2, 3), (4, 5))


def test_labels_of_the_real_sessions_fit_their_texts() -> None:
    people = People()
    try:
        examples = list(people.examples())
    except FileNotFoundError:
        pytest.skip("the shared data sets are not beside this clone")

    assert Counter(example.role for example in examples)["user"] > 3_000
    for example in examples:
        assert all(start < end <= len(example.text) for start, end in example.words), example.text
    for pair in people.pairs():
        for side in (pair.earlier, pair.later):
            assert all(side.text[start:end].strip() for start, end in side.words)
            assert all(earlier <= later for (_, earlier), (later, _) in pairwise(sorted(side.words)))
