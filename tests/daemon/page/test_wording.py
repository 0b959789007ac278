"""Words and texts of the page: nothing of a memory is markup, and what it wrote as lists, tables and links is."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from dreamd.daemon.page.markup import difference, glance, marked, marked_line, own
from dreamd.daemon.page.wording import ago, conversation, day, moment, project, run_name, run_note, turns

NOW = datetime.fromisoformat("2026-11-26T12:00:00+00:00").astimezone()


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a <b> & `c < d`", "<p>a &lt;b&gt; &amp; <code>c &lt; d</code></p>"),
        ("## Decided\n\n- one\n  - under", '<h4>Decided</h4><ul><li>one</li><li class="under">under</li></ul>'),
        ("> asked\n\nsaid", "<blockquote>asked</blockquote><p>said</p>"),
        ("~~old~~ (until May) [^m1]", "<p><del>old</del> (until May)</p>"),
        ("[its “words”](/facts/a--b1.md)", '<p><a href="/memory/facts/a--b1.md">its “words”</a></p>'),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("[x](//evil.example/y.md)", '<p><a href="/memory//evil.example/y.md">x</a></p>'),
        ("\\<i> \\[x\\](/a.md)", "<p>&lt;i&gt; [x](/a.md)</p>"),
        ("```\n<pre>\n```", '<pre tabindex="0"><code>&lt;pre&gt;</code></pre>'),
        ("```\nopen", '<pre tabindex="0"><code>open</code></pre>'),
        ("<!-- dream x -->\nA.", "<p><br>A.</p>"),
        ("[^m1]: [a](/b.md)\n---", ""),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("", ""),
    ],
)
def test_a_text_is_rendered(text: str, html: str) -> None:
    assert marked(text) == html


def test_a_table_has_heads_and_cells() -> None:
    html = marked("| a | b |\n| --- | --- |\n| c \\| d | <i> |")
    assert '<th scope="col">a</th>' in html
    assert "<td>c | d</td><td>&lt;i&gt;</td>" in html


def test_a_line_of_a_briefing_loses_its_bullet() -> None:
    assert marked_line("- 5 Aug: “no `rm`”") == "5 Aug: “no <code>rm</code>”"


def test_a_glance_has_the_words_that_were_answered_apart_and_no_links() -> None:
    assert glance("> Shall I?\n\nyes, [do](/a.md)") == '<q class="asked">Shall I?</q> yes, do'
    assert glance("word " * 100, 20) == "word word word word…"
    assert glance("<!-- x -->") == "&lt;!-- x --&gt;"


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=40), "17 Oct"),
        (-timedelta(days=2), "28 Nov"),
    ],
)
def test_a_time_is_told_by_its_distance(delta: timedelta, words: str) -> None:
    assert ago((NOW - delta).isoformat(), NOW) == words


def test_days_and_projects_are_named_shortly() -> None:
    assert day("2026-03-04T12:00:00+00:00", NOW) == "4 Mar"
    assert day("2025-03-04T12:00:00+00:00", NOW) == "4 Mar 2025"
    assert day(None, NOW) == ""
    assert [project(name) for name in ("waybill-4acde5", "_global", "a-b")] == ["waybill", "everywhere", "a-b"]
    assert [project(name, {"cli-2517dc", "cli-9beecf"}) for name in ("cli-2517dc", "shop-4acde5")] == [
        "cli-2517dc",
        "shop",
    ]


def test_a_session_is_taken_apart_into_turns_that_no_text_forges() -> None:
    said = "#1 user: hello\n\n#1 user: again\n\n#2 assistant: [Bash: ls]\n\n#3 tool: [Bash result]\na"
    said += "\n\n#9 user: #4 x: y\n#10 z: no"
    found = turns(said)
    assert [(turn.ordinal, turn.role) for turn in found] == [(1, "user"), (2, "assistant"), (3, "tool"), (9, "user")]
    assert found[0].text == "hello\n\n#1 user: again"
    assert found[3].text == "#4 x: y\n#10 z: no"
    assert [(is_step, len(some)) for is_step, some in conversation(found)] == [(False, 1), (True, 2), (False, 1)]
    assert found[1].step == "Bash ls"


RUN = {"kind": "edit", "note": "edited k2m4", "about": "The port is 8443", "run_id": "r"}


@pytest.mark.parametrize(
    ("run", "name", "note"),
    [
        (RUN, "Changed “The port is 8443”", ""),
        ({**RUN, "kind": "weekly", "note": "", "about": ""}, "Dream of the week", ""),
        (
            {**RUN, "kind": "migrate", "note": "9 moved", "about": ""},
            "Gave each project a folder of its own",
            "9 moved",
        ),
        (
            {"kind": "undo", "note": "undid 20260914-020000-000000-weekly-34b7", "about": ""},
            f"Undid the dream of the week of {moment('2026-09-14T02:00:00+00:00', NOW)}",
            "",
        ),
    ],
)
def test_a_run_is_named_by_what_it_did(run: dict[str, str], name: str, note: str) -> None:
    assert (run_name(run, NOW), run_note(run)) == (name, note)


def test_a_difference_shows_the_words_that_changed_and_cuts_the_rest() -> None:
    lead = " ".join(f"word{number}" for number in range(90))
    shown = difference(
        f"## Now\n\n- {lead} port 8443 is <open> [^m1]\n- same", f"## Now\n\n- {lead} port 9443 is <open>\n- same"
    )
    assert "<del>8443</del><ins>9443</ins> is &lt;open&gt;" in shown
    assert "word1 " not in shown
    assert "[^" not in shown
    assert "word89" in shown


def test_commands_of_our_own_texts_are_places_of_the_page() -> None:
    told = own(
        "4 texts · `dreamctl told` shows them; `dreamctl undo 2026-edit-1` takes it back, `dreamctl salvage` too"
    )
    assert '<a href="/told">Told to agents</a> shows them' in told
    assert '<a href="/run/2026-edit-1">its run</a>' in told
    assert "<code>dreamctl salvage</code>" in told
    assert "<a" not in marked_line("`dreamctl told` in a person's words")
