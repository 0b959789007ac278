"""Forms of keys: those that issuers give them (`issuers.txt`), and private keys as blocks of lines.

A line of the table is an issuer, a form, and, where the form alone is no proof, words of which one is within
BESIDE_CHARS of the key. A form is literal text with places: `<A36>` is 36 characters of the alphabet A of ALPHABETS,
`<b20-50>` 20 to 50, `<h40+>` 40 or more, `<o>` a short word or nothing. The facts are those of the issuers' own
documentation and of keys that they issue; a length that they do not promise is given as a range. A new issuer is one
line: the patterns, and their test, come from it.

No pattern is compiled before a text has the beginning that it asks for.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from .prefilter import FEWEST, has_any
from .values import is_filler, is_jumbled, is_wordy

Span = tuple[int, int, str]
"""The start and end of a secret, and its kind."""

ALPHABETS: Final = {
    "A": "A-Za-z0-9",
    "a": "a-z0-9",
    "U": "A-Z0-9",
    "d": "0-9",
    "h": "0-9a-fA-F",
    "b": "A-Za-z0-9_-",
    "w": "A-Za-z0-9_",
    "B": "A-Za-z0-9+/",
    "c": "A-Za-z0-9_%+/=~.-",
    "p": "A-Za-z0-9_/",
    "q": "A-Za-z0-9_/?&=%@.+-",
    "t": "A-Za-z0-9!@#$%^&*(_=+)-",
}
LONGEST, LONGEST_PART = 4096, 512
"""The most characters of a form's last place, and of one before it: no key is longer, and each pattern is bounded."""

BESIDE_CHARS: Final = 100
HEAD: Final = 2
"""The characters of a form's literal beginning by which it is looked up."""

CANDIDATE: Final = re.compile(rf"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{{{FEWEST},}}={{0,2}}")
"""A run as long as a key: most texts have none, or names and paths."""

MOST_REFUSED: Final = 8
"""A run in which a form matches so often, each time words or filler, has no key of it: each try may take long."""

PUBLIC: Final = ("pk_", "pub_")
"""Before a form these say that it is the public half of a key."""

TELLING, FEWEST_TOLD = 4, 14
WORDS: Final = frozenset({"key"})
"""Beginnings that are words: "a-key-from-the-client" is the name of a file."""

_TELLING = "A-Za-z0-9_+/=-"
_PLACE = re.compile(r"<(?:o|([A-Za-z])(\d+)(\+|-\d+)?)>")
_RUN = re.compile(r"[A-Za-z0-9+/_-]*")
_OF_A_RUN = frozenset("AaUdhbwB")
_BOUNDARY = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]")


@dataclass(frozen=True)
class Shape:
    """One line of the table."""

    issuer: str
    form: str
    words: tuple[str, ...] = ()

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The form as a pattern that begins and ends at the edge of a word.

        Behind a beginning that no word has (`glsa_`), any long run will do: issuers change lengths, and beginnings not.
        """
        if self.is_telling:
            least = int(_PLACE.findall(self.form)[0][1])
            least = min(least, max(FEWEST_TOLD, least * 2 // 3))
            return re.compile(rf"(?<![A-Za-z0-9]){re.escape(self.head)}[{_TELLING}]{{{least},{LONGEST}}}+")
        pieces: list[str] = []
        position = 0
        for place in _PLACE.finditer(self.form):
            is_last = place.end() == len(self.form)
            pieces += (
                re.escape(self.form[position : place.start()]),
                _place(place, LONGEST if is_last else LONGEST_PART),
            )
            position = place.end()
        end = re.escape(self.form[position:])
        last = self.form[-1] == ">"
        return re.compile(rf"(?<![A-Za-z0-9]){''.join(pieces)}{end}" + (r"(?![A-Za-z0-9])" if last else ""))

    @property
    def is_telling(self) -> bool:
        """True of a form that is a beginning that no word has, and one place."""
        places = _PLACE.findall(self.form)
        alone = len(places) == 1 and self.form.endswith(">") and places[0][0] in _OF_A_RUN and not self.words
        return alone and len(self.head) >= TELLING and self.head[-1] in "_-." and self.head[:-1] not in WORDS

    @cached_property
    def literal(self) -> str:
        """The form's longest literal part: every match of the form contains it."""
        return max(_PLACE.split(self.form)[::4], key=len)

    @property
    def head(self) -> str:
        """The literal beginning, "" where the form begins with a place."""
        return self.form.partition("<")[0]

    def find(self, text: str) -> Iterator[Span]:
        """Find the shape anywhere."""
        for found in self.pattern.finditer(text):
            if self.accepts(text, found.start(), found.end()):
                yield found.start(), found.end(), self.issuer

    def accepts(self, text: str, start: int, end: int) -> bool:
        """Return True if a match of the form looks drawn, and one of the form's words, if it has any, is near."""
        # Names in code and placeholders have the form of many keys, but are words or filler behind the beginning.
        value = text[start + len(self.head) : end]
        if is_filler(value) or text.endswith(PUBLIC, 0, start):
            return False
        if not value.isupper() and (is_wordy(value) or not (any(map(str.isdigit, value)) or is_jumbled(value))):
            return False
        if not self.words:
            return True
        beside = text[max(0, start - BESIDE_CHARS) : end + BESIDE_CHARS].lower()
        return any(word in beside for word in self.words)


def _place(place: re.Match[str], most_chars: int) -> str:
    if place[1] is None:
        return r"(?:[a-z0-9_]{1,24}[.-])?"
    least, most = int(place[2]), place[3] or ""
    bound = f"{least},{most_chars}" if most == "+" else f"{least},{most[1:]}" if most else str(least)
    possessive = "+" if place[1] in _OF_A_RUN and most else ""  # what follows is not of the alphabet: no way back
    return f"[{ALPHABETS[place[1]]}]{{{bound}}}{possessive}"


def read() -> tuple[Shape, ...]:
    """Read the table of issuers."""
    table = Path(__file__).with_name("issuers.txt").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in table.splitlines() if line and not line.startswith("#")]
    return tuple(Shape(row[0], row[1], tuple(row[2].split(", ")) if row[2:] else ()) for row in rows)


SHAPES: Final = read()


def _by_place() -> tuple[dict[str, list[Shape]], list[Shape], list[Shape]]:
    """Return the shapes by their first two characters, those found by a literal part, those that are places alone."""
    # Two characters select a few forms out of hundreds, before any pattern runs.
    headed: defaultdict[str, list[Shape]] = defaultdict(list)
    marked, bare = [], []
    for shape in SHAPES:
        is_candidate = _first_run(shape.form) >= FEWEST
        if is_candidate and len(shape.head) >= HEAD:
            headed[shape.head[:HEAD]].append(shape)
        elif is_candidate:
            bare.append(shape)
        else:
            marked.append(shape)
    return dict(headed), marked, bare


def _first_run(form: str) -> int:
    """Return the least length of the candidate with which every text of this form begins."""
    size = 0
    for literal, alphabet, least, _ in zip(*[iter((*_PLACE.split(form), None, None, None))] * 4, strict=True):
        run = _RUN.match(literal)
        size += run.end() if run else 0
        if run is None or run.end() < len(literal) or alphabet not in _OF_A_RUN:
            return size
        size += int(least)
    return size


HEADED, MARKED, BARE = _by_place()


def find_issued(text: str, lowered: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find the keys of a known issuer's form."""
    # A form that is no part of a long run is found by its literal part; the others only where a run begins.
    for shape in MARKED:
        if shape.literal in text and (not shape.words or has_any(lowered, shape.words)):
            yield from shape.find(text)
    if not candidates:
        return
    bare = [shape for shape in BARE if not shape.words or has_any(lowered, shape.words)]
    for candidate in candidates:
        start, end = candidate.span()
        looked_to, refused = start, Counter[str]()
        # A key may begin within a run, behind a sign: `token=ghp_…`, `-Dkey=AKIA…`.
        for place in _BOUNDARY.finditer(text, start, end):
            if place.start() < looked_to:
                continue
            for shape in HEADED.get(text[place.start() : place.start() + HEAD], ()):
                if refused[shape.form] >= MOST_REFUSED:
                    continue
                found = shape.pattern.match(text, place.start())
                if found is not None and shape.accepts(text, *found.span()):
                    looked_to = found.end()
                    yield *found.span(), shape.issuer
                elif found is not None:
                    refused[shape.form] += 1
        for shape in bare:
            found = shape.pattern.match(text, start)
            if found and (found.end() >= end or not shape.words) and shape.accepts(text, start, found.end()):
                yield start, found.end(), shape.issuer


# ---- private keys as blocks

PRIVATE_KEY: Final = "private-key"
LONGEST_BLOCK: Final = 16_000
"""Characters of a block, with the prefix of a listing on each line: an RSA key of 8,192 bits has 6,400."""

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
JWK = re.compile(r'"(?:d|k|p|q|dp|dq|qi)"\s{0,4}:\s{0,4}"(?P<secret>[A-Za-z0-9_-]{16,4096})"')
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


def find_arrays(text: str) -> Iterator[Span]:
    """Find keys that are written as a list of bytes or characters behind their name."""
    for found in _NUMBERS.finditer(text):
        if _NUMBERS_NAMED.search(text, max(0, found.start() - _BEFORE_NUMBERS), found.start()):
            yield *found.span("secret"), PRIVATE_KEY


def find_blocks(text: str) -> Iterator[Span]:
    """Find PEM and PGP blocks; one without its end, or its beginning, goes as far as its lines look like a key's."""
    # A block that was cut off ends with its last line that looks like a key's.
    looked_to = 0
    while (begin := _BEGIN.search(text, looked_to)) is not None:
        looked_to = begin.end()
        end = _END.search(text, looked_to, looked_to + LONGEST_BLOCK)
        if end is not None and _is_mostly_key(text[looked_to : end.start()]):
            looked_to = end.end()
        elif (lines := _KEY_LINES.match(text, looked_to)) is not None:
            looked_to = lines.end()
        else:
            continue
        yield begin.start(), looked_to, PRIVATE_KEY
    yield from _tails(text)


def find_bodies(text: str) -> Iterator[Span]:
    """Find the bodies of private keys without their first line."""
    for found in _BARE.finditer(text):
        yield *found.span(), PRIVATE_KEY


def _tails(text: str) -> Iterator[Span]:
    """Find the rest of a block whose beginning was cut off."""
    from_ = 0
    for end in _END.finditer(text):
        # From the end upwards, as long as a line looks like a key's; the last may be short.
        before = text[max(from_, end.start() - LONGEST_BLOCK) : end.start()]
        lines = before.split("\n")
        kept = len(lines)
        while kept and (_OF_A_KEY.search(lines[kept - 1]) or kept >= len(lines) - 1):
            kept -= 1
        piece = "\n".join(lines[kept:])
        if _is_mostly_key(piece) and "-----BEGIN" not in piece:
            first = _OF_A_KEY.search(piece)
            assert first is not None
            yield end.start() - len(piece) + first.start(), end.end(), PRIVATE_KEY
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
            yield found.end(), last.end() if last else lines.end(), PRIVATE_KEY
    for mac in _PUTTY_MAC.finditer(text):
        yield *mac.span(1), PRIVATE_KEY


def find_coded(text: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find PEM blocks in base64, as kubeconfig and continuous integration keep them; a certificate is none."""
    looked_to = 0
    for candidate in candidates:
        if candidate.start() < looked_to or not candidate[0].startswith(_CODED):
            continue
        # The first line is enough to tell a private key from a certificate.
        beginning = candidate[0][: _DECODED_CHARS - _DECODED_CHARS % 4]
        try:
            decoded = base64.b64decode(beginning[: len(beginning) // 4 * 4])
        except binascii.Error:
            continue
        if b"PRIVATE" in decoded:
            lines = _CODED_LINES.match(text, candidate.start())
            looked_to = lines.end() if lines else candidate.end()
            yield candidate.start(), looked_to, PRIVATE_KEY
