"""Sessions of agents, followed by a real daemon: found a moment after they are written, once, and through its death."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.daemon.importing.following.conftest import line
from tests.system.commands import plain, typed
from tests.system.waiting import until

pytestmark = pytest.mark.system


@pytest.fixture
def projects(daemon: DaemonUnderTest) -> Path:
    """Give the folder in which Claude Code keeps the sessions of a project."""
    folder = daemon.folder / ".claude" / "projects" / "-nowhere-kettle"
    folder.mkdir(parents=True)
    return folder


def found(daemon: DaemonUnderTest, words: str) -> list[str]:
    return [hit["text"] for hit in daemon.call("recall", query=words, channel="*")["hits"]]


def test_watch_says_what_it_does_and_status_what_became_of_it(daemon: DaemonUnderTest, projects: Path) -> None:
    assert "No sessions are watched." in plain(typed(daemon, "watch").stdout)
    (projects / "old.jsonl").write_bytes(line("The old kettle whistles in G.", session="old"))
    counted = typed(daemon, "watch", "claude-code", "--dry-run")
    assert "There are about 1 session with 1 turn" in plain(counted.stdout)
    assert not daemon.call("status")["transcripts"]["places"]

    done = typed(daemon, "watch", "claude-code")
    assert done.returncode == 0
    assert "Watching claude-code: what is said there is remembered as it is said." in plain(done.stdout)
    until(lambda: any("whistles" in text for text in found(daemon, "kettle whistles")))
    (projects / "new.jsonl").write_bytes(line("The new kettle hums in D.", session="new"))
    until(lambda: any("hums" in text for text in found(daemon, "kettle hums")))
    assert "claude-code; 1 session going on" in plain(typed(daemon, "status").stdout)
    assert "claude-code: on" in plain(typed(daemon, "watch").stdout)

    answer = json.loads(typed(daemon, "import", projects, "--json").stdout)
    assert (answer["turns_added"], answer["turns_known"]) == (0, 2)
    assert typed(daemon, "unwatch", "claude-code").returncode == 0
    assert typed(daemon, "unwatch", "claude-code").returncode == 4
    assert not daemon.call("status")["transcripts"]["places"]


def test_nothing_is_lost_or_doubled_when_the_daemon_is_killed(daemon: DaemonUnderTest, projects: Path) -> None:
    typed(daemon, "watch", "claude-code")
    path = projects / "s.jsonl"
    with path.open("ab") as file:
        for number in range(300):
            file.write(line(f"Kettle number {number} is on shelf {number % 7}.", f"u{number}", session="shelves"))
            file.flush()
            if number in (50, 150, 250):
                until(lambda: daemon.call("status")["transcripts"]["turns"])
                daemon.kill()
                daemon.start()
                daemon.wait_until_it_answers()
    until(lambda: daemon.call("status")["turns"] == 300)
    shown = daemon.call("show", node_id="shelves#300")
    assert shown["text"] == "Kettle number 299 is on shelf 5."
    assert typed(daemon, "show", "shelves#301").returncode == 4


def test_what_hooks_said_is_not_learned_in_twenty_rounds(daemon: DaemonUnderTest, projects: Path) -> None:
    """What is recalled is handed to an agent, is written into its transcript, and is read there: 20 times."""
    typed(daemon, "watch", "claude-code")
    path = projects / "s.jsonl"
    path.write_bytes(line("The copper kettle holds two litres.", "u0", session="loop"))
    until(lambda: found(daemon, "copper kettle litres"))
    for number in range(1, 21):
        recalled = daemon.call("context", query="how much does the copper kettle hold?", channel="*")["text"]
        assert recalled
        context = {"type": "hook_additional_context", "content": [recalled], "hookEvent": "UserPromptSubmit"}
        attached = {"type": "attachment", "uuid": f"h{number}", "sessionId": "loop", "attachment": context}
        with path.open("ab") as file:
            file.write(json.dumps(attached).encode() + b"\n")
            file.write(line(f"{recalled}\nQuestion {number}?", f"q{number}", session="loop"))
            file.write(line(f"As I know: {recalled}", f"a{number}", session="loop", role="assistant"))
        until(lambda number=number: daemon.call("status")["turns"] == 1 + 2 * number)  # type: ignore[misc]
    texts = [daemon.call("show", node_id=f"loop#{number}")["text"] for number in range(2, 42)]
    assert not [text for text in texts if "litres" in text]
    assert daemon.call("list", channel="*", level="L1")["memories"] == []


def test_one_hostile_file_holds_up_nothing(daemon: DaemonUnderTest, projects: Path) -> None:
    odd = [b'{"type": ["a", "b"]}\n', b'{"type": {"name": "x"}}\n', b"[" * 10_000 + b"\n"]
    hostile = [*odd, line("It whistles.", session="odd", timestamp=["y"])]
    sick = line("The sick kettle leaks.", session="sick", timestamp="0001-01-01T00:00:00+14:00")
    (projects / "sick.jsonl").write_bytes(b"".join(hostile) + sick)
    for number in range(5):
        (projects / f"{number}.jsonl").write_bytes(line(f"Kettle {number} sings.", session=f"s{number}"))
    assert typed(daemon, "watch", "claude-code").returncode == 0
    until(lambda: daemon.call("status")["turns"] == 7)
    (problem,) = daemon.call("status")["problems"]
    assert problem.startswith(f"{projects / 'sick.jsonl'}: line 1 and 2 more of this session was left out")
    assert "kettle/sick.jsonl: Line 1 and 2 more" in plain(typed(daemon, "check").stdout)
    answer = json.loads(typed(daemon, "import", projects, "--json").stdout)
    assert (answer["turns_added"], answer["turns_known"]) == (0, 7)


def test_what_hooks_handed_over_is_learned_after_a_kill(daemon: DaemonUnderTest, projects: Path) -> None:
    """An agent calls the hook of its answer before it has written that answer down; here the daemon dies between."""
    path = projects / "s.jsonl"
    path.write_bytes(line("Is the kettle on?", session="s"))
    given = {"session_id": "s", "transcript_path": str(path), "cwd": str(projects)}
    daemon.call("hook", agent="claude-code", event="Stop", given=given, cwd=str(projects))
    daemon.kill()
    with path.open("ab") as file:
        file.write(line("It boils.", session="s", role="assistant"))
    daemon.start()
    daemon.wait_until_it_answers()
    until(lambda: daemon.call("status")["turns"] == 2)
