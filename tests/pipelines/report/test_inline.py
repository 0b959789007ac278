"""The words of memories in a digest: what a reader of the page sees is what was said."""

from __future__ import annotations

import html
import re

import pytest
from dreamd.pipelines.report.digest_text import escaped, rendered, without_links
from hypothesis import given, settings

from tests.examples import examples
from tests.told import TEXTS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use a[0], not <b> or \\[x]", r"use a\[0\], not \<b> or \\\[x\]"),
        ("`a[0] <b>` and ``x ` y``", "`a[0] <b>` and ``x ` y``"),
        ("one ` alone [a](b)", r"one \` alone \[a\](b)"),
        ("ends in \\", "ends in \\\\"),
    ],
)
def test_markdown_shows_what_was_said(text: str, shown: str) -> None:
    assert escaped(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**The cause:** `a < b`", "<strong>The cause:</strong> <code>a &lt; b</code>"),
        ("**Fields of `State`** & 2 ** 3", "<strong>Fields of <code>State</code></strong> &amp; 2 ** 3"),
        ("“Steps:\n- one\n- `two`”", '“Steps: <ul class="said"><li>one</li><li><code>two</code>”</li></ul>'),
        ("12 May: “1. one\n2. two", '12 May: “ <ol class="said"><li value="1">one</li><li value="2">two</li></ol>'),
        ("Run:\n```sh\nls <a>\n```\nDone.", "Run: <pre><code>ls &lt;a&gt;\n</code></pre> Done."),
        ("```never closed", "```never closed"),
    ],
)
def test_html_renders_bold_words_code_and_lists(text: str, shown: str) -> None:
    assert rendered(text) == shown


@given(TEXTS)
@settings(max_examples=examples(150), deadline=None)
def test_every_letter_is_shown_in_its_order(text: str) -> None:
    text = text.replace("```sh", "```")  # the language of a block is no word
    shown = html.unescape(re.sub(r"<[a-z/][^>]*>", "", rendered(text)))
    assert letters(shown) == letters(escaped(text)) == letters(text)


def letters(text: str) -> str:
    return "".join(filter(str.isalpha, text))


def test_a_link_goes_and_its_words_stay() -> None:
    line = f"- [{escaped('a[0](x) and `[b](/c)`')}](/facts/f.md) · fact"
    assert without_links(line) == r"- a\[0\](x) and `[b](/c)` · fact"
