"""Every answer of a real daemon has the type that is declared for it, and every declared field is answered."""

from __future__ import annotations

import pytest

from tests.answer_types import ANSWERS, dataclasses_in, faults, seen, sent
from tests.system.recording import Recording

pytestmark = [pytest.mark.system, pytest.mark.xdist_group("recorded")]


@pytest.mark.parametrize("method", sorted(ANSWERS))
def test_a_real_answer_is_of_the_declared_type(recorded: Recording, method: str) -> None:
    assert recorded.answers[method]
    assert [fault for answer in recorded.answers[method] for fault in faults(answer, ANSWERS[method], method)] == []


def test_a_status_tells_of_the_daemon_itself(recorded: Recording) -> None:
    (hello,) = recorded.answers["hello"]
    status = recorded.named["status"]
    assert {name: status[name] for name in hello} == hello
    assert status["uptime_s"] > recorded.named["status of an empty memory"]["uptime_s"]
    assert status["vault"] == str(recorded.daemon.folder / "data" / "vault")
    assert status["embedding"]["ready"] is True
    assert status["watching"] == "on"
    assert status["llm"]["problem"]
    assert any(status["llm"]["problem"] in problem for problem in status["problems"])


def test_a_status_tells_of_what_is_followed(recorded: Recording) -> None:
    empty = recorded.named["status of an empty memory"]["transcripts"]
    assert (empty["places"], empty["active"], empty["turns"], empty["backlog"]) == ([], [], 0, None)
    waiting = recorded.named["status of a memory that waits"]["transcripts"]
    assert (waiting["backlog"]["files"], waiting["backlog"]["of"]) == (1, 1)
    follows = recorded.named["status of a memory that follows"]["transcripts"]
    assert [place["path"] for place in follows["places"]] == [str(recorded.daemon.folder / "agent")]
    assert [one["session_id"] for one in follows["active"]] == ["knitting"]
    assert follows["turns"] >= 1


def test_a_status_tells_of_dreams(recorded: Recording) -> None:
    before, amid, after = (
        recorded.named[name] for name in ("status of an empty memory", "status of a dream", "status")
    )
    assert (before["dream"], before["last_dream"], after["dream"]) == (None, None, None)
    assert amid["dream"]["run_id"] == recorded.named["a dream begun"]["run_id"]
    assert amid["dream"]["paused"] == "paused by hand"
    assert after["last_dream"] == max(run["started_at"] for run in recorded.named["the runs"]["runs"])


def test_what_fades_comes_the_soonest_first(recorded: Recording) -> None:
    answer = recorded.named["what fades"]
    assert answer["total"] == len(answer["fading"]) > 0
    instants = [one["fades_at"] for one in answer["fading"]]
    assert instants == sorted(instants)


def test_a_reflection_keeps_the_outcome_as_an_episode_and_names_what_is_open(recorded: Recording) -> None:
    reflection = recorded.named["a reflection"]
    assert {one["kind"]: one["text"] for one in reflection["kept"]} == {
        "procedure": "Mount the blue disk before the copy.",
        "episode": "Half of it is copied.",
    }
    assert {goal["text"] for goal in reflection["goals"]} == {"the backups are moved", "the disk is mounted"}


def test_every_declared_field_is_in_a_real_answer(recorded: Recording) -> None:
    parts = {part for declared in ANSWERS.values() for part in dataclasses_in(declared)}
    declared = {f"{part.__name__}.{name}" for part in parts for name in sent(part)}
    answered = {
        field
        for method, answers in recorded.answers.items()
        for answer in answers
        for field in seen(answer, ANSWERS[method])
    }
    assert answered == declared
