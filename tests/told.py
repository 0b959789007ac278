"""What is told held against what was said: a piece of it, word for word, but for white space and marks of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from dreamd.store.text.fence import plain, unmarked, unmarked_lines
from hypothesis import strategies as st

_MARKS = re.compile(
    r"…|\[(?:redacted|REDACTED)[^\]\n]{0,40}\]"
    r"|\s\[(?:week of )?(?:\d{1,2} )?(?:[A-Z][a-z]{2} )?\d{4}\](?!\()"
    r"|\s\(\d+ of \d+ steps\)"
)
"""What we put between the words: a gap, a secret's mark, the day that a word meant, a share of a list."""

_QUOTED_ROLE = re.compile(r'^"(\w+)"(?=[ ,:])')
"""The mark of a role that opens a line, broken as a fence breaks it."""


def strays(told: str, said: Iterable[str]) -> list[str]:
    """Return the parts of a text, between our marks, that stand in none of the texts that were said."""
    parts = [part for one in _MARKS.split(_line(told)) if any(map(str.isalnum, part := one.strip()))]
    forms = [form for text in said for form in _forms(text)]
    return [part for part in parts if not any(part in form or _QUOTED_ROLE.sub(r"\1", part) in form for form in forms)]


@lru_cache(maxsize=100_000)
def _forms(text: str) -> tuple[str, ...]:
    """Return a text on one line as it is, and with the marks broken that a fence breaks."""
    return tuple(dict.fromkeys((_line(text), unmarked(text), _line(unmarked_lines(text)))))


def _line(text: str) -> str:
    return " ".join(plain(text).split())


PARTS: Final = (
    *(
        "We moved from vX.Y.Z to v2.10.0-rc.1.",
        "sqlite3.OperationalError: database is locked",
        "call it.Then it builds",
    ),
    *("#![cfg_attr(not(test), no_std)]", "ISSUER=user:188f-9a", 'http.Header{"X-A": {"b"}}', "User::find(1).name"),
    *(
        "See https://a.b/c.d?e=f#g.h! It helps.",
        "git@github.com:a/b.git",
        "Das geht z.B. am 12. Mai nicht.",
        "e.g. 3.50 €",
    ),
    *("It broke yesterday.", "s3://logs/yesterday.csv", "last-week=7", "Lo hicimos ayer.", "¿Y el puerto? Es el 8080."),
    *(
        "- stop it",
        "* [x] done",
        "1. build it",
        "2) ship it",
        "3. rest",
        "> quoted by them",
        "## Plan",
        "元気です。はい",
    ),
    *("| room | key |\n|---|---|\n| attic | 17 |", "```sh\nmake test\n```", "```\nlong\ncode\nof\nmany\nlines\n```"),
    *(
        "[image: a.png]",
        "**The cause:** it was `a. B`.",
        "Steps:",
        "Shall I take uv for it?",
        "Yes, so that it is quick;",
    ),
    *("We use Postgres 16 because Petra knows it, and never MySQL.", "…", "a;b", "user: do it", "\u200bx\u00a0y"),
)
"""What people and agents write of: versions, code, addresses, days in several languages, markdown."""

TEXTS: Final = st.lists(
    st.tuples(
        st.sampled_from(PARTS) | st.text(alphabet="aB1 .!?\n-#`|>*:;…[]\"'(", max_size=12),
        st.sampled_from((" ", "", "\n", "\n\n", ".", ": ", " — ")),
    ),
    max_size=9,
).map(lambda parts: "".join(part + between for part, between in parts))
"""Texts made of such parts, one behind the other, with or without space between them."""
