"""The digest and its page: everything is told, nothing of it is obeyed, and no dream of a day loses its account."""

from __future__ import annotations

import re

from dreamd.pipelines.report import digest_text as markdown
from dreamd.pipelines.report import html
from dreamd.store.model import ActionKind

from tests.pipelines.report.reports import Reader, action, fact, full_report, report

SECTIONS = (
    "Decisions waiting", "Replaced", "Perhaps replaced", "Scenarios", "Learned", "Pages", "Changed", "Gone stale",
    "Faded", "Problems found", "Refused",
    "Asked in vain, answered now", "Asked and not found", "Health", "Tested before it was applied", "Numbers",
)  # fmt: skip
PHRASES = (
    "It is red learned", "It is red heir", "7 new turns became 2 facts", "1 statement gave way to a newer one",
    "1 pair cannot both hold", "1 older statement is perhaps out of date", "1 faded", "1 question of your agents",
    "note It is red", "secret It is red", "index It is red", "gap It is red", "vain It is red", "found It is red",
    "asked twice, answered now", "61.2% found their answer before", "65.5% after",
    "Without a language model", "1,234 tokens", "5 calls", "recall fell", "12 facts",
)  # fmt: skip


def test_digest_and_page_both_hold_everything() -> None:
    text, read = markdown.render(full_report()), Reader(html.render(full_report()))
    for section in SECTIONS:
        assert f"\n## {section}\n" in text
        assert section in read.texts
    for phrase in PHRASES:
        assert phrase in text
        assert phrase in read.text


def test_a_run_without_changes_says_so_and_has_no_empty_sections() -> None:
    text, read = markdown.render(report()), Reader(html.render(report()))
    assert "nothing to change" in text
    assert "nothing to change" in read.text
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Numbers"]
    assert "Undo" not in read.text


def test_two_dreams_of_a_day_keep_both_accounts() -> None:
    first = report(action(fact("Learned first")))
    second = report(action(fact("Learned second")), run_id="run-2")
    third = report(action(fact("Learned third")), run_id="run-3")
    text = markdown.render(third, markdown.render(second, markdown.render(first)))
    made = html.render(third, html.render(second, html.render(first)))
    for whole in (text, Reader(made).text):
        assert whole.index("Learned third") < whole.index("Learned second") < whole.index("Learned first")
        assert [whole.count(f"Learned {name}") >= 1 for name in ("first", "second", "third")] == [True] * 3
    assert text.count("# Digest of") == made.count("<h1>") == 1
    assert markdown.RUN_MARKER.findall(text) == markdown.RUN_MARKER.findall(made)
    assert markdown.render(third, markdown.render(second)).startswith(markdown.render(third).rstrip("\n"))


def test_a_day_keeps_a_bounded_number_of_accounts() -> None:
    text = made = ""
    for n in range(2 * markdown.MOST_ACCOUNTS):
        one = report(action(fact(f"Number {n}.")), run_id=f"run-{n}")
        text, made = markdown.render(one, text), html.render(one, made)
    assert text.count("<!-- dream ") == made.count("<!-- dream ") == markdown.MOST_ACCOUNTS
    Reader(made)


def test_what_changed_is_told_in_at_most_five_sentences() -> None:
    text = markdown.render(full_report())
    (account,) = [line for line in text.splitlines() if line.startswith("At 03:00")]
    assert len(re.findall(r"[.](?= |$)", account)) == 5
    quiet = markdown.render(report(action(fact("Learned"))))
    assert "\n\nAt 03:00, a daily dream: 7 new turns became 1 fact.\n\n" in quiet
    assert not re.search("nothing|replaced|faded|No language model", quiet, re.IGNORECASE)


def test_old_and_new_stand_side_by_side_whole() -> None:
    long = (
        "Cancelling is free until two hours before the appointment | after that we keep the deposit of ten euros. " * 3
    )
    new = fact("Make it 24.", said_by="user")
    old = fact(long, said_by="user", superseded_by=new.node_id)
    actions = (action(old, ActionKind.REPLACE), action(new, ActionKind.REPLACE))
    (row,) = [line for line in markdown.render(report(*actions)).splitlines() if "Make it 24" in line and "|" in line]
    before, now = re.split(r" (?<!\\)\| ", row.strip("| "))
    assert " ".join(long.split()) in before.replace("\\|", "|")
    assert "“Make it 24.”" in now
    read = Reader(html.render(report(*actions)))
    assert [text for text in read.texts if text in {"before", "now"}] == ["before", "now"]
    assert " ".join(long.split()) in read.text
