from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.importing.conftest import sessions, skipped, texts
from tests.stand_ins import REAL, STAND_INS

from .locomo import read

TURNS = {STAND_INS: 103, REAL: 2760}

CONVERSATION: dict[str, Any] = {
    "speaker_a": "Ana",
    "speaker_b": "Bo",
    "session_2_date_time": "12:05 am on 1 January, 2024",
    "session_2": [{"speaker": "Ana", "dia_id": "D2:1", "text": "Happy new year!"}],
    "session_1_date_time": "1:56 pm on 8 May, 2023",
    "session_1": [
        {"speaker": "Ana", "dia_id": "D1:1", "text": "Look!", "blip_caption": "a photo of a cat", "img_url": ["x"]},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "Nice"},
        {"speaker": "Bo", "dia_id": "D1:3", "text": "", "blip_caption": "a dog"},
    ],
    "session_10_date_time": "9:00 am on 2 February, 2024",
}


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(document))
    return path


def test_sessions_in_order_with_dates_and_captions(tmp_path: Path) -> None:
    first, second = sessions(read(write(tmp_path, [{"sample_id": "conv-7", "conversation": CONVERSATION}])))
    assert (first.head.channel, first.head.session_id) == ("conv-7", "conv-7-session-1")
    assert first.head.started_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert second.head.started_at == datetime(2024, 1, 1, 0, 5, tzinfo=UTC)
    assert [turn.text for turn in first.turns] == ["Look!\n[image: a photo of a cat]", "Nice", "[image: a dog]"]
    assert [(turn.role, turn.external_id) for turn in first.turns] == [("Ana", "D1:1"), ("Bo", "D1:2"), ("Bo", "D1:3")]
    assert first.turns[2].at == datetime(2023, 5, 8, 13, 57, tzinfo=UTC)


@pytest.mark.parametrize("wrap", [lambda c: {"sample_id": "c", "conversation": c}, lambda c: c])
def test_a_single_conversation(tmp_path: Path, wrap: Any) -> None:
    assert len(sessions(read(write(tmp_path, wrap(CONVERSATION))))) == 2


def test_a_broken_turn_is_skipped(tmp_path: Path) -> None:
    conversation = {"session_1": [{"text": "who?"}, "x", {"speaker": "Ana", "text": "hi"}], "session_1_date_time": "?"}
    items = list(read(write(tmp_path, {"sample_id": "c", "conversation": conversation})))
    assert len(skipped(items)) == 2
    assert texts(items) == ["hi"]
    assert sessions(items)[0].turns[0].external_id == "D1:3"
    assert sessions(items)[0].head.started_at is None


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b"{}", b"\xff\xfe", b'[{"conversation": 3}]'])
def test_what_is_no_conversation_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(content)
    (only,) = read(path)
    assert skipped([only])


def test_a_whole_set(data: Path) -> None:
    items = list(read(data / "locomo" / "dev.json"))
    samples = json.loads((data / "locomo" / "dev.json").read_text())
    assert not skipped(items)
    assert {item.head.channel for item in sessions(items)} == {sample["sample_id"] for sample in samples}
    known = {(item.head.channel, turn.external_id) for item in sessions(items) for turn in item.turns}
    assert len(known) == sum(len(item.turns) for item in sessions(items)) == TURNS[data]
    for sample in samples:
        turns = {
            entry["dia_id"]
            for key, value in sample["conversation"].items()
            if isinstance(value, list)
            for entry in value
        }
        assert {(sample["sample_id"], turn) for turn in turns} <= known
    assert all(item.head.started_at for item in sessions(items))
