"""The exports of ChatGPT and claude.ai, in a file and in the archive as it came."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.reading import exports

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


def export(folder: Path, values: list[Any], indent: int | None, packed: bool) -> Path:
    content = json.dumps(values, indent=indent)
    if not packed:
        (folder / "conversations.json").write_text(content)
        return folder / "conversations.json"
    with zipfile.ZipFile(folder / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export/user.json", "{}")
        archive.writestr("export/conversations.json", content)
    return folder / "export.zip"
