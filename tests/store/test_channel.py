from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from dreamd.store import MemoryStore, StorePaths
from dreamd.store.channel import channel_apart, channel_of_folder, channels_in_reach, know_projects
from dreamd.store.door import Door
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.model import InvalidInput, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings

from .conftest import NOW


@pytest.fixture(autouse=True)
def no_projects() -> Iterator[None]:
    """Forget the projects of other tests, and leave none to them."""
    know_projects({}, ())
    yield
    know_projects({}, ())


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def kettle(tmp_path: Path) -> Path:
    repository = tmp_path / "kettle"
    repository.mkdir()
    git(repository, "init")
    git(repository, "commit", "--allow-empty", "-m", "x")
    return repository


def test_a_repository_gives_its_name_to_all_its_folders(kettle: Path) -> None:
    (kettle / "src" / "deep").mkdir(parents=True)
    channel = channel_of_folder(kettle)
    assert re.fullmatch(r"kettle-[0-9a-f]{6}", channel)
    assert channel_of_folder(kettle / "src" / "deep") == channel
    assert channel_of_folder(kettle / "gone" / "for" / "good") == channel


def test_a_worktree_and_a_link_are_the_same_project(kettle: Path, tmp_path: Path) -> None:
    git(kettle, "worktree", "add", str(tmp_path / "elsewhere"))
    (tmp_path / "link").symlink_to(kettle)
    assert (
        channel_of_folder(tmp_path / "elsewhere") == channel_of_folder(kettle) == channel_of_folder(tmp_path / "link")
    )


def test_a_submodule_is_its_own_project(kettle: Path, tmp_path: Path) -> None:
    other = tmp_path / "lib"
    other.mkdir()
    git(other, "init")
    git(other, "commit", "--allow-empty", "-m", "x")
    git(kettle, "submodule", "add", str(other), "lib")
    assert channel_of_folder(kettle / "lib").startswith("lib-")
    assert channel_of_folder(kettle / "lib") != channel_of_folder(kettle)


def test_two_clones_of_one_name_are_two(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        (tmp_path / parent / "kettle").mkdir(parents=True)
        git(tmp_path / parent / "kettle", "init")
    assert channel_of_folder(tmp_path / "a" / "kettle") != channel_of_folder(tmp_path / "b" / "kettle")


def test_a_plain_or_missing_folder_goes_by_its_path(tmp_path: Path) -> None:
    assert re.fullmatch(r"notes-[0-9a-f]{6}", channel_of_folder(tmp_path / "notes"))
    assert channel_of_folder(tmp_path / "notes") != channel_of_folder(tmp_path / "other" / "notes")
    assert re.fullmatch(r"root-[0-9a-f]{6}", channel_of_folder(Path("/")))


@pytest.mark.parametrize("entry", ["gitdir: /nowhere/at/all", "nonsense", "", "\x00"])
def test_a_broken_git_file_is_no_repository(tmp_path: Path, entry: str) -> None:
    (tmp_path / ".git").write_text(entry)
    assert channel_of_folder(tmp_path).startswith(tmp_path.name[:20])


@pytest.mark.parametrize(
    "path", ["C:\\Users\\ana\\kettle", "kettle", "/a\x00b/kettle", "/\ud83d/kettle", "/" + "x" * 5000]
)
def test_any_path_has_a_channel_that_is_safe_in_a_file_name(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    channel = channel_of_folder(Path(path))
    assert re.fullmatch(r"[A-Za-z0-9._-]{8,67}", channel)
    monkeypatch.chdir(tmp_path)
    assert channel_of_folder(Path(path)) == channel


@pytest.mark.parametrize("target", ["../shop/.git", "../shop/.git/worktrees/one", "worktree"])
def test_an_unpacked_folder_enters_no_other_project(tmp_path: Path, target: str) -> None:
    shop, evil = tmp_path / "shop", tmp_path / "evil"
    for folder in (shop, evil):
        folder.mkdir()
    git(shop, "init")
    git(shop, "commit", "--allow-empty", "-m", "x")
    git(shop, "worktree", "add", str(tmp_path / "one"))
    if target == "worktree":  # a whole git dir, whose common dir is another's
        (evil / ".git").mkdir()
        (evil / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (evil / ".git" / "commondir").write_text("../../shop/.git\n")
    else:
        (evil / ".git").write_text(f"gitdir: {target}\n")
    assert channel_of_folder(evil).startswith("evil-")
    assert channel_of_folder(tmp_path / "one") == channel_of_folder(shop)


def test_of_a_git_file_no_more_than_its_beginning_is_read(tmp_path: Path) -> None:
    (tmp_path / "big").mkdir()
    with (tmp_path / "big" / ".git").open("wb") as file:
        file.truncate(2**40)
    assert channel_of_folder(tmp_path / "big").startswith("big-")
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / ".git")
    assert channel_of_folder(tmp_path / "pipe").startswith("pipe-")


SECRETS = (
    f"ghp_{'a1B2c3D4e5' * 3}F6g7h8",
    "AKIAIOSFODNN7EXAMPLB",
    "sk-ant-api03-Qm7rT2xV9bN4kL8pW3sD6fG1hJ5zC0yA-x7Rt2Qw",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("form", ["{}", "app-{}", "{}.git", "my app {} backup"])
def test_a_secret_in_a_folders_name_is_in_no_channels_name(tmp_path: Path, secret: str, form: str) -> None:
    folder, other = tmp_path / "a" / form.format(secret), tmp_path / "b" / form.format(secret)
    channel = channel_of_folder(folder)
    assert secret not in channel
    assert secret[-8:] not in channel
    assert channel == channel_of_folder(folder) != channel_of_folder(other)
    Door().check_names(channel)


URLS = (
    "git@git.example.org:team/kettle.git",
    "https://someone:token@git.example.org/team/kettle",
    "ssh://git@git.example.org/Team/kettle.git/",
)


def clones_of(tmp_path: Path, urls: Sequence[str]) -> list[Path]:
    """Make repositories with these remotes, each in a folder of its own."""
    made = []
    for number, url in enumerate(urls):
        folder = tmp_path / str(number) / "kettle"
        folder.mkdir(parents=True)
        git(folder, "init")
        git(folder, "remote", "add", "origin", url)
        made.append(folder)
    return made


def keep_turn(store: MemoryStore, session: str, folder: Path) -> str:
    """Keep a turn of a session in a folder; return its channel."""
    head = SessionHead(session, channel_of_folder(folder), cwd=str(folder))
    store.observe(head, [NewTurn("user", "the kettle boils at 96 degrees", None)]).result()
    store.settle()
    return head.channel


def test_clones_of_one_remote_are_one_project_from_the_first_session_on(
    open_store: Callable[[], MemoryStore], tmp_path: Path
) -> None:
    first, *others, stranger = clones_of(tmp_path, [*URLS, "https://git.example.org/team/pot"])
    store = open_store()
    assert len({channel_of_folder(folder) for folder in (first, *others)}) == len(URLS)
    channel = keep_turn(store, "s1", first)
    assert [channel_of_folder(folder) for folder in others] == [channel] * len(others)
    assert channel_of_folder(stranger) != channel
    store.close()
    open_store()  # it is kept
    assert [channel_of_folder(folder) for folder in others] == [channel] * len(others)


def test_a_clone_with_memories_of_its_own_keeps_them(open_store: Callable[[], MemoryStore], tmp_path: Path) -> None:
    first, second = clones_of(tmp_path, URLS[:2])
    store = open_store()
    own = channel_of_folder(second)
    know_projects({}, ())  # no link is known of it: it is a memory of before there were any
    store.remember("the kettle of the office", channel=own).result()
    store.settle()
    store.close()
    store = open_store()
    assert channel_of_folder(second) == own
    channel = keep_turn(store, "s1", first)
    assert channel != own
    assert channel_of_folder(second) == own


def test_clones_with_memories_of_their_own_are_read_with_each_other(
    open_store: Callable[[], MemoryStore], tmp_path: Path
) -> None:
    first, second, third, stranger = clones_of(tmp_path, [*URLS, "https://git.example.org/team/pot"])
    store = open_store()
    own, foreign = channel_of_folder(second), channel_of_folder(stranger)
    know_projects({}, ())
    store.remember("the kettle of the office is blue", channel=own).result()
    store.remember("the pot of the office is red", channel=foreign).result()
    store.settle()
    store.close()
    store = open_store()
    channel = keep_turn(store, "s1", first)
    assert channel_of_folder(second) == own  # from now on it is known to be of the same remote
    found = store.recall("what boils at 96 degrees?", channel=own).hits
    assert {hit.channel for hit in found} == {channel, own}
    assert own in channels_in_reach(keep_turn(store, "s2", second))
    for _ in range(2):
        assert {*channels_in_reach(channel)} == {*channels_in_reach(own)} == {channel, own, "_global"}
        assert channels_in_reach(f"{own}/spike") == (f"{own}/spike", own, f"{channel}/spike", channel, "_global")
        assert channels_in_reach(foreign) == (foreign, "_global")
        assert channel_of_folder(third) == channel  # the first stays that of clones without memories
        store.close()
        store = open_store()


def test_what_is_remembered_in_a_clone_makes_its_channel_that_of_the_others(
    open_store: Callable[[], MemoryStore], tmp_path: Path
) -> None:
    first, second = clones_of(tmp_path, URLS[:2])
    store = open_store()
    channel = channel_of_folder(first)
    store.remember("the kettle of the office is blue", channel=channel).result()
    assert channel_of_folder(second) == channel


def test_a_repository_that_gets_a_remote_is_of_its_project(store: MemoryStore, kettle: Path, tmp_path: Path) -> None:
    (other,) = clones_of(tmp_path, URLS[:1])
    store.remember("the kettle of the office is blue", channel=channel_of_folder(kettle)).result()
    store.settle()
    assert store.replica.links() == []
    git(kettle, "remote", "add", "origin", URLS[1])
    channel = channel_of_folder(kettle)
    assert [linked for _, linked in store.replica.links()] == [channel]
    assert channel_of_folder(other) == channel


@pytest.mark.parametrize(
    ("remote", "channel"),
    [("ab", "shop-1a2b3c"), ("0" * 32, "_global"), ("0" * 32, "=shop-1a2b3c"), ("0" * 32, "a b-1a2b3c")],
)
def test_what_can_be_no_link_is_refused(store: MemoryStore, remote: str, channel: str) -> None:
    with pytest.raises(InvalidInput):
        store.replica.link(remote, channel)


def test_a_worktree_that_stands_apart_is_a_project_of_its_own(paths: StorePaths, kettle: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    git(kettle, "worktree", "add", str(elsewhere))
    settings = StoreSettings(apart=(elsewhere,))
    with contextlib.closing(MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)):
        assert channel_of_folder(elsewhere / "src") == channel_apart(elsewhere) != channel_of_folder(kettle)


@pytest.mark.parametrize("place", [".worktrees/2", ".worktrees/ann/fix-it", ".claude/worktrees/x"])
def test_a_worktree_that_is_not_on_this_machine_belongs_to_its_repository(place: str) -> None:
    assert channel_of_folder(Path("/nowhere/cli") / place) == channel_of_folder(Path("/nowhere/cli"))
    assert channel_of_folder(Path("/nowhere/worktrees/cli")) != channel_of_folder(Path("/nowhere"))
