from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from dreamd.daemon.importing import FORMAT_NAMES
from dreamd.daemon.importing.detect import BESIDE_NOTES, FORMATS, detect_format, read
from dreamd.daemon.importing.exports import MAX_CONVERSATION_BYTES, MAX_EXPORT_BYTES
from dreamd.daemon.importing.following.learning import MOST_BEHIND
from dreamd.daemon.importing.following.named_transcripts import KEPT
from dreamd.daemon.importing.following.read_queue import AGAIN_S
from dreamd.daemon.importing.items import UnsupportedFile
from dreamd.daemon.importing.sanitize import MAX_TURN_CHARS
from dreamd.daemon.settings import TranscriptSettings

from tests.daemon.importing.conftest import notes, sessions, skipped, texts

PAGE = (Path(__file__).parents[3] / "docs" / "importing.md").read_text(encoding="utf-8")
CLAUDE = '{"type":"user","uuid":"u","sessionId":"s","cwd":"/p","message":{"role":"user","content":"hi"}}\n'
CHAT = '{"role":"user","content":"hi"}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", CLAUDE, "claude-code"),
        ("a.txt", CLAUDE, "claude-code"),
        ("a.jsonl", "garbage\n" + CLAUDE, "claude-code"),
        ("a.jsonl", '{"type":"summary","summary":"x","leafUuid":"y"}\n', "claude-code"),
        ("a.jsonl", '{"timestamp":"2026-02-01T10:00:00Z","type":"session_meta","payload":{"id":"x"}}\n', "codex"),
        ("a.jsonl", '{"sessionId":"s","projectHash":"h"}\n{"id":"1","type":"user","content":"hi"}\n', "gemini"),
        ("a.json", '{"sessionId": "s",\n "projectHash": "h", "messages": []}', "gemini"),
        ("a.json", '{"id": "ses_1",\n "projectID": "global"}', "opencode"),
        ("a.json", '{"id": "msg_1",\n "sessionID": "ses_1"}', "opencode"),
        ("a.jsonl", CHAT, "chat-jsonl"),
        ("a.json", CHAT.strip(), "chat-jsonl"),
        ("a.md", "# x", "markdown"),
        ("a.markdown", "", "markdown"),
    ],
)
def test_the_format_is_detected_by_content(tmp_path: Path, name: str, content: str, expected: str) -> None:
    (tmp_path / name).write_text(content)
    assert detect_format(tmp_path / name) == expected


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'{"x": 1}'),
        ("a.bin", b"\x00\x01"),
        ("a.py", b"print()\n"),
        ("a.jsonl", b"no\n"),
        ("a.txt", b"hello"),
    ],
)
def test_an_undetected_format_is_an_error_that_names_the_file(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnsupportedFile, match=name) as raised:
        read(tmp_path / name)
    assert all(format_name in raised.value.hint for format_name in FORMATS)


def test_missing_files_unknown_formats_and_pipes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path, name in ((tmp_path / "none", None), (tmp_path, "word"), (tmp_path / "pipe.jsonl", None)):
        with pytest.raises(UnsupportedFile):
            read(path, name)
    assert [item.reason for item in skipped(read(tmp_path))] == ["1 × no regular files"]


def test_an_empty_file_is_nothing_to_take(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    assert not sessions(read(tmp_path / "a.jsonl"))


def test_a_named_format_wins(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(CHAT)
    assert not texts(read(tmp_path / "a.jsonl", "claude-code"))


def test_a_folder_is_walked_in_order_and_the_rest_grouped(tmp_path: Path) -> None:
    for name, content in {
        "b/two.jsonl": CHAT.replace("hi", "two"),
        "a/one.jsonl": CLAUDE.replace("hi", "one") + "{bad\n",
        "c/note.md": "# Tea",
        "c/data.json": '{"x": 1}',
        **{f"node_modules/p{n}/readme.md": "x" for n in range(20)},
        ".git/config.md": "x",
        **{f"pictures/{n}.png": "" for n in range(30)},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    items = list(read(tmp_path))
    assert texts(items) == ["one", "two"]
    assert [note.title for note in notes(items)] == ["Tea"]
    reasons = {(item.path.name, item.line): item.reason for item in skipped(items) if item.line}
    assert list(reasons) == [("one.jsonl", 2)]
    assert [item.reason for item in skipped(items) if not item.line] == [
        "30 × files of another kind",
        "2 × folders not entered: hidden, or other people's code",
        "1 × no conversation or note that is known (.json)",
    ]


@pytest.fixture
def folder_of_another() -> Iterator[Path]:
    """Make a folder that may be listed and not read: root, who may read everything, becomes another user."""
    folder = Path(tempfile.mkdtemp(prefix="dreamd-"))
    folder.chmod(0o755)
    (folder / "a.jsonl").write_text(CHAT)
    (folder / "a.jsonl").chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield folder
    os.seteuid(user)
    shutil.rmtree(folder)


def test_an_unreadable_file_is_skipped_in_a_folder(folder_of_another: Path) -> None:
    assert not (folder_of_another / "a.jsonl").stat().st_mode & 0o444
    assert skipped(read(folder_of_another))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("transcripts/claude-code/*.jsonl", "claude-code"),
        ("okf/*/*/index.md", "markdown"),
    ],
)
def test_whole_files_of_each_format_are_detected(data: Path, pattern: str, expected: str) -> None:
    assert {detect_format(path) for path in data.glob(pattern)} == {expected}


def test_a_whole_folder_is_read(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(CHAT)
    (tmp_path / "questions.json").write_text('{"x": 1}')
    items = list(read(tmp_path))
    assert len(sessions(items)) == 3
    assert len(skipped(items)) == 1


def test_every_format_has_its_reader() -> None:
    assert tuple(FORMATS) == FORMAT_NAMES


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("a message longer than 100,000 characters", MAX_TURN_CHARS == 100_000),
        ("at most 512 MiB of them, 32 MiB each", (MAX_EXPORT_BYTES, MAX_CONVERSATION_BYTES) == (2**29, 2**25)),
        ("is tried again each minute", AGAIN_S == 60),
        ("may be up to an hour behind", timedelta(hours=1) == MOST_BEHIND),
        ("for three days after the last hook", timedelta(days=3) == KEPT),
        ("`transcripts.quiet_minutes` (10)", TranscriptSettings().quiet_minutes == 10),
        ("".join(re.findall(r"^\| `([a-z-]+)` \|", PAGE.partition("\n## ")[0], re.MULTILINE)), True),
    ],
)
def test_the_page_has_the_figures_that_count_and_every_format(said: str, is_so: bool) -> None:
    assert is_so
    assert said in " ".join(PAGE.split()) or said == "".join(FORMAT_NAMES)


def test_a_conversation_beside_or_below_notes_is_taken_only_where_its_format_is_named(tmp_path: Path) -> None:
    for name, content in {"docs/README.md": "# Tea", "docs/a.jsonl": CLAUDE, "docs/data/b.jsonl": CHAT}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "c.jsonl").write_text(CLAUDE.replace("hi", "not below"))
    items = list(read(tmp_path))
    assert texts(items) == ["not below"]
    assert [item.reason for item in skipped(items)] == [f"2 × {BESIDE_NOTES}"]
    assert texts(read(tmp_path, "claude-code")) == ["not below", "hi"]
    assert texts(read(tmp_path / "docs" / "a.jsonl")) == ["hi"]
    assert len(texts(read(tmp_path, own=[tmp_path]))) == 3
