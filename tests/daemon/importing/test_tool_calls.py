"""What the notes of a session's calls say of its work."""

from __future__ import annotations

import pytest
from dreamd.daemon.importing.tool_calls import note_of_call, note_of_result, work_of


def ran(command: str) -> str:
    return note_of_call("Bash", {"command": command})


def failed(text: str = "1 failed") -> str:
    return note_of_result("Bash", text, is_error=True)


def ended(text: str = "ok") -> str:
    return note_of_result("Bash", text, is_error=False)


def test_files_are_named_in_the_order_of_their_last_change() -> None:
    calls = [("Edit", "/a/one.py"), ("Write", "notes to self.md"), ("Edit", "/a/one.py"), ("Read", "/a/three.py")]
    notes = [f"Now this.\n{note_of_call(name, {'file_path': path})}" for name, path in calls]
    assert work_of(notes) == (["notes to self.md", "/a/one.py"], "")


@pytest.mark.parametrize(
    ("turns", "failing"),
    [
        ([ran("make test"), failed()], "make test"),
        ([ran("make test"), failed(), ran("ls"), ended()], "make test"),
        ([ran("make test"), failed(), ran("make test"), ended()], ""),
        ([ran("make test"), failed(), ran("make test")], ""),  # it printed nothing, or goes on
        ([ran("make test"), failed(), ran("make test"), failed()], "make test"),
        ([ran("ls"), ended(), failed()], ""),
        ([f"{ran('ls')}\n{ran('make test')}", failed()], ""),  # it is not known which
    ],
)
def test_a_command_fails_until_it_is_called_again(turns: list[str], failing: str) -> None:
    assert work_of(turns) == ([], failing)
