"""The replay knows what a person typed, has a time for each line, and dreams on Mondays."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .handed import mondays, prompt_of, read_session


def _line(kind: str, content: Any, at: str = "", **more: Any) -> dict[str, Any]:
    named = {"sessionId": "s1", "cwd": "/home/ada/engine"}
    return (
        {"type": kind, "message": {"role": kind, "content": content}} | ({"timestamp": at} if at else {}) | named | more
    )


def test_a_prompt_is_what_a_person_typed() -> None:
    assert prompt_of(_line("user", "Which port?")) == "Which port?"
    assert prompt_of(_line("user", [{"type": "text", "text": "And this?"}])) == "And this?"
    assert not prompt_of(_line("user", "Caveat: below", isMeta=True))
    assert not prompt_of(_line("user", "<local-command-stdout>ok</local-command-stdout>"))
    assert not prompt_of(_line("user", [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]))
    assert not prompt_of(_line("assistant", [{"type": "text", "text": "Port 80."}]))


def test_a_line_without_a_time_has_that_of_the_line_before(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    lines = [_line("summary", None), _line("user", "Hi", "2026-07-06T08:00:00Z"), _line("summary", None)]
    file.write_text("\n".join(map(json.dumps, lines)))
    session = read_session(file)
    assert session is not None
    assert (session.session_id, session.cwd) == ("s1", "/home/ada/engine")
    assert {at for at, _ in session.lines} == {datetime(2026, 7, 6, 8, tzinfo=UTC)}
    file.write_text(json.dumps(lines[0]))
    assert read_session(file) is None


def test_dreams_come_on_mondays() -> None:
    began, ended = datetime(2026, 7, 6, 8, tzinfo=UTC), datetime(2026, 7, 20, 9, tzinfo=UTC)
    assert [day.day for day in mondays(began, ended)] == [13, 20]
    assert list(mondays(began, began)) == []
    assert [day.day for day in mondays(datetime(2026, 7, 6, 1, tzinfo=UTC), began)] == [6]
