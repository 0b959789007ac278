"""Statement: a text read for comparison: its subject, the values that it states, what it denies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

from .stems import stem, stems_of, without_possessive
from .vocabulary import MONTH_NUMBERS, NUMBER_WORDS, SHORT_MONTHS
from .word_lists import lexicon

FEW_STEMS = 5
"""With fewer content words than these in its clause, a value's surroundings reach into the clauses beside it."""

LABEL_CHARS = 60
"""Characters before a number in which its label ("sprint 4") is looked for."""

DENIED_STEMS = 2
"""A denial of fewer stems is left out: it could not share as many with what it denies."""

LONGEST_CHARS, MOST_VALUES = 4_000, 32
"""Bounds of one statement, in characters and values; beyond them a text is a document or a table."""

_MONTH = "|".join(sorted({*SHORT_MONTHS, *MONTH_NUMBERS, "sept"}, key=len, reverse=True))
_VALUE = re.compile(
    rf"(?P<time>\b\d{{1,2}}(?::\d{{2}})?\s?(?:am|pm)\b)"
    rf"|(?P<date>\b(?:{_MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})\b(?:\s+\d{{4}})?|\b\d{{4}}-\d{{2}}-\d{{2}}\b"
    rf"|\b(?:19|20)\d\d\b)"
    rf"|(?P<money>[$€£]\s?\d[\d,]*(?:\.\d+)?)|(?P<percent>\d+(?:\.\d+)?\s?(?:%|percent\b))"
    rf"|(?P<number>(?<![\w.#/-])\d[\d,]*(?:\.\d+)?(?![\d.]*\d|[:/]\d)|\b(?:{'|'.join(NUMBER_WORDS)})\b)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z][A-Za-z'’]*")
_CLAUSE = re.compile(r"[,;:.!?]\s+|(?<!\s)\s+[-–—]\s+|\b(?:but|which|because|since|while|so)\b")
_CHANGE = (
    r"(?:moved?|moving|rescheduled?|postponed?|extend(?:ed)?|shifted|chang(?:ed?|ing)|updated?|adjusted|increased?"
    r"|improved?|raised?|grown?|grew|reduced?|lowered?|dropped?|decreased?|switch(?:ed)?|went|boosted|upgraded|pushed|set)"
)
_CHANGED_TO = re.compile(
    rf"\b{_CHANGE}\b[^.;]{{0,60}}?\b(?:to|until|till)\s+(?:\S+\s+\d{{1,2}}(?:,? \d{{4}})?,? at\s+)?$"
    r"|\b(?:now|reached|currently|recently)\s+(?:is|are|at|has|have|reached|takes|includes|contains|runs on|costs)?\s*$"
    r"|\b(?:now|recently)\b[^.,;]{0,25}\b(?:reached|is|are|at|has|have|had|includes|includ\w+|contains|takes|costs)\s+$"
    r"|\bnew\b[^.,;]{0,40}\b(?:of|is|at)\s+$|\bnew\s+$|\ba total of\s+$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|last|next|previous|\d+(?:st|nd|rd|th))\b", re.IGNORECASE
)
_GENERIC = stems_of(lexicon("generic_words"))
_NO_UNITS = stems_of(lexicon("no_units"))
_VAGUE = _GENERIC | stems_of(lexicon("vague_modifiers"))
_NO_NAMES = lexicon("question_words") | MONTH_NUMBERS.keys()
"""Words that begin with a capital letter and name nothing."""

_NEVER = re.compile(
    r"\b(?:has|have|had|i['’]ve)\s+(?:\w+\s+)?never\b|\b(?:hasn|haven|hadn)['’]t\s+(?:ever\b|(?=[^.;]*\b(?:before|yet|ever)\b))",
    re.IGNORECASE,
)
_ANTECEDENT = re.compile(r"(?<!\S)(\S+),? (?:which|that) [^,;.!?]*$")
"""The antecedent of a relative clause: "Zotero, which I have never used"."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value in a text: its sort, what it is, what it counts, and the stems of the words around it.

    `changed`: the text says that something became this. `alone`: no other value of its sort stands beside it.
    """

    sort: str
    amount: float | tuple[int, ...]
    unit: frozenset[str]
    around: frozenset[str]
    changed: bool
    alone: bool


@dataclass(frozen=True, slots=True)
class Denial:
    """A denial in a text ("I have never …"): its stems, the names in its clause, and the verb as it stands there."""

    stems: frozenset[str]
    names: frozenset[str]
    verb: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A text, read for comparison."""

    text: str
    stems: frozenset[str]
    names: frozenset[str]
    labels: Mapping[str, frozenset[str]]
    ordinals: frozenset[str]
    modifiers: Mapping[str, frozenset[str]]
    values: tuple[Value, ...]
    denied: tuple[Denial, ...]


@lru_cache(maxsize=4096)
def read(text: str) -> Statement:
    """Take a text apart, a long one by its beginning; the same text gives the same statement."""
    line = " ".join(text[:LONGEST_CHARS].split())
    return Statement(
        text=line,
        stems=_content(line),
        names=frozenset(_names(line)),
        labels=_labels(line),
        ordinals=frozenset(match.group().lower() for match in _ORDINAL.finditer(line)),
        modifiers=_modifiers(line),
        values=tuple(_values(line)),
        denied=_denied(line),
    )


def _content(text: str) -> frozenset[str]:
    """Return the stems that say what a text is about; of a contraction ("won't") that of its first part."""
    empty = lexicon("question_words") | NUMBER_WORDS.keys()
    plain = text.lower().replace("-", " ").replace("’", "'")
    words = (without_possessive(word) for word in _WORD.findall(plain))
    return stems_of(word.partition("'")[0] for word in words if len(word) > 1 and word not in empty) - _GENERIC


def _names(text: str) -> Iterator[str]:
    for match in re.finditer(r"[A-Z][A-Za-z]+", text):
        word = match.group()
        known = word.lower() in _NO_NAMES or stem(word.lower()) in _GENERIC
        opens = match.start() == 0 or text[: match.start()].rstrip().endswith((".", "!", "?", ":"))
        if not known and not (opens and not text[match.end() : match.end() + 2].startswith(("'s", "’s", " "))):
            yield word if word.isupper() else word.lower()


def _labels(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for label, number in re.findall(r"\b([A-Za-z]+)\s+#?(\d+)\b", text):
        if label.lower() in lexicon("labels"):
            found.setdefault(label.lower(), set()).add(number)
    return {label: frozenset(numbers) for label, numbers in found.items()}


def _modifiers(text: str) -> dict[str, frozenset[str]]:
    """Map each noun that ends its phrase to the content words right before it."""
    found: dict[str, frozenset[str]] = {}
    tokens = re.findall(r"[A-Za-z][A-Za-z'’]*|\d[\d,.]*%?|[^\w\s]", text.replace("-", " "))
    phrase: list[str] = []
    for token, after in zip(tokens, [*tokens[1:], ""], strict=False):
        noun = next(iter(_content(token)), "") if token[0].isalpha() else ""
        ends = after.endswith("ed") or after in lexicon("phrase_ending_verbs")
        if noun and (ends or not (after[:1].isalpha() and _content(after))):
            found[noun] = found.get(noun, frozenset()) | {word for word in phrase if word not in _VAGUE}
        phrase = [*phrase, noun] if noun else []
    return found


def _denied(text: str) -> tuple[Denial, ...]:
    match = _NEVER.search(text)
    if not match:
        return ()
    before = text[: match.start()]
    subject = re.split(r"[,;.!?]\s", before)[-1]
    if (thing := _ANTECEDENT.search(before)) is not None:
        subject = f"{thing[1]} {subject}"
    clause = re.split(r"[,;.!?]\s|\b(?:but|before|so|because)\b", text[match.end() :])[0]
    about = _content(thing[1]) if thing else frozenset[str]()
    names = frozenset(_names(f"{subject} {text[match.start() : match.end()]} {clause}"))
    verb = next((word for word in _WORD.findall(clause) if _content(word)), "")
    things = (about | _content(part) for part in re.split(r"\bor\b", clause))
    return tuple(Denial(stems, names, verb) for stems in things if len(stems) >= DENIED_STEMS)


def _values(text: str) -> list[Value]:
    bounds = [0, *(match.end() for match in _CLAUSE.finditer(text)), len(text)]
    found = []
    for match in islice(_VALUE.finditer(text), MOST_VALUES):
        sort = match.lastgroup or ""
        if sort == "number" and _is_label(text, match.start()):
            continue
        around = _around(text, match.start(), bounds)
        unit = _unit(text, match.end()) if sort == "number" else frozenset[str]()
        changed = bool(_CHANGED_TO.search(text[max(0, match.start() - 100) : match.start()]))
        found.append(Value(sort, _amount(sort, match.group()), unit, around, changed, alone=True))
    return [replace(value, alone=_is_alone(value, found)) for value in found]


def _is_alone(value: Value, values: Sequence[Value]) -> bool:
    """Check that no other value could be meant: of "from 8 to 12" the last one counts."""
    alike = [other for other in values if other.sort == value.sort and (not value.unit or value.unit & other.unit)]
    changed = [other for other in alike if other.changed]
    return alike == [value] or changed == [value]


def _around(text: str, start: int, bounds: Sequence[int]) -> frozenset[str]:
    """Return the content stems of the clause at a place; while they are few, of the two before it and the next, too."""
    place = max(i for i, bound in enumerate(bounds[:-1]) if bound <= start)
    stems = _content(_VALUE.sub(" ", text[bounds[place] : bounds[place + 1]]))
    before = place
    while len(stems) < FEW_STEMS and before and place - before < 2:
        before -= 1
        stems |= _content(_VALUE.sub(" ", text[bounds[before] : bounds[before + 1]]))
    if len(stems) < FEW_STEMS and place + 2 < len(bounds):
        stems |= _content(_VALUE.sub(" ", text[bounds[place + 1] : bounds[place + 2]]))
    return stems


def _is_label(text: str, start: int) -> bool:
    before = text[max(0, start - LABEL_CHARS) : start].rstrip()
    words = _WORD.findall(before)
    return bool(words) and words[-1].lower() in lexicon("labels") and before.endswith(words[-1])


def _unit(text: str, end: int) -> frozenset[str]:
    """Return the stems of what a number counts: up to three content words right after it."""
    found: list[str] = []
    for word in re.finditer(r"\s*-?([A-Za-z]+|[^\sA-Za-z]+)", text[end : end + 60]):
        token = word[1]
        if not token[0].isalpha() or token.lower() in lexicon("question_words") or len(found) == 3:
            break
        found.append(token.lower())
    return stems_of(found) - _NO_UNITS if found else frozenset()


def _amount(sort: str, text: str) -> float | tuple[int, ...]:
    plain = text.lower().replace(",", "")
    if sort == "date":
        return _date(plain)
    if sort == "time":
        hour, _, minute = re.sub(r"\s?[ap]m", "", plain).partition(":")
        return (int(hour) % 12 + 12 * ("pm" in plain), int(minute or 0))
    if plain in NUMBER_WORDS:
        return float(NUMBER_WORDS[plain])
    return float(re.sub(r"[^\d.]", "", plain).rstrip(".") or 0)


def _date(plain: str) -> tuple[int, ...]:
    if found := re.fullmatch(r"\d{4}-(\d{2})-(\d{2})", plain):
        return int(found[1]), int(found[2])
    if re.fullmatch(r"\d{4}", plain):
        return (int(plain),)
    month = next(number for name, number in MONTH_NUMBERS.items() if re.search(rf"\b{name[:3]}", plain))
    day = re.search(r"\b\d{1,2}(?!\d)", plain)
    return month, int(day.group()) if day else 0
