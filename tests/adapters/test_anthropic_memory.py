"""Anthropic's memory tool over a real daemon, against the one over files that the package brings."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dreamd.ipc.client import Unreachable
from dreamd.store.channel import channel_of_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.conftest import client_of
from tests.bench.daemon_under_test import DaemonUnderTest

pytest.importorskip("anthropic", reason="`make test-adapters` installs the packages that have adapters")

from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from dreamd.ipc.adapters.anthropic_memory import AsyncDreamdMemoryTool, DreamdMemoryTool

pytestmark = pytest.mark.adapters

USUAL = ["/memories/a.txt", "/memories/d", "/memories/d/b.md", "/memories/d/e/f", "/memories/d/e"]
ODD = ["/memories", "/memories/", "/memories/.hidden", "/memories/d/.h/x", "/memories/ä.md", "/memories/a.txt/below"]
ODD += ["/etc/passwd", "/memories/../x", "/memories/d/../a.txt", "/memories/./d//b.md", "/memoriesfoo", "/memories/d/"]
PATHS = st.sampled_from(3 * USUAL + ODD)
AT_FIRST = {
    "/memories/a.txt": "one\ntwo\n\nones",
    "/memories/d/b.md": "one two\nt",
    "/memories/d/e/f": "",
    "/memories/.hidden": "x",
}
LINES = st.sampled_from(["one", "two", "one two", "", "tea\tand\r", "ünï", "ones"])
TEXTS = st.lists(LINES, max_size=5).map("\n".join) | st.lists(LINES, max_size=3).map(
    lambda lines: "\n".join(lines) + "\n"
)
RANGES = st.none() | st.lists(st.integers(-2, 6), min_size=2, max_size=2)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("view"), "path": PATHS, "view_range": RANGES}),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": PATHS, "old_str": LINES, "new_str": LINES | TEXTS}
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 5), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)
spaces = count()


def tool_of(daemon: DaemonUnderTest, space: tuple[str, ...] | None = None) -> DreamdMemoryTool:
    return DreamdMemoryTool(client_of(daemon), space=space or ("memory", str(next(spaces))))


def outcome(tool: Any, command: dict[str, Any]) -> str:
    """Return what the model is told; what is no answer of the tool's own is an error like any other."""
    given = {key: value for key, value in command.items() if value is not None}
    try:
        said = tool.call(given)
    except ToolError as error:
        return "error: a file is in the way" if "lies below" in str(error) else f"error: {error}"
    except (OSError, ValueError):
        return "error: a file is in the way"
    except Exception as error:  # the daemon's own refusal
        return f"error: {type(error).__name__}"
    return without_folder_sizes(str(said))


def without_folder_sizes(said: str) -> str:
    """Leave out the sizes of folders: on a disk they are its file system's own."""
    if not said.startswith("Here're the files"):
        return said
    head, root, *rest = said.split("\n")
    return "\n".join([head, re.sub(r"^\S+", "-", root), *(re.sub(r"^\S+(?=\t.*/$)", "-", line) for line in rest)])


def without_empty_folders(root: Path) -> None:
    """Remove folders of the reference in which nothing is: here a folder is there with what is in it."""
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


IMPOSSIBLE = {"error: a file is in the way"}
"""The reference raises the file system's error where a file is taken for a folder, or a folder is moved into itself."""


@given(commands=st.lists(COMMANDS, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def check_equal(daemon: DaemonUnderTest, commands: list[dict[str, Any]]) -> None:
    base = Path(tempfile.mkdtemp(prefix="memory-"))
    try:
        reference, ours = BetaLocalFilesystemMemoryTool(str(base)), tool_of(daemon)
        begun = [{"command": "create", "path": path, "file_text": text} for path, text in AT_FIRST.items()]
        for command in [*begun, *commands, {"command": "view", "path": "/memories"}]:
            expected, told = outcome(reference, command), outcome(ours, command)
            without_empty_folders(reference.memory_root)
            if expected in IMPOSSIBLE:
                assert told.startswith("error: "), (command, expected, told)
            else:
                assert told == expected, command
    finally:
        shutil.rmtree(base)


def test_every_answer_is_the_references(shared: DaemonUnderTest) -> None:
    check_equal(shared)


def test_everything_is_cleared(shared: DaemonUnderTest) -> None:
    ours = tool_of(shared)
    outcome(ours, {"command": "create", "path": "/memories/a/b.txt", "file_text": "x"})
    assert ours.clear_all_memory() == "All memory cleared"
    assert "a/" not in outcome(ours, {"command": "view", "path": "/memories"})


def test_an_asynchronous_tool_answers_alike(shared: DaemonUnderTest) -> None:
    ours = AsyncDreamdMemoryTool(client_of(shared), space=("memory", "async"))

    async def ask() -> list[Any]:
        create = {"command": "create", "path": "/memories/a", "file_text": "one\n"}
        replace = {"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "two"}
        return [
            await ours.call(create),
            await ours.call(replace),
            await ours.call({"command": "view", "path": "/memories/a"}),
        ]

    created, replaced, viewed = asyncio.run(ask())
    assert created == "File created successfully at: /memories/a"
    assert "     1\ttwo" in replaced
    assert "     1\ttwo" in viewed


def test_no_concurrent_edit_is_lost(shared: DaemonUnderTest) -> None:
    outcome(tool_of(shared, ("memory", "raced")), {"command": "create", "path": "/memories/n", "file_text": ""})
    refused: list[str] = []

    def write(writer: int) -> None:
        mine = tool_of(shared, ("memory", "raced"))
        for number in range(10):
            insert = {"command": "insert", "path": "/memories/n", "insert_line": 0, "insert_text": f"{writer}.{number}"}
            while (said := outcome(mine, insert)).startswith("error"):
                refused.append(said)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    viewed = outcome(tool_of(shared, ("memory", "raced")), {"command": "view", "path": "/memories/n"})
    assert sorted(re.findall(r"\t(\d\.\d)", viewed)) == [
        f"{writer}.{number}" for writer in range(3) for number in range(10)
    ]
    assert set(refused) <= {"error: DaemonError"}


def test_what_was_acknowledged_survives_kill_9(daemon: DaemonUnderTest) -> None:
    ours = tool_of(daemon, ("memory", "killed"))
    create = {"command": "create", "path": "/memories/plan.md", "file_text": "The launch is on 3 March.\n"}
    assert outcome(ours, create).startswith("File created")
    moved = {"command": "rename", "old_path": "/memories/plan.md", "new_path": "/memories/plans/launch.md"}
    assert outcome(ours, moved).startswith("Successfully renamed")
    daemon.kill()
    for command in (
        {"command": "view", "path": "/memories"},
        create,
        moved,
        {"command": "delete", "path": "/memories/x"},
    ):
        with pytest.raises(Unreachable):
            ours.call(command)
    daemon.start()
    daemon.wait_until_it_answers()
    assert "The launch is on 3 March." in outcome(ours, {"command": "view", "path": "/memories/plans/launch.md"})
    assert outcome(ours, create).startswith("File created")


def test_another_space_is_another_memory(shared: DaemonUnderTest) -> None:
    create = {"command": "create", "path": "/memories/a.txt", "file_text": "The cellar key is brass.\n"}
    DreamdMemoryTool(client_of(shared)).call(create)
    (kept,) = shared.call("document_list", space=["anthropic", "memory"])["documents"]
    assert kept["value"] == "The cellar key is brass.\n"
    assert kept["channel"] == channel_of_folder(Path.cwd())
    assert "a.txt" not in outcome(tool_of(shared), {"command": "view", "path": "/memories"})


def test_one_file_of_two_users_is_two(shared: DaemonUnderTest) -> None:
    users = {name: DreamdMemoryTool(client_of(shared), space=("of two",), user_id=name) for name in ("ana", "bob")}
    for name, ours in users.items():
        ours.call({"command": "create", "path": "/memories/plan.md", "file_text": f"The plan of {name}.\n"})
    for name, ours in users.items():
        assert f"The plan of {name}." in str(ours.call({"command": "view", "path": "/memories/plan.md"}))


def test_what_is_too_long_is_refused_in_a_sentence_and_a_secret_taken_out(shared: DaemonUnderTest) -> None:
    ours, key = tool_of(shared), "AKIAIOSFODNN7EXAMPLE"
    for path, text, said in (
        (f"/memories/{'x' * 991}", "x", "The path has 1,001 characters, more than 1,000"),
        ("/memories/large.txt", "x" * 1_020_000, "bytes"),
    ):
        with pytest.raises(ToolError, match=said):
            ours.call({"command": "create", "path": path, "file_text": text})
    assert outcome(ours, {"command": "create", "path": f"/memories/{'x' * 990}", "file_text": "x"}).startswith("File")
    ours.call({"command": "create", "path": "/memories/key.txt", "file_text": f"the key is {key}\n"})
    assert "the key is [redacted:aws]" in outcome(ours, {"command": "view", "path": "/memories/key.txt"})


def test_recall_finds_what_the_model_wrote(shared: DaemonUnderTest) -> None:
    ours = DreamdMemoryTool(client_of(shared), space=("memory", "recalled"), channel="launch")
    text = "The customer prefers invoices in Danish crowns.\n"
    ours.call({"command": "create", "path": "/memories/customer.md", "file_text": text})
    hits = shared.call("recall", query="Which currency do the customer's invoices have?", channel="launch")["hits"]
    assert [(hit["kind"], hit["text"].strip()) for hit in hits] == [("document", text.strip())]
