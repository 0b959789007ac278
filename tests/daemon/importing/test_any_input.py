"""Whatever a file holds, a reader yields batches and reasons and never raises, and the healthy beside it is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import BY_LINE, FORMATS, read
from dreamd.daemon.importing.following.tail import Tail, source_of
from dreamd.daemon.importing.items import Item, NoteRead, Remark, SessionRead, Skipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.daemon.importing.formats import test_cursor, test_goose, test_openclaw
from tests.daemon.importing.formats.test_opencode import MESSAGES, SAID, database
from tests.examples import examples

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
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


_HOSTILE: list[Any] = [
    *(
        None,
        True,
        [],
        {},
        ["a"],
        {"a": 1},
        [[]],
        "",
        "\x00",
        "\ud800",
        "x" * 5000,
        -1,
        1e308,
        2**63,
        10**400,
        253402300800,
    ),
    *(
        float("inf"),
        float("nan"),
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-13-45",
        "/\x00",
        "../..",
    ),
]
_RAW = [b"[" * 100_000, b'{"a":' * 10_000, b"1" * 5000, b"\xff\xfe", b"\x00", b'{"type": "user"', b"NaN"]
_AT = "2026-03-02T09:00:00Z"


def _claude(words: str) -> Any:
    told = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}], "is_error": True}
    called = {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "x"}}
    content = [{"type": "text", "text": words}, told, called]
    head = {"type": "user", "uuid": words, "sessionId": "s", "cwd": "/x", "timestamp": _AT, "isSidechain": False}
    return head | {"message": {"role": "user", "content": content}, "origin": {"kind": "human"}, "toolDenialKind": "x"}


def _codex(words: str) -> Any:
    message = {"type": "message", "id": words, "role": "user", "content": [{"type": "input_text", "text": words}]}
    return {"type": "response_item", "timestamp": _AT, "payload": message}


def _gemini(words: str) -> Any:
    answer = [{"functionResponse": {"response": {"output": "x"}}}]
    call = {"id": "c", "name": "shell", "args": {"command": "x"}, "status": "success", "result": answer}
    return {"id": words, "type": "user", "timestamp": _AT, "content": [{"text": words}], "toolCalls": [call]}


def _chat(words: str) -> Any:
    call = {"function": {"name": "f", "arguments": "{}"}}
    named = {"id": words, "session": "s", "channel": "c", "timestamp": _AT, "tool_calls": [call]}
    return {"role": "user", "content": [{"type": "text", "text": words}]} | named


def _chatgpt(words: str) -> Any:
    content = {"content_type": "text", "parts": [words]}
    message = {"id": words, "author": {"role": "user"}, "content": content, "metadata": {}, "create_time": 1767225600}
    node = {"id": "n", "message": message, "parent": None}
    return {
        "title": "t",
        "conversation_id": words,
        "create_time": 1767225600,
        "mapping": {"n": node},
        "current_node": "n",
    }


def _claude_ai(words: str) -> Any:
    message = {"uuid": words, "sender": "human", "text": words, "content": [{"type": "text", "text": words}]}
    message |= {"attachments": [{"file_name": "a"}], "created_at": _AT}
    return {"uuid": words, "name": "n", "created_at": _AT, "chat_messages": [message]}


def _copilot(words: str) -> Any:
    data = {"content": words, "toolCallId": "t", "result": {"content": "x"}, "shellExecution": {"exitCode": 0}}
    return {"type": "user.message", "data": data, "id": words, "timestamp": _AT, "parentId": None}


def _qwen(words: str) -> Any:
    answer = {"functionResponse": {"id": "c", "response": {"output": "x"}}}
    call = {"functionCall": {"id": "c", "name": "shell", "args": {"command": "x"}}}
    record = {"type": "user", "uuid": words, "sessionId": "s", "cwd": "/x", "timestamp": _AT, "toolCallResult": {}}
    return record | {"message": {"role": "user", "parts": [{"text": words}, answer, call]}}


def _openclaw(words: str) -> Any:
    call = {"type": "toolCall", "id": "c", "name": "exec", "arguments": {"command": "x"}}
    message = {"role": "user", "content": [{"type": "text", "text": words}, call], "details": {"exitCode": 0}}
    return {"type": "message", "id": words, "timestamp": _AT, "message": message | {"provenance": None}}


def _cursor(words: str) -> Any:
    use = {"type": "tool_use", "name": "Shell", "input": {"command": "x"}}
    return {"role": "user", "message": {"content": [{"type": "text", "text": words}, use]}}


def _goose(words: str) -> Any:
    call = {"type": "toolRequest", "id": "c", "toolCall": {"value": {"name": "shell", "arguments": {"command": "x"}}}}
    content = [{"type": "text", "text": "x"}]
    answer = {"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": {"content": content}}}
    parts = [{"type": "text", "text": words}, call, answer]
    return {"id": words, "role": "user", "created": 1767225600, "content": parts, "metadata": {"userVisible": True}}


_MADE = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "chat-jsonl": _chat,
    "copilot": _copilot,
    "qwen": _qwen,
    "openclaw": _openclaw,
    "cursor": _cursor,
    "goose": _goose,
}
_HEADS = {
    "codex": {"type": "session_meta", "timestamp": _AT, "payload": {"id": "s", "cwd": "/x"}},
    "gemini": {"sessionId": "s", "projectHash": "p", "startTime": _AT},
}
_LISTED = {"chatgpt": _chatgpt, "claude-ai": _claude_ai}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield from _places(value[key], (*path, key))


def _spoilt(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    copied = list(value) if isinstance(value, list) else dict(value)
    copied[path[0]] = _spoilt(value[path[0]], path[1:], by)
    return copied


def _spoilings(make: Callable[[str], Any]) -> list[Any]:
    """Make every value wrong in every place."""
    value = make("spoilt")
    return [_spoilt(value, path, by) for path in _places(value) for by in _HOSTILE]


def _said(items: Iterable[Item]) -> set[str]:
    return {turn.text for item in items if isinstance(item, SessionRead) for turn in item.turns}


@pytest.mark.parametrize("name", _MADE)
def test_the_lines_beside_a_hostile_one_are_read(tmp_path: Path, name: str) -> None:
    make, path = _MADE[name], tmp_path / "any.jsonl"
    head = [json.dumps(_HEADS[name]).encode()] if name in _HEADS else []
    hostile = [*(json.dumps(value).encode() for value in _spoilings(make)), *_RAW]
    first, last = (json.dumps(make(words)).encode() for words in ("Healthy, the first.", "Healthy, the last."))
    path.write_bytes(b"\n".join((*head, first, *hostile, last, b"")))
    for items in (FORMATS[name](path), read(path), Tail(path, None).step()[0] if name in BY_LINE else read(tmp_path)):
        said = "\n".join(_said(items))
        assert "Healthy, the first." in said
        assert "Healthy, the last." in said
    path.write_bytes(b"\n".join((*hostile[:40], *head, first, b"")))  # its format is seen behind them
    assert any("Healthy, the first." in text for text in _said(read(path)))


@pytest.mark.parametrize("name", _LISTED)
def test_what_stands_beside_a_hostile_part_is_read(tmp_path: Path, name: str) -> None:
    make, path = _LISTED[name], tmp_path / "any.json"
    values = [make("Healthy, the first."), *_spoilings(make), make("Healthy, the last.")]
    path.write_text(json.dumps(values))
    said = "\n".join(_said(FORMATS[name](path)))
    assert "Healthy, the first." in said
    assert "Healthy, the last." in said


@pytest.mark.parametrize("column", ["time_created", "time_updated", "title", "directory"])
def test_the_sessions_beside_a_hostile_one_are_read(tmp_path: Path, column: str) -> None:
    path = tmp_path / "opencode.db"
    program = database(path, MESSAGES)
    for number, value in enumerate(["a text", b"\xff", 2**62, -(2**62), 1e300, None]):
        program.execute(f"INSERT INTO session (id, {column}) VALUES (?, ?)", (f"ses_x{number}", value))
        program.execute("INSERT INTO message VALUES (?, ?, 1, 1, '[1]')", (f"msg_x{number}", f"ses_x{number}"))
    program.commit()
    program.close()
    assert set(SAID) <= _said(FORMATS["opencode"](path))
    source = source_of(path, None)
    assert set(SAID) <= _said(source.step()[0])
    assert source.read_up_to.size_bytes < 10**14  # of a day to come nothing is waited for


_VALUES: list[Any] = ["a text", b"\xff", 2**62, -(2**62), 1e300, None, "[1]", '{"a": [1]}', "{half"]


@pytest.mark.parametrize("column", ["name", "working_dir", "created_at", "session_type"])
def test_gooses_sessions_beside_a_hostile_one_are_read(tmp_path: Path, column: str) -> None:
    path = tmp_path / "sessions.db"
    program = test_goose.database(path, test_goose.MESSAGES)
    program.execute("CREATE TABLE loose AS SELECT * FROM sessions")
    program.execute("DROP TABLE sessions")
    program.execute("ALTER TABLE loose RENAME TO sessions")
    for number, value in enumerate(_VALUES):
        program.execute(f"INSERT INTO sessions (id, {column}) VALUES (?, ?)", (f"x{number}", value))
        row = ("user", value if isinstance(value, str) else "[]", value if isinstance(value, int) else 1, "[1]")
        program.execute(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
            f" VALUES (NULL, 'x{number}', ?, ?, ?, ?)",
            row,
        )
    program.commit()
    program.close()
    assert set(test_goose.SAID) <= _said(FORMATS["goose"](path))
    assert set(test_goose.SAID) <= _said(source_of(path, None).step()[0])


def test_cursors_sessions_beside_a_hostile_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    program = test_cursor.database(path, test_cursor.BUBBLES)
    bubble = test_cursor.call("run_terminal_cmd", {"output": "x", "exitCode": 0}, command="x") | {"text": "Spoilt."}
    head = {"name": "n", "createdAt": 1, "lastUpdatedAt": 9000, "workspaceIdentifier": {"uri": {"fsPath": "/x"}}}
    head |= {"fullConversationHeadersOnly": [{"bubbleId": "b0", "type": 1}], "trackedGitRepos": [{"repoPath": "/x"}]}
    spoilt = [(_spoilt(head, place, by), bubble) for place in _places(head) for by in _HOSTILE]
    spoilt += [(head, _spoilt(bubble, place, by)) for place in _places(bubble) for by in _HOSTILE]
    for number, (one, other) in enumerate(spoilt):
        test_cursor.put(program, f"composerData:x{number}", one)
        test_cursor.put(program, f"bubbleId:x{number}:b0", other)
    for number, value in enumerate(_VALUES):
        program.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (f"composerData:y{number}", value))
        program.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (f"bubbleId:c1:y{number}", value))
    program.commit()
    program.close()
    assert set(test_cursor.SAID) <= _said(FORMATS["cursor"](path))
    source = source_of(path, None)
    assert set(test_cursor.SAID) <= _said(source.step()[0])
    assert source.read_up_to.size_bytes < 10**14


def test_openclaws_events_beside_a_hostile_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "openclaw-agent.sqlite"
    program = test_openclaw.database(path, test_openclaw.EVENTS)
    spoilt = [*(json.dumps(one) for one in _spoilings(_openclaw)), "{half", "[1]"]
    for number, content in enumerate(spoilt):
        program.execute("INSERT INTO transcript_events VALUES ('claw-1', ?, ?, 5, NULL)", (100 + number, content))
    program.execute("INSERT INTO transcript_events VALUES ('claw-1', 99, NULL, 5, x'28b52ffd')")
    program.commit()
    program.close()
    assert set(test_openclaw.SAID) <= _said(FORMATS["openclaw"](path))
    assert set(test_openclaw.SAID) <= _said(source_of(path, None).step()[0])


def test_a_folder_is_read_on_past_a_reader_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> Iterator[Item]:
        raise RecursionError("what stood in it")

    monkeypatch.setitem(FORMATS, "codex", fails)
    (tmp_path / "a.jsonl").write_text(json.dumps(_HEADS["codex"]) + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(_claude("Healthy.")) + "\n")
    items = list(read(tmp_path))
    assert any("Healthy." in text for text in _said(items))
    (left_out,) = (item for item in items if isinstance(item, Skipped) and item.path.name == "a.jsonl")
    assert left_out.reason == "cannot be read: RecursionError"
