"""Whatever a file holds, a reader yields batches and reasons and never raises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import FORMATS
from dreamd.daemon.importing.reading.items import NoteRead, Remark, SessionRead, Skipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_words = st.sampled_from(
    [
        *("user", "assistant", "summary", "attachment", "queued_command", "tool_result", "tool_use", "text", "image"),
        *(
            "Bash",
            "TodoWrite",
            "AskUserQuestion",
            "ExitPlanMode",
            "<command-name>",
            "<bash-input>",
            "\ud800",
            "\x00",
            "",
        ),
    ]
)
_keys = st.sampled_from(
    [
        *("type", "message", "role", "content", "text", "id", "uuid", "sessionId", "session", "channel", "timestamp"),
        *("cwd", "attachment", "prompt", "name", "input", "tool_use_id", "is_error", "todos", "questions", "plan"),
        *("summary", "leafUuid", "isSidechain", "tool_calls", "function", "arguments", "conversation", "session_1"),
        *("session_1_date_time", "speaker", "dia_id", "blip_caption", "batch_number", "turns", "time_anchor"),
    ]
)
_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _words | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=6),
    max_leaves=25,
)
_message = st.fixed_dictionaries(
    {"type": st.sampled_from(["user", "assistant"]), "message": st.fixed_dictionaries({"content": _json})},
    optional={"uuid": _json, "sessionId": _json, "cwd": _json, "timestamp": _json},
)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(_json | _message, max_size=5), noise=st.binary(max_size=20), as_lines=st.booleans())
def test_no_reader_raises(tmp_path: Path, name: str, values: list[Any], noise: bytes, as_lines: bool) -> None:
    path = tmp_path / "any.md"
    lines = [json.dumps(value).encode() for value in values] if as_lines else [json.dumps(values).encode()]
    path.write_bytes(b"\n".join((*lines, noise)))
    for item in FORMATS[name](path):
        assert isinstance(item, SessionRead | NoteRead | Skipped | Remark)
        if isinstance(item, SessionRead):
            assert item.turns
            for turn in item.turns:
                assert turn.text.strip()
                assert turn.text.encode()
                assert "\x00" not in turn.text
                assert turn.external_id
            assert item.head.session_id
            assert item.head.channel
