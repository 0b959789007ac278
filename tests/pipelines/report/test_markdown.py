"""The digest and its page: everything is told, nothing of it is obeyed, and no dream of a day loses its account."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from dreamd.pipelines.gate.gate import Dropped, GateResult
from dreamd.pipelines.report import charts, html, markdown
from dreamd.pipelines.report.charts import Life, Series
from dreamd.pipelines.report.run_report import RunReport, open_pairs
from dreamd.pipelines.report.sections import MOST_NAMED, summarize
from dreamd.pipelines.stages.lint import Finding
from dreamd.pipelines.workspace.view import History
from dreamd.store.changes.decisions import pair_key
from dreamd.store.keep import okf
from dreamd.store.keep.ledger.records import Run
from dreamd.store.model import Action, ActionKind, Kind, Level, Memory, Status

from tests import memories
from tests.pipelines.fakes import NOW, FakeSource

VOID = {"meta", "link", "br", "hr", "img", "input", "path", "rect", "circle"}
EVIL = "</script><script>alert(1)</script><!-- dream x --> <img src=x onerror=alert(2)> \"'&amp; \u202e"


class Reader(HTMLParser):
    """Reads a page as a browser would: its tags with their attributes, its texts, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def fact(text: str, **fields: Any) -> Memory:
    learned_at = NOW - timedelta(days=100)
    defaults: dict[str, Any] = {"created_at": learned_at, "extra": {"learned_at": learned_at.isoformat()}}
    return memories.fact(text, **(defaults | fields))


def action(memory: Memory, kind: ActionKind = ActionKind.CREATE, reason: str = "said in s1") -> Action:
    return Action(
        kind=kind,
        path=memory.path,
        node_id=memory.node_id,
        stage="consolidate",
        reason=reason,
        pre_sha256=None if kind is ActionKind.CREATE else "0",
        content=okf.from_memory(memory),
    )


def report(*actions: Action, run_id: str = "run-1", **more: object) -> RunReport:
    return RunReport(
        day=date(2026, 11, 21),
        run_id=run_id,
        actions=actions,
        counts={"consolidate": {"turns": 7}},
        seconds={"consolidate": 1.25},
        at=NOW,
        memories={Level.FACT: 12, Level.SCENARIO: 2, Level.PROFILE: 1},
        **more,  # type: ignore[arg-type]
    )


def full_report(text: str = "It is red") -> RunReport:
    replaced = ActionKind.REPLACE
    insight = replace(fact(f"{text}: page"), level=Level.SCENARIO, kind=Kind.SCENARIO, sources=("a", "b"))
    older, newer = fact(f"{text} or blue"), fact(f"{text} or green")
    return report(
        action(fact(f"{text} learned")),
        action(insight),
        action(fact(f"{text} changed"), replaced, f"said again {text}"),
        action(fact(f"{text} superseded", superseded_by="n"), replaced, "a newer one took its place"),
        action(fact(f"{text} in question", contradicts=("n",)), replaced, "it contradicts another"),
        replace(
            action(fact(f"{text} stale", extra={"stale_after": NOW.isoformat()}), replaced, "its file is gone"),
            stage="staleness",
        ),
        action(fact(f"{text} faded", status=Status.DEPRECATED, archived_at=NOW), replaced, "confidence 0.04"),
        notes=(f"note {text}",),
        findings=(Finding("secrets", "notes/a.md", f"secret {text}"), Finding("index", "facts/b.md", f"index {text}")),
        gaps=(f"gap {text}",),
        gate=GateResult(40, 0.612, 0.655, 1, 4, (Dropped("scenarios", "recall fell"),)),
        model_note="Without a language model: none is configured.",
        tokens=1234,
        calls=5,
        decisions=[(older, newer)],
        runs=[
            Run(f"r{n}", "daily", "applied", NOW - timedelta(days=n), summary={"memories": {"L1": 12 - n}})
            for n in (1, 2)
        ],
    )


SECTIONS = (
    "Decisions waiting", "Learned", "Changed", "Contradicted", "Gone stale", "Faded", "Problems found", "Refused",
    "Asked and not found", "Health", "The gate", "Numbers",
)  # fmt: skip
PHRASES = (
    "learned", "changed", "superseded", "in question", "faded", "note It is red", "secret It is red",
    "index It is red", "gap It is red", "0.612 before", "0.655", "Without a language model", "1,234 tokens", "5 calls",
    "recall fell", "12 facts",
)  # fmt: skip


def test_both_ways_tell_everything() -> None:
    text, read = markdown.render(full_report()), Reader(html.render(full_report()))
    for section in SECTIONS:
        assert f"\n## {section}\n" in text
        assert section in read.texts
    for phrase in PHRASES:
        assert phrase in text
        assert phrase in read.text


def test_a_quiet_night_says_so_and_leaves_the_rest_out() -> None:
    text, read = markdown.render(report()), Reader(html.render(report()))
    assert "nothing to change" in text
    assert "nothing to change" in read.text
    assert re.findall(r"^## (.*)", text, re.MULTILINE) == ["Numbers"]
    assert "Undo" not in read.text


def test_what_a_memory_says_is_shown_and_never_obeyed() -> None:
    made = html.render(full_report(EVIL))
    read = Reader(made)
    tags = {tag for tag, _ in read.tags}
    assert not tags & {"script", "img", "iframe", "object", "link", "base", "form"}
    assert "</script><script>alert(1)</script>" in read.text
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on")]
        for name in ("href", "src"):
            assert (attributes.get(name) or "../").startswith("../")
    assert made.count("<!-- dream ") == 1
    text = markdown.render(full_report(EVIL))
    assert len(markdown.RUN_MARKER.findall(text)) == 1
    assert not re.search(r"(?<!\\)<(?!!-- dream run-1 -->)", text)


def test_the_page_needs_no_network_and_no_script() -> None:
    made = html.render(full_report())
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<script", made)
    assert "default-src 'none'" in made
    assert made.startswith('<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">')


def test_every_picture_says_in_words_what_it_shows() -> None:
    read = Reader(html.render(full_report()))
    drawn = [attributes for tag, attributes in read.tags if tag == "svg" and "aria-hidden" not in attributes]
    assert len(drawn) == 4
    for attributes in drawn:
        assert attributes["role"] == "img"
        assert len(attributes["aria-label"] or "") > 20


def test_the_page_is_light_and_dark_on_screen_and_on_paper() -> None:
    made = html.render(report())
    for rule in ("prefers-color-scheme: dark", "@media print", 'content="light dark"'):
        assert rule in made


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_can_be_read_on_its_ground(scheme: str) -> None:
    rules = re.findall(r":root \{(.*?)\}", html.render(report()), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", rules[0 if scheme == "light" else 1]))
    for name in ("ink", "soft", "plain", "learned", "faded", "contradicted", "waiting"):
        for ground in ("paper", "card"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


def test_two_dreams_of_a_day_keep_both_accounts() -> None:
    first = report(action(fact("Learned first")))
    second = report(action(fact("Learned second")), run_id="run-2")
    third = report(action(fact("Learned third")), run_id="run-3")
    text = markdown.render(third, markdown.render(second, markdown.render(first)))
    made = html.render(third, html.render(second, html.render(first)))
    for whole in (text, Reader(made).text):
        assert whole.index("Learned third") < whole.index("Learned second") < whole.index("Learned first")
        assert [whole.count(f"Learned {name}") >= 1 for name in ("first", "second", "third")] == [True] * 3
    assert text.count("# The night before") == made.count("<h1>") == 1
    assert markdown.RUN_MARKER.findall(text) == markdown.RUN_MARKER.findall(made)
    assert markdown.render(third, markdown.render(second)).startswith(markdown.render(third).rstrip("\n"))


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_a_dream_that_was_undone_by_itself_says_so_to_the_end_of_the_day(render: Callable[..., str]) -> None:
    first = render(report(action(fact("Learned first"))))
    undone = html.disowned(
        render(report(action(fact("Learned second")), run_id="run-2"), first), "run-2", "recall <fell."
    )
    whole = render(report(action(fact("Learned third")), run_id="run-3"), undone)
    told = [whole.index(text) for text in ("Learned third", html.UNDONE, "Learned second", "Learned first")]
    assert told == sorted(told)
    assert whole.count(html.UNDONE) == 1
    assert html.disowned(undone, "run-2", "recall <fell.") == undone  # said once
    assert fact("Learned first").path in undone
    assert fact("Learned second").path not in undone  # it is gone, and a link to it would lead nowhere
    if render is html.render:
        assert "recall <fell." in Reader(whole).text


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_what_was_left_out_is_counted_by_its_reason(render: Callable[..., str]) -> None:
    told = html.with_left_out(
        render(report(action(fact("Learned")))), "run-1", ["there is <a> file", "it moved on", "it moved on"]
    )
    text = Reader(told).text if render is html.render else told
    assert "3 changes were left out:" in text
    assert "it moved on (2); there is <a> file (1)." in text


@pytest.mark.parametrize(
    ("synthetic", "expected"),
    [
        (0, "with 40 questions that your agents asked: recall 0.612"),
        (39, "with 1 question that your agents asked and 39 questions made from the memory: recall 0.612"),
        (40, "with 40 questions made from the memory: recall 0.612"),
    ],
)
def test_the_gate_says_who_asked(synthetic: int, expected: str) -> None:
    gate = GateResult(40, 0.612, 0.655, 1, 4, synthetic=synthetic)
    text = markdown.render(report(action(fact("Learned")), gate=gate))
    assert expected in text


def test_a_gate_that_had_nothing_to_ask_says_so_where_there_was_something_to_try() -> None:
    assert "Recall was not tested" in markdown.render(report(action(fact("Learned")), gate=GateResult()))
    assert "The gate" not in markdown.render(report(gate=GateResult()))


def test_a_day_keeps_a_bounded_number_of_accounts() -> None:
    text = made = ""
    for n in range(2 * markdown.MOST_ACCOUNTS):
        one = report(action(fact(f"Number {n}.")), run_id=f"run-{n}")
        text, made = markdown.render(one, text), html.render(one, made)
    assert text.count("<!-- dream ") == made.count("<!-- dream ") == markdown.MOST_ACCOUNTS
    Reader(made)


def test_a_long_list_says_how_much_is_not_named() -> None:
    many = [action(fact(f"Fact {n}")) for n in range(MOST_NAMED + 5)]
    assert "… and 5 more" in markdown.render(report(*many))
    assert "… and 5 more" in Reader(html.render(report(*many))).text


def test_what_was_made_and_changed_in_one_night_is_new() -> None:
    one = fact("It is new")
    done = summarize([action(one), action(replace(one, tags=("x",)), ActionKind.REPLACE)])
    assert [memory.title for memory in done.facts] == ["It is new"]
    assert done.changed == []
    asked = summarize([action(one), action(replace(one, contradicts=("x",)), ActionKind.REPLACE)])
    assert (len(asked.facts), len(asked.contradicted)) == (1, 1)


def test_decisions_that_wait_are_those_that_no_person_has_made() -> None:
    a, b = fact("It is red", contradicts=("x",)), fact("It is blue")
    a = replace(a, contradicts=(b.node_id,))
    source = FakeSource()
    source.files |= {memory.path: okf.from_memory(memory) for memory in (a, b)}
    assert [{m.node_id for m in pair} for pair in open_pairs(source.view())] == [{a.node_id, b.node_id}]
    decided = History(tombstones=frozenset({pair_key(b.node_id, a.node_id)}))
    assert open_pairs(source.view(decided)) == []
    source.files[b.path] = okf.from_memory(replace(b, superseded_by=a.node_id, status=Status.DEPRECATED))
    assert open_pairs(source.view()) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_a_curve_of_any_length_is_drawn(count: int) -> None:
    points = [(NOW + timedelta(hours=n), n) for n in range(count)]
    drawn = charts.over_time("t", [Series("facts", points)])
    assert bool(drawn) == bool(points)
    assert len(drawn) < 12_000
    assert "nan" not in drawn


def test_one_life_of_no_length_is_drawn() -> None:
    assert "<circle" in charts.lives("t", [Life("a", NOW, None, NOW)])
    assert charts.lives("t", []) == ""


@pytest.mark.parametrize("share", [-1.0, 0.0, 1.0, 2.0])
def test_a_share_stays_on_its_line(share: float) -> None:
    for x in re.findall(r'cx="([\d.-]+)"', charts.before_and_after("t", share, share)):
        assert charts.LABELS <= float(x) <= charts.WIDTH


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
