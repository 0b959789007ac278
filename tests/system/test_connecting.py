"""Connecting a program while a real daemon runs: its sessions are followed if its person says so, and not otherwise."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dreamd.daemon.agents.agent_connection import AgentConnection, OriginalContents
from dreamd.daemon.agents.connection_check import check_results
from dreamd.daemon.agents.hook_formats import FORMATS
from dreamd.daemon.agents.programs import CODEX_PASSES_ON, PROGRAMS, Command, UserEnvironment

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.daemon.importing.following.conftest import line
from tests.system.commands import plain, typed, typed_at_a_terminal
from tests.system.conftest import Make
from tests.system.waiting import until

pytestmark = pytest.mark.system


@pytest.fixture
def daemon(shared: DaemonUnderTest) -> Iterator[DaemonUnderTest]:
    """Give the module's daemon; what was connected to it is taken away again."""
    yield shared
    typed(shared, "disconnect", "claude-code", "--yes")
    shutil.rmtree(shared.folder / ".claude", ignore_errors=True)
    (shared.folder / ".claude.json").unlink(missing_ok=True)


@pytest.fixture
def projects(daemon: DaemonUnderTest) -> Path:
    """Give the folder of Claude Code's sessions, with one in it."""
    folder = daemon.folder / ".claude" / "projects"
    (folder / "-nowhere-kettle").mkdir(parents=True)
    (folder / "-nowhere-kettle" / "old.jsonl").write_bytes(line("The old kettle whistles in G.", session="old"))
    return folder


def followed(daemon: DaemonUnderTest) -> list[tuple[str, bool]]:
    """Return the folders that are followed, each with whether all of it is taken in."""
    return [(place["path"], place["since"] is None) for place in daemon.call("status")["transcripts"]["places"]]


def found(daemon: DaemonUnderTest) -> bool:
    hits = daemon.call("recall", query="kettle whistles", channel="*")["hits"]
    return any("whistles" in hit["text"] for hit in hits)


def test_a_person_is_asked_and_shown_the_cost(daemon: DaemonUnderTest, projects: Path) -> None:
    code, shown = typed_at_a_terminal(daemon, ["y", "y", "y"], "connect", "claude-code")
    assert code == 0, shown
    assert shown.index("Claude Code is connected.") < shown.index("Follow the sessions of Claude Code? [y/N]")
    assert "about 1 session with 1 turn" in plain(shown)
    assert "Take it in, in the background? [Y/n]" in shown
    assert followed(daemon) == [(str(projects), True)]
    until(lambda: found(daemon))
    assert f"followed: {projects}" in plain(typed(daemon, "connect", "claude-code", "--check").stdout)

    code, shown = typed_at_a_terminal(daemon, [], "connect", "claude-code")  # what is so is not asked again
    assert code == 0
    assert "?" not in shown
    code, shown = typed_at_a_terminal(daemon, ["y"], "disconnect", "claude-code")
    assert "The sessions of Claude Code are not followed any more." in shown
    assert followed(daemon) == []
    assert f"not followed: {projects}" in plain(typed(daemon, "connect", "claude-code", "--check").stdout)


@pytest.mark.parametrize("answers", [["y", "n"], ["y", ""], ["n"]])
def test_without_a_yes_nothing_is_followed(daemon: DaemonUnderTest, projects: Path, answers: list[str]) -> None:
    code, shown = typed_at_a_terminal(daemon, answers, "connect", "claude-code")
    assert code == 0
    assert ("Follow the sessions" in shown) == (len(answers) > 1)
    assert followed(daemon) == []


def test_new_sessions_alone_can_be_followed(daemon: DaemonUnderTest, projects: Path) -> None:
    typed_at_a_terminal(daemon, ["y", "y", "n"], "connect", "claude-code")
    assert followed(daemon) == [(str(projects), False)]


def test_yes_to_the_files_is_no_word_on_following(daemon: DaemonUnderTest, projects: Path) -> None:
    done = typed(daemon, "connect", "claude-code", "--yes")
    assert "sessions are not followed (of before: about 1 turn)" in plain(done.stderr)
    assert "`dreamctl watch claude-code`" in done.stderr
    assert followed(daemon) == []


@pytest.mark.parametrize("from_now", [False, True])
def test_it_can_be_said_without_a_terminal(daemon: DaemonUnderTest, projects: Path, from_now: bool) -> None:
    more = ["--from-now"] if from_now else []
    answer = json.loads(typed(daemon, "connect", "claude-code", "--yes", "--watch", *more, "--json").stdout)
    assert answer["followed"] == [str(projects)]
    assert followed(daemon) == [(str(projects), not from_now)]
    assert typed(daemon, "disconnect", "claude-code", "--yes").returncode == 0
    assert followed(daemon) == []


def test_no_watch_asks_and_says_nothing(daemon: DaemonUnderTest, projects: Path) -> None:
    code, shown = typed_at_a_terminal(daemon, ["y"], "connect", "claude-code", "--no-watch")
    assert code == 0
    assert "Follow" not in shown
    assert "not followed" not in shown
    assert followed(daemon) == []


def test_a_folder_of_its_own_is_followed_there(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    work = tmp_path / "work"
    typed(daemon, "connect", "claude-code", "--config-dir", work, "--yes", "--watch")
    assert followed(daemon) == [(str(work / "projects"), True)]
    typed(daemon, "disconnect", "claude-code", "--config-dir", work, "--yes")
    assert followed(daemon) == []


def test_without_a_daemon_a_program_is_connected_and_the_rest_is_said(make: Make) -> None:
    daemon = make()
    done = typed(daemon, "connect", "gemini", "--yes")
    assert done.returncode == 0
    assert "dreamd does not run yet" in plain(done.stderr).replace("Dreamd", "dreamd")
    done = typed(daemon, "connect", "gemini", "--yes", "--watch")
    assert done.returncode == 1
    assert "is connected, but its sessions are not followed" in plain(done.stderr)
    assert typed(daemon, "disconnect", "gemini", "--yes").returncode == 0


def test_each_part_is_asked_and_every_file_given_back(daemon: DaemonUnderTest) -> None:
    settings = daemon.folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(b'{"model":\t"opus" }\n')
    assert typed(daemon, "connect", "claude-code", "--yes").returncode == 0
    assert settings.read_bytes() != b'{"model":\t"opus" }\n'
    asked = typed(daemon, "connect", "claude-code", "--check", "--json")
    found = {one["what"]: one["ok"] for one in json.loads(asked.stdout)["findings"]}
    assert {"settings", "daemon", "hook UserPromptSubmit", "tools"} <= found.keys()
    assert all(found.values()), asked.stdout
    assert typed(daemon, "disconnect", "claude-code", "--yes").returncode == 0
    assert settings.read_bytes() == b'{"model":\t"opus" }\n'
    assert not (daemon.folder / ".claude.json").exists()
    asked = typed(daemon, "connect", "claude-code", "--check", "--json")
    assert asked.returncode == 1
    found = {one["what"]: one["seen"] for one in json.loads(asked.stdout)["findings"]}
    absent = {what for what, seen in found.items() if seen == "not installed"}
    assert absent == {"tools", *(f"hook {event}" for event in FORMATS["claude-code"].moments)}


def test_a_check_tells_the_part_that_is_not_installed(daemon: DaemonUnderTest) -> None:
    settings = daemon.folder / ".claude" / "settings.json"
    assert typed(daemon, "connect", "claude-code", "--yes").returncode == 0
    settings.write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "/bin/true"}]}]}}')
    asked = typed(daemon, "connect", "claude-code", "--check", "--json")
    found = {one["what"]: (one["ok"], one["seen"]) for one in json.loads(asked.stdout)["findings"]}
    assert found["hook Stop"] == (False, "not installed")
    assert found["tools"][0]
    assert typed(daemon, "disconnect", "claude-code", "--yes").returncode == 0
    assert "/bin/true" in settings.read_text()


def test_tools_that_do_not_find_the_daemon_are_found_out(
    daemon: DaemonUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the environment that Codex gives a server whose entry names no variables."""
    assert typed(daemon, "connect", "codex", "--yes").returncode == 0
    command = Command(str(Path(sys.executable).with_name("dreamctl")), {})
    records = OriginalContents(daemon.folder / "data" / "connected")
    places = UserEnvironment(daemon.folder, daemon.environ)
    monkeypatch.setenv("XDG_RUNTIME_DIR", daemon.environ["XDG_RUNTIME_DIR"])
    for program in (PROGRAMS["codex"], replace(PROGRAMS["codex"], passes_on=frozenset(CODEX_PASSES_ON))):
        connection = AgentConnection(program, daemon.folder / ".codex", places, command, records)
        found = {one.check: one for one in check_results(connection, command, daemon.environ)}
        assert found["tools"].ok is ("XDG_RUNTIME_DIR" in (program.passes_on or ()))
    assert "dreamd is not running" in found["tools"].seen
