"""dreamctl from its arguments to its exit code, against a daemon that answers what it is told to."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd import __version__
from dreamd.daemon.cli import admin_commands as admin
from dreamd.daemon.cli import main
from dreamd.daemon.cli.arguments import since, until
from dreamd.daemon.cli.request import Bars, PlainLines
from dreamd.daemon.cli.write_commands import AGENTS_SHELLS
from dreamd.daemon.formatting import Look
from dreamd.ipc.call import Call
from dreamd.ipc.filter_params import BoundedFilter
from dreamd.ipc.protocol import NOT_FOUND, ProtocolError, Refused
from freezegun import freeze_time

from tests import answer_types
from tests.answer_types import faults
from tests.stand_in_daemon import StandIn

HIT = {
    "node_id": "k2m4", "level": "L1", "kind": "fact", "title": "Linz", "text": "The office is in Linz.", "score": 0.9,
    "channel": "work", "created_at": None, "evidence": [{"node_id": "s#1", "external_id": None}],
    "contradicts": [], "newer": [], "superseded_by": [], "stale_after": None, "confidence": 0.8, "certainty": 0.95,
    "speaker": "", "reply": "",
}  # fmt: skip
TOLD_COUNTS = {
    "texts": 1,
    "sessions": 1,
    "tokens": 12,
    "used": 1,
    "lost_starts": 0,
    "lost_prompts": 0,
    "cited": 4096,
    "by_moment": {"prompt": 12},
}
TOLD: dict[str, Any] = {
    "at": "2026-11-21T12:00:00+00:00", "session_id": "s1", "channel": "work", "agent": "codex", "moment": "prompt",
    "tokens": 12, "answered": True, "lost": "",
    "lines": [{"text": "The office is in Linz.", "node_id": "k2m4", "became": "used"}],
}  # fmt: skip
LISTED: dict[str, Any] = {
    "node_id": "k2m4", "level": "L1", "kind": "fact", "title": "Linz", "channel": "work", "created_at": None,
    "live": True, "curated": 0,
}  # fmt: skip
LINK = {"node_id": "m5n6", "title": "The office is in Graz.", "relation": "LinksTo", "out": False, "weight": 1.0}
SHOWN = {
    **LISTED, "text": "The office is in Linz.", "path": "facts/linz--k2m4.md", "tags": ["office"], "cited_by": [],
    "superseded_by": None, "supersedes": [], "later": [], "contradicts": [], "links": [LINK], "version": "3f2a",
    "certainty": 0.95, "provenance": "user_stated", "use": {"told": 2, "told_at": None, "used": 1, "again": 0},
    "evidence": [{"node_id": "s#1", "external_id": None}],
}  # fmt: skip
STATUS = {
    "extensions": [],
    "version": __version__, "pid": 4242, "protocol": 1, "uptime_s": 3.0, "vault": "/v", "files": 0, "turns": 0,
    "layout": "folders",
    "turns_purged": 0,
    "turns_forgotten": 0,
    "memories": {"L0": 0, "L1": 0, "L2": 0, "L3": 0}, "chunks": 0, "channels": {}, "pending_embeddings": 0,
    "embedding": {"model": "stub", "ready": True, "advice": ""},
    "query_cache": {"entries": 0, "hits": 0, "misses": 0},
    "server": {"name": "Qdrant", "state": "catching up", "waiting": 1200, "problem": ""},
    "sizes": {"vault": 0, "index": 0, "ledger": 0},
    "journal": 0, "not_found_yet": 0,
    "catching_up": False,
    "runs": 0, "paused": False, "channels_off": [],
    "transcripts": {"places": [], "active": [], "turns": 0, "backlog": None, "problem": ""},
    "watching": "on", "llm": None, "dream": None, "last_dream": None, "next_dream": None, "waiting_for": "",
    "told": TOLD_COUNTS, "answered": [], "broken_files": 0, "problems": [],
}  # fmt: skip


DREAM: dict[str, Any] = {
    "run_id": "r1", "state": "applied", "actions": {"consolidate": 3}, "seconds": 1.5, "conflicts": [], "note": "",
}  # fmt: skip
ANCHOR: dict[str, Any] = {
    "session_id": "s1", "channel": "work", "set_at": "2026-11-21T12:00:00+00:00", "task": "move the office to Graz",
    "plan": "docs/move.md", "decisions": ["in the spring"], "next_step": "ask the landlord", "ended_at": None,
    "asked": "", "edited": [], "failing": "",
}  # fmt: skip
GOAL: dict[str, Any] = {
    "goal_id": "goal-abcd2345", "session_id": "s1", "channel": "work", "text": "the lease is signed", "state": "active",
    "parent": None, "opened_at": "2026-11-21T12:00:00+00:00", "changed_at": "2026-11-21T12:00:00+00:00",
    "thread_since": "2026-11-21T13:00:00+00:00",
}  # fmt: skip
DIGEST: dict[str, Any] = {"date": "d", "path": "/v/d.md", "page": None, "text": "", "undone": []}
WHOLE = {"turns": 0, "left": 0, "forbidden": False}
TOOL_USE = {"tool": "Bash: make", "channel": "shop", "agent": "codex", "calls": 12, "failures": 3, "median_s": 4.5}
ENTRY: dict[str, Any] = {
    "entry_id": "9f" * 32, "author": "Ana <a@x>", "kind": "fact", "text": "The port is 8080.", "said_at": None,
    "quotes": [], "state": "released", "line": "", "released_to": ["host/a"], "sent_to": [],
}  # fmt: skip
TEAM_SYNCED: dict[str, Any] = {
    "project": "shop", "remote": "host/b", "pushed": False, "came": 0, "went": 0, "run_id": None, "refused": [],
    "notes": [], "unreleased": [],
}  # fmt: skip
ANSWERS: dict[str, Any] = {
    "hello": {"version": __version__, "pid": 4242, "protocol": 1},
    "status": STATUS,
    "recall": {
        "hits": [HIT],
        "abstained": False,
        "incomplete": False,
        "confidence": 0.8,
        "notes": ["12 chunks wait for their embedding"],
        "channel": "work",
        "elsewhere": [],
        "exact": [],
    },
    "context": {
        "text": "The office is in Linz.",
        "tokens": 9,
        "slots": [
            {
                "node_id": "k2m4",
                "text": "The office is in Linz.",
                "tokens": 9,
                "evidence": [],
                "contradicts": [],
            }
        ],
        "abstained": False,
        "incomplete": False,
        "confidence": 0.8,
        "notes": [],
        "channel": "work",
    },
    "entities": {"entities": [], "relations": [], "total": 0, "next": None},
    "entity_deny": {"node_id": "k2m4", "name": "Ana", "aliases": [], "run_id": "r4"},
    "brief": {
        "channel": "work",
        "text": "…",
        "sections": [
            {
                "heading": "Rules",
                "lines": ["- 2 Mar: “Never push on Fridays.”", "- 1 Mar: “Answers are short.”"],
                "nodes": ["k2m4", "k2m5"],
            },
            {"heading": "People", "lines": ["- 1 Mar: “Ines owns the office.”"], "nodes": ["k2m6"]},
        ],
    },
    "remember": {"node_id": "k2m4", "channel": "_global", "novelty": "new", "redacted": 0, "waits": False},
    "edit": {
        "node_id": "k2m4",
        "run_id": "r4",
        "version": "4e5f",
        "kind": "fact",
        "title": "Linz",
        "tags": [],
        "curated": 0,
        "redacted": 0,
    },
    "forget": {"node_id": "k2m4", "run_id": "r1", "also": []},
    "feedback": {"node_id": "k2m4", "verdict": "useful"},
    "link": {"source": "k2m4", "target": "m5n6", "relation": "RelatesTo", "run_id": "r3"},
    "tag": {"node_id": "k2m4", "tags": ["office", "linz"], "run_id": None},
    "anchor_get": {"anchor": ANCHOR, "text": "", "notes": []},
    "goals": {"channel": "work", "goals": [], "threads": [GOAL]},
    "goal_set": {**GOAL, "state": "completed"},
    "purge": {
        "run_id": "r2",
        "sessions": 1,
        "turns": 26,
        "memories": 9,
        "secrets": 0,
        "files_removed": 9,
        "files_changed": 5,
        "titles": ["christmas. customers can pre-order lussekatter and julekake through the shops.…"],
        "repeated_in": ["s2#13"],
        "copies": [],
        "traces": [],
        "out_of_reach": ["Backups and snapshots of the disk that others make are not reached."],
        "questions": 3,
        "items": [],
    },
    "show": {**SHOWN, "offset": 0, "next": None},
    "history": {
        "node_id": "k2m4",
        "events": [
            {
                "at": "2026-11-21T12:00:00+00:00",
                "what": "edited",
                "who": "you",
                "why": "a person edited it",
                "run_id": "r4",
            }
        ],
    },
    "list": {"memories": [LISTED], "next": 50},
    "import": {
        "sessions": 1,
        "turns_added": 2,
        "turns_known": 0,
        "turns_purged": 0,
        "notes": 0,
        "notes_known": 0,
        "remarks": [],
        "skipped_total": 0,
        "redacted": 0,
        "contents_left_out": 0,
        "skipped": [],
        "channels": ["work"],
    },
    "dream": DREAM,
    "dream_pause": {"run_id": "r1", "state": "paused"},
    "dream_resume": {"run_id": "r1", "state": "running"},
    "dream_cancel": {"run_id": "r1", "state": "cancelled"},
    "runs": {"runs": []},
    "redo": {"run_id": "r1", "redone": 2, "turns": 0, "left": 1, "conflicts": []},
    "undo": {"run_id": "r1", "restored": 2, **WHOLE, "conflicts": [], "already": False},
    "digest": {
        "date": "2026-11-21",
        "path": "/v/digests/2026-11-21.md",
        "text": "# Digest\n\nNothing new.\n",
        "page": None,
        "undone": [],
    },
    "review_list": {
        "decisions": [],
        "total": 0,
        "marks": [],
        "marks_total": 0,
        "waiting": [],
        "drafts": [],
        "leaks": [],
        "files": [],
    },
    "review_decide": {
        "decision_id": "d1",
        "run_id": "r9",
        "choice": "newer",
        "paths": [],
        "supersedes": [],
        "contradicts": [],
    },
    "decay_preview": {"days": 30, "most_a_night": 10, "total": 0, "fading": []},
    "restore": {"node_id": "k2m4", "run_id": "r2", "path": "facts/a.md", "beside": "x7"},
    "migrate": {"run_id": "r3", "moved": 2, "linked": 1, "left": [["facts/mine.md", "it is yours"]], "moves": []},
    "rebuild": {"files": 1, "nodes": 2, "chunks": 3, "embedded": 0, "seconds": 0.5},
    "check": {"problems": [], "settings_problems": []},
    "tools": {"tools": [TOOL_USE]},
    "told": {"texts": [TOLD], "counts": TOLD_COUNTS},
    "sync": {"written": 0, "read": 0, "turns": 0, "changed": 0, "run_id": None, "notes": [], "trouble": None},
    "team_sync": TEAM_SYNCED,
    "team_list": {"project": "shop", "author": "Ana <a@x>", "ref": "refs/x", "mine": [], "colleagues": []},
    "pause": {"paused": True},
    "resume": {"paused": False},
    "channel": {"channel": "work", "learning": False, "notes": []},
    "stop": {"stopping": True},
}


class FakeDaemon(StandIn):
    """A daemon that answers as these tests need it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, ANSWERS)


def test_the_status_of_a_daemon_from_before_an_update_is_shown() -> None:
    told = {name: number for name, number in TOLD_COUNTS.items() if name not in ("cited", "by_moment")}
    older = {name: part for name, part in STATUS.items() if name not in ("server", "layout")} | {"told": told}
    lines = admin.status_in_words(older, Look(80, colour=False, now=datetime.now(UTC)))
    assert any("12 tokens, 1 used" in line for line in lines)


@pytest.mark.parametrize(
    ("state", "problem", "says"),
    [
        ("in step", "", "Postgres answers"),
        ("catching up", "", "Postgres is catching up; 1,200 chunks to be sent; the index answers meanwhile"),
        (
            *("away", "Postgres cannot be used now: it took too long"),
            "Postgres cannot be used now: it took too long; 1,200 chunks to be sent; the index answers meanwhile",
        ),
        (
            *("away", "psycopg is not installed"),
            "Postgres is away: psycopg is not installed; 1,200 chunks to be sent; the index answers meanwhile",
        ),
    ],
)
def test_a_status_says_in_words_what_the_server_does(state: str, problem: str, says: str) -> None:
    waiting = 0 if state == "in step" else 1200
    server = {"name": "Postgres", "state": state, "waiting": waiting, "problem": problem}
    assert admin.server_in_words(server) == says


@pytest.mark.parametrize(
    ("moment", "lost", "says"),
    [
        ("prompt", "late", "too late; the prompt is kept, and"),
        ("prompt", "no daemon", "dreamd was away, and did not hear it; it is not sent again, and is kept only if"),
        ("prompt", "not delivered", "dreamd was too busy, and did not hear it; it is not sent again"),
        ("prompt", "failed", "failed"),
        ("start", "late", "too late"),
    ],
)
def test_told_says_whether_a_prompt_is_kept_that_got_no_answer(moment: str, lost: str, says: str) -> None:
    said = admin.lost_in_words(TOLD | {"moment": moment, "lost": lost, "lines": []})
    assert said.startswith(says)
    assert ("kept" in said) is (moment == "prompt" and lost != "failed")


def test_what_is_answered_here_is_of_the_daemon_s_types() -> None:
    found = [fault for name, answer in ANSWERS.items() for fault in faults(answer, answer_types.ANSWERS[name], name)]
    assert found == []


@pytest.fixture
def socket_path(monkeypatch: pytest.MonkeyPatch, socket_folder: Path) -> Path:
    monkeypatch.setenv("DREAMD_SOCKET", str(socket_folder / "dreamd.sock"))
    return socket_folder / "dreamd.sock"


@pytest.fixture
def daemon(socket_path: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(socket_path)
    yield fake
    fake.close()


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def type_in(*words: str) -> tuple[int, str, str]:
        code = main.main(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return type_in


EVERY_COMMAND = [
    ("status",), ("recall", "office"), ("context", "office"), ("brief",), ("show", "k2m4"), ("list",),
    ("remember", "a"), ("forget", "k2m4"), ("import", "/x"), ("dream",), ("dream", "weekly", "--dry-run"),
    ("runs",), ("undo", "r1"), ("redo", "r1"), ("digest",), ("review",), ("decay", "--preview"), ("restore", "k2m4"),
    ("rebuild",), ("migrate",), ("check",), ("pause",), ("resume",), ("channel", "work", "off"), ("version",),
    ("feedback", "k2m4", "useful"), ("purge", "--probes"), ("purge", "k2m4", "--yes"),
    ("purge", "--matching", "a word", "--dry-run"),
    ("remember", "a", "--always", "--priority", "9"), ("list", "--always"),
    ("link", "k2m4", "m5n6"), ("tag", "k2m4", "linz"), ("edit", "k2m4", "--text", "b"),
    ("history", "k2m4"), ("recall", "--like", "k2m4"),
    ("anchor",), ("goals",), ("told",), ("tools",),
    ("goals", "--complete", "goal-abcd2345"),
    ("sync",), ("sync", "team"), ("review", "--shared"),
]  # fmt: skip


@pytest.mark.parametrize("words", EVERY_COMMAND, ids=" ".join)
def test_every_command_answers_in_words_and_in_one_json_document(
    daemon: FakeDaemon, run: Run, words: tuple[str, ...]
) -> None:
    code, out, err = run(*words)
    assert code == 0, err
    assert out.strip() or err.strip()
    assert all(len(line) <= 80 for line in (out + err).splitlines())
    for each in (("--json", *words), (*words, "--json")):
        code, out, err = run(*each)
        assert code == 0
        assert isinstance(json.loads(out), dict)
        assert err == ""


@pytest.mark.parametrize(
    "words", [words for words in EVERY_COMMAND if words[0] not in ("check", "version")], ids=" ".join
)
def test_without_a_daemon_every_command_says_how_to_start_one(
    socket_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("dreamd.ipc.client.RETRY_S", 1.0)
    code, out, err = run(*words)
    assert (code, out) == (3, "")
    assert "No daemon answers" in err
    assert "Start it with `dreamd`" in err
    code, out, err = run(*words, "--json")
    assert (code, out) == (3, "")
    assert "dreamd" in json.loads(err)["error"]["hint"]


def test_recall_says_what_it_found_and_where_from(daemon: FakeDaemon, run: Run) -> None:
    code, out, err = run(
        "recall", "where is", "the office?", "--limit", "3", "--level", "L1", "--level", "L0", "--channel", "*"
    )
    asked = {"query": "where is the office?", "limit": 3, "levels": ["L1", "L0"], "channel": "*"}
    assert daemon.asked == [("recall", asked)]
    assert out == "L1 fact · undated · work · confidence 0.80  k2m4\n  The office is in Linz.\n  from s#1\n"
    assert err == "12 chunks wait for their embedding.\n"
    assert code == 0


def test_recall_names_the_colleague_who_said_it(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["recall"] = {**ANSWERS["recall"], "hits": [{**HIT, "speaker": "colleague Ines"}, HIT]}
    lines = run("recall", "office")[1].splitlines()
    assert (lines[0], lines[4]) == (
        "L1 fact · undated · colleague Ines · work · confidence 0.80  k2m4",
        "L1 fact · undated · work · confidence 0.80  k2m4",
    )


def test_a_sync_that_reaches_no_remote_is_exit_code_1(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["sync"] = {**ANSWERS["sync"], "trouble": "The remote cannot be used."}
    code, out, _ = run("sync")
    assert (code, "What changed here waits" in out) == (1, True)
    assert run("sync", "--json")[0] == 1


def test_what_stays_here_of_a_team_is_named_and_goes_when_its_person_says_so(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["team_sync"] = {**TEAM_SYNCED, "unreleased": [ENTRY]}
    code, out, _ = run("sync", "team")
    said = " ".join(out.split())
    assert (code, "1 entry of yours stayed here" in said, "- 9f9f9f9f The port is 8080." in said) == (0, True, True)
    assert "same command with --release" in said
    daemon.asked.clear()
    assert "- 9f9f9f9f The port is 8080." in run("sync", "team", "--release")[1]
    assert [asked.get("release") for _, asked in daemon.asked] == [None, [ENTRY["entry_id"]]]


def test_what_is_shared_is_listed_with_its_places(daemon: FakeDaemon, run: Run) -> None:
    sent = {**ENTRY, "state": "shared", "released_to": ["host/a", "host/b"], "sent_to": ["host/b"]}
    daemon.answers["team_list"] = {**ANSWERS["team_list"], "mine": [ENTRY, sent, {**ENTRY, "released_to": []}]}
    states = [line for line in run("review", "--shared")[1].splitlines() if line.startswith("9f9f")]
    assert states == [
        "9f9f9f9f  yours; released to host/a, not sent yet",
        "9f9f9f9f  yours; sent to host/b; released to host/a, not sent yet",
        "9f9f9f9f  yours; released to no place yet",
    ]


def test_the_table_of_a_team_is_printed_without_a_daemon(run: Run) -> None:
    code, out, _ = run("sync", "team", "--table")
    assert (code, out.startswith("CREATE SCHEMA"), out.endswith(";\n")) == (0, True, True)
    assert "CREATE POLICY authors_add" in out


def test_a_part_of_a_run_is_undone_and_done_again(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["undo"] = {**ANSWERS["undo"], "restored": 1, "left": 2}
    code, out, _ = run("undo", "r1", "--item", "k2m4", "--item", "m5n6")
    assert daemon.asked == [("undo", {"run_id": "r1", "items": ["k2m4", "m5n6"]})]
    assert (code, out) == (0, "Run r1 is undone in part: 1 file as before.\n")
    assert run("redo", "r1")[:2] == (0, "Run r1 is done again: 2 files; 1 of its changes stay undone.\n")
    daemon.answers["redo"] = {**ANSWERS["redo"], "redone": 0}
    assert run("redo", "r1")[:2] == (4, "Nothing of run r1 is undone.\n")


def test_a_text_is_edited_in_the_person_s_editor(
    daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    for mark in AGENTS_SHELLS:
        monkeypatch.delenv(mark, raising=False)
    monkeypatch.setenv("EDITOR", "sed -i s/Linz/Graz/")
    code, out, _ = run("edit", "k2m4")
    edited = {"node_id": "k2m4", "text": "The office is in Graz.", "if_version": "3f2a"}
    assert (code, daemon.asked[-1]) == (0, ("edit", edited))
    assert "`dreamctl undo r4` takes it back." in out
    monkeypatch.setenv("EDITOR", "true")
    code, _, err = run("edit", "k2m4")
    assert (code, daemon.asked[-1][0], err) == (0, "show", "k2m4 is left as it is.\n")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("EDITOR", "sed -i s/Linz/Graz/")
    daemon.answers["edit"] = ProtocolError("it has changed", "Look at it.")
    code, _, err = run("edit", "k2m4")
    (kept,) = tmp_path.glob("dreamctl-*.md")
    assert (code, kept.read_text()) == (1, "The office is in Graz.\n")
    assert "Your text is kept in" in err


def test_without_a_page_here_it_is_said_where_to_look(daemon: FakeDaemon, run: Run) -> None:
    code, out, _ = run("entities")
    assert code == 4
    assert "NODE" not in out
    assert "`dreamctl entities --channel '*'`" in " ".join(out.split())


def test_a_relation_is_denied_by_a_name(daemon: FakeDaemon, run: Run) -> None:
    assert run("deny", "Ana", "Ana owns billing", "--channel", "work")[0] == 0
    assert daemon.asked[-1] == ("entity_deny", {"node_id": "Ana", "relation": "Ana owns billing", "channel": "work"})


def test_a_briefing_is_printed_by_its_sections(daemon: FakeDaemon, run: Run) -> None:
    code, out, _ = run("brief", "--channel", "work")
    assert daemon.asked == [("brief", {"channel": "work"})]
    assert out == (
        "Rules\n- 2 Mar: “Never push on Fridays.”\n- 1 Mar: “Answers are short.”\n"
        "\nPeople\n- 1 Mar: “Ines owns the office.”\n"
    )
    assert code == 0
    daemon.answers["brief"] = {"channel": "work", "text": "", "sections": []}
    assert run("brief") == (4, "A session starts with nothing here yet.\n", "")


def test_options_become_the_filter_of_the_wire(daemon: FakeDaemon, run: Run) -> None:
    narrowed = ("--where", "kind=decision, fact", "--where", "tags", "--any", "entity=Ines", "--not", "agent=codex")
    times = ("--since", "2026-11-01T09:00:00+00:00", "--until", "2026-11-03T09:00:00+00:00")
    expected = {
        "must": [
            {"field": "kind", "in": ["decision", "fact"]},
            {"field": "tags", "exists": True},
            {"field": "time", "range": {"gte": "2026-11-01T09:00:00+00:00", "lt": "2026-11-03T09:00:00+00:00"}},
            {"field": "level", "eq": "L1"},
        ],
        "should": [{"field": "entity", "in": ["Ines"]}],
        "must_not": [{"field": "agent", "in": ["codex"]}],
    }
    for command in (("recall", "office"), ("context", "office"), ("list",)):
        run(*command, *narrowed, *times, "--filter", '{"field": "level", "eq": "L1"}')
        assert daemon.asked[-1][1]["filter"] == expected
        BoundedFilter.model_validate(expected)
    run("recall", "office", "--as-of", "2026-11-01", "--archived")
    asked = daemon.asked[-1][1]
    assert datetime.fromisoformat(asked["as_of"]) == datetime(2026, 11, 1, 23, 59, 59).astimezone()
    assert asked["include_archived"] is True
    assert "filter" not in asked
    run("list", "--since", "yesterday", "--until", "today")
    days = daemon.asked[-1][1]["filter"]["must"][0]["range"]
    assert datetime.fromisoformat(days["lt"]) - datetime.fromisoformat(days["gte"]) == timedelta(days=2)
    for length, minutes in (("5m", 5), ("3h", 180), ("2d", 2 * 24 * 60), ("1w", 7 * 24 * 60)):
        run("recall", "office", "--since", length)
        at = datetime.fromisoformat(daemon.asked[-1][1]["filter"]["must"][0]["range"]["gte"])
        assert timedelta(0) <= datetime.now().astimezone() - at - timedelta(minutes=minutes) < timedelta(minutes=1)
    run("recall", "office", "--filter", '{"field": "kind", "eq": "note"}')
    assert daemon.asked[-1][1]["filter"] == {"field": "kind", "eq": "note"}


def test_without_a_channel_the_request_names_this_folder(
    daemon: FakeDaemon, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for command in ("recall", "context"):
        _, _, err = run(command, "office")
        assert "Looked in work and what is read with it; --channel '*' looks everywhere.\n" in err
        assert daemon.asked[-1] == (command, {"query": "office", "cwd": str(tmp_path)})
        _, _, err = run(command, "office", "--channel", "work")
        assert "Looked in" not in err
        assert daemon.asked[-1] == (command, {"query": "office", "channel": "work"})
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    run("recall", "office")
    assert daemon.asked[-1] == ("recall", {"query": "office"})


def test_hits_of_other_channels_are_shown_under_their_names(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["recall"] = {
        **ANSWERS["recall"],
        "hits": [],
        "abstained": True,
        "elsewhere": [{"channel": "home", "hits": [HIT]}],
    }
    code, out, err = run("recall", "office")
    assert out.startswith("Elsewhere, in home:\n\nL1 fact")
    assert err.startswith("Nothing that is remembered here answers this.")
    assert code == 0


def test_a_channel_that_holds_nothing_is_warned_of(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["channel"] = {"channel": "wrk", "learning": False, "notes": ["nothing is kept in `wrk` yet"]}
    assert run("channel", "wrk", "off") == (0, "Learning in wrk is off.\n", "Nothing is kept in `wrk` yet.\n")


def test_nothing_found_is_exit_code_4(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["recall"] = {**ANSWERS["recall"], "hits": [], "abstained": True}
    daemon.answers["context"] = {**ANSWERS["context"], "text": "", "tokens": 0, "slots": [], "abstained": True}
    daemon.answers["digest"] = ProtocolError("there is no digest yet", "A dream writes one.", NOT_FOUND)
    for words in (("recall", "x"), ("context", "x"), ("digest",)):
        code, out, err = run(*words)
        assert (code, out) == (4, "")
        assert err
    code, out, err = run("recall", "x", "--json")
    assert code == 4
    assert json.loads(out)["abstained"]
    for method, said in (
        ("recall", "Nothing is found yet that answers"),
        ("context", "Nothing is found yet that belongs"),
    ):
        daemon.answers[method] |= {"incomplete": True}
        assert run(method, "x")[2].startswith(said)


def test_an_error_of_the_daemon_is_exit_code_1_with_its_hint(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["dream"] = Refused("a dream is running", "wait for it")
    assert run("dream") == (1, "", "dreamctl: A dream is running.\nWait for it.\n")
    code, out, err = run("dream", "--json")
    assert (code, out) == (1, "")
    assert json.loads(err) == {"error": {"code": -32009, "message": "a dream is running", "hint": "wait for it"}}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("statsu",), "did you mean `dreamctl status`?"),
        (("--verbose",), "no option --verbose"),
        (("recall",), "give words to look for"),
        (("recall", "x", "--limit", "many"), "no whole number"),
        (("recall", "x", "--limit", "0"), "not between 1 and 1,000"),
        (("context", "x", "--budget", "0"), "not between 1 and 100,000"),
        (("list", "--limit", "1001"), "not between 1 and 1,000"),
        (("digest", "2026-1"), "'2026-1' is no day like 2026-11-21"),
        (("recall", "x", "--where", "kin=fact"), "there is no field 'kin'; there are level, kind,"),
        (("recall", "x", "--where", "time=2026"), "for time --since and --until"),
        (("list", "--not", "kind="), "names no value, such as kind=A or kind=A,B"),
        (("list", "--since", "soonish"), "'soonish' is no time: give a day like 2026-11-21"),
        (("recall", "x", "--where", "kind=decison"), "there is no kind 'decison'; did you mean decision?"),
        (("list", "--not", "level=L9"), "there is no level 'L9'; one of L0, L1, L2, L3"),
        (("remember", " "), "there is nothing to keep"),
        (("context", "x", "--filter", "kind"), "it is not JSON"),
        (("context", "x", "--filter", "[]"), "it is not a JSON object"),
        (("recall", "x", "--lim", "3"), "unrecognized arguments"),
        (("channel", "work", "maybe"), "invalid choice"),
        (("status", "now"), "unrecognized arguments"),
        (("dream", "monthly"), "invalid choice"),
    ],
)
def test_a_bad_command_line_is_exit_code_2(run: Run, words: tuple[str, ...], says: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert says.lower() in err.lower()
    code, out, err = run(*words, "--json")
    assert (code, out) == (2, "")
    error = json.loads(err)["error"]
    assert says.lower() in f"{error['message']} {error['hint']}".lower()


@freeze_time("2026-11-23T12:00:00Z")
@pytest.mark.parametrize(
    ("named", "first", "last"),
    [
        ("May", "2026-05-01", "2026-06-01"),
        ("last week", "2026-11-16", "2026-11-23"),
        ("letzte Woche", "2026-11-16", "2026-11-23"),
        ("October 2026", "2026-10-01", "2026-11-01"),
    ],
)
def test_a_filter_s_time_may_be_said_as_in_a_question(named: str, first: str, last: str) -> None:
    assert (since(named)[:10], until(named)[:10]) == (first, last)


def test_examples_of_a_filter_are_whole_commands(daemon: FakeDaemon, run: Run) -> None:
    for command, text in (("recall", "TEXT "), ("context", "TEXT "), ("list", "")):
        examples = run(command, "--help")[1].partition("examples:")[2]
        shown = [shlex.split(line) for line in examples.splitlines() if line.strip().startswith("dreamctl")]
        assert len(shown) == 5
        for words in shown:
            assert words[:2] == ["dreamctl", command]
            assert ("TEXT" in words) is bool(text)
            assert run(*words[1:])[0] in (0, 4)


def test_help_names_every_command_and_each_has_its_own(run: Run) -> None:
    assert run()[0] == 2
    for words in (("--help",), ("-h",), ("help",)):
        code, out, _ = run(*words)
        assert code == 0
        assert all(f"\n  {name} " in out for name in main.COMMANDS)
        assert all(len(line) <= 80 for line in out.splitlines())
    for name in main.COMMANDS:
        for pair in ((name, "--help"), ("help", name)):
            code, out, _ = run(*pair)
            assert code == 0
            assert out.startswith(f"usage: dreamctl {name}")


def test_show_puts_the_pages_together(daemon: FakeDaemon, run: Run) -> None:
    pages = iter(
        [
            {**SHOWN, "text": "The office ", "offset": 0, "next": 11},
            {**SHOWN, "text": "is in Linz.", "offset": 11, "next": None},
        ]
        * 2
    )
    daemon.answers["show"] = lambda call: next(pages)
    code, out, _ = run("show", "k2m4")
    assert code == 0
    assert "The office is in Linz." in out
    assert "facts/linz--k2m4.md" in out
    assert "#office" in out
    assert "linked from  m5n6 The office is in Graz." in out
    assert [asked.get("offset") for _, asked in daemon.asked] == [None, 11]
    assert json.loads(run("show", "k2m4", "--json")[1])["text"] == "The office is in Linz."


def test_a_list_of_several_channels_names_them(daemon: FakeDaemon, run: Run) -> None:
    assert "channel" not in run("list")[1]
    daemon.answers["list"] = {"memories": [LISTED, LISTED | {"channel": "home"}], "next": None}
    assert all(name in run("list")[1] for name in ("channel", "work", "home"))


def test_a_list_says_what_does_not_simply_hold(daemon: FakeDaemon, run: Run) -> None:
    assert "state" not in run("list")[1]
    daemon.answers["list"] = {"memories": [LISTED, LISTED | {"live": False, "state": "replaced"}], "next": None}
    head, holds, replaced = run("list")[1].splitlines()
    assert head.split() == ["node", "level", "kind", "when", "state", "title"]
    assert holds.split() == ["k2m4", "L1", "fact", "undated", "Linz"]
    assert replaced.split() == ["k2m4", "L1", "fact", "undated", "replaced", "Linz"]


def test_list_counts_tags(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["list"] = {"memories": [], "next": None, "tags": [{"tag": "office", "memories": 12}]}
    code, out, _ = run("list", "--tags", "--channel", "work")
    assert daemon.asked == [("list", {"channel": "work", "tags": True})]
    assert (code, out.split()) == (0, ["tag", "memories", "#office", "12"])


def test_remember_reads_standard_input(daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("Die Tür ist grün.\n".encode())))
    code, out, _ = run("remember", "-", "--kind", "fact", "--tag", "a", "--tag", "b")
    assert (code, out) == (0, "Remembered as k2m4 in _global, for all projects.\n")
    said = {"text": "Die Tür ist grün.", "kind": "fact", "tags": ["a", "b"], "cwd": str(Path.cwd())}
    assert daemon.asked[:1] == [("remember", said)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"channel": "shop-1a2b3c"}, "Remembered as k2m4 in shop-1a2b3c.\n"),
        ({"redacted": 2}, "2 secrets were not kept: [redacted].\n"),
        ({"novelty": "known"}, "Known already, as k2m4 in _global"),
        ({"novelty": "again"}, "it holds again"),
        ({"waits": True}, "`dreamctl review`, and is quoted until then"),
    ],
)
def test_remember_says_what_is_known_of_it(
    daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object], said: str
) -> None:
    daemon.answers["remember"] = ANSWERS["remember"] | answer
    assert said in " ".join(run("remember", "Bread")[1].split(" "))


def test_remember_for_all_names_the_global_channel(daemon: FakeDaemon, run: Run) -> None:
    run("remember", "Bread", "--global")
    assert daemon.asked[:1] == [("remember", {"text": "Bread", "channel": "_global"})]
    assert run("remember", "Bread", "--global", "--channel", "shop")[0] == 2


def test_remember_says_what_it_replaces_and_disputes(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["show"] = ANSWERS["show"] | {"supersedes": ["m5n6"], "contradicts": ["p7q8"]}
    out = run("remember", "The office is in Graz.", "--global")[1]
    assert "It replaces m5n6: The office is in Linz.\nIt disputes p7q8: The office is in Linz.\n" in out
    assert daemon.asked[1] == ("show", {"node_id": "k2m4", "linked": True})


def test_words_after_a_double_dash_are_text(daemon: FakeDaemon, run: Run) -> None:
    assert (
        run("remember", "--", "--json", "is", "an", "option")[1] == "Remembered as k2m4 in _global, for all projects.\n"
    )
    assert daemon.asked[0][1]["text"] == "--json is an option"


def test_import_sends_absolute_paths(
    daemon: FakeDaemon, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("import", "a.jsonl", "/b", "--format", "chat-jsonl")
    assert code == 0
    assert out == "Took 2 new turns from 1 session.\nChannel: work.\n"
    assert daemon.asked[0][1] == {"paths": [str(tmp_path / "a.jsonl"), "/b"], "format": "chat-jsonl"}


def test_a_bar_shows_each_stage_and_why_it_stands_still(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars()
    bars({"stage": "read", "done": 10, "total": 40, "note": ""})
    bars({"stage": "embed", "done": 3, "total": 0, "note": "paused: an agent asks"})
    bars.close()
    drawn = [line.rstrip() for line in capsys.readouterr().err.replace("\r", "\n").splitlines()]
    assert any(line.startswith("read ") and "10/40" in line for line in drawn)
    assert any(line.startswith("read ") and "40/40" in line for line in drawn), "its last message may not have come"
    assert any(line.startswith("embed ") and line.endswith("paused: an agent asks") for line in drawn)


def test_progress_is_plain_lines_where_nobody_watches_and_silent_beside_json(daemon: FakeDaemon, run: Run) -> None:
    def work(call: Call) -> dict[str, Any]:
        call.progress("read", 1, 4)
        call.progress("read", 4, 4)
        return {"files": 1, "nodes": 2, "chunks": 3, "embedded": 0, "seconds": 0.5}

    daemon.answers["rebuild"] = work
    code, _, err = run("rebuild")
    assert code == 0
    assert err.splitlines()[-1] == "Rebuilding: read 4/4"
    assert run("rebuild", "--json")[2] == ""


def test_a_document_on_a_terminal_commands_nothing_and_says_the_same(
    daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_of = {
        "run_id": "r1", "kind": "daily", "state": "applied", "note": "C1 \x9b31m, bidi \u202e, DEL \x7f, Ü 🐘",
        "started_at": "2026-11-21T09:00:00+00:00", "seconds": 1.0, "created": 1, "replaced": 0, "deleted": 0,
        "about": "",
    }  # fmt: skip
    daemon.answers["runs"] = {"runs": [run_of]}
    piped = run("runs", "--json")[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = run("runs", "--json")[1]
    assert not re.search("[\x7f-\x9f\u202e]", shown)
    assert "Ü 🐘" in shown
    assert json.loads(shown) == json.loads(piped)


def test_a_dream_is_paused_resumed_and_cancelled(daemon: FakeDaemon, run: Run) -> None:
    assert run("dream", "pause")[1] == "The dream r1 is paused. `dreamctl dream resume` resumes it.\n"
    assert run("dream", "resume")[1] == "The dream r1 is resumed.\n"
    assert run("dream", "cancel")[1] == "The dream r1 was cancelled; nothing was changed.\n"
    assert json.loads(run("dream", "cancel", "--json")[1])["state"] == "cancelled"
    assert [method for method, _ in daemon.asked if method.startswith("dream")] == [
        *("dream_pause", "dream_resume", "dream_cancel", "dream_cancel")
    ]


def test_a_dream_that_gives_way_says_so_once_and_when_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines("Dreaming")
    for note in ("", "paused: an agent is at work", "paused: an agent is at work", "goes on", ""):
        lines({"stage": "consolidate", "done": 1, "total": 4, "note": note})
    assert capsys.readouterr().err.splitlines() == [
        "Dreaming: consolidate 1/4",
        "Dreaming: paused: an agent is at work",
        "Dreaming: goes on",
    ]


def test_work_without_a_count_names_what_it_is_at(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines("Importing")
    lines({"stage": "reading", "done": 0, "total": 0, "note": "notes.md"})
    assert capsys.readouterr().err == "Importing: reading notes.md\n"


def test_a_dream_that_stands_still_says_why_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines("Dreaming")
    for note in ("", "waits for the processor (3%)", "waits for the processor (5%)", "facts 3 of 9"):
        lines({"stage": "drift", "done": 1, "total": 9, "note": note})
    assert capsys.readouterr().err.splitlines() == [
        "Dreaming: drift 1/9",
        "Dreaming: waits for the processor (3%)",
        "Dreaming: goes on",
    ]


def test_a_dream_that_was_given_up_is_no_success(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["dream"] = {**DREAM, "state": "preempted", "note": "an agent is at work"}
    code, out, _ = run("dream", "--wait")
    assert code == 1
    assert "gave way" in out
    assert "An agent is at work." in out


def test_check_without_a_daemon_looks_at_the_settings(
    socket_path: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "dreamd.toml"
    monkeypatch.setenv("DREAMD_CONFIG", str(settings))
    settings.write_text("[ipc]\nthreads = 2\n")
    code, out, err = run("check")
    assert (code, out) == (0, "No problems.\n")
    assert "not looked at" in err
    settings.write_text("[ipc]\nthread = 2\n")
    code, out, _ = run("check")
    assert code == 1
    assert "ipc.thread" in out
    document = json.loads(run("check", "--json")[1])
    assert document["settings_problems"]
    assert "daemon" in document


def test_check_s_problems_are_exit_code_1(daemon: FakeDaemon, run: Run) -> None:
    problem = {"path": "facts/a.md", "problem": "the frontmatter is no YAML", "severity": "warning"}
    daemon.answers["check"] = {"problems": [problem], "settings_problems": []}
    code, out, _ = run("check")
    assert (code, out) == (1, "warning: facts/a.md: The frontmatter is no YAML.\n")


def test_an_undo_that_brings_nothing_back_says_so(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["undo"] = {
        "run_id": "r1",
        "restored": 0,
        **WHOLE,
        "conflicts": [],
        "already": False,
    }
    assert run("undo", "r1")[:2] == (4, "Nothing of run r1 can come back: it changed no file, or that was purged.\n")


def test_an_undo_names_the_turns_that_are_found_again(daemon: FakeDaemon, run: Run) -> None:
    undone = {"run_id": "r1", "restored": 0, "turns": 1, "left": 0, "forbidden": False}
    daemon.answers["undo"] = {**undone, "conflicts": [], "already": False}
    assert run("undo", "r1")[:2] == (0, "Run r1 is undone: 1 turn found again.\n")


def test_an_undo_of_a_dream_says_that_none_proposes_it_again(daemon: FakeDaemon, run: Run) -> None:
    undone = {"run_id": "r1", "restored": 3, "turns": 0, "left": 0, "forbidden": True}
    daemon.answers["undo"] = {**undone, "conflicts": [], "already": False}
    said = " ".join(run("undo", "r1")[1].split())
    assert "No dream proposes again what was undone" in said
    assert "`dreamctl remember TEXT`" in said
    assert "No dream proposes again" in " ".join(run("undo", "--help")[1].split())


def test_an_undo_with_conflicts_is_exit_code_1(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["undo"] = {
        "run_id": "r1",
        "restored": 1,
        **WHOLE,
        "conflicts": [{"path": "facts/a.md", "reason": "edited"}],
        "already": False,
    }
    code, out, _ = run("undo", "r1")
    assert code == 1
    assert "facts/a.md: edited" in out


def test_an_old_daemon_is_warned_of(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["hello"] = {"version": "0.0.1", "pid": 4242, "protocol": 1}
    code, _, err = run("pause")
    assert code == 0
    assert "0.0.1" in err
    assert run("pause", "--json")[2] == ""


def test_version_with_and_without_a_daemon(socket_path: Path, run: Run) -> None:
    assert run("--version")[:2] == (0, f"dreamd {__version__} (not running)\n")
    fake = FakeDaemon(socket_path)
    assert run("version")[1] == f"dreamd {__version__} (running as {__version__}, pid 4242)\n"
    fake.close()


def test_stop_waits_until_the_daemon_has_ended(daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE)
    assert process.stdin is not None
    daemon.answers["hello"] = {"version": __version__, "pid": process.pid, "protocol": 1}
    monkeypatch.setattr(admin, "STOP_TIMEOUT_S", 0.1)
    code, _, err = run("stop")
    assert code == 1
    assert "still finishing" in err
    monkeypatch.setattr(admin, "STOP_TIMEOUT_S", 20)
    process.stdin.close()  # it ends, and nobody has waited for it yet
    assert run("stop")[:2] == (0, "The daemon has stopped.\n")
    process.wait()


def dreamctl(*words: str, **options: Any) -> subprocess.Popen[str]:
    """Run it as a terminal would, where Ctrl-C counts, also when the tests run in the background of a script."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from dreamd.daemon.cli.main import main; sys.exit(main())"
    )
    return subprocess.Popen(
        (sys.executable, "-c", code, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def test_ctrl_c_takes_the_question_back(daemon: FakeDaemon) -> None:
    began, told = threading.Event(), threading.Event()

    def work(call: Call) -> dict[str, Any]:
        call.on_cancel(told.set)
        began.set()
        told.wait(20)
        return {}

    daemon.answers["import"] = work
    with dreamctl("import", "/x") as process:
        assert began.wait(20)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 130
        assert err == "dreamctl: Cancelled.\n"
    assert told.wait(10)


def test_a_closed_stdout_is_no_error(daemon: FakeDaemon) -> None:
    left = threading.Event()

    def late(call: Call) -> dict[str, Any]:
        assert left.wait(20)
        return {**DIGEST, "text": "line\n" * 1000}

    daemon.answers["digest"] = late
    with dreamctl("digest") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        left.set()
        assert process.stderr.read() == ""
    assert process.returncode == main.BROKEN_PIPE


def test_what_the_terminal_cannot_write_is_replaced(daemon: FakeDaemon) -> None:
    daemon.answers["digest"] = {**DIGEST, "text": "grün – 日本 \ud800"}
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    with dreamctl("digest", env=environ, encoding="latin-1") as process:
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "grün ? ?? ?\n", "")
    with dreamctl("digest", "--json", env=environ, encoding="latin-1") as process:
        assert json.loads(process.communicate(timeout=20)[0])["text"] == "grün – 日本 \ud800"


def test_a_thin_command_loads_the_standard_library_alone(daemon: FakeDaemon) -> None:
    code = (
        "import sys; from dreamd.daemon.cli.main import main; code = main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    for words in (("status",), ("recall", "x"), ("remember", "x"), ("context", "x")):
        done = subprocess.run((sys.executable, "-c", code, *words), capture_output=True, text=True, check=True)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert not loaded & {"pydantic", "tqdm", "numpy", "apsw", "loguru", "asyncio", "platformdirs", "inspect"}, words


DECISION = {
    "decision_id": "d1",
    "mark": None,
    "older": {
        "node_id": "a1", "path": "facts/a.md", "title": "Oslo", "text": "The office is in Oslo.", "channel": "work",
        "since": "2026-01-02T09:00:00+00:00",
        "evidence": [{"node_id": "s1#1", "role": "user", "at": None, "text": "we sit in Oslo"}],
    },
    "newer": {
        "node_id": "b2", "path": "facts/b.md", "title": "Bergen", "text": "The office is in \x1b[31mBergen.",
        "channel": "work", "since": "2026-11-20T09:00:00+00:00", "evidence": [],
    },
}  # fmt: skip
LEAK = {"node_id": "n1", "path": "notes/keys.md", "kinds": "github"}


@pytest.fixture
def reviewing(daemon: FakeDaemon) -> FakeDaemon:
    daemon.answers["review_list"] = {**ANSWERS["review_list"], "decisions": [DECISION], "total": 1, "leaks": [LEAK]}
    daemon.answers["review_decide"] = {
        "decision_id": "d1",
        "run_id": "r9",
        "choice": "newer",
        "paths": [],
        "supersedes": [],
        "contradicts": [],
    }
    return daemon


def test_review_shows_both_sides_with_their_evidence(reviewing: FakeDaemon, run: Run) -> None:
    code, out, _ = run("review", "--list")
    assert code == 0
    for told in ("d1", "OLDER", "Oslo.", "we sit in Oslo", "NEWER", "Bergen.", "--keep", "notes/keys.md: github"):
        assert told in out
    assert "\x1b[31m" not in out
    assert json.loads(run("review", "--json")[1])["decisions"][0]["decision_id"] == "d1"


def test_review_lists_every_mark_and_says_how_one_is_taken_back(daemon: FakeDaemon, run: Run) -> None:
    marks = [DECISION | {"decision_id": f"m{n}", "mark": "replaced" if n else "likely"} for n in range(130)]
    daemon.answers["review_list"] = {**ANSWERS["review_list"], "marks": marks, "marks_total": 130}
    code, out, _ = run("review")
    assert code == 0
    assert out.startswith("No decision waits.")
    for said in ("130 statements", "LIKELY CHANGED", "REPLACED", "BY", "Bergen.", "--keep both", "110 more"):
        assert said in out
    assert "m129" not in out
    assert "m129" in run("review", "--list")[1]
    assert run("review", "m129")[1].count("REPLACED") == 1


def test_review_pages_through_the_marks(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["review_list"] = {
        **ANSWERS["review_list"],
        "marks": [DECISION | {"mark": "likely"}],
        "marks_total": 2,
    }
    assert run("review")[1].count("LIKELY CHANGED") == 1
    assert run("review", "--list")[1].count("LIKELY CHANGED") == 2
    assert daemon.asked[-1] == ("review_list", {"offset": 1})


def test_review_settles_one_without_a_terminal(reviewing: FakeDaemon, run: Run) -> None:
    code, out, _ = run("review", "d1", "--keep", "newer", "--by", "ann")
    assert (code, out) == (0, "The newer one holds. `dreamctl undo r9` takes that back.\n")
    assert reviewing.asked[-1] == ("review_decide", {"decision": "d1", "keep": "newer", "by": "ann"})
    run("review", "d1", "--edit", "It is in Tromsø.")
    assert reviewing.asked[-1] == ("review_decide", {"decision": "d1", "keep": "edit", "text": "It is in Tromsø."})


DRAFT = {
    "node_id": "p1",
    "name": "release",
    "channel": "shop",
    "at": None,
    "text": "---\nname: release\n---\n1. `make`",
}


def test_a_draft_of_a_skill_is_shown_and_written_where_its_person_says(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["review_list"] = {**ANSWERS["review_list"], "drafts": [DRAFT]}
    _, out, _ = run("review", "--list")
    assert "SKILL  release · shop" in out
    assert "1. `make`" in out
    daemon.answers["review_decide"] = {
        "decision_id": "p1", "run_id": "r9", "choice": "accept", "paths": ["/s/release/SKILL.md"],
        "supersedes": [], "contradicts": [],
    }  # fmt: skip
    _, out, _ = run("review", "p1", "--accept", "--to", "/s")
    assert daemon.asked[-1] == ("review_decide", {"decision": "p1", "keep": "accept", "to": "/s"})
    assert "/s/release/SKILL.md is written. `dreamctl undo r9` removes it." in out


def test_a_skill_is_written_into_the_project_by_default(
    reviewing: FakeDaemon, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    run("review", "p1", "--accept")
    assert reviewing.asked[-1][1]["to"] == str(tmp_path / ".claude" / "skills")


def test_tools_are_counted_in_lines(daemon: FakeDaemon, run: Run) -> None:
    assert "Bash: make     12       3   4.5 s  codex" in run("tools")[1]
    daemon.answers["tools"] = {"tools": [TOOL_USE, TOOL_USE | {"channel": "kiln"}]}
    assert "Bash: make     12       3   4.5 s  kiln" in run("tools")[1]
    daemon.answers["tools"] = {"tools": []}
    code, out, _ = run("tools")
    assert (code, out.strip()) == (4, "No call of a tool is remembered here.")


@pytest.mark.parametrize("words", [("review", "--keep", "both"), ("review", "d1", "--keep", "newer", "--edit", "x")])
def test_review_refuses_half_an_answer(reviewing: FakeDaemon, run: Run, words: tuple[str, ...]) -> None:
    assert run(*words)[0] == 2
    assert not [method for method, _ in reviewing.asked if method == "review_decide"]


def test_review_of_one_that_does_not_wait_finds_nothing(reviewing: FakeDaemon, run: Run) -> None:
    assert run("review", "b2")[0] == 0
    assert run("review", "zz")[0] == 4


@pytest.mark.parametrize(("typed", "kept"), [(["n"], "newer"), (["what", "older"], "older"), (["b"], "both")])
def test_review_walks_through_them_in_a_terminal(
    reviewing: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch, typed: list[str], kept: str
) -> None:
    lines = iter(typed)
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, out, _ = run("review")
    assert (code, reviewing.asked[-1]) == (0, ("review_decide", {"decision": "d1", "keep": kept}))
    assert "1 decision made; 0 still waiting." in out


@pytest.mark.parametrize(("typed", "editor", "asked"), [("s", "true", False), ("e", "true", False), ("e", None, True)])
def test_what_is_skipped_or_left_as_it_was_waits_on(
    reviewing: FakeDaemon,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    typed: str,
    editor: str | None,
    asked: bool,
) -> None:
    mine = tmp_path / "editor.sh"
    mine.write_text("#!/bin/sh\necho 'It is in Tromsø.' > \"$1\"\n")
    mine.chmod(0o700)
    monkeypatch.setenv("VISUAL", editor or str(mine))
    monkeypatch.setattr("builtins.input", lambda prompt: typed)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run("review")[0] == 0
    decided = [params for method, params in reviewing.asked if method == "review_decide"]
    assert decided == ([{"decision": "d1", "keep": "edit", "text": "It is in Tromsø."}] if asked else [])


CLAIM = {
    "node_id": "c3", "kind": "procedure", "always": 5, "because": "its agent had read what strangers wrote",
    "agent": "codex", "channel": "work", "text": "Deploy by \x1b[31mfax.", "at": "2026-11-20T09:00:00+00:00",
    "author": "", "quotes": [],
}  # fmt: skip


def test_review_shows_and_settles_what_an_agent_wrote_down(
    reviewing: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviewing.answers["review_list"] = {**reviewing.answers["review_list"], "waiting": [CLAIM], "leaks": []}
    code, out, _ = run("review", "--list")
    assert code == 0
    for told in ("c3", "TO ACCEPT", "codex", "Deploy by fax.", "as procedure, in every envelope", "strangers", "d1"):
        assert told in " ".join(out.split())
    assert "\x1b[31m" not in out
    assert run("review", "c3", "--list")[0] == 0
    theirs = CLAIM | {"agent": "", "author": "Ana <ana@x>", "quotes": ["26 Nov 2026, colleague Ana: by fax"]}
    reviewing.answers["review_list"] |= {"waiting": [theirs]}
    out = run("review", "--list")[1]
    for told in ("OF A COLLEAGUE", "Ana <ana@x>", "because 26 Nov 2026, colleague Ana: by fax"):
        assert told in out
    reviewing.answers["review_list"] |= {"waiting": [CLAIM]}
    for flag, said in (("--accept", "It holds from now on."), ("--reject", "It is forgotten.")):
        reviewing.answers["review_decide"] = {
            "decision_id": "c3",
            "run_id": "r9",
            "choice": flag[2:],
            "paths": [],
            "supersedes": [],
            "contradicts": [],
        }
        assert said in run("review", "c3", flag)[1]
        assert reviewing.asked[-1][1].items() >= {"decision": "c3", "keep": flag[2:]}.items()
    reviewing.answers["review_decide"] |= {"contradicts": ["b2"]}
    assert "It disputes b2: " in run("review", "c3", "--accept")[1]
    reviewing.answers["review_decide"] |= {"contradicts": []}
    typed = iter(["n", "a", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    out = run("review")[1]
    method, decided = reviewing.asked[-1]
    assert (method, decided["decision"], decided["keep"]) == ("review_decide", "c3", "accept")
    assert "1 decision made; 1 still waiting." in out


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, {}),
        ({"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s1"}, {"agent_id": "claude-code", "session": "s1"}),
        ({"GEMINI_CLI": "1"}, {"agent_id": "gemini"}),
    ],
)
def test_remember_says_in_whose_shell_it_runs(
    daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: dict[str, str]
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    run("remember", "Bread", "--global")
    assert daemon.asked[:1] == [("remember", {"text": "Bread", "channel": "_global", **said})]


def test_decay_says_what_would_fade(daemon: FakeDaemon, run: Run) -> None:
    fading = {"node_id": "a1", "kind": "fact", "title": "It is red", "channel": "work", "confidence": 0.049,
              "fades_at": "2020-01-01T00:00:00+00:00"}  # fmt: skip
    daemon.answers["decay_preview"] = {"days": 30, "most_a_night": 10, "total": 1, "fading": [fading]}
    code, out, _ = run("decay", "--preview")
    assert code == 0
    for told in ("1 memory would fade within 30 days", "a1", "tonight", "0.05", "It is red", "dreamctl restore"):
        assert told in " ".join(out.split())
    daemon.answers["decay_preview"] = {"days": 9, "most_a_night": 10, "total": 0, "fading": []}
    assert run("decay", "--days", "9")[1] == "Nothing would fade within 9 days.\n"
    assert daemon.asked[-1] == ("decay_preview", {"days": 9})


def test_restore_names_the_way_back(daemon: FakeDaemon, run: Run) -> None:
    daemon.answers["restore"] = {"node_id": "a1", "run_id": "r3", "path": "facts/a.md", "beside": None}
    assert run("restore", "a1")[:2] == (0, "a1 is back. `dreamctl undo r3` takes that back.\n")
    daemon.answers["restore"] = {"node_id": "a1", "run_id": "r3", "path": "facts/a.md", "beside": "b2"}
    assert "b2, which had taken its place, holds as well" in run("restore", "a1")[1]


def test_a_digest_opens_as_a_page_or_says_where_it_lies(
    daemon: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.answers["digest"] = {**DIGEST, "page": "/v/d.html"}
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: not opened.append(url))  # type: ignore[func-returns-value]
    assert run("digest", "--open")[:2] == (0, "/v/d.html\n")
    assert opened == ["file:///v/d.html"]
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    code, out, err = run("digest", "--open")
    assert (code, out) == (0, "/v/d.html\n")
    assert "no browser" in err.lower()


def test_a_digest_in_the_terminal_hides_html_comments(daemon: FakeDaemon, run: Run) -> None:
    text = "# A\n\n<!-- dream r1 -->\n\n- [a \\<b> title](/facts/a.md)\n"
    daemon.answers["digest"] = {**DIGEST, "text": text}
    assert run("digest")[1] == "# A\n\n- a <b> title\n"


def test_a_decision_that_was_made_meanwhile_does_not_end_the_walk(
    reviewing: FakeDaemon, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reviewing.answers["review_decide"] = ProtocolError("no decision d1 waits", code=NOT_FOUND)
    monkeypatch.setattr("builtins.input", lambda prompt: "b")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, out, err = run("review")
    assert code == 0
    assert "no decision d1 waits" in err.lower()
    assert "0 decisions made; 1 still waiting." in out


def test_a_copy_on_a_server_is_dropped_only_with_a_move(run: Run) -> None:
    code, _, err = run("migrate", "--drop")
    assert (code, "--drop goes with --to" in err) == (2, True)
