"""Statements: whether what was said later changes, or contradicts, what was said before of the same thing.

Likeness is no judge ("purple" and "cyan" lie at cosine .96), so every rule here asks for reasons that can be named: the
same subject, a value of the same sort that differs, and words that say that something changed. One doubt is enough to
say nothing: another person, project, date, ordinal or modifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from .terms import STOP_WORDS, stems_of


class Relation(StrEnum):
    """What a later statement is to an earlier one."""

    NONE = "none"
    UPDATES = "updates"
    CONTRADICTS = "contradicts"


SHARED_STEMS, SHARED_PART = 2, 0.4
"""What the surroundings of two values must share: so many stems, and this part of the smaller one's."""

WHOLE_PART, WHOLE_PART_OF_COUNTS, WHOLE_PART_OF_FEW = 0.35, 0.2, 0.5
"""What the whole texts must share of the smaller one's stems: less where both count the same thing, more where the
surroundings of their values share no more than so many stems."""

FEW_STEMS = 5
"""With fewer content words than these in its clause, a value's surroundings reach into the clauses beside it."""

NEVER_STEMS, NEVER_PART = 2, 0.5
"""What a denial must share with what it denies: so many stems, and this part of what it denies."""

DONE = 0.5
"""How much nearer to a denial stands what was done than what was meant: "completed" than "to complete"."""

LABEL_CHARS = 60
"""How far before a number the word that names it ("sprint 4") is looked for."""

FRAME_WORDS, SPAN_WORDS = 2, 3
"""Where two texts are the same but for one place: so many words stand before it, and so many at most are in it."""

LONGEST_CHARS, MOST_VALUES = 4_000, 32
"""What is read of a text: one that is longer, or holds more values, is a document or a table, no one statement."""

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = "|".join(sorted({name[:3] for name in _MONTHS} | set(_MONTHS) | {"sept"}, key=len, reverse=True))
_NUMBERS = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
}
_VALUE = re.compile(
    rf"(?P<time>\b\d{{1,2}}(?::\d{{2}})?\s?(?:am|pm)\b)"
    rf"|(?P<date>\b(?:{_MONTH})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:{_MONTH})\b(?:\s+\d{{4}})?|\b\d{{4}}-\d{{2}}-\d{{2}}\b"
    rf"|\b(?:19|20)\d\d\b)"
    rf"|(?P<money>[$€£]\s?\d[\d,]*(?:\.\d+)?)|(?P<percent>\d+(?:\.\d+)?\s?(?:%|percent\b))"
    rf"|(?P<number>(?<![\w.#/-])\d[\d,]*(?:\.\d+)?(?![\d.]*\d|[:/]\d)|\b(?:{'|'.join(_NUMBERS)})\b)",
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
_ADDS_UP = stems_of(
    "completed finished solved secured reached read written collected received merged passed won".split()
)
_LABELS = frozenset(
    "sprint chapter step phase version level room part week day section unit module floor apartment flight order "
    "ticket issue episode season grade problem question exercise milestone release stage round team group class".split()
)
_ORDINAL = re.compile(
    r"\b(?:first|second|third|fourth|fifth|sixth|last|next|previous|\d+(?:st|nd|rd|th))\b", re.IGNORECASE
)
_GENERIC = stems_of(
    "user assistant asked try trying tried want wants need needs help make sure get getting go going use using used "
    "know think thinking wonder wondering worried meet meeting feel kinda really still already just currently recently "
    "now actually ever new total extra more able like also even much many way lot thing something someone ensure "
    "understand user's users month week day year time today part work working last next first second".split()
) - stems_of(["meeting"])
_FRAME_WORD = re.compile(r"[^\W_](?:[\w'’.:/-]*[^\W_])?")
_NOW = frozenset("now currently instead actually already".split())
_STATES = frozenset(
    "is are was lives live works work uses use prefers prefer drives drive runs run costs cost takes take".split()
)
_NEGATIONS = frozenset("not never no none isn't aren't don't doesn't isn’t aren’t don’t doesn’t".split())
_VERBS = frozenset(
    "went rose fell grew came took gave ran became got made had has is was are were holds ends has".split()
)
_NO_UNITS = stems_of("new total extra more other able user users".split())
_MODIFIERS_IGNORED = _GENERIC | stems_of("only around about over nearly almost exactly each every own main".split())
_NEVER = re.compile(
    r"\b(?:has|have|had|i['’]ve)\s+(?:\w+\s+)?never\b|\b(?:hasn|haven|hadn)['’]t\s+(?:ever\b|(?=[^.;]*\b(?:before|yet|ever)\b))",
    re.IGNORECASE,
)
_ANTECEDENT = re.compile(r"(?<!\S)(\S+),? (?:which|that) [^,;.!?]*$")
"""What a relative clause is about: "Zotero, which I have never used"."""


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
    """Something that a text says never was: its stems, the names in its clause, and the verb as it stands there."""

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


def relate(earlier: str, later: str) -> Relation:
    """What a later statement is to an earlier one of the same channel."""
    if earlier == later:
        return Relation.NONE
    old, new = read(earlier), read(later)
    if denied_part(new, old):
        return Relation.CONTRADICTS
    if (framed := _framed(old.text, new.text)) is not Relation.NONE:
        return framed
    if _speak_of_others(old, new):
        return Relation.NONE
    if any(_changes(a, b, old, new) for a in _stated(old) for b in _stated(new)):
        return Relation.UPDATES
    return Relation.NONE


def _framed(earlier: str, later: str) -> Relation:
    """Whether the two differ in nothing but what something is, where it is, or what somebody uses or prefers.

    "My office is in Oslo" and "my office is in Bergen now": an update if the later says that it is so now; otherwise a
    question for a person if what differs is a name or a number, which few things have two of.
    """
    old, new = _FRAME_WORD.findall(earlier), _FRAME_WORD.findall(later)
    is_news = any(word.lower() in _NOW for word in new)
    new = [word for word in new if word.lower() not in _NOW]
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a.lower() != b.lower()), -1)
    if start < FRAME_WORDS or not any(word.lower() in _STATES for word in old[1:start]):
        return Relation.NONE
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail].lower() == new[-1 - tail].lower():
        tail += 1
    was, is_ = old[start : len(old) - tail], new[start : len(new) - tail]
    if not (0 < len(was) <= SPAN_WORDS and 0 < len(is_) <= SPAN_WORDS) or _NEGATIONS & {w.lower() for w in was + is_}:
        return Relation.NONE
    if is_news:
        return Relation.UPDATES
    exact = all(any(word[0].isupper() or word[0].isdigit() for word in span) for span in (was, is_))
    return Relation.CONTRADICTS if exact else Relation.NONE


def denied_part(new: Statement, old: Statement) -> float:
    """How much of something that a statement says never was, another tells of: 0, or NEVER_PART to 1 and DONE more."""
    if old.denied:
        return 0.0
    return max((_told_of(denial, old) for denial in new.denied), default=0.0)


def _told_of(denial: Denial, old: Statement) -> float:
    shared = denial.stems & old.stems
    part = len(shared) / len(denial.stems)
    if len(shared) < NEVER_STEMS or part < NEVER_PART or _differ(_proper(old.names), _proper(denial.names)):
        return 0.0
    return part + (DONE if re.search(rf"\b{re.escape(denial.verb)}\b", old.text, re.IGNORECASE) else 0.0)


def _stated(statement: Statement) -> list[Value]:
    """The values that a text states, and not only to deny them."""
    return [
        value
        for value in statement.values
        if not any(len(denial.stems & value.around) >= NEVER_STEMS for denial in statement.denied)
    ]


def _changes(a: Value, b: Value, old: Statement, new: Statement) -> bool:
    if a.sort != b.sort or a.amount == b.amount or not b.alone:
        return False
    if b.sort == "number" and not _same_unit(a, b):
        return False
    old_dates, new_dates = _dates(old), _dates(new)
    if a.sort != "date" and _differ(old_dates, new_dates) and not _is_said(b, "date", new):
        return False
    shared = (a.around | a.unit) & (b.around | b.unit)
    same_day = SHARED_STEMS if a.sort != "date" and old_dates & new_dates else 0
    smaller = min(len(a.around | a.unit), len(b.around | b.unit))
    whole = len(old.stems & new.stems) / max(1, min(len(old.stems), len(new.stems)))
    needed = WHOLE_PART if b.sort != "number" else WHOLE_PART_OF_COUNTS
    if len(shared) + same_day <= SHARED_STEMS:
        needed = WHOLE_PART_OF_FEW
    if len(shared) + same_day < SHARED_STEMS or whole < needed:
        return False
    if len(shared) + same_day < SHARED_PART * smaller:
        return False
    return b.changed or _adds_up(a, b, shared, same_day)


def _is_said(value: Value, sort: str, new: Statement) -> bool:
    """Whether the date itself moved, and the value with it."""
    return any(other.sort == sort and other.changed and value.changed for other in new.values)


def _adds_up(a: Value, b: Value, shared: frozenset[str], same_day: int) -> bool:
    """Whether it is a count of what was done, which only grows."""
    return (
        isinstance(a.amount, float)
        and isinstance(b.amount, float)
        and a.alone
        and b.amount > a.amount
        and bool(shared & _ADDS_UP)
        and len(shared - _ADDS_UP) + same_day >= SHARED_STEMS
    )


def _same_unit(a: Value, b: Value) -> bool:
    if a.unit and b.unit:
        return bool(a.unit & b.unit)
    return bool(b.changed and not b.unit and a.unit and a.unit & b.around)


def _speak_of_others(old: Statement, new: Statement) -> bool:
    """Whether something says that the two are not about the same: a name, a label, an ordinal, a modifier."""
    if _differ(_proper(old.names), _proper(new.names)):
        return True
    if any(_differ(old.labels[label], new.labels[label]) for label in old.labels.keys() & new.labels.keys()):
        return True
    if _differ(old.ordinals, new.ordinals):
        return True
    return any(
        _differ(old.modifiers[noun] - new.stems, new.modifiers[noun] - old.stems)
        for noun in old.modifiers.keys() & new.modifiers.keys()
    )


def _differ(a: frozenset[str], b: frozenset[str]) -> bool:
    return bool(a - b) and bool(b - a)


def _proper(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if not name.isupper())


def _dates(statement: Statement) -> frozenset[str]:
    return frozenset(str(value.amount) for value in statement.values if value.sort == "date")


# ---- taking a text apart


def _content(text: str) -> frozenset[str]:
    """The stems that say what a text is about."""
    words = (word.replace("’", "'").removesuffix("'s") for word in _WORD.findall(text.replace("-", " ")))
    telling = [word.lower() for word in words if len(word) > 1 and word.lower() not in STOP_WORDS]
    return stems_of(word for word in telling if word not in _NUMBERS) - _GENERIC


def _names(text: str) -> Iterator[str]:
    for match in re.finditer(r"[A-Z][A-Za-z]+", text):
        word = match.group()
        known = word.lower() in STOP_WORDS or word.lower() in _MONTHS or stems_of([word.lower()]) & _GENERIC
        opens = match.start() == 0 or text[: match.start()].rstrip().endswith((".", "!", "?", ":"))
        if not known and not (opens and not text[match.end() : match.end() + 2].startswith(("'s", "’s", " "))):
            yield word if word.isupper() else word.lower()


def _labels(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for label, number in re.findall(r"\b([A-Za-z]+)\s+#?(\d+)\b", text):
        if label.lower() in _LABELS:
            found.setdefault(label.lower(), set()).add(number)
    return {label: frozenset(numbers) for label, numbers in found.items()}


def _modifiers(text: str) -> dict[str, frozenset[str]]:
    """For each noun that ends its phrase, the content words that stand right before it."""
    found: dict[str, frozenset[str]] = {}
    tokens = re.findall(r"[A-Za-z][A-Za-z'’]*|\d[\d,.]*%?|[^\w\s]", text.replace("-", " "))
    phrase: list[str] = []
    for token, after in zip(tokens, [*tokens[1:], ""], strict=False):
        stem = next(iter(_content(token)), "") if token[0].isalpha() else ""
        if stem and (after.endswith("ed") or after in _VERBS or not (after[:1].isalpha() and _content(after))):
            found[stem] = found.get(stem, frozenset()) | {word for word in phrase if word not in _MODIFIERS_IGNORED}
        phrase = [*phrase, stem] if stem else []
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
    return tuple(Denial(stems, names, verb) for stems in things if len(stems) >= NEVER_STEMS)


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
    """Whether no other value could be meant: of "from 8 to 12" the last one counts."""
    alike = [other for other in values if other.sort == value.sort and (not value.unit or value.unit & other.unit)]
    changed = [other for other in alike if other.changed]
    return alike == [value] or changed == [value]


def _around(text: str, start: int, bounds: Sequence[int]) -> frozenset[str]:
    """The content stems of the clause at a place, and of those before it while they are few, and of the next if so."""
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
    return bool(words) and words[-1].lower() in _LABELS and before.endswith(words[-1])


def _unit(text: str, end: int) -> frozenset[str]:
    """The stems of what a number counts: the words after it, up to one that is none."""
    found: list[str] = []
    for word in re.finditer(r"\s*-?([A-Za-z]+|[^\sA-Za-z]+)", text[end : end + 60]):
        token = word[1]
        if not token[0].isalpha() or token.lower() in STOP_WORDS or len(found) == 3:
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
    if plain in _NUMBERS:
        return float(_NUMBERS[plain])
    return float(re.sub(r"[^\d.]", "", plain).rstrip(".") or 0)


def _date(plain: str) -> tuple[int, ...]:
    if found := re.fullmatch(r"\d{4}-(\d{2})-(\d{2})", plain):
        return int(found[1]), int(found[2])
    if re.fullmatch(r"\d{4}", plain):
        return (int(plain),)
    month = next(i for i, name in enumerate(_MONTHS, 1) if re.search(rf"\b{name[:3]}", plain))
    day = re.search(r"\b\d{1,2}(?!\d)", plain)
    return month, int(day.group()) if day else 0
