"""The questions are read as the sets mean them."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.stand_ins import REAL, STAND_INS

from .datasets import beam, locomo, many_queries, many_turns, write_chat


def test_locomo_keeps_categories_1_to_4_with_evidence_that_is_there(tmp_path: Path) -> None:
    conversation = {"session_1": [{"dia_id": "D1:1", "text": "a"}, {"dia_id": "D1:2", "text": "b"}], "speaker_a": "A"}
    asked = [
        {"question": "one", "evidence": ["D1:1; D1:2"], "category": 1, "answer": 2022},
        {"question": "adversarial", "evidence": ["D1:1"], "category": 5},
        {"question": "none", "evidence": [], "category": 4, "answer": "x"},
        {"question": "elsewhere", "evidence": ["D9:9", "D"], "category": 4, "answer": "x"},
    ]
    file = tmp_path / "dev.json"
    file.write_text(json.dumps([{"sample_id": "conv-1", "conversation": conversation, "qa": asked}]))
    (question,) = locomo(file, tmp_path).questions
    assert question.gold == {"D1:1", "D1:2"}
    assert (question.channel, question.answer, question.kind) == ("conv-1", "2022", "multi-hop")


def test_beam_flattens_the_ids_and_skips_abstention(tmp_path: Path) -> None:
    chat = tmp_path / "3"
    chat.mkdir()
    turns = [[{"id": 0, "role": "user", "content": "a"}, {"id": 1, "role": "assistant", "content": "b"}], [{"id": 2}]]
    (chat / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": turns}]))
    asked = {
        "abstention": [{"question": "none"}],
        "knowledge_update": [
            {
                "question": "q",
                "answer": "a",
                "source_chat_ids": {"old": [0], "new": [[2]]},
                "rubric": ["LLM response should state: 165 commits"],
                "potential_confusion": "LLM might incorrectly recall the original 150 commits instead of the 165",
            }
        ],
        "summarization": [{"question": "nothing named", "source_chat_ids": []}],
    }
    (chat / "probing_questions.json").write_text(json.dumps(asked))
    (question,) = beam(tmp_path).questions
    assert question.gold == {"0", "2"}
    assert question.channel == "beam-3"
    assert question.sides == (frozenset({"0"}), frozenset({"2"}))
    assert (question.new, question.old) == (("165 commits",), ("the original 150 commits",))


QUESTIONS = {STAND_INS: (28, 20), REAL: (759, 179)}


def test_the_sets_have_their_questions(data: Path, tmp_path: Path) -> None:
    questions = len(locomo(data / "locomo" / "dev.json", tmp_path).questions), len(beam(data / "beam-100k").questions)
    assert questions == QUESTIONS[data]


def test_turns_and_queries_are_distinct_and_the_same_every_time(tmp_path: Path) -> None:
    turns = many_turns(4000, tmp_path, random.Random(1))
    assert len(set(turns)) == 4000
    assert turns == many_turns(4000, tmp_path, random.Random(1))
    assert len(set(many_queries(200, turns, random.Random(1)))) == 200


def test_a_written_chat_is_one_message_a_line(tmp_path: Path) -> None:
    lines = write_chat(tmp_path / "chat.jsonl", ["a", "b", "c"], session_turns=2).read_text().splitlines()
    assert [json.loads(line)["session"] for line in lines] == ["s0", "s0", "s1"]
