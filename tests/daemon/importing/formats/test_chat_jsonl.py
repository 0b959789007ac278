from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.formats.chat_jsonl import read
from dreamd.store.model import GLOBAL_CHANNEL

from tests.daemon.importing.conftest import sessions, skipped, texts

Write = Callable[..., Path]


def test_content_or_text_id_session_and_channel(jsonl: Write) -> None:
    path = jsonl(
        {"role": "user", "content": "one", "id": "m1", "session": "a", "channel": "kettle", "timestamp": 1767225600},
        {"role": "assistant", "text": "two", "id": 2, "session": "a", "channel": "kettle"},
    )
    (session,) = sessions(read(path))
    assert (session.head.session_id, session.head.channel, session.head.title) == ("kettle-a", "kettle", "one")
    assert [(turn.role, turn.text, turn.external_id) for turn in session.turns] == [
        ("user", "one", "m1"),
        ("assistant", "two", "2"),
    ]
    assert session.turns[0].at is not None
    assert session.turns[0].at.isoformat() == "2026-01-01T00:00:00+00:00"


def test_without_ids_reading_again_gives_the_same_ids(jsonl: Write) -> None:
    path = jsonl({"role": "user", "content": "ok"}, {"role": "user", "content": "ok"})
    first, again = list(read(path)), list(read(path))
    assert first == again
    ids = [turn.external_id for turn in sessions(first)[0].turns]
    assert len(set(ids)) == 2
    assert sessions(first)[0].head.channel == GLOBAL_CHANNEL


def test_two_files_of_one_name_are_two_sessions(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "chat.jsonl").write_text('{"role": "user", "content": "hi"}\n')
    ids = {sessions(read(tmp_path / folder / "chat.jsonl"))[0].head.session_id for folder in ("a", "b")}
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]}, "a\nb"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}, "see"]}, "[image]\nsee"),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "weather", "arguments": '{"city": "Lyon"}'}}],
            },
            '[weather: {"city": "Lyon"}]',
        ),
        ({"role": "user", "content": [{"type": "tool_result", "text": "not mine"}, {"text": "mine"}]}, "mine"),
        ({"role": "tool", "content": "x" * 5000}, "characters left out"),
        ({"role": "assistant", "content": None, "text": "said"}, "said"),
    ],
)
def test_openai_content(jsonl: Write, message: dict[str, Any], text: str) -> None:
    (found,) = texts(read(jsonl(message)))
    assert text in found
    assert len(found) < 1000


@pytest.mark.parametrize(
    "bad",
    [
        b"{]\n",
        b'"x"\n',
        b'{"content": "no role"}\n',
        b'{"role": "user"}\n',
        b'{"role": "user", "content": ""}\n',
        b'{"role": "user", "content": 7}\n',
        b'{"role": "system", "content": "You are helpful."}\n',
    ],
)
def test_what_is_no_turn_is_skipped_with_its_line(jsonl: Write, bad: bytes) -> None:
    items = list(read(jsonl({"role": "user", "content": "hi"}, bad, {"role": "user", "content": "ho"})))
    assert [item.line for item in skipped(items)] == [2]
    assert texts(items) == ["hi", "ho"]


@pytest.mark.parametrize("timestamp", ["yesterday", 1e300, True, None, [], "2026-13-01", float("1e18")])
def test_a_broken_timestamp_is_none(jsonl: Write, timestamp: Any) -> None:
    (session,) = sessions(read(jsonl({"role": "user", "content": "hi", "timestamp": timestamp})))
    assert session.turns[0].at is None
