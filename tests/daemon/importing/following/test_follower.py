"""The follower on real folders: what is written is learned, once, whatever becomes of its file."""

from __future__ import annotations

import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.daemon.importing.following.places import Place, place_of
from dreamd.daemon.importing.importer import Importer
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore
from dreamd.store.model import InvalidInput, Kind, NotFound

from tests.daemon.importing.following.conftest import Followed, line
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


@pytest.mark.parametrize("how", ["cut", "replaced", "rotated", "moved in"])
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
    elif how == "rotated":
        path.rename(followed.folder / "s.1.jsonl")
        path.write_bytes(line("three", "c"))
    else:
        new.mkdir()
        (new / "s.jsonl").write_bytes(line("three", "c"))
        new.rename(followed.folder / "more")
    followed.wait_for("one", "two", "three")


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
    follower.watch(Place(tmp_path / "later", "codex"))
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


def test_what_is_followed_is_heard_as_it_goes_on(followed: Followed, store: MemoryStore) -> None:
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
    fetched = [{"type": "tool_use", "id": "t1", "name": "WebFetch", "input": {"url": "https://a.example"}}]
    with path.open("ab") as file:
        file.write(line("", role="assistant", message={"role": "assistant", "content": fetched}))
    followed.wait_for("Sign what you release.", "[WebFetch: https://a.example]")
    assert is_waiting("Sign it by fax.")


def test_what_only_a_hook_names_is_not_known_to_be_whole(followed: Followed, store: MemoryStore) -> None:
    path = followed.folder / "s.jsonl"
    path.write_bytes(line("Sign what you release."))
    followed.follower.start()
    assert followed.follower.take(path, "claude-code")
    followed.wait_for("Sign what you release.")
    kept = store.keep("Sign it by hand.", kind=Kind.PROCEDURE, channel="shop", agent_id="claude-code", session="s1")
    assert kept.result().waits
