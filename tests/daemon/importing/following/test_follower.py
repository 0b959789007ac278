"""The follower on real folders: what is written is learned, once, whatever becomes of its file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.daemon.importing.following import named_transcripts as named
from dreamd.daemon.importing.following import read_queue as faults
from dreamd.daemon.importing.following.followed_places import FollowedPlace, place_of, places_of
from dreamd.daemon.importing.following.tail import Items, Tail
from dreamd.daemon.importing.importer import Importer
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore, Selection
from dreamd.store.model import InvalidInput, Kind, NotFound

from tests.daemon.importing.following.conftest import Followed, line
from tests.daemon.importing.formats import test_cline, test_cursor, test_goose
from tests.daemon.importing.formats.test_opencode import MESSAGES, SAID, database
from tests.system.waiting import until


def test_what_is_written_is_learned_as_it_is_written(followed: Followed) -> None:
    followed.start()
    path = followed.folder / "s.jsonl"
    with path.open("ab") as file:
        for text in ("one", "two", "three"):
            file.write(line(text))
            file.flush()
            until(lambda text=text: text in followed.said())  # type: ignore[misc]
        file.write(line("four")[:20])
        file.flush()
        followed.settle()
        assert followed.said() == ["one", "two", "three"]
    assert followed.grown
    (session,) = [one for one in followed.follower.sessions.active() if one.session_id == "s1"]
    assert session.agent_id == "claude-code"


def test_what_was_there_is_learned_and_nothing_twice(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one", "a") + line("two", "b"))
    followed.start()
    followed.wait_for("one", "two")
    assert followed.follower.taken.turns >= 2
    account = Importer(store, Call(None, "import")).take([followed.folder], None)
    assert account.turns_added == 0
    path.rename(followed.folder / "renamed.jsonl")
    followed.settle()
    path.write_bytes(line("one", "a") + line("two", "b") + line("three", "c"))
    followed.wait_for("one", "two", "three")
    followed.restart()
    assert followed.said() == ["one", "two", "three"]


def test_after_a_restart_it_goes_on_where_it_was(followed: Followed) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one"))
    followed.start()
    followed.wait_for("one")
    followed.follower.stop()
    with path.open("ab") as file:
        file.write(line("two"))
    followed.restart()
    followed.wait_for("one", "two")
    assert followed.follower.taken.turns <= 3  # "two" and a mark or two: nothing was offered again


@pytest.mark.parametrize("how", ["cut", "replaced", "rotated", "moved in", "written anew"])
def test_a_file_that_becomes_another_is_read_again(followed: Followed, tmp_path: Path, how: str) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one", "a") + line("two", "b"))
    followed.start()
    followed.wait_for("one", "two")
    new = tmp_path / "new"
    if how == "cut":
        path.write_bytes(line("three", "c"))
    elif how == "replaced":
        new.write_bytes(line("three", "c") + line("two", "b") + line("one", "a"))
        new.replace(path)
    elif how == "written anew":
        path.write_bytes(line("four, which was not said", "b") + line("three", "c") + line("one", "a"))
    elif how == "rotated":
        path.rename(followed.folder / "s.1.jsonl")
        path.write_bytes(line("three", "c"))
    else:
        new.mkdir()
        (new / "s.jsonl").write_bytes(line("three", "c"))
        new.rename(followed.folder / "my.app")
    followed.wait_for("one", "two", "three")


def test_a_file_that_is_as_long_as_before_is_read_again(followed: Followed) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one", "a", timestamp="2026-01-01T10:00:00Z"))
    followed.start()
    followed.wait_for("one")
    followed.follower.stop()
    path.write_bytes(line("two", "b", timestamp="2026-01-01T10:00:00Z"))
    followed.restart()
    followed.wait_for("one", "two")


def test_lines_without_ids_that_were_written_anew_are_learned_beside(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"

    def write(*texts: str) -> None:
        path.write_bytes(b"".join(line(text).replace(b'"uuid"', b'"no"') for text in texts))

    write("one", "two", "three", "four")
    followed.start()
    followed.wait_for("one", "two", "three", "four")
    write("one", "2", "three")
    followed.wait_for("one", "two", "three", "four", "2")
    followed.restart()
    with path.open("ab") as file:
        file.write(line("4").replace(b'"uuid"', b'"no"'))
    said = ["one", "two", "three", "four", "2", "4"]
    followed.wait_for(*said)
    followed.follower.stop()
    write("one", "2", "3", "4")
    assert Importer(store, Call(None, "import")).take([path], None).turns_added == 1
    followed.restart()
    followed.wait_for(*said, "3")


def test_what_goes_wrong_with_one_file_holds_up_no_other(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "AGAIN_S", 0.2)
    healthy, read, is_sick = [f"s{number}" for number in range(20)], Tail.step, True

    def step(tail: Tail) -> tuple[Items, bool]:
        if is_sick and tail.path.stem == "sick":
            raise RecursionError("all that was said")
        return read(tail)

    monkeypatch.setattr(Tail, "step", step)
    for name in (*healthy, "sick"):
        (followed.folder / f"{name}.jsonl").write_bytes(line("Said.", session=name))
    followed.follower.start()
    followed.follower.watch(place_of(str(followed.folder)))
    until(lambda: all(followed.said(name) == ["Said."] for name in healthy))
    (problem,) = until(followed.follower.faults.problems)
    assert problem.path == str(followed.folder / "sick.jsonl")
    assert "RecursionError" in problem.problem
    assert "said" not in problem.problem
    is_sick = False
    followed.wait_for("Said.", session="sick")
    until(lambda: not followed.follower.faults.problems())


def test_lines_that_are_left_out_are_named(followed: Followed) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one") + b'{"type": ["a secret"]}\n{"type": 3}\n' + line("two"))
    followed.start()
    followed.wait_for("one", "two")
    (problem,) = followed.follower.faults.problems()
    assert problem.path == str(path)
    assert problem.problem.startswith("line 2 and 1 more of this session was left out (not a line of Claude Code")
    assert "secret" not in problem.problem


@pytest.mark.parametrize("agent_writes", ["while it is down", "after it is back"])
def test_a_file_that_hooks_name_is_read_on_after_a_restart(followed: Followed, agent_writes: str) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("one"))
    followed.follower.start()
    assert followed.follower.take(path, "claude-code")
    followed.wait_for("one")
    followed.follower.stop()
    followed.follower = followed.make()
    if agent_writes == "after it is back":
        followed.follower.start()
    with path.open("ab") as file:
        file.write(line("two"))
    if agent_writes == "while it is down":
        followed.follower.start()
    followed.wait_for("one", "two")


def test_a_purge_takes_the_path_that_a_hook_named(followed: Followed, store: MemoryStore) -> None:
    path, other = followed.folder / "s1.jsonl", followed.folder / "s2.jsonl"
    path.write_bytes(line("one"))
    other.write_bytes(line("two", session="s2"))
    followed.follower.start()
    for one in (path, other):
        assert followed.follower.take(one, "claude-code")
    followed.wait_for("one")
    followed.wait_for("two", session="s2")
    store.settle()
    store.purge(Selection(nodes=("s1",)))
    assert list(store.followed.named()) == [str(other)]


def test_a_file_that_hooks_named_long_ago_is_left_alone(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"
    long_ago = datetime.now(UTC) - named.KEPT - timedelta(minutes=1)
    store.followed.name(str(path), json.dumps({"agent": "claude-code", "at": long_ago.isoformat()}))
    path.write_bytes(line("one"))
    followed.follower.start()
    until(lambda: not store.followed.named())
    assert followed.said() == []


def test_an_agents_clock_may_be_behind(followed: Followed) -> None:
    """Nothing is learned that was said before, as the agent's clock has it."""
    followed.start(since=datetime.now(UTC) - timedelta(seconds=1))
    now = datetime.now(UTC)
    behind = {text: (now - timedelta(minutes=minutes)).isoformat() for text, minutes in (("old", 30), ("now", 10))}
    lines = [line(text, session="s0", timestamp=at) for text, at in behind.items()]
    (followed.folder / "new.jsonl").write_bytes(b"".join(lines))
    followed.wait_for("now", session="s0")


def test_what_was_said_before_can_be_left_out(followed: Followed) -> None:
    old = followed.folder / "old.jsonl"
    old.write_bytes(line("long ago", session="s0", timestamp="2026-01-01T10:00:00Z"))
    os.utime(old, (1e9, 1e9))
    followed.start(since=datetime.now(UTC) - timedelta(seconds=1))
    later = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    with old.open("ab") as file:
        file.write(line("now", session="s0", timestamp=later))
    followed_said = lambda: followed.said("s0")  # noqa: E731
    assert until(followed_said) == ["now"]


def test_to_watch_again_takes_in_what_was_left_out(followed: Followed) -> None:
    old = followed.folder / "old.jsonl"
    old.write_bytes(line("long ago", session="s0", timestamp="2026-01-01T10:00:00Z"))
    os.utime(old, (1e9, 1e9))
    followed.start(since=datetime.now(UTC) - timedelta(seconds=1))
    followed.settle()
    assert followed.said("s0") == []
    followed.follower.watch(place_of(str(followed.folder)))
    assert [place.since for place in followed.follower.listed] == [None]
    followed.wait_for("long ago", session="s0")


def test_what_is_said_while_learning_is_paused_is_passed_over(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("before"))
    followed.start()
    followed.wait_for("before")
    store.pause()
    with path.open("ab") as file:
        file.write(line("meanwhile"))
    until(lambda: (read := store.followed.read_up_to(str(path))) and read.size_bytes == path.stat().st_size)
    store.resume()
    with path.open("ab") as file:
        file.write(line("after"))
    followed.wait_for("before", "after")


def test_sub_agents_observers_and_our_own_sessions_are_left_out(followed: Followed, store: MemoryStore) -> None:
    write = {
        "agent.jsonl": line("Look.", session="s2", isSidechain=True),
        "observer.jsonl": line("Look.", session="s3", cwd="/home/me/.claude-mem/observer-sessions"),
        "own.jsonl": line("Look.", session="s4", cwd=str(store.paths.vault / "x")),
        "plain.jsonl": line("Look.", session="s5"),
    }
    (followed.folder / "subagents").mkdir()
    (followed.folder / "subagents" / "a.jsonl").write_bytes(line("Look.", session="s6"))
    for name, content in write.items():
        (followed.folder / name).write_bytes(content)
    followed.start()
    followed.wait_for("Look.", session="s5")
    assert [followed.said(f"s{number}") for number in range(2, 7)] == [[], [], [], ["Look."], []]


def test_links_are_not_followed(followed: Followed, tmp_path: Path) -> None:
    (tmp_path / "outside.jsonl").write_bytes(line("Outside."))
    (followed.folder / "link.jsonl").symlink_to(tmp_path / "outside.jsonl")
    followed.start()
    (followed.folder / "link2.jsonl").symlink_to(tmp_path / "outside.jsonl")
    followed.settle()
    assert followed.said() == []


def test_a_database_is_followed(followed: Followed) -> None:
    program = database(followed.folder / "opencode.db", MESSAGES[:2])
    followed.start()
    followed.wait_for(*SAID[:3], session="ses_1")
    program.execute("INSERT INTO message VALUES ('msg_9', 'ses_1', 9500, 9500, '{\"role\": \"user\"}')")
    text = '{"type": "text", "text": "And the lock."}'
    program.execute("INSERT INTO part VALUES ('prt_9', 'msg_9', 'ses_1', 0, 0, ?)", (text,))
    program.execute("UPDATE session SET time_updated = 9500")
    program.commit()
    followed.wait_for(*SAID[:3], "And the lock.", session="ses_1")
    assert isinstance(program, sqlite3.Connection)
    program.close()


def test_a_database_without_a_log_is_followed(followed: Followed) -> None:
    program = test_goose.database(followed.folder / "sessions.db", test_goose.MESSAGES[:3])
    followed.start()
    session = "goose-20261122_1"
    followed.wait_for(*test_goose.SAID[:3], session=session)
    test_goose.add(program, [("user", [test_goose.text("And the lock.")], {})], named="n")
    program.commit()
    followed.wait_for(*test_goose.SAID[:3], "And the lock.", session=session)
    program.close()


def test_another_programs_database_of_the_same_name_is_no_fault(followed: Followed) -> None:
    with contextlib.closing(sqlite3.connect(followed.folder / "sessions.db")) as other:
        other.execute("CREATE TABLE sessions (id)")
    followed.start()
    assert not followed.follower.faults.problems()


def test_a_file_that_is_written_anew_with_each_message_is_followed(followed: Followed) -> None:
    folder = followed.folder / "s1"
    path = test_cline.session_file(folder, test_cline.MESSAGES[:3])
    followed.start()
    followed.wait_for(*test_cline.SAID[:3], session="cline-s1")
    # Half of it is there yet.
    whole = test_cline.session_file(folder, test_cline.MESSAGES).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    until(lambda: followed.follower.faults.is_aside(path, time.monotonic()))
    path.write_bytes(whole)
    followed.wait_for(*test_cline.SAID, session="cline-s1")
    followed.restart()
    followed.wait_for(*test_cline.SAID, session="cline-s1")
    assert not followed.follower.faults.problems()


def test_an_agents_sessions_in_editors_are_followed_with_its_own(
    followed: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert [place.folder for place in places_of("cursor")] == [tmp_path / ".cursor" / "projects"]
    editor = tmp_path / ".config" / "Cursor" / "User" / "globalStorage"
    editor.mkdir(parents=True)
    test_cursor.database(editor / "state.vscdb", test_cursor.BUBBLES).close()
    followed.follower.start()
    followed.follower.watch(*places_of("cursor"))
    followed.wait_for(*test_cursor.SAID, session="c1")
    assert followed.follower.follows("cursor")
    followed.follower.unwatch("cursor")
    assert not followed.follower.places.all()


def test_the_backlog_gives_way_and_ends(followed: Followed) -> None:
    for number in range(30):
        (followed.folder / f"{number}.jsonl").write_bytes(line(f"Old {number}.", session=f"old-{number}"))
    followed.quiet_s = 0.0  # an agent asks all the time
    followed.follower.start()
    followed.follower.watch(place_of(str(followed.folder)))
    until(lambda: followed.follower.waiting.backlog()[0] > 20)
    (followed.folder / "live.jsonl").write_bytes(line("Live.", session="live"))
    until(lambda: followed.said("live"))
    assert followed.follower.waiting.backlog()[0] > 10
    followed.quiet_s = 1e9
    until(lambda: followed.said("old-0"))
    until(lambda: not followed.follower.waiting.backlog()[0])


def test_places_are_listed_added_and_removed(followed: Followed, store: MemoryStore, tmp_path: Path) -> None:
    follower = followed.follower
    follower.watch(FollowedPlace(tmp_path / "later", "codex"))
    assert [(place.name, follower.state_of(place)) for place in follower.listed] == [
        (str(tmp_path / "later"), "not there yet")
    ]
    with pytest.raises(NotFound):
        follower.unwatch("claude-code")
    assert follower.unwatch("codex").folder == tmp_path / "later"
    assert not follower.places.all()
    with pytest.raises(InvalidInput):
        place_of("somebody")
    with pytest.raises(InvalidInput):
        place_of("/")


def test_a_folder_that_comes_later_is_watched(followed: Followed, tmp_path: Path) -> None:
    followed.start()
    later = tmp_path / "later"
    followed.follower.watch(place_of(str(later)))
    later.mkdir()
    (later / "s.jsonl").write_bytes(line("Late."))
    followed.wait_for("Late.")
    followed.follower.unwatch(str(later))
    with (later / "s.jsonl").open("ab") as file:
        file.write(line("Too late."))
    followed.settle()
    assert followed.said() == ["Late."]


@pytest.mark.parametrize(
    ("name", "given", "note"),
    [
        ("WebFetch", {"url": "https://a.example"}, "[WebFetch: https://a.example]"),
        ("Bash", {"command": "set -e\ncurl -s a.example"}, "[Bash: set -e]"),
        ("BashOutput", {"bash_id": "1"}, "[BashOutput]"),
    ],
)
def test_what_is_followed_is_heard_as_it_goes_on(
    followed: Followed, store: MemoryStore, name: str, given: dict[str, str], note: str
) -> None:
    """An agent's statement is trusted only as far as the followed session shows no stranger's words."""

    def is_waiting(text: str) -> bool:
        kept = store.keep(text, kind=Kind.PROCEDURE, channel="shop", agent_id="claude-code", session="s1")
        return kept.result().waits

    assert is_waiting("Sign it before it is known who asks.")
    followed.start()
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("Sign what you release."))
    followed.wait_for("Sign what you release.")
    assert not is_waiting("Sign it by hand.")
    fetched = [{"type": "tool_use", "id": "t1", "name": name, "input": given}]
    with path.open("ab") as file:
        file.write(line("", role="assistant", message={"role": "assistant", "content": fetched}))
    followed.wait_for("Sign what you release.", note)
    assert is_waiting("Sign it by fax.")


def test_what_only_a_hook_names_is_not_known_to_be_whole(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("Sign what you release."))
    followed.follower.start()
    assert followed.follower.take(path, "claude-code")
    followed.wait_for("Sign what you release.")
    kept = store.keep("Sign it by hand.", kind=Kind.PROCEDURE, channel="shop", agent_id="claude-code", session="s1")
    assert kept.result().waits
