"""Proposals for the lines of files: which statements overtake a line, and which leave it alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from dreamd.pipelines.gate.action_checks import ActionChecker
from dreamd.pipelines.stages import file_lines
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import Action, Kind, Level, Memory
from dreamd.store.upkeep.file_copies import FOLDER, copy_in, entries_of, line_hash, proposal_key

from tests import memories
from tests.pipelines.fakes import NOW, FakeSource

WRITTEN, SAID_AT = NOW - timedelta(days=90), NOW - timedelta(days=3)
LINE, SAID = "We deploy on Thursdays.", "We deploy on Tuesdays now, not Thursdays."


def copy_of(name: str, text: str, at: datetime = WRITTEN, **fields: Any) -> Memory:
    hashes = " ".join(line_hash(line) for line in text.splitlines() if line.strip())
    extra = {"key": name, "resource": f"/shop/{name}", "file_sha256": "0", "line_times": {at.isoformat(): hashes}}
    return Memory(
        node_id=f"doc-{name}",
        level=Level.SESSION,
        kind=Kind.DOCUMENT,
        title=name,
        text=text,
        channel="proj",
        created_at=at,
        said_by=name,
        path=f"{FOLDER}/proj/{name}",
        extra=extra,
        **fields,
    )


def fact(text: str = SAID, at: datetime = SAID_AT, channel: str = "proj", **fields: Any) -> Memory:
    return memories.fact(text, channel, created_at=at, **fields)


def planned(*kept: Memory, history: History | None = None) -> View:
    source = FakeSource()
    source.keep(*kept)
    view = source.view(history)
    actions = file_lines.plan(view, NOW).actions
    assert ActionChecker(view, NOW).check(actions)[0] == []
    view.apply(view.allowed(actions))
    return view


def entries(view: View, name: str = "CLAUDE.md") -> list[dict[str, Any]]:
    path = f"{FOLDER}/proj/{name}"
    copy = copy_in(path, view.read(path) or b"")
    assert copy is not None
    return entries_of(copy)


RULES = f"# Rules\n\n- Bookings are kept in SQLite.\n- {LINE}\n\n    echo {LINE.upper()}\n"


def test_a_line_that_its_person_overtook_is_proposed() -> None:
    said = fact()
    view = planned(copy_of("CLAUDE.md", RULES), said)
    assert entries(view) == [{"old": LINE, "because": said.node_id}]
    # Nothing is proposed twice, and what is proposed stays.
    assert file_lines.plan(view, NOW).actions == []


@pytest.mark.parametrize(
    "said",
    [
        fact(at=WRITTEN - timedelta(days=1)),  # the line was written later
        fact(said_by="assistant"),
        fact(channel="till"),
        fact("We deploy on Thursdays, as always, and the till follows."),  # it says the same
        fact("Should we deploy on Tuesdays?"),
        fact("The bakery delivers on Tuesdays."),  # another thing
        fact(later=("another",)),  # probably changed again since
    ],
)
def test_what_does_not_surely_overtake_a_line_leaves_it_alone(said: Memory) -> None:
    assert entries(planned(copy_of("CLAUDE.md", f"{LINE}\n"), said)) == []


def test_of_another_thing_no_value_is_taken() -> None:
    line = "Maximum weight per parcel is 30 kg."
    assert entries(planned(copy_of("CLAUDE.md", f"{line}\n"), fact("Maximum weight per van is 900 kg."))) == []


def test_a_later_line_of_another_file_overtakes_too_but_no_programs_own_note() -> None:
    old, new = copy_of("CLAUDE.md", f"{LINE}\n"), copy_of("AGENTS.md", "We deploy on Tuesdays.\n", SAID_AT)
    view = planned(old, new)
    (entry,) = entries(view)
    assert (entry["old"], entry["words"]) == (LINE, "We deploy on Tuesdays.")
    assert entries(view, "AGENTS.md") == []
    assert entries(planned(old, replace(new, said_by="assistant"))) == []
    # Written within the hour: a checkout wrote both.
    assert entries(planned(old, copy_of("AGENTS.md", "We deploy on Tuesdays.\n", WRITTEN + timedelta(minutes=5)))) == []


def test_a_rejected_proposal_is_not_made_again_and_one_without_its_reason_goes() -> None:
    said = fact()
    copy = copy_of("CLAUDE.md", f"{LINE}\n")
    key = proposal_key(copy.node_id, LINE, said.node_id)
    assert entries(planned(copy, said, history=History(tombstones=frozenset({key})))) == []
    proposed = replace(copy, extra={**copy.extra, "proposals": [{"old": LINE, "because": "gone"}]})
    assert entries(planned(proposed)) == []


def test_a_channel_that_is_off_is_left_alone() -> None:
    view = planned(copy_of("CLAUDE.md", RULES), fact(), history=History(channels_off=frozenset({"proj"})))
    assert view.actions == []


def test_nothing_but_proposals_may_change_in_a_copy() -> None:
    source = FakeSource()
    source.keep(copy := copy_of("CLAUDE.md", RULES))
    view = source.view()
    before = view.read(copy.path) or b""
    after = okf.edit(before, {"said_by": "Ann"})
    reworded = Action.replacing(copy.path, copy.node_id, before, after, stage="s", reason="r")
    assert ActionChecker(view, NOW).check([reworded])[0] == ["sessions changed: 1"]
