from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.importing.conftest import sessions, skipped, texts

from .beam import read


def write(tmp_path: Path, document: Any) -> Path:
    (tmp_path / "7").mkdir()
    path = tmp_path / "7" / "chat.json"
    path.write_text(json.dumps(document))
    return path


def turn(number: int, content: str, **more: Any) -> dict[str, Any]:
    return {"role": "user" if number % 2 == 0 else "assistant", "id": number, "content": content} | more


def test_batches_are_sessions_and_anchors_carry_forward(tmp_path: Path) -> None:
    batches = [
        {
            "batch_number": 1,
            "time_anchor": None,
            "turns": [
                [turn(0, "a"), turn(1, "b")],
                [turn(2, "c", time_anchor="March-15-2024"), turn(3, "d")],
                [turn(4, "e", time_anchor="April-02-2024")],
            ],
        },
        {"batch_number": 2, "turns": [[turn(5, "f")]]},
    ]
    first, second = sessions(read(write(tmp_path, batches)))
    assert (first.head.channel, first.head.session_id) == ("beam-7", "beam-7-batch-1")
    assert [str(turn.at)[:19] for turn in first.turns] == [
        "None",
        "None",
        "2024-03-15 00:00:00",
        "2024-03-15 00:00:30",
        "2024-04-02 00:00:00",
    ]
    assert str(first.head.started_at)[:10] == "2024-03-15"
    assert [(turn.role, turn.external_id) for turn in second.turns] == [("assistant", "5")]
    assert second.turns[0].at is None


@pytest.mark.parametrize("mark", [" ->-> 1,1", " ->-> 8,N/A", " ->->  10,12", " ->-> 3,4)\n"])
def test_marks_of_the_generator_go(tmp_path: Path, mark: str) -> None:
    path = write(tmp_path, [{"batch_number": 1, "turns": [[turn(0, f"Keep a ->-> b?{mark}")]]}])
    assert texts(read(path)) == ["Keep a ->-> b?"]


def test_an_arrow_within_a_text_stays(tmp_path: Path) -> None:
    said = "first ->-> then, and this goes on for quite a while"
    assert texts(read(write(tmp_path, [{"batch_number": 1, "turns": [turn(0, said)]}]))) == [said]


def test_broken_turns_are_skipped(tmp_path: Path) -> None:
    items = list(read(write(tmp_path, [{"batch_number": 1, "turns": [[{"role": "user"}, 3], [turn(2, "ok")]]}, "x"])))
    assert texts(items) == ["ok"]
    assert len(skipped(items)) == 3


def test_whole_chats(data: Path) -> None:
    for folder in sorted((data / "beam-100k").iterdir()):
        path = folder / "chat.json"
        items = list(read(path))
        assert not skipped(items), path
        document = json.loads(path.read_text())
        ids = [str(turn["id"]) for batch in document for group in batch["turns"] for turn in group]
        assert [turn.external_id for item in sessions(items) for turn in item.turns] == ids
        assert {item.head.channel for item in sessions(items)} == {f"beam-{folder.name}"}
        assert not any(text[-20:].count("->->") for text in texts(items))
        assert all(item.head.started_at for item in sessions(items))
