"""Private keys as blocks of lines: as they are, as listings and diffs print them, and in base64."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final

from .shapes import Span

KIND: Final = "private-key"
LONGEST: Final = 16_000
"""Characters of a block, with what a listing puts before each line: an RSA key of 8,192 bits has 6,400."""

_BEGIN = re.compile(r"-{4,5} ?BEGIN (?:(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-{4,5}")
_END = re.compile(r"-{4,5} ?END (?:(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-{4,5}")
_MARK = r"(?:\\[nr]|[\s\"'\\,>|+#*→:])"
_NUMBER = rf"(?:[\w./-]{{1,80}}[:-])?\d{{1,6}}(?=[\s→:|\t+-]){_MARK}{{1,12}}-?"
_BEFORE_LINE = rf"{_MARK}{{0,40}}(?:{_NUMBER})?"
_KEY_LINES = re.compile(
    rf"(?:{_BEFORE_LINE}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n]{{1,100}}\n|[A-Za-z0-9+/=]{{24,4096}}+))++"
)
_LAST_LINE = re.compile(rf"{_BEFORE_LINE}[A-Za-z0-9+/=]{{1,76}}(?=\s|\\n|\"|'|\Z)")
_OF_A_KEY = re.compile(r"[A-Za-z0-9+/=]{24,}")
_FEWEST_OF_A_KEY = 40
_PUTTY = re.compile(r"Private-Lines: \d{1,4}\s")
_PUTTY_MAC = re.compile(r"Private-MAC: ?([0-9a-f]{40,64})")
_CODED = "LS0tLS1CRUdJTi"  # "-----BEGIN" in base64
_CODED_LINES = re.compile(r"[A-Za-z0-9+/_-]{20,}(?:\s{1,20}[A-Za-z0-9+/_-]{20,})*={0,2}")
_DECODED_CHARS = 80
_JWK = re.compile(r'"(?:d|k|p|q|dp|dq|qi)"\s{0,4}:\s{0,4}"(?P<secret>[A-Za-z0-9_-]{16,4096})"')
_NUMBERS = re.compile(
    r"(?P<open>[\[{])\s{0,8}(?P<secret>(?:(?:0x[0-9a-fA-F]{1,2}|\d{1,3}|'[!-~]')\s{0,8},\s{0,8}){9,512}(?:0x[0-9a-fA-F]{1,2}|\d{1,3}|'[!-~]'))"
)
_NUMBERS_NAMED = re.compile(r"(?i)(?:key|secret|pass|pw|seed|solana|wallet|id\.json)[^\n]{0,60}\n?[^\n\[{]{0,40}\Z")
_BEFORE_NUMBERS = 140
_BARE = re.compile(
    r"(?<![A-Za-z0-9+/])(?:MII[A-Za-z0-9+/]{3}IBA[AD]|MC4CAQAwBQYDK2V|M[GH][A-Za-z0-9+/]{2}AgEAM|MHcCAQEE|b3BlbnNzaC1rZXktdjE)"
    r"(?:[A-Za-z0-9+/=]|\\n|\s{1,20}(?=[A-Za-z0-9+/=]{16})){40,8000}+"
)
"""The body of a key without its first and last line: how DER and OpenSSH begin a private one, in base64."""


def find_jwk(text: str) -> Iterator[Span]:
    """Find the private members of a key in JSON."""
    for found in _JWK.finditer(text):
        yield *found.span("secret"), KIND


def find_arrays(text: str) -> Iterator[Span]:
    """Find keys that are written as a list of bytes or characters behind their name."""
    for found in _NUMBERS.finditer(text):
        if _NUMBERS_NAMED.search(text, max(0, found.start() - _BEFORE_NUMBERS), found.start()):
            yield *found.span("secret"), KIND


def find_blocks(text: str) -> Iterator[Span]:
    """Find PEM and PGP blocks; one without its end, or its beginning, goes as far as its lines look like a key's."""
    looked_to = 0
    while (begin := _BEGIN.search(text, looked_to)) is not None:
        looked_to = begin.end()
        end = _END.search(text, looked_to, looked_to + LONGEST)
        if end is not None and _is_mostly_key(text[looked_to : end.start()]):
            looked_to = end.end()
        elif (lines := _KEY_LINES.match(text, looked_to)) is not None:
            looked_to = lines.end()
        else:
            continue
        yield begin.start(), looked_to, KIND
    yield from _tails(text)


def find_bare(text: str) -> Iterator[Span]:
    """Find the bodies of private keys that stand without their first line."""
    for found in _BARE.finditer(text):
        yield *found.span(), KIND


def _tails(text: str) -> Iterator[Span]:
    """Find what is left of a block of which the beginning was cut off."""
    from_ = 0
    for end in _END.finditer(text):
        before = text[max(from_, end.start() - LONGEST) : end.start()]
        lines = before.split("\n")
        kept = len(lines)
        while kept and (_OF_A_KEY.search(lines[kept - 1]) or kept >= len(lines) - 1):
            kept -= 1
        piece = "\n".join(lines[kept:])
        if _is_mostly_key(piece) and "-----BEGIN" not in piece:
            first = _OF_A_KEY.search(piece)
            assert first is not None
            yield end.start() - len(piece) + first.start(), end.end(), KIND
        from_ = end.end()


def _is_mostly_key(between: str) -> bool:
    key = sum(map(len, _OF_A_KEY.findall(between)))
    return key >= _FEWEST_OF_A_KEY and key * 2 > len(between)


def find_putty(text: str) -> Iterator[Span]:
    """Find the private half of PuTTY's key files."""
    for found in _PUTTY.finditer(text):
        lines = _KEY_LINES.match(text, found.end())
        if lines is not None:
            last = _LAST_LINE.match(text, lines.end())
            yield found.end(), last.end() if last else lines.end(), KIND
    for mac in _PUTTY_MAC.finditer(text):
        yield *mac.span(1), KIND


def find_coded(text: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find PEM blocks in base64, as kubeconfig and continuous integration keep them; a certificate is none."""
    looked_to = 0
    for candidate in candidates:
        if candidate.start() < looked_to or not candidate[0].startswith(_CODED):
            continue
        beginning = candidate[0][: _DECODED_CHARS - _DECODED_CHARS % 4]
        try:
            decoded = base64.b64decode(beginning[: len(beginning) // 4 * 4])
        except binascii.Error:
            continue
        if b"PRIVATE" in decoded:
            lines = _CODED_LINES.match(text, candidate.start())
            looked_to = lines.end() if lines else candidate.end()
            yield candidate.start(), looked_to, KIND
