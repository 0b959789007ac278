"""`dreamctl hook` as an agent starts it: it fails open, whatever it is given and whoever answers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.agents.hook_formats import ABSENT, FORMATS, LATE, UNDELIVERED, Moment, take_lost
from dreamd.daemon.agents.programs import HOOK_TIMEOUT_S
from dreamd.daemon.cli import entry as hook
from dreamd.ipc.socket_path import path_of_lost

from tests.stand_in_daemon import StandIn

PROMPT = {"session_id": "s", "cwd": "/", "prompt": "Which port?"}
GENEROUS_S = 5.0
"""A busy machine starts an interpreter in seconds; the command's own deadline is measured by the benchmark."""


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dreamd-") as folder:
        yield Path(folder) / "s"


def run(path: Path, *words: str, given: bytes = b"", **environ: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.entry", "hook", *words]
    environ = {"DREAMD_SOCKET": str(path), "HOME": str(path.parent)} | environ
    return subprocess.run(command, input=given, env=environ, capture_output=True, timeout=60)


def test_it_prints_what_the_daemon_says(path: Path) -> None:
    daemon = StandIn(path, {"hook": {"output": '{"a": "ü"}'}})
    try:
        done = run(path, "claude-code", "UserPromptSubmit", given=json.dumps({**PROMPT, "deep": {"x": 1}}).encode())
    finally:
        daemon.close()
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout) == {"a": "ü"}
    ((method, asked),) = daemon.asked
    assert (method, asked["agent"], asked["event"]) == ("hook", "claude-code", "UserPromptSubmit")
    assert asked["given"] == {**PROMPT, "deep": {"x": 1}}
    assert asked["cwd"] == "/"


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ((), b"{}"),
        (("claude-code",), b"{}"),
        (("claude-code", "Stop"), b""),
        (("claude-code", "Stop"), b"[]"),
        (("claude-code", "Stop"), b"nonsense"),
        (("claude-code", "Stop"), b"\xff\xfe\x00"),
        (("claude-code", "Stop", "more", "--json"), b"{}"),
        (("--nonsense", "--"), b"{}"),
        (("claude-code", "NoSuchEvent"), b'{"a": 1}'),
    ],
)
def test_without_a_daemon_or_a_meaning_it_says_nothing(path: Path, words: tuple[str, ...], given: bytes) -> None:
    done = run(path, *words, given=given)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_error_of_the_daemon_is_nothing(path: Path) -> None:
    daemon = StandIn(path, {"hook": RuntimeError("broken")})
    try:
        done = run(path, "claude-code", "Stop", given=json.dumps(PROMPT).encode())
    finally:
        daemon.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_it_asks_nothing_where_hooks_are_switched_off(path: Path) -> None:
    daemon = StandIn(path, {"hook": {"output": "{}"}})
    try:
        done = run(path, "claude-code", "Stop", given=json.dumps(PROMPT).encode(), DREAMD_NO_HOOKS="1")
    finally:
        daemon.close()
    assert (done.returncode, done.stdout) == (0, b"")
    assert daemon.asked == []


def test_only_what_may_be_answered_is_waited_for() -> None:
    taken = {event for form in FORMATS.values() for event, moment in form.moments.items() if moment in form.takes}
    assert taken == hook.AWAITED


def test_a_start_is_waited_for_longer() -> None:
    starts = {event for form in FORMATS.values() for event, moment in form.moments.items() if moment is Moment.START}
    assert starts == hook.STARTS
    assert hook.DEADLINE_S < hook.START_DEADLINE_S < HOOK_TIMEOUT_S / 3


def test_the_first_prompt_of_a_session_is_known_by_its_chat(tmp_path: Path) -> None:
    """It brings the text of Gemini CLI's start, and is waited for as a start is."""
    chat = tmp_path / "chat.jsonl"
    given = {"transcript_path": str(chat)}
    assert hook._is_first(given)
    chat.write_text('{"sessionId":"a","projectHash":"b"}\n{"id":"1","type":"user","content":"hello"}\n')
    assert hook._is_first(given)
    with chat.open("a") as file:
        file.write('{"id":"2","type":"gemini","content":"Hello."}\n')
    assert not hook._is_first(given)


def test_a_start_without_an_answer_is_noted_without_the_words_of_anybody(path: Path) -> None:
    lost = Path(path_of_lost(str(path)))
    given = json.dumps({**PROMPT, "prompt": "my own words"}).encode()
    for event in ("SessionStart", "UserPromptSubmit", "Stop"):
        run(path, "claude-code", event, given=given)
    run(path, "claude-code", "SessionStart", given=json.dumps({**PROMPT, "agent_id": "a1"}).encode())
    assert "my own words" not in lost.read_text()
    assert lost.stat().st_mode & 0o777 == 0o600
    found = take_lost(lost)
    assert [(one.agent, one.event, one.session, one.why) for one in found] == [
        ("claude-code", "SessionStart", "s", ABSENT),
        ("claude-code", "UserPromptSubmit", "s", ABSENT),
    ]
    assert not lost.exists()


def test_a_prompt_that_was_not_taken_is_told_from_one_without_an_answer(path: Path) -> None:
    given = json.dumps(PROMPT).encode()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        run(path, "claude-code", "UserPromptSubmit", given=given)  # waits among those that are not accepted
        with socket.socket(socket.AF_UNIX) as beside:
            beside.setblocking(False)
            beside.connect_ex(str(path))
            run(path, "claude-code", "UserPromptSubmit", given=given)
    assert [one.why for one in take_lost(Path(path_of_lost(str(path))))] == [LATE, UNDELIVERED]


def test_the_notes_of_lost_moments_are_bounded(path: Path) -> None:
    lost = Path(path_of_lost(str(path)))
    for _ in range(2 * hook.MOST_LOST_BYTES // 64):
        hook._note_lost(str(lost), "codex", "SessionStart", {"session_id": "s" * 256}, 1.5, OSError())
    assert lost.stat().st_size < hook.MOST_LOST_BYTES + 1024


def test_what_is_told_is_heard_though_its_sender_has_left(path: Path) -> None:
    daemon = StandIn(path, {"hook": {"output": "{}"}})
    try:
        done = run(path, "claude-code", "Stop", given=json.dumps(PROMPT).encode())
        deadline = time.monotonic() + 30
        while not daemon.asked and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        daemon.close()
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    ((_, asked),) = daemon.asked
    assert asked["event"] == "Stop"


def test_a_daemon_that_hangs_is_not_waited_for(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen(8)
        began = time.monotonic()
        done = run(path, "claude-code", "UserPromptSubmit", given=json.dumps(PROMPT).encode())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert time.monotonic() - began < GENEROUS_S


def test_a_stdin_that_stays_open_is_not_waited_for(path: Path) -> None:
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.entry", "hook", "claude-code", "Stop"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"DREAMD_SOCKET": str(path)}, **pipes) as waiting:
        assert waiting.wait(60) == 0
        assert waiting.stdout is not None
        assert waiting.stdout.read() == b""


def test_a_long_text_is_cut_to_a_line_of_the_wire() -> None:
    for size in (100, 3_000_000):
        given = {**PROMPT, "prompt": "ü" * size, "last_assistant_message": "\x00" * size}
        line = hook._request("codex", "Stop", given, 1.5)
        assert len(line) <= 2**20
        assert json.loads(line)["params"]["given"]["prompt"].strip("ü") == ""
        assert (len(json.loads(line)["params"]["given"]["prompt"]) == size) == (size == 100)


def test_it_imports_the_lightest_parts_of_the_standard_library() -> None:
    program = (
        "import json, sys; before = set(sys.modules)\n"
        "import dreamd.daemon.cli.entry, dreamd.daemon.cli.entry\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) <= {"dreamd"}
    assert not loaded & {"argparse", "asyncio", "datetime", "subprocess", "dreamd.ipc.client", "dreamd.store"}


def test_its_own_start_counts_and_the_daemon_has_a_while_nevertheless() -> None:
    began_s = time.monotonic()
    code = "import time; time.sleep(0.3); from dreamd.daemon.cli import entry; print(entry._age_s())"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=True, text=True)
    aged_s = float(done.stdout)
    assert aged_s <= time.monotonic() - began_s + 0.02  # of which a tick is 10 ms
    if sys.platform == "linux":
        assert aged_s >= 0.3
    else:
        assert aged_s == hook.USUAL_START_S
