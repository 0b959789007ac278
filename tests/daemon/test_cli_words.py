from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dreamd.daemon.cli import ask, care, dreams, keep, words
from dreamd.daemon.cli.words import Look
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LOOK = Look(80, False, NOW)


def text_of(lines: list[str]) -> str:
    assert all(words.columns_of(line) <= 80 for line in lines), lines
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("gap", "says"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=8), "8 hours ago"),
        (timedelta(hours=12), "yesterday"),
        (timedelta(hours=33), "yesterday"),
        (timedelta(hours=34), "2 days ago"),
        (timedelta(days=14), "14 days ago"),
        (timedelta(days=18), "3 Nov"),
        (timedelta(days=400), "17 Oct 2025"),
        (-timedelta(seconds=30), "now"),
        (-timedelta(minutes=20), "in 20 minutes"),
        (-timedelta(hours=3), "today at 12:30"),
        (-timedelta(hours=18), "tomorrow at 03:30"),
        (-timedelta(days=5), "26 Nov"),
    ],
)
def test_dates_are_said_as_a_person_would(gap: timedelta, says: str) -> None:
    assert words.relative(NOW - gap, NOW) == says


@pytest.mark.parametrize("instant", [None, "", "yesterday", "2026-13-40"])
def test_what_is_no_instant_is_undated(instant: str | None) -> None:
    assert LOOK.ago(instant) == "undated"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (12, "12 s"),
        (185, "3 min 5 s"),
        (1200, "20 min"),
        (7200, "2 hours"),
        (400_000, "4 days"),
    ],
)
def test_durations(seconds: float, says: str) -> None:
    assert words.duration(seconds) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no daemon answers", "No daemon answers."),
        ("There it is.", "There it is."),
        ("did you mean this?", "Did you mean this?"),
        ("/a/b is in the way", "/a/b is in the way."),
        ("dreamd is stopping", "dreamd is stopping."),
        ("'limit' is missing", "'limit' is missing."),
        ("", ""),
    ],
)
def test_sentences(text: str, says: str) -> None:
    assert words.sentence(text) == says


def test_a_listing_counts_the_rest() -> None:
    assert words.listing([]) == "none"
    assert words.listing(["a"]) == "a"
    assert words.listing(["a", "b", "c"]) == "a, b and c"
    assert words.listing(list("abcdefghij"), 3) == "a, b, c and 7 more"


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x07", "\r", "\x1b", "\u202e"])
def test_a_memory_cannot_command_the_terminal(evil: str) -> None:
    assert words.clean(f"a{evil}b") in ("ab", "a[2Jb", "a31mb")
    for shown in (*LOOK.wrap(f"a{evil}b"), *words.table([(f"a{evil}b", f"{evil}c")], LOOK)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)


@given(st.text(), st.integers(20, 120), st.integers(0, 8))
def test_wrapped_lines_fit_and_keep_every_word(text: str, width: int, max_lines: int) -> None:
    lines = Look(width, False, NOW).wrap(text, "  ", max_lines)
    assert not max_lines or len(lines) <= max_lines
    assert all(len(line) <= min(width, 100) for line in lines if "more lines" not in line and "|" not in line)
    if not max_lines:
        assert "".join("".join(lines).split()) == "".join(words.clean(text).split())


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=200)), min_size=1, max_size=5), st.integers(40, 100))
def test_tables_fit_unless_a_name_alone_is_too_long(rows: list[tuple[str, str]], width: int) -> None:
    look = Look(width, False, NOW)
    widest = max(words.columns_of(words.clean(name)) for name, _ in rows)
    for line in words.table(rows, look):
        assert words.columns_of(line) <= max(width, widest + 2 + 16)


def test_a_last_column_with_no_room_goes_under_the_others() -> None:
    rows = [("a" * 60, "a title of some length that nobody could read in a few columns"), ("b", "")]
    assert words.table(rows, LOOK, ("node", "title")) == [
        "node  title",
        "a" * 60,
        "    a title of some length that nobody could read in a few columns",
        "b",
    ]


def test_lists_hang_and_tables_stay() -> None:
    lines = Look(24, False, NOW).wrap("- one two three four five six\n\n| a | b | c | d | e | f | g | h |\n1. x")
    assert lines == ["- one two three four", "  five six", "", "| a | b | c | d | e | f | g | h |", "1. x"]


def test_columns_align_with_wide_characters() -> None:
    lines = words.table([("日本", "x"), ("abcd", "y"), ("é", "z")], LOOK)
    assert [words.columns_of(line[: line.index(c)]) for line, c in zip(lines, "xyz", strict=True)] == [6, 6, 6]


HIT: dict[str, Any] = {
    "node_id": "k2m4x7qpzv3aa",
    "level": "L1",
    "kind": "decision",
    "title": "PostgreSQL",
    "text": "The billing service moved to PostgreSQL on 2026-11-18, since two writers locked SQLite.",
    "score": 0.8231,
    "channel": "billing-3fa9c1",
    "created_at": "2026-11-18T10:00:00+00:00",
    "evidence": [{"node_id": "s1#4", "external_id": "D3:4"}, {"node_id": "s1#6", "external_id": "9f2c" * 9}],
}


def test_a_hit_is_a_line_its_text_and_its_sources() -> None:
    assert text_of(ask.hits_in_words([HIT, {**HIT, "evidence": []}], LOOK)) == (
        "L1 decision · 2 days ago · billing-3fa9c1 · 0.82  k2m4x7qpzv3aa\n"
        "  The billing service moved to PostgreSQL on 2026-11-18, since two writers\n"
        "  locked SQLite.\n"
        "  from s1#4 (D3:4) and s1#6\n"
        "\n"
        "L1 decision · 2 days ago · billing-3fa9c1 · 0.82  k2m4x7qpzv3aa\n"
        "  The billing service moved to PostgreSQL on 2026-11-18, since two writers\n"
        "  locked SQLite."
    ).replace("2 days", f"{(NOW.astimezone().date() - words.when(HIT['created_at']).date()).days} days")  # type: ignore[union-attr]


def test_colour_changes_nothing_but_colour() -> None:
    coloured = "\n".join(ask.hits_in_words([HIT], Look(80, True, NOW)))
    assert "\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text_of(ask.hits_in_words([HIT], LOOK))


def test_a_long_text_is_cut_with_a_count() -> None:
    lines = ask.hits_in_words([{**HIT, "text": "word " * 1000}], LOOK)
    assert "more lines)" in text_of(lines)
    assert len(lines) <= ask.MOST_LINES_OF_A_HIT + 2


STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "pid": 4242,
    "protocol": 1,
    "uptime_s": 11_000.0,
    "vault": "/home/ada/.local/share/dreamd/vault",
    "memories": {"L0": 11, "L1": 40, "L2": 1, "L3": 0},
    "turns": 1500,
    "chunks": 1712,
    "pending_embeddings": 12,
    "embedding": {"model": "minilm", "ready": True},
    "paused": False,
    "channels_off": ["work"],
    "dream": None,
    "last_dream": "2026-11-21T03:00:00+00:00",
    "next_dream": "2026-11-22T03:00:00+00:00",
    "problems": [],
}


def test_status_says_what_there_is() -> None:
    said = text_of(care.status_in_words(STATUS, LOOK))
    assert said.startswith("dreamd 0.1.0 is running (pid 4242, up 3 hours).\n")
    assert "memories    11 sessions with 1,500 turns, 40 facts, 1 scenario\n" in said
    assert "searchable  1,712 chunks; 12 by words only, until embedded\n" in said
    assert "learning    on, but not in work\n" in said
    assert "dreams      last 6 hours ago; next tomorrow at 03:00" in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memories": {"L0": 0}}, "none yet"),
        ({"memories": {"L1": 1}}, "memories    1 fact\n"),
        ({"embedding": {"ready": False}}, "by words only until the embedding model is loaded"),
        ({"paused": True}, "paused; `dreamctl resume` ends it"),
        ({"channels_off": []}, "learning    on\n"),
        ({"last_dream": None, "next_dream": None}, "none yet"),
        ({"next_dream": "2026-11-21T03:00:00+00:00"}, "one is due when it is quiet"),
        ({"dream": {"stage": "consolidate", "done": 3, "total": 9}}, "one is running: consolidate, 3 of 9"),
        ({"dream": {"stage": "", "done": 0, "total": 0}}, "one is running: starting"),
        ({"problems": ["facts/a.md: its frontmatter is no YAML."]}, "\n\n  facts/a.md: its frontmatter is no YAML."),
    ],
)
def test_status_says_what_is_different(change: dict[str, Any], says: str) -> None:
    assert says in text_of(care.status_in_words({**STATUS, **change}, LOOK))


def test_an_import_says_what_it_took_and_what_it_passed_over() -> None:
    answer = {
        "sessions": 11,
        "turns_added": 150,
        "turns_known": 1,
        "notes": 0,
        "redacted": 1,
        "channels": ["billing"],
        "skipped": [{"path": f"/x/{n}.jsonl", "line": n, "reason": "not JSON"} for n in range(1, 13)],
        "skipped_total": 40,
    }
    said = text_of(keep.import_in_words(answer, LOOK))
    assert said.startswith("Took 150 new turns from 11 sessions; 1 turn was known already.\nChannel: billing.\n")
    assert "1 secret was not kept" in said
    assert "  - 1.jsonl, line 1: not JSON\n" in said
    assert said.endswith("… and 30 more (--json has them)")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"state": "running", "run_id": "r1"}, "r1 has begun"),
        ({"state": "nothing", "run_id": "r1"}, "nothing to dream about"),
        ({"state": "failed", "run_id": "r1", "seconds": 3.0, "note": "no disk"}, "r1 failed after 3.0 s"),
        (
            {"state": "applied", "run_id": "r1", "seconds": 3.0, "actions": {"consolidate": 12, "lint": 0}},
            "12 by consolidate.",
        ),
        ({"state": "applied", "run_id": "r1", "seconds": 3.0}, "\nUndo:  dreamctl undo r1"),
        (
            {
                "state": "planned",
                "run_id": "r1",
                "plan": [{"stage": "lint", "kind": "replace", "path": "a.md", "reason": "b"}],
            },
            "lint  replace  a.md: b",
        ),
        ({"state": "odd", "run_id": "r1"}, "The dream r1 is odd."),
    ],
)
def test_a_dream_says_how_it_went(answer: dict[str, Any], says: str) -> None:
    assert says in text_of(dreams.dream_in_words(answer, LOOK))


def test_runs_are_a_table() -> None:
    run = {
        "run_id": "20261121-030000-daily",
        "kind": "daily",
        "state": "applied",
        "started_at": "2026-11-21T03:00:00+00:00",
        "seconds": 12.4,
        "created": 40,
        "replaced": 2,
        "deleted": 0,
        "note": "",
    }
    head, first, second = dreams.runs_in_words([run, {**run, "created": 0, "replaced": 0, "seconds": None}], LOOK)
    assert head.split() == ["run", "kind", "state", "when", "took", "changes"]
    assert first.endswith("applied  6 hours ago  12 s  +40 ~2")
    assert second.endswith("nothing")


def test_an_undo_names_what_it_left() -> None:
    answer = {"run_id": "r1", "restored": 3, "conflicts": [{"path": "facts/a.md", "reason": "it was edited since"}]}
    said = text_of(dreams.undo_in_words(answer, LOOK))
    assert said == "Run r1 is undone: 3 files as before.\n1 file is left as it is:\n  facts/a.md: it was edited since"


def test_a_check_names_every_problem() -> None:
    answer = {
        "problems": [{"path": "facts/a.md", "problem": "the frontmatter is no YAML", "severity": "warning"}],
        "settings_problems": ["dreamd.toml: ipc.thread is no setting."],
    }
    assert text_of(care.check_in_words(answer, LOOK)) == (
        "settings: dreamd.toml: ipc.thread is no setting.\nwarning: facts/a.md: The frontmatter is no YAML."
    )
    assert care.check_in_words({"problems": []}, LOOK) == ["No problems."]


def test_a_trace_and_a_why_not_are_read_by_people() -> None:
    candidate = {"unit": "s1#4", "nodes": ["s1#4"], "score": 0.5, "ranks": {"keyword": 1}, "scores": {"keyword": 12.4}}
    said = text_of(ask.trace_in_words({"timings_ms": {"embed": 2.31}, "candidates": [candidate] * 25}, LOOK))
    assert said.startswith("Took: embed 2.3 ms.\nplace  score   keyword  node\n    1  0.500  #1 12.40  s1#4\n")
    assert said.endswith("… and 5 more (--json has them)")
    assert ask.why_not_in_words({"node_id": "a", "place": None, "reason": "its level is L1"}, LOOK) == [
        "a was not found: its level is L1."
    ]
