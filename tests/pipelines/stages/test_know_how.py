"""Know-how: the page of the commands that worked in several sessions."""

from __future__ import annotations

from dreamd.pipelines.stages import know_how
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.model import Action, Kind, Memory
from dreamd.store.okf.file import conformance

from tests.pipelines.fakes import NOW, FakeSource

WORKED = (
    ("assistant", "[Edit /x/a.py]"),
    ("assistant", "[Bash: cd /x && uv run pytest -q 2>&1]"),
    ("tool", "[Bash result]\n3 passed"),
    ("assistant", "[Bash: git status]"),
    ("tool", "[Bash result]\nclean"),
)
FAILED = (*WORKED[:2], ("tool", "[Bash failed]\n1 failed"))


def dreamt(source: FakeSource, history: History | None = None) -> tuple[History, list[Action]]:
    view = source.view(history)
    planned = know_how.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return source.take(view), planned.actions


def page_of(action: Action) -> Memory:
    assert conformance(action.path, action.content or b"") == []
    return okf.to_memory(action.path, okf.parse(action.content or b""))


def test_commands_that_worked_in_several_sessions_after_an_edit_have_a_page() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *WORKED)
    _, (action,) = dreamt(source)
    page = page_of(action)
    assert (page.title, page.kind, page.sources) == (know_how.TITLE, Kind.PROCEDURE, ("s2#2",))
    assert "- `uv run pytest -q`: worked in 2 sessions, last on 8 May 2023 [^t1]" in page.text
    assert "git status" not in page.text  # every machine has it


def test_a_command_of_one_session_or_one_that_failed_is_none() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *FAILED)
    source.add("s3", *WORKED[1:])  # before any edit: it says nothing about how work is checked here
    assert dreamt(source)[1] == []


def test_the_page_follows_its_sessions_and_goes_with_them() -> None:
    source = FakeSource()
    source.add("s1", *WORKED)
    source.add("s2", *WORKED)
    history, _ = dreamt(source)
    assert dreamt(source, history)[1] == []  # nothing has grown
    source.add("s3", *WORKED)
    history, (action,) = dreamt(source, history)
    assert "worked in 3 sessions" in page_of(action).text
    source.add("s2", *FAILED)
    source.add("s3", *FAILED)
    _, (action,) = dreamt(source, history)
    assert page_of(action).is_archived
