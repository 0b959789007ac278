"""Redaction: secrets are replaced in every text before it is kept, and masked in files that are read again.

Most texts have none: a few substring searches, and one for runs as long as a key, show it (`prefilter`). Otherwise the
rules run whose own words were seen. Every pattern is bounded, or possessive, so the time is linear in the text.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from .classifier import find_likely
from .key_forms import CANDIDATE, Span, find_coded, find_issued
from .prefilter import FEWEST, folded, has_long_run
from .rules import find_by_rules, find_personal
from .values import is_wordy
from .wrappings import unwrapped, without_escapes, without_percents

REDACTED: Final = "[redacted:"
_MARK = re.compile(r"\[redacted:[\w-]{1,40}\]")
MASK: Final = "x"  # of one byte, a stand-in for every rule, and no command of YAML's
MOST_ROUNDS: Final = 4
"""Once one is gone, another may be next to its name; a text of secrets alone needs a third round."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the kind of each that was found."""

    text: str
    found: tuple[str, ...] = ()


LONGEST_NAME = 200
MOST_BEFORE = 9000
_NAME_BEFORE = re.compile(r"[\w./-]{1,200}$")
_OUR_NAME = re.compile(
    r"(?:[\w./-]{1,400}--(?:[a-z2-7]{13}|doc-[a-z2-7]{16})(?:\.md)?"
    r"|/?(?:projects|general|people)/[\w./-]{1,400}-[a-z2-7]{6}\.md"
    r"|/?sessions/(?:\d{4}/\d\d/\d\d|undated)/(?P<session>[\w.-]{1,80})\.md)(?![\w-])"
)
_OUR_HEADING = re.compile(r"#{1,2} (?P<channel>[\w.-]{1,120}-[0-9a-f]{6})(?=\r?\n\r?\n)")
"""The name of a project over its part of the catalogue."""
_OUR_LINE = re.compile(r"(?:sources: \[\{|dreamd: \{|generated: \{) ")
_BEFORE_ID = re.compile(
    r"\b(?:(?:node_id|channel|session_id|superseded_by|run|body_sha256|title): "
    r'|(?:supersedes|contradicts|later|relates|mentions): \[(?:"?[\w.#-]{1,130}"?, ){0,199}|ended_by: )"?$'
)
_BEFORE_NAME = re.compile(r'\b(?:by|agent_id|task_id|user_id): "?$')
_ID_BEFORE = re.compile(r"[\w.-]{1,120}$")
_OUR_ID = re.compile(r"[\w.-]{1,120}(?:#\d{1,9})?")
_ID_AS_TITLE = re.compile(
    r'title: "?(?P<id>[\w.-]{1,120})"?\r?\n(?:(?:timestamp|generated): [^\n]{1,600}\n){0,2}'
    r'dreamd: \{ node_id: "?(?P=id)[",]'
)
_TURN = re.compile(
    r'<!-- turn n=\d{1,9} role="(?:[^"\\\n]|\\.){0,600}+"(?: at="[^"\n]{0,60}")?'
    r'(?: id="(?P<id>(?:[^"\\\n]|\\.){0,600}+)")? bytes=\d{1,12} sha256="(?P<sha256>[0-9a-f]{16})"(?: named)? -->\r?\n'
)
_LISTED = re.compile(
    r"\]\(/[^)\s]{1,600}\.md\) - \d{4}-\d\d-\d\d, (?P<id>[\w.@/-]{1,100})(?=(?:, archived)?$)", re.MULTILINE
)
_OUR_LINES: Final = (("<!-- turn n=", _TURN), (".md) - ", _LISTED))
"""The comment line of a turn (`okf.session`) and a memory in the catalogue, each with a piece that tells of it."""


def redact(text: str, *, personal: bool = False) -> Redacted:
    """Replace secrets by `[redacted:KIND]`; the text around them, and their names, stay.

    `personal`: identifiers of people too.
    """
    kinds: list[str] = []
    for _ in range(MOST_ROUNDS):
        spans = find(text, personal=personal)
        if not spans:
            break
        pieces: list[str] = []
        position = 0
        for start, end, kind in spans:
            pieces += (text[position:start], REDACTED, kind, "]")
            position = end
            kinds.append(kind)
        text = "".join((*pieces, text[position:]))
    return Redacted(text, tuple(kinds))


def masked(data: bytes, *, personal: bool = False) -> bytes:
    """Return a file's bytes with an `x` for each byte of a secret: all other bytes keep their places."""
    text = data.decode("utf-8", "surrogateescape")
    for _ in range(MOST_ROUNDS):
        spans = find(text, personal=personal)
        if not spans:
            break
        data, text = _masked(text, spans)
    return data


def _masked(text: str, spans: Iterable[Span]) -> tuple[bytes, str]:
    pieces: list[str] = []
    position = 0
    for start, end, _ in spans:
        hidden = re.sub(
            r"[^\r\n]", lambda each: MASK * len(each[0].encode("utf-8", "surrogateescape")), text[start:end]
        )
        pieces += (text[position:start], hidden)
        position = end
    text = "".join((*pieces, text[position:]))
    return text.encode("utf-8", "surrogateescape"), text


def bounds_of_secret(text: str, at: int) -> tuple[int, int]:
    """Return where the secret, its mark or the identifier is that a position falls into; the position for none."""
    first = max(0, at - LONGEST_NAME)
    around = text[first : at + LONGEST_NAME]
    # A cut within a secret, or within the mark that replaced it, would leave a part of it.
    marks = (mark.span() for mark in _MARK.finditer(around))
    for start, end in (*marks, *(span[:2] for span in find(around, personal=True))):
        if first + start < at < first + end:
            return first + start, first + end
    return at, at


def places_of_secrets(data: bytes, path: str = "") -> list[str]:
    """Say of each secret in a file, or in its name, where it is and its kind: `line 3 (github)`."""
    named = [f"its name ({kind})" for _, _, kind in find(path)]
    text = data.decode("utf-8", "replace")
    lines = dict.fromkeys((text.count("\n", 0, start) + 1, kind) for start, _, kind in find(text))
    return named + [f"line {line} ({kind})" for line, kind in lines]


@cache
def version_of_rules() -> str:
    """Return a hash of the rules and weights: a file that was searched by the same need not be again."""
    files = sorted(file for file in Path(__file__).parent.iterdir() if file.is_file())
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:32]


def find(text: str, *, personal: bool = False) -> list[Span]:
    """Return where secrets are and their kinds, from left to right; none overlaps another."""
    if len(text) < FEWEST and text.isalnum() and not personal:
        return []  # a role, a number: too short for a key, and without a mark
    in_ids: list[Span] = []
    for mark, line in _OUR_LINES:
        if mark in text:
            text, found = _without_ids(text, line, personal=personal)
            in_ids += found
    # `without_escapes` keeps places, so that spans of the plain text are spans of the text.
    plain = without_escapes(text)
    candidates = list(CANDIDATE.finditer(plain)) if has_long_run(plain) else []
    spans = [_without_space(plain, span) for span in _found(plain, candidates, personal=personal)]
    if (plainer := without_percents(plain)) != plain:
        spans += [_without_space(plainer, span) for span in _found(plainer, list(CANDIDATE.finditer(plainer)))]
    spans += _wrapped(text, plain, candidates)
    spans = [_with_next_line(plain, span) for span in spans if not (_is_our_name(text, span) or _is_our_id(text, span))]
    return _apart([*spans, *in_ids]) if spans or in_ids else []


def _without_ids(text: str, our_line: re.Pattern[str], *, personal: bool) -> tuple[str, list[Span]]:
    """Return a text with an `x` for each character of the ids and hashes in lines of ours, and the secrets in the ids.

    An id is judged by itself, as when it came in: in quotes behind its name most ids look like passwords. A hash is no
    secret, though one of eleven thousand is hexadecimal for printable text; a turn without it is lost.
    """
    pieces: list[str] = []
    spans: list[Span] = []
    position = 0
    for line in our_line.finditer(text):
        for start, end in sorted(line.span(name) for name, value in line.groupdict().items() if value):
            pieces += (text[position:start], MASK * (end - start))
            position = end
        at = line.start("id")
        spans += [(at + start, at + end, kind) for start, end, kind in find(line["id"] or "", personal=personal)]
    return "".join((*pieces, text[position:])), spans


_CUT = re.compile(r"[ \t]{0,4}\r?\n[ \t>|]{0,16}(?P<rest>[A-Za-z0-9+/_.~-]{6,512}={0,2})(?=[\"'`,;)]{0,3}(?:\s|\Z))")


def _with_next_line(text: str, span: Span) -> Span:
    """Return a key with the lines on which a terminal or a mail continued it: lone runs that are no word."""
    start, end, kind = span
    # Passwords are short: only a key is broken over lines.
    while kind != "password" and end - start >= FEWEST and (more := _CUT.match(text, end)) is not None:
        if not any(map(str.isdigit, more["rest"])) or is_wordy(more["rest"]):
            break
        end = more.end("rest")
    return start, end, kind


def _wrapped(text: str, plain: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find secrets that show only once they are unwrapped."""
    if (view := unwrapped(text, plain, candidates)) is not None:
        inner = without_escapes(view.text)
        for start, end, _ in _found(inner, list(CANDIDATE.finditer(inner))):
            if (bounds := view.bounds(start, end)) is not None:
                yield *bounds, "encoded"


def _without_space(text: str, span: Span) -> Span:
    start, end, kind = span
    value = text[start:end]
    return end - len(value.lstrip()), start + len(value.rstrip()), kind


def _found(text: str, candidates: Sequence[re.Match[str]], *, personal: bool = False) -> list[Span]:
    lowered = folded(text)
    spans: list[Span] = []
    if candidates:
        spans += find_issued(text, lowered, candidates)
        spans += find_coded(text, candidates)
    spans += find_by_rules(text, lowered)
    # The classifier is last: a rule knows the kind, and the bounds, of a secret better.
    spans += [span for span in find_likely(text, lowered, candidates) if not _is_known(text, span, spans)]
    if personal:
        spans += find_personal(text)
    return spans


def _is_known(text: str, span: Span, spans: Sequence[Span]) -> bool:
    """Return True if a rule found the secret in a value, and the rest of it is words: `app/X@db:1521`."""
    start, end, _ = span
    for first, last, _ in spans:
        if start < last and first < end:
            before, behind = text[start:first], text[last:end]
            return is_wordy(before.strip("\"'%@;")) and is_wordy(behind.strip("\"'@;"))
    return False


def _is_our_name(text: str, span: Span) -> bool:
    """Return True for a span in the name of a memory's file: a slug of words that were redacted, and an id.

    That of a session, and that of a project as a heading, is one if it is no secret by itself, as when it came in.
    """
    start, end, _ = span
    if "\n" in text[start:end]:
        return False
    heading = _OUR_HEADING.match(text, text.rfind("\n", 0, start) + 1)
    if heading is not None and heading.start("channel") <= start and end <= heading.end("channel"):
        return not find(heading["channel"])
    before = _NAME_BEFORE.search(text, max(0, start - LONGEST_NAME), start)
    name = _OUR_NAME.match(text, before.start() if before else start, min(len(text), end + LONGEST_NAME))
    return name is not None and name.end() >= end and not find(name["session"] or "")


def _is_our_id(text: str, span: Span) -> bool:
    """Return True for a span in an id, in a line of the frontmatter that dreamd writes of such alone.

    The name of an agent, a task or a user is one if it is no secret by itself, as when it came in.
    """
    start, end, _ = span
    line = text.rfind("\n", 0, start) + 1
    before = _ID_BEFORE.search(text, max(line, start - LONGEST_NAME), start)
    first = before.start() if before else start
    named = _OUR_ID.match(text, first)
    if named is None or named.end() < end:
        return False
    if (titled := _ID_AS_TITLE.match(text, line)) is not None and titled.start("id") == first:
        return True
    if _OUR_LINE.match(text, line) is None:
        return False
    if _BEFORE_ID.search(text, max(line, first - MOST_BEFORE), first) is not None:
        return True
    is_name = _BEFORE_NAME.search(text, max(line, first - LONGEST_NAME), first) is not None
    return is_name and not find(named[0])


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Join spans that overlap: the first found gives its kind, except to a block around it."""
    apart: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if apart and start < apart[-1][1]:
            first = apart[-1]
            apart[-1] = (first[0], max(first[1], end), first[2])
        else:
            apart.append((start, end, kind))
    return apart


MOST_KNOWN: Final = 4096
"""Contents remembered, of 32 bytes each: more than are ever between the writer and the index."""


class FileMask:
    """Masks the secrets of files, but skips the files that the store itself has just written from redacted text.

    It knows their contents by hash, while this process lives: an edit by another program has another hash, and is
    masked. `note` is called in the writer's thread, `over` in any.
    """

    def __init__(self, *, personal: bool = False) -> None:
        """Mask identifiers of people too where `personal` asks for it."""
        self._personal = personal
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def note(self, sha256: bytes) -> None:
        """Remember the hash of a whole file of which every text was redacted."""
        self._known[sha256] = None
        while len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    def over(self, data: bytes, parts: Callable[[bytes], Iterable[bytes]] = lambda data: (data,)) -> bytes:
        """Return a file's bytes, or a part of them, with an `x` for each byte of a secret in one of its `parts`."""
        if self._known and hashlib.sha256(data).digest() in self._known:
            return data
        return b"".join(masked(part, personal=self._personal) for part in parts(data))
