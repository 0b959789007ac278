"""The page: its markup, its colours, and the notes that are added to it later."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from dreamd.pipelines.report import digest_text as markdown
from dreamd.pipelines.report import html

from tests.pipelines.report.reports import EVIL, Reader, action, fact, full_report, report


def test_markup_in_a_memory_is_escaped() -> None:
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


def test_every_chart_has_a_description() -> None:
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
def test_every_colour_has_enough_contrast(scheme: str) -> None:
    rules = re.findall(r":root \{(.*?)\}", html.render(report()), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", rules[0 if scheme == "light" else 1]))
    for name in ("ink", "soft", "plain", "learned", "faded", "contradicted", "waiting"):
        for ground in ("paper", "card"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_later_pages_of_the_day_keep_the_note_of_an_undone_dream(render: Callable[..., str]) -> None:
    first = render(report(action(fact("Learned first"))))
    undone = html.disowned(
        render(report(action(fact("Learned second")), run_id="run-2"), first), "run-2", "recall <fell."
    )
    whole = render(report(action(fact("Learned third")), run_id="run-3"), undone)
    told = [whole.index(text) for text in ("Learned third", html.UNDONE, "Learned second", "Learned first")]
    assert told == sorted(told)
    assert whole.count(html.UNDONE) == 1
    assert html.disowned(undone, "run-2", "recall <fell.") == undone  # said once
    assert "undo run-2" not in undone
    assert "undo run-1" in undone
    assert fact("Learned first").path in undone
    assert fact("Learned second").path not in undone  # it is gone, and a link to it would lead nowhere
    if render is html.render:
        assert "recall <fell." in Reader(whole).text


@pytest.mark.parametrize("render", [markdown.render, html.render])
def test_skipped_changes_are_named_by_reason(render: Callable[..., str]) -> None:
    left_out = [("facts/a.md", "there is <a> file"), ("facts/b.md", "it moved on"), ("facts/c.md", "it moved on")]
    told = html.with_left_out(render(report(action(fact("Learned")))), "run-1", left_out)
    text = Reader(told).text if render is html.render else told
    assert "3 changes were left out:" in text
    assert "facts/a.md (there is <a> file); facts/b.md, facts/c.md (it moved on)." in text
    many = html.with_left_out(told, "run-1", [(f"facts/{n}.md", "it moved on") for n in range(20)])
    assert "12 more (it moved on)." in many


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_bold_words_code_and_lists_are_rendered_in_the_account() -> None:
    made = html.render(report(action(fact("**The cause:** `a < b`\n- one\n- two", said_by="user"))))
    assert "“<strong>The cause:</strong> <code>a &lt; b</code>" in made
    assert '<ul class="said"><li>one</li><li>two”</li></ul>' in made
    assert "**" not in Reader(made).text
