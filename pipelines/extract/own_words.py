"""Own words: what the speaker of a turn says, without what only stands in it: quotations, pasted dialogues and heads.

A quoted sentence is somebody else's: it may be found, and makes no fact of the speaker's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...store.text.fence import TAG, holds_marks
from ...store.text.sentences import GAP
from ...store.text.words import CODE_SPAN

_RECALLED = re.compile(
    rf"<(?P<tag>{TAG}|dreamd|memory|memories|recalled|recall|system-reminder)\b[^>]*>.*?</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)
_OF_PROGRAM = re.compile(r"^[^\S\n]*<(?P<tag>[a-z]+[-_][a-z_-]+)\b[^>\n]*>.*?</(?P=tag)>", re.DOTALL | re.MULTILINE)
"""Words that a program put into a turn, between tags of two words: "<command-name>/plan</command-name>"."""

_IMAGE = re.compile(r"\[image:\s*[^\]]+\]", re.IGNORECASE)
_QUOTATION = re.compile(r"[^\S\n]{0,3}>")
_ROLE = re.compile(
    r"[\s*_#<\[(-]{0,8}(?:human|user|assistant|system|developer|tool|ai|model)[\s*_>\])]{0,4}:", re.IGNORECASE
)
"""The mark of a turn in a pasted dialogue: "Human: …", "**Assistant:** …"."""

_RULE = re.compile(r"(?:---|\+\+\+)\s*")
_KEY = re.compile(r"[\w-]{1,40}\s*[:=](?:\s|$)|\s|- |#")
MOST_HEAD_LINES = 60
"""Lines of a pasted frontmatter, at most."""

_LEFT_OUT = "\0"
"""Stands for what was cut out, until it is known what is left around it."""

_AROUND = f"{_LEFT_OUT} \t\n"
_GAPS = re.compile(rf"(?<!\s)\s*+{_LEFT_OUT}[\s{_LEFT_OUT}]*+")

FEWEST_QUOTED = 4
"""Words in quotation marks or code that may be another's rule: a name or a command has fewer."""

_BLOCK_OR_SPAN = re.compile(rf"```.*?```|{CODE_SPAN.pattern}", re.DOTALL)
_IN_MARKS = re.compile(r"“[^”]*”|„[^“”]*[“”]|«[^»]*»|(?<!\w)\"[^\"]*\"(?!\w)")


def own_words(text: str) -> str:
    """Return a turn's text without recalled memories, what programs put in, captions, quotations and pasted dialogues.

    What begins with a frontmatter is a pasted file, and none of it the speaker's. GAP stands for what is left out.
    """
    for not_said in (_RECALLED, _OF_PROGRAM, _IMAGE):
        text = not_said.sub(_LEFT_OUT, text)
    lines = text.strip(_AROUND).split("\n")
    is_file = _RULE.fullmatch(lines[0]) is not None and _end_of_head(lines, 0) > 0
    own = "" if is_file else "\n".join(_own_lines(lines)).strip(_AROUND)
    return _GAPS.sub(lambda gap: f"\n{GAP}\n" if "\n" in gap[0] else f" {GAP} ", own)


def without_marked(text: str) -> str:
    """Return a text without what stands in it between quotation marks."""
    return _IN_MARKS.sub(" ", text)


def quotes_another(text: str) -> bool:
    """Check for a turn that tells of others' words: marks of roles or templates, or much in quotation marks or code."""
    around = _BLOCK_OR_SPAN.sub(" ", without_marked(text))
    return holds_marks(text) or len(text.split()) - len(around.split()) >= FEWEST_QUOTED


def _own_lines(lines: list[str]) -> Iterator[str]:
    """Yield the lines without those that are not the speaker's own: a mark of a role counts to the next blank line."""
    head_ends = in_dialogue = 0
    for number, line in enumerate(lines):
        if _RULE.fullmatch(line) and number >= head_ends:
            head_ends = _end_of_head(lines, number)
        in_dialogue = bool(line.strip()) and (in_dialogue or bool(_ROLE.match(line)))
        is_own = not (number < head_ends or in_dialogue or _QUOTATION.match(line))
        yield line if is_own or not line.strip() else _LEFT_OUT


def _end_of_head(lines: list[str], start: int) -> int:
    """Return the line after a frontmatter that begins at `start`; `start` where none does."""
    for number in range(start + 1, min(start + MOST_HEAD_LINES, len(lines))):
        if lines[number].strip() == lines[start].strip():
            return number + 1 if number > start + 1 else start
        if not _KEY.match(lines[number]):
            break
    return start
