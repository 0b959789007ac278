"""Values that are wrapped: in base64 or hexadecimal, by escapes, in literals that are joined, over several lines.

    'sk_live_86b' + 'lgs68J'      echo cGFzcy1…== | base64 -d      pw = bytes.fromhex('6865…')      {"pw": "gr\u00fcn7"}

A text is read once more with all of them unwrapped; a secret that is found there is mapped back onto the whole of its
wrapping.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from .prefilter import has_any, starts_of

LONGEST: Final = 16_000
FEWEST_DECODED: Final = 5
_LEAST_PRINTABLE: Final = 0.97

_JOINED = re.compile(
    r"(?P<quote>[\"'])(?<=[^\s\"'(\[{,;:=][\"'])[ \t]{0,8}"
    r"(?:(?:[+.&~]|\|\||\.\.)?[ \t]{0,8}[\\_]?\r?\n[ \t]{0,40}(?:[+.&~]|\|\||\.\.)?|[+.&~]|\|\||\.\.)"
    r"[ \t]{0,40}(?P=quote)(?=[^\s\"'])"
)
"""The end of a string literal and the beginning of the next, which a sign or a line end joins to it."""

_CONTINUED = re.compile(r"\\\r?\n[ \t]{0,40}(?=[\w+/=-])")
_ESCAPED = re.compile(r"(?:\\x[0-9a-fA-F]{2}|\\{1,2}u[0-9a-fA-F]{4}|&#\d{2,4};){1,400}")
_OF_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\{1,2}u([0-9a-fA-F]{4})|&#(\d{2,4});")
_DUMPED = re.compile(r"(?m)(?:^[0-9a-f]{6,8}:? {1,2}(?:[0-9a-f]{2,4} {1,2}){2,16} {0,40}\|?[^\n]{0,17}\n?){1,40}+")
_OF_DUMP = re.compile(r"(?m)^[0-9a-f]{6,8}:? {1,2}((?:[0-9a-f]{2,4} {1,2}){2,16})")
_HEX = re.compile(r"(?:[2-7][0-9a-fA-F]){8,512}")
_PADDED = re.compile(r"[A-Za-z0-9+/]{6,22}\Z")
_PADDED_CHARS: Final = 24

Wrapping = tuple[int, int, str]
"""The start and end of a wrapping, and its content: "" where it joins the text around it."""


class Unwrapped:
    """A text without its wrappings, and where its characters stood."""

    def __init__(self, text: str, wrappings: Sequence[Wrapping]) -> None:
        """Replace each wrapping by its content."""
        pieces: list[str] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._wrappings = wrappings
        size = position = 0
        for start, end, inner in wrappings:
            self._starts.append(size + start - position)
            size = self._starts[-1] + len(inner)
            self._ends.append(size)
            pieces += (text[position:start], inner)
            position = end
        self.text = "".join((*pieces, text[position:]))

    def bounds(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where a piece of the text stood, with its wrappings whole; None where nothing of it was wrapped."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if first >= last:
            return None
        original_start = start - self._ends[first - 1] + self._wrappings[first - 1][1] if first else start
        original_end = end - self._ends[last - 1] + self._wrappings[last - 1][1]
        return (
            self._wrappings[first][0] if self._starts[first] <= start else original_start,
            self._wrappings[last - 1][1] if self._ends[last - 1] >= end else original_end,
        )


def unwrapped(text: str, plain: str, candidates: Iterable[re.Match[str]]) -> Unwrapped | None:
    """Unwrap all wrappings of a text; None where there is none.

    `plain` is the text without the escapes of one plain character each, `candidates` are its long runs.
    """
    wrappings: list[Wrapping] = []
    # The first of two that overlap is unwrapped; the other shows once that is redacted.
    for wrapping in sorted((*_joints(plain), *_coded(text), *_runs(plain, candidates))):
        if not wrappings or wrapping[0] >= wrappings[-1][1]:
            wrappings.append(wrapping)
    return Unwrapped(plain, wrappings) if wrappings else None


def _joints(text: str) -> Iterator[Wrapping]:
    if "'" in text or '"' in text:
        yield from ((*found.span(), "") for found in _JOINED.finditer(text))
    if "\\\n" in text or "\\\r" in text:
        for found in _CONTINUED.finditer(text):
            if text[found.start() - 1 : found.start()].isalnum():
                yield *found.span(), ""


def _coded(text: str) -> Iterator[Wrapping]:
    if has_any(text, ("\\x", "\\u", "&#")):
        yield from ((*found.span(), _of_escapes(found[0])) for found in _ESCAPED.finditer(text))
    if has_any(text, ("00000000", "000000 ")):
        yield from ((*found.span(), inner) for found in _DUMPED.finditer(text) if (inner := _of_dump(found[0])))


def _runs(text: str, candidates: Iterable[re.Match[str]]) -> Iterator[Wrapping]:
    for run in candidates:
        if inner := _of_hex(run[0]) if _HEX.fullmatch(run[0]) else decoded(run[0]):
            yield *run.span(), inner
    # A short run of base64 is known by its padding alone.
    for at in starts_of("=", text):
        if text[at - 1 : at].isalnum() and not text[at + 1 : at + 2].isalnum():
            short = _PADDED.search(text[max(0, at - _PADDED_CHARS) : at])
            end = at + 1 + (text[at + 1 : at + 2] == "=")
            if short is not None and (inner := decoded(short[0] + text[at:end])):
                yield at - len(short[0]), end, inner


def _of_escapes(run: str) -> str:
    def one(escape: re.Match[str]) -> str:
        return chr(int(escape[1] or escape[2], 16) if escape[1] or escape[2] else int(escape[3]))

    return _OF_ESCAPE.sub(one, run)


def _of_dump(run: str) -> str:
    digits = "".join(found[1].replace(" ", "") for found in _OF_DUMP.finditer(run))
    return _of_hex(digits) if len(digits) % 2 == 0 else ""


def _of_hex(run: str) -> str:
    return _printable(bytes.fromhex(run))


def decoded(run: str) -> str:
    """Return the text that a run of base64 encodes, "" where it is none."""
    digits = run.rstrip("=")
    if len(run) > LONGEST or len(digits) % 4 == 1:
        return ""
    try:
        data = base64.b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_" if "-" in run else None)
    except binascii.Error:
        return ""
    # UTF-16, as PowerShell encodes its commands, has a zero in every second byte.
    return _printable(data.replace(b"\0", b"") if data[1::2].count(0) * 4 > len(data) else data)


def _printable(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) < FEWEST_DECODED or "\ufffd" in text:
        return ""
    # Binary data in base64 decodes to text by chance, but hardly to printable text.
    printable = sum(c.isprintable() or c in "\r\n\t" for c in text)
    return text if printable >= _LEAST_PRINTABLE * len(text) else ""


# ---- escapes that stand for one plain character

_MARKS: Final = ("\\", "&", "\x1b", "[0", "[1", "[3", "[9")
_ESCAPE = re.compile(
    r"\\{1,4}(?P<letter>[nrt])|\\{1,4}u00(?P<unicode>[2-7][0-9a-fA-F])|\\{1,4}u001[bB](?:\[[0-9;]{0,12}m)?"
    r"|&(?P<entity>quot|amp|lt|gt|apos|#34|#39|#x27|#x22);|\x1b?\[[0-9;]{1,12}m"
)
_LETTERS: Final = {"n": "\n", "r": "\n", "t": "\t"}
_ENTITIES: Final = {"quot": '"', "#34": '"', "#x22": '"', "amp": "&", "lt": "<", "gt": ">"}
_PERCENT = re.compile(r"%([2-7][0-9a-fA-F])")


def without_percents(text: str) -> str:
    """Return a text with each escape of a URL as two spaces and its character."""
    return _PERCENT.sub(lambda escape: chr(int(escape[1], 16)).rjust(3), text) if "%" in text else text


def without_escapes(text: str) -> str:
    """Return a text with each escape of JSON, HTML and terminals as spaces and its character.

    Positions stay: `{"out":"a\\nAIza…"}` has a line end before the key, which would otherwise follow the letter n.
    """
    return _ESCAPE.sub(_plain, text) if has_any(text, _MARKS) else text


def _plain(escape: re.Match[str]) -> str:
    if letter := escape["letter"]:
        plain = _LETTERS[letter]
    elif code := escape["unicode"]:
        plain = chr(int(code, 16))
    elif entity := escape["entity"]:
        plain = _ENTITIES.get(entity, "'")
    else:
        plain = ""
    return plain.rjust(len(escape[0]))
