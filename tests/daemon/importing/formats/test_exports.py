"""The exports of ChatGPT and claude.ai, in a file and in the archive as it came."""

from __future__ import annotations

import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing import exports
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.items import SessionRead
from hypothesis import given
from hypothesis import strategies as st

from tests.daemon.importing.conftest import sessions, skipped, texts


def node(name: str, parent: str | None, role: str, *parts: Any, **more: Any) -> dict[str, Any]:
    message = {"id": name, "author": {"role": role}, "create_time": 1.7e9, "recipient": "all"}
    content = {"content_type": "text", "parts": list(parts)}
    return {"id": name, "parent": parent, "message": message | {"content": content} | more}


TREE: dict[str, Any] = {
    "root": {"id": "root", "parent": None, "message": None},
    "0": node("0", "root", "system", "You are helpful."),
    "1": node("1", "0", "user", "Which tea is best?", {"content_type": "image_asset_pointer", "asset_pointer": "x"}),
    "2a": node("2a", "1", "assistant", "The green one."),
    "2b": node("2b", "1", "assistant", "search('tea')", recipient="web"),
    "3": node("3", "2b", "tool", "Found: oolong."),
    "4": node("4", "3", "assistant", "Hm.", content={"content_type": "thoughts", "thoughts": []}),
    "5": node("5", "4", "assistant", "Oolong."),
    "6": node("6", "5", "user", "Hidden", metadata={"is_visually_hidden_from_conversation": True}),
}
CHATGPT = [{"title": "Tea", "create_time": 1.7e9, "mapping": TREE, "current_node": "6", "conversation_id": "c1"}]
CLAUDE_AI = [
    {
        "uuid": "c2",
        "name": "Bread",
        "created_at": "2026-01-01T10:00:00Z",
        "chat_messages": [
            {"uuid": "m1", "sender": "human", "text": "How long?", "attachments": [{"file_name": "rye.pdf"}]},
            {
                "uuid": "m2",
                "sender": "assistant",
                "text": "ignored",
                "content": [
                    {"type": "thinking", "thinking": "Hm."},
                    {"type": "text", "text": "Forty minutes."},
                    {"type": "tool_use", "name": "x", "input": {}},
                ],
            },
            {"uuid": "m3", "sender": "assistant", "text": ""},
        ],
    }
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_what_was_said_last_of_a_tree(tmp_path: Path, indent: int | None, packed: bool) -> None:
    path = export(tmp_path, CHATGPT, indent, packed)
    (session,) = sessions(read(path))
    assert [(turn.role, turn.text, turn.external_id) for turn in session.turns] == [
        ("user", "Which tea is best?\n[image]", "1"),
        ("tool", "Found: oolong.", "3"),
        ("assistant", "Oolong.", "5"),
    ]
    assert session.head.session_id == "chatgpt-c1"
    assert session.head.title == "Tea"


@pytest.mark.parametrize("packed", [False, True])
def test_the_messages_of_claude_ai(tmp_path: Path, packed: bool) -> None:
    (session,) = sessions(read(export(tmp_path, CLAUDE_AI, None, packed)))
    assert [(turn.text, turn.external_id) for turn in session.turns] == [
        ("How long?\n[document rye.pdf]", "m1"),
        ("Forty minutes.", "m2"),
    ]
    assert session.head.session_id == "claude-ai-c2"


def test_a_tree_without_its_end_a_circle_and_other_things(tmp_path: Path) -> None:
    circle = {"a": node("a", "b", "user", "Round"), "b": node("b", "a", "assistant", "and round")}
    values = [{"title": "x", "mapping": circle, "id": "c3"}, {"title": "y", "mapping": {}}, "word"]
    items = list(read(export(tmp_path, values, None, False), "chatgpt"))
    assert texts(items) == ["Round", "and round"]
    assert len(skipped(items)) == 2


def test_what_is_too_long_or_broken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = export(tmp_path, CHATGPT, None, True)
    monkeypatch.setattr(exports, "MAX_EXPORT_BYTES", 100)
    assert "longer than" in skipped(read(path))[0].reason
    path.write_bytes(path.read_bytes()[:-40])
    assert "archive that cannot be read" in skipped(read(path, "chatgpt"))[0].reason


_value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.text() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(_value, max_size=5), st.integers(1, 40), st.sampled_from([None, 1]))
def test_values_are_found_in_pieces(values: list[Any], size: int, indent: int | None) -> None:
    for ascii_only in (True, False):
        content = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
        pieces = iter(content[at : at + size] for at in range(0, len(content), size))
        assert [json.loads(found or b"") for found in exports._Values(pieces).each()] == values


def test_one_broken_conversation_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good, last = (json.dumps(value) for value in (CHATGPT[0], CHATGPT[0] | {"id": "last", "conversation_id": "last"}))
    path = tmp_path / "conversations.json"
    long = json.dumps({"title": "long", "mapping": {}, "x": "[" * 9000})
    monkeypatch.setattr(exports, "MAX_CONVERSATION_BYTES", 8000)
    path.write_text(f'[{good}, {{"a": nothing}}, {long}, {last}]')
    items = list(read(path, "chatgpt"))
    assert len({one.head.session_id for one in sessions(items)}) == 2
    assert "conversation 2: not JSON" in skipped(items)[0].reason
    assert "longer than" in skipped(items)[1].reason
    path.write_text(f"[{good}, {last[:50]}")
    items = list(read(path, "chatgpt"))
    assert len(sessions(items)) == 1
    assert [one.reason for one in skipped(items)] == ["not JSON: the list has no end"]


TINY = '{"title": "t", "mapping": {}'


@pytest.mark.parametrize("inner", [f"{TINY}}}{',{}' * 2**16}", f'{TINY}, "x": [0{",{}" * 2**22}]}}'])
def test_a_small_archive_takes_little_memory(tmp_path: Path, inner: str) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr("conversations.json", f"[{inner}]")
    assert path.stat().st_size < 2**16
    tracemalloc.start()
    assert not any(isinstance(item, SessionRead) for item in read(path))
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 6 * len(inner) + 2**21


def test_a_packing_that_unpacks_at_once_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    for packing in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w", packing) as archive:
            archive.writestr("conversations.json", json.dumps(CHATGPT))
        assert "not known" in skipped(read(path, "chatgpt"))[0].reason


def export(folder: Path, values: list[Any], indent: int | None, packed: bool) -> Path:
    content = json.dumps(values, indent=indent)
    if not packed:
        (folder / "conversations.json").write_text(content)
        return folder / "conversations.json"
    with zipfile.ZipFile(folder / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/user.json", "{}")
        archive.writestr("export/conversations.json", content)
    return folder / "export.zip"
