"""The answers of a real daemon: each is of its declared type, and `dreamctl` says it in words, command by command."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon import formatting
from dreamd.daemon.cli import admin_commands as admin
from dreamd.daemon.cli import dream_commands as dreams
from dreamd.daemon.cli import main
from dreamd.daemon.cli import query_commands as query
from dreamd.daemon.cli import repair_commands as repair
from dreamd.daemon.cli import review_commands as review
from dreamd.daemon.cli import write_commands as write
from dreamd.daemon.formatting import Look
from dreamd.ipc.protocol import Json

from tests import extension_package
from tests.answer_types import ANSWERS, dataclasses_in, faults, seen, sent
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.stand_in_daemon import StandIn
from tests.system.recording import NO_MODEL, SAID, Recording

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Give what one daemon answered to everything that can be asked."""
    folder = tmp_path_factory.mktemp("recorded")
    extension_package.install(folder / "packages", source="")
    environ = {"DREAMD_STORE__EMBEDDING__MODEL": "stub", "PYTHONPATH": str(folder / "packages")} | NO_MODEL
    with DaemonUnderTest(folder / "daemon", environ) as daemon:
        recording = Recording(daemon, folder)
        recording.everything()
    return recording


# ---- types


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


def test_a_status_tells_of_a_server(recorded: Recording, look: Look) -> None:
    assert recorded.named["status"]["server"] is None
    status = recorded.named["status with a server"]
    assert (status["server"]["name"], status["server"]["state"]) == ("Qdrant", "away")
    said = in_one_line(text_of(admin.status_in_words(status, look)))
    assert "Qdrant is away: there is no file " in said
    assert "where the server is; the index answers meanwhile" in said


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


# ---- words


@pytest.fixture
def look() -> Look:
    """Give a plain page of 80 columns, read now."""
    return Look(80, False, datetime.now().astimezone())


def text_of(lines: list[str]) -> str:
    assert all(formatting.columns_of(line) <= 80 for line in lines), lines
    return "\n".join(lines)


def in_one_line(text: str) -> str:
    """Return a text without the breaks that the width made."""
    return " ".join(text.split())


# ---- status


def test_status_counts_what_there_is(recorded: Recording, look: Look) -> None:
    said = text_of(admin.status_in_words(recorded.named["status"], look))
    assert re.match(r"dreamd [\d.]+ is running \(pid \d+, up .+\)\.\n", said)
    assert re.search(r"memories +7 sessions with 17 turns, \d+ facts?", said)
    assert re.search(rf"channels +.*{recorded.orders} \(\d+\)", in_one_line(said))
    assert re.search(r"searchable +\d+ chunks\n", said)
    assert re.search(r"learning +on, but not in kitchen\n", said)
    assert re.search(r"dreams +last just now|dreams +last \d minutes? ago", said)
    assert "Broken.md" not in said
    assert "broken.md:" in said
    assert "Dreams go without a language model" in said


def test_status_of_an_empty_memory_says_how_to_fill_it(recorded: Recording, look: Look) -> None:
    said = text_of(admin.status_in_words(recorded.named["status of an empty memory"], look))
    assert "none yet; `dreamctl import` and `dreamctl remember` make some" in in_one_line(said)
    assert "searchable" not in said
    assert "channels" not in said
    assert re.search(r"dreams +none yet", said)


def test_status_tells_of_the_dream_that_runs_and_why_it_is_held_back(recorded: Recording, look: Look) -> None:
    status: Json = recorded.named["status of a dream"]
    said = in_one_line(text_of(admin.status_in_words(status, look)))
    assert "one is running: " in said
    assert "; held back: " in said
    assert status["dream"] is not None
    far: Any = {**status, "dream": {**status["dream"], "stage": "consolidate", "done": 3, "total": 9, "paused": ""}}
    assert "one is running: consolidate, 3 of 9" in in_one_line(text_of(admin.status_in_words(far, look)))


def test_status_of_a_paused_memory(recorded: Recording, look: Look) -> None:
    said = text_of(admin.status_in_words(recorded.named["status of a paused memory"], look))
    assert "paused; `dreamctl resume` ends it" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pending_embeddings": 12}, "; 12 by words only, until embedded"),
        (
            {"embedding": {"model": "minilm", "ready": False, "advice": ""}},
            "by words only until the embedding model is loaded",
        ),
        ({"embedding": {"model": "minilm", "ready": True, "advice": "Another finds more."}}, "Another finds more."),
        ({"memories": {"L0": 0, "L1": 1, "L2": 0, "L3": 0}}, "memories 1 fact channels"),
        ({"channels_off": []}, "learning on dreams"),
        ({"next_dream": "2036-11-22T03:00:00+00:00"}, "next 22 Nov 2036"),
        ({"next_dream": "2026-01-01T03:00:00+00:00"}, "one is due when it is quiet"),
    ],
)
def test_status_says_what_is_different(recorded: Recording, look: Look, change: dict[str, Any], says: str) -> None:
    status: Any = {**recorded.named["status"], **change}
    assert status.keys() == recorded.named["status"].keys()
    assert says in in_one_line(text_of(admin.status_in_words(status, look)))


# ---- what is found


def test_a_hit_is_a_line_its_text_and_its_sources(recorded: Recording, look: Look) -> None:
    hits = recorded.named["a fact recalled"]["hits"]
    said = text_of(query.hits_in_words(hits, look))
    assert re.match(rf"L\d \w+ · .+ · {recorded.orders} · confidence \d\.\d\d +\S+\n  ", said)
    [cited] = [hit for hit in hits if hit["node_id"] == recorded.fact["node_id"]]
    source = cited["evidence"][0]
    assert f"  from {source['node_id']} ({source['external_id']})" in text_of(query.hits_in_words([cited], look))


def test_colour_changes_nothing_but_colour(recorded: Recording, look: Look) -> None:
    hits = recorded.named["a recall"]["hits"]
    coloured = "\n".join(query.hits_in_words(hits, Look(80, True, look.now)))
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text_of(query.hits_in_words(hits, look))


def test_a_long_text_is_cut_with_a_count(recorded: Recording, look: Look) -> None:
    hit: Any = {**recorded.named["a recall"]["hits"][0], "text": "word " * 1000}
    lines = query.hits_in_words([hit], look)
    assert "more lines)" in text_of(lines)
    assert len(lines) <= query.MOST_LINES_OF_A_HIT + 2


def test_what_is_found_elsewhere_stands_under_its_channel(recorded: Recording, look: Look) -> None:
    said = text_of(query.elsewhere_in_words(recorded.named["elsewhere"]["elsewhere"], look))
    assert said.startswith(f"Elsewhere, in {recorded.orders}:\n\nL0 turn")
    assert "red bicycle" in said


def test_a_trace_and_a_why_not_are_read_by_people(recorded: Recording, look: Look) -> None:
    answer = recorded.named["an explained recall"]
    said = text_of(query.trace_in_words(answer["trace"], look))
    assert re.match(r"Took: read \d+\.\d ms, keyword \d+\.\d ms, ", said)
    assert re.search(r"^place +score +keyword +vector +node$", said, re.MULTILINE)
    assert re.search(r"^ +1 +\d\.\d{3} +#\d+ \S+ +#\d+ \S+ +\S+#\d+$", said, re.MULTILINE)
    many: Any = {**answer["trace"], "candidates": answer["trace"]["candidates"][:1] * 25}
    assert text_of(query.trace_in_words(many, look)).endswith("… and 5 more (--json has them)")
    why_not = in_one_line(text_of(query.why_not_in_words(answer["why_not"], look)))
    assert why_not == f"{recorded.bread} was not found: its channel is kitchen."


def test_a_memory_in_full_says_what_it_rests_on_and_what_rests_on_it(recorded: Recording, look: Look) -> None:
    said = "\n".join(query.shown_in_words(recorded.named["a fact"], look))  # its path is told whole
    assert said.startswith("L1 ")
    assert f"file   {recorded.fact['path']}" in said
    assert f"from  {recorded.fact['evidence'][0]['node_id']}" in said
    said = text_of(query.shown_in_words(recorded.named["a memory"], look))
    assert "Bread is baked on Saturdays." in said
    assert "kitchen · #food" in said


def test_a_list_is_a_table(recorded: Recording, look: Look) -> None:
    lines = query.memories_in_words(recorded.named["a list"]["memories"], look)
    assert "node  " in lines[0] or lines[0].startswith("node")
    assert any("Bread is baked" in line for line in lines)


# ---- imports, dreams, history


def test_an_import_says_what_it_took_and_what_it_passed_over(recorded: Recording, look: Look) -> None:
    said = text_of(write.import_in_words(recorded.named["an import"], look))
    assert said.startswith("Took 10 new turns from 1 session and 1 note.\nChannel: ")
    assert "--trust-frontmatter" in said
    assert "nowhere.jsonl" in said
    assert "- chat.jsonl, line 11: " in said
    again = text_of(write.import_in_words(recorded.named["the same again"], look))
    assert again.startswith("Took 0 new turns from 1 session; 10 turns were known already.")


def test_a_dream_says_how_it_went(recorded: Recording, look: Look) -> None:
    done = recorded.named["a dream"]
    said = text_of(dreams.dream_in_words(done, look))
    assert said.startswith(f"The dream {done['run_id']} is done after ")
    assert f"\nUndo:  dreamctl undo {done['run_id']}" in said
    assert re.search(r"Changes: .*\d+ by ", said)
    assert "has begun" in text_of(dreams.dream_in_words(recorded.named["a dream begun"], look))
    said = text_of(dreams.dream_in_words(recorded.named["a dry run"], look))
    assert said.startswith("This is what a dream would do now; nothing was changed.")
    assert re.search(r"^\w+ +create +\w+/", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("nothing", "nothing new to consolidate"),
        ("failed", " failed after "),
        ("preempted", "gave way"),
        ("odd", "is odd."),
    ],
)
def test_a_dream_that_went_otherwise(recorded: Recording, look: Look, state: str, says: str) -> None:
    answer: Any = {**recorded.named["a dream"], "state": state, "note": "the disk is full"}
    said = in_one_line(text_of(dreams.dream_in_words(answer, look)))
    assert says in said
    assert "The disk is full." in said


def test_runs_are_a_table(recorded: Recording, look: Look) -> None:
    head, *rows = dreams.runs_in_words(recorded.named["the runs"]["runs"], look)
    assert head.split() == ["run", "kind", "state", "when", "took", "changes"]
    assert any("applied" in row and "daily" in row for row in rows)
    assert any("cancelled" in row for row in rows)


def test_an_undo_names_what_it_left(recorded: Recording, look: Look) -> None:
    answer = recorded.named["a dream undone"]
    said = text_of(dreams.undo_in_words(answer, look))
    assert re.match(rf"Run {answer['run_id']} is undone: \d+ files? as before\.\n", said)
    assert re.search(r"(?:is left as it is|are left as they are):\n  (?:projects|general)/", said)


def test_an_undo_that_restored_nothing_says_so(recorded: Recording, look: Look) -> None:
    answer = recorded.named["a dream undone"] | {"restored": 0, "turns": 0}
    said = text_of(dreams.undo_in_words(answer, look))
    assert said.startswith(f"Nothing of run {answer['run_id']} could be undone.\n")
    assert " as it is" in said or " as they are" in said


def test_a_link_is_read_by_its_name_however_long(look: Look) -> None:
    quote = "we meet " + "again and " * 60 + "on friday” [14 March 2026]"
    said = text_of(dreams.page_in_words(f"- [7 March 2026: “{quote}](/facts/meet.md) · decision", look))
    assert in_one_line(said) == f"- 7 March 2026: “{quote} · decision"


def test_a_digest_is_read_without_its_marks(recorded: Recording, look: Look) -> None:
    answer = recorded.named["a digest"]
    assert recorded.dreamt["run_id"] in answer["text"]
    said = text_of(dreams.page_in_words(answer["text"], look))
    assert "<!--" not in said
    assert "](" not in said


# ---- upkeep


def test_what_fades_is_a_table(recorded: Recording, look: Look) -> None:
    said = text_of(review.fading_in_words(recorded.named["what fades"], look))
    assert "would fade within 3,650 days" in in_one_line(said)
    assert re.search(r"^\S+ +in [\d,]+ days ", said, re.MULTILINE)
    assert "Nothing would fade within 1 day." in text_of(
        review.fading_in_words(recorded.named["what fades tomorrow"], look)
    )


def test_an_exact_answer_stands_before_the_hits(recorded: Recording) -> None:
    (first, *_) = recorded.named["an exact answer"]["exact"]
    assert first["relation"]["relation"] == "OWNS"
    assert first["answer"] in {"Gracinha", "Graça Moreira"}  # both pages are said to own the oven


def test_a_decision_shows_both_sides_and_what_they_rest_on(recorded: Recording, look: Look) -> None:
    answer = recorded.named["what waits"]
    said = text_of(review.decisions_in_words(answer, look))
    assert said.startswith(answer["decisions"][0]["decision_id"])
    assert re.search(rf"^  OLDER  .*{recorded.orders}", said, re.MULTILINE)
    assert re.search(r"^  NEWER  ", said, re.MULTILINE)
    assert re.search(r"^      “user .*: ", said, re.MULTILINE)
    assert re.search(r"leak\.md: line \d+ \(aws\)", said)


def test_a_check_names_every_problem(recorded: Recording, look: Look) -> None:
    said = text_of(repair.check_in_words(recorded.named["a check"], look))
    assert re.search(r"^warning: broken\.md: ", said, re.MULTILINE)
    assert "settings: The language model cannot be used" in in_one_line(said)
    assert repair.check_in_words({"problems": [], "settings_problems": []}, look) == ["No problems."]


# ---- each command, from its arguments to what it prints

COMMANDS: dict[str, tuple[list[str], str]] = {
    "recall": (["recall", "backups"], "blue disk"),
    "context": (["context", "backups"], "blue disk"),
    "show": (["show", "x"], "L1 "),
    "history": (["history", "x"], "kept"),
    "list": (["list"], "There are more: --offset 1"),
    "remember": (["remember", "Bread"], "Remembered as "),
    "about": (["about", "graca"], "owns the oven"),
    "entities": (["entities"], "Graça Moreira"),
    "entity_merge": (["merge", "x", "y"], "also Graça, Gigi, Gracinha"),
    "entity_split": (["split", "x", "Gigi"], "is Gigi."),
    "entity_deny": (["deny", "x", "Gracinha", "owns", "the", "oven"], "It is not so that Gracinha owns the oven."),
    "edit": (["edit", "x", "--text", "y"], "is changed."),
    "forget": (["forget", "x"], "brings it back."),
    "feedback": (["feedback", "x", "not-useful"], "was not useful."),
    "link": (["link", "x", "y"], "HasTag weekly."),
    "tag": (["tag", "x", "baking"], "#baking"),
    "told": (["told"], "claude-code context"),
    "tools": (["tools"], "calls"),
    "brief": (["brief"], "Bread is baked on Saturdays."),
    "anchor_get": (["anchor"], "docs/backups.md"),
    "goals": (["goals"], "the backups are moved"),
    "goal_set": (["goals", "--complete", "x"], "Completed: the disk is mounted"),
    "purge": (["purge", "--channel", "kitchen", "--yes"], "Nothing of it is left"),
    "import": (["import", "/nope"], "Took 10 new turns"),
    "learn": (["learn", "/nope"], "Kept 1 fact in kiln of 2 new passages."),
    "watch": (["watch", "/x"], "Watching "),
    "unwatch": (["unwatch", "/x"], "is not watched any more."),
    "dream": (["dream", "--wait"], "is done after"),
    "dream_pause": (["dream", "pause"], "is paused"),
    "dream_resume": (["dream", "resume"], "is resumed."),
    "dream_cancel": (["dream", "cancel"], "was cancelled"),
    "runs": (["runs"], "applied"),
    "run": (["runs", "x"], "create"),
    "undo": (["undo", "x"], "is undone"),
    "redo": (["redo", "x"], "is done again"),
    "digest": (["digest"], "has been undone since"),
    "page_open": (["open", "--print"], "http://127.0.0.1:"),
    "review_list": (["review", "--list"], "OLDER"),
    "review_decide": (["review", "x", "--keep", "newer"], "The newer one holds."),
    "decay_preview": (["decay"], "would fade within"),
    "restore": (["restore", "x"], "is back."),
    "status": (["status"], "is running (pid "),
    "check": (["check"], "warning: broken.md"),
    "migrate": (["migrate", "--dry-run"], "Nothing is to be moved."),
    "rebuild": (["rebuild"], "The index is rebuilt from"),
    "export": (["export", "/x.jsonl"], "memories"),
    "prove": (["prove", "/x.html"], "The page is "),
    "metrics": (["metrics"], 'dreamd_answers_total{method="recall",outcome="ok"}'),
    "backup": (["backup", "/x"], "was read back."),
    "sync_init": (["sync", "init", "/x.git"], "AGE-SECRET-KEY-"),
    "sync": (["sync"], "Synced: "),
    "sync_set": (["sync", "channel", "kitchen", "off"], "stays on this machine."),
    "sync_status": (["sync", "status"], "encrypted"),
    "team_share": (["review", "--share", "x"], "It is released: it is in refs/dreamd/team/anna-"),
    "team_list": (["review", "--shared"], "The shop's port is 8080."),
    "team_sync": (["sync", "team"], "what you share is there; 0 memories of colleagues came"),
    "team_unshare": (["review", "--unshare", "x"], "Clones that fetched it keep it"),
    "pause": (["pause"], "Learning is paused."),
    "resume": (["resume"], "Learning goes on."),
    "channel": (["channel", "kitch", "off"], "Learning in kitchen is off."),
    "hello": (["version"], "running as"),
}
PREFERRED = {
    "recall": "a recall", "show": "a fact", "list": "a page", "import": "an import", "dream": "a dream",
    "runs": "the runs", "undo": "a dream undone", "digest": "a digest of a dream undone", "review_list": "what waits",
    "decay_preview": "what fades", "channel": "a channel", "context": "a context",
    "review_decide": "a decision", "watch": "what is watched",
}  # fmt: skip


@pytest.mark.parametrize("method", COMMANDS)
def test_every_command_reads_the_daemon_s_own_answer(
    recorded: Recording,
    socket_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    method: str,
) -> None:
    answers = {name: answer[-1] for name, answer in recorded.answers.items()}
    answers |= {name: recorded.named[called] for name, called in PREFERRED.items()}
    monkeypatch.setenv("DREAMD_SOCKET", str(socket_folder / "s"))
    stand_in = StandIn(socket_folder / "s", answers)
    try:
        arguments, says = COMMANDS[method]
        main.main(arguments)
        printed = capsys.readouterr()
        assert in_one_line(says) in in_one_line(printed.out + printed.err)
        assert main.main([*arguments, "--json"]) in (0, 1, 66)
        assert capsys.readouterr().out.startswith("{")
    finally:
        stand_in.close()


def test_every_method_has_a_command_under_test(recorded: Recording) -> None:
    of_programs = {"anchor_set", "anchor_recover", "reflect", "session_end"}
    of_programs |= {f"document_{verb}" for verb in ("put", "get", "list", "search", "rename", "delete")}
    without_words = {
        "ping",
        "observe",
        "cancel",
        "stop",
        "hook",
        "recent",
        "find_strategy",
        "select_tools",
        "doctor",  # its command looks for itself, also without a daemon
    } | of_programs
    assert set(COMMANDS) == set(recorded.answers) - without_words
    assert any(SAID[1] in hit["text"] for hit in recorded.named["a recall"]["hits"])


def test_several_questions_are_answered_one_below_the_other(
    recorded: Recording, socket_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DREAMD_SOCKET", str(socket_folder / "s"))
    stand_in = StandIn(socket_folder / "s", {"recall": recorded.named["several recalls"]})
    try:
        assert main.main(["recall", "backups blue disk", "--also", "red bicycle"]) == 0
        printed = capsys.readouterr().out
        assert printed.index("backups blue disk\n") < printed.index("L1 ") < printed.index("red bicycle\n")
        assert main.main(["recall", "backups", "--also", "disks", "--explain"]) == 2
    finally:
        stand_in.close()
