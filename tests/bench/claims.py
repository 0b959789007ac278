"""Claims about what LoCoMo's people said: true ones as a good model would word them, and five kinds of lies.

Written without a line of the product's grammar: what a sentence says is changed by plain substitution here, so that
a rule which the product has wrong is not wrong on both sides.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

TRUE_KINDS = ("pronoun", "date", "filler", "clause")
FALSE_KINDS = ("roles", "negated", "number", "attribute", "invention")

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_PAST = frozenset(
    "went had was did got made took saw came found met bought won lost felt thought told knew gave left kept heard "
    "read set put let led spent ran chose forgot sat began grew hung brought caught held wrote spoke stood fell taught "
    "ate drove built "
    "could would can will should might must".split()
)
_BETWEEN = frozenset("really just also always never still actually usually often finally recently even only".split())
_ADJECTIVES = frozenset(
    "new old big small great good little young local long short red blue green black white yellow purple happy sad "
    "cute special favorite amazing beautiful awesome important different tough hard easy busy strong healthy delicious "
    "fun cozy cool nice sweet calm peaceful inspiring exciting first second last best own virtual free rainbow".split()
)
_NUMBERS = "two three four five six seven eight nine ten".split()
_HANGS = re.compile(
    r"\b(?:if|unless|whether|would|could|might|may|maybe|think|thought|guess|hope|wish|not|never|no|nothing|\w+n't|or|"
    r"without|only|all|every\w*|any\w*|always|most|when|until|than|hate|believe|wonder|said|told|say)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Said:
    """One sentence, with who said it to whom on which day; `asked` is the other's question before it."""

    text: str
    speaker: str
    other: str
    day: date
    asked: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a model might say that somebody said, and whether it is so."""

    text: str
    said: Said
    kind: str
    true: bool


def said_in(file: Path) -> list[Said]:
    """Every sentence of the file's conversations; one that answers a question knows it."""
    found: list[Said] = []
    for sample in json.loads(file.read_text()):
        talk = sample["conversation"]
        people = [talk["speaker_a"], talk["speaker_b"]]
        for key in talk:
            if re.fullmatch(r"session_\d+", key):
                day = datetime.strptime(talk[f"{key}_date_time"].split(" on ")[1], "%d %B, %Y").date()
                found += _session(talk[key], people, day)
    return found


def _session(turns: Sequence[dict[str, str]], people: Sequence[str], day: date) -> Iterator[Said]:
    asked = ""
    for turn in turns:
        other = people[people[0] == turn["speaker"]]
        for number, text in enumerate(re.split(r"(?<=[.!?])\s+", turn["text"].strip())):
            yield Said(text, turn["speaker"], other, day, asked if number == 0 else "")
        last = re.split(r"(?<=[.!?])\s+", turn["text"].strip())[-1]
        asked = last if last.endswith("?") else ""


def draw(file: Path, rng: random.Random, each: int = 100) -> list[Claim]:
    """Draw so many claims of every kind."""
    pool = [said for said in said_in(file) if re.search(r"\w{3}", said.text)]
    rng.shuffle(pool)
    claims: list[Claim] = []
    for kind in TRUE_KINDS:
        claims += _first(each, _claims(pool, kind, _TRUE[kind], True, rng))
    for kind in FALSE_KINDS:
        claims += _first(each, _claims(pool, kind, _FALSE[kind], False, rng))
    return claims


def _first(count: int, claims: Iterator[Claim]) -> list[Claim]:
    return [claim for _, claim in zip(range(count), claims, strict=False)]


_Edit = Callable[[Said, random.Random], str | None]


def _claims(pool: Sequence[Said], kind: str, edit: _Edit, true: bool, rng: random.Random) -> Iterator[Claim]:
    for said in pool:
        if said.text.endswith("?") or not 5 <= len(said.text.split()) <= 30:
            continue
        text = edit(said, rng)
        if text and text != said.text:
            yield Claim(text, said, kind, true)


# -- what is so


def named(text: str, speaker: str, other: str, rng: random.Random) -> str:
    """The sentence told of its speaker: names for "I" and "you", the verb made to agree."""
    text = text.replace("’", "'")
    text = re.sub(r"\bI'm\b", f"{speaker} is", text)
    text = re.sub(r"\bI've\b", f"{speaker} has", text)
    text = re.sub(r"\bI'll\b", f"{speaker} will", text)
    text = re.sub(r"\bI am\b", f"{speaker} is", text)
    text = re.sub(r"\bI((?: \w+)?) ([a-z]+)\b", lambda m: _agreeing(m, speaker), text)
    text = re.sub(r"\bI\b", speaker, text)
    own = rng.choice([f"{speaker}'s", "their", "their"]) if text.startswith(speaker) else f"{speaker}'s"
    text = re.sub(r"\bmy\b", own, text)
    text = re.sub(r"\bMy\b", f"{speaker}'s", text)
    text = re.sub(r"\bme\b", speaker, text)
    text = re.sub(r"\byou're\b", f"{other} is", text)
    text = re.sub(r"\byour\b", f"{other}'s", text)
    return re.sub(r"^We\b", f"{speaker} and others", text)


def _agreeing(match: re.Match[str], speaker: str) -> str:
    between, verb = match[1].strip(), match[2]
    if between and between not in _BETWEEN:
        return f"{speaker} {_third(between)} {verb}"
    return f"{speaker} {between + ' ' if between else ''}{_third(verb)}"


def _third(verb: str) -> str:
    if verb in _PAST or verb in _BETWEEN or verb.endswith(("ed", "ing", "ly")) or len(verb) < 2:
        return verb
    if verb in {"have", "do", "go"}:
        return {"have": "has", "do": "does", "go": "goes"}[verb]
    if verb in {
        "and",
        "to",
        "in",
        "on",
        "at",
        "for",
        "with",
        "as",
        "was",
        "were",
        "too",
        "but",
        "or",
        "so",
        "is",
        "both",
    }:
        return verb
    return verb + ("es" if verb.endswith(("s", "sh", "ch", "x", "z")) else "s")


def _usable(said: Said) -> bool:
    return bool(re.search(r"\b(?:I|I'm|I've|my|My|me)\b", said.text)) and not re.search(
        r"\byou\b|\bI'd\b|\bmyself\b|\bmine\b|\bdon't\b|\bhaven't\b|I\.|I$|I,|and I\b|I and\b|couldn't", said.text
    )


def _pronoun(said: Said, rng: random.Random) -> str | None:
    return named(said.text, said.speaker, said.other, rng) if _usable(said) else None


def _absolute(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _date(said: Said, rng: random.Random) -> str | None:
    day = said.day
    month = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    before = day.replace(day=1) - timedelta(days=1)
    friday = {name: day - timedelta(days=(day.weekday() - at - 1) % 7 + 1) for at, name in enumerate(_DAYS)}
    wordings = {
        r"yesterday": f"on {_absolute(day - timedelta(days=1))}",
        r"tomorrow": f"on {_absolute(day + timedelta(days=1))}",
        r"today": f"on {_absolute(day)}",
        r"next month": f"in {_MONTHS[month.month - 1]} {month.year}",
        r"last month": f"in {_MONTHS[before.month - 1]} {before.year}",
        r"last year": f"in {day.year - 1}",
        r"two days ago": f"on {_absolute(day - timedelta(days=2))}",
        **{f"last {name}": f"on {_absolute(then)}" for name, then in friday.items()},
    }
    for spoken, wording in wordings.items():
        if re.search(rf"(?<!the )(?<!since )(?<!until )(?<!in )(?<!from )\b{spoken}\b(?!')", said.text):
            told = named(said.text, said.speaker, said.other, rng) if _usable(said) else said.text
            return re.sub(rf"(?:\b(?:on|in) )?\b{spoken}\b", wording, told, count=1)
    return None


def _filler(said: Said, rng: random.Random) -> str | None:
    text = re.sub(rf"^(?:(?:Hey|Wow|Thanks|Oh|Yeah|Yep|Well|Thank you)(?: {said.other})?[,!]\s*)+", "", said.text)
    text = re.sub(rf", {said.other}(?=[.,!])", "", text)
    if not re.search(r"n't|\bnot\b|\bno\b", text):
        text = re.sub(r"\b(?:really|very|just|actually|definitely|totally) (?=[a-z])", "", text)
    if text == said.text or len(text.split()) < 5:
        return None
    text = text[:1].upper() + text[1:]
    return (
        named(text, said.speaker, said.other, rng) if _usable(Said(text, said.speaker, said.other, said.day)) else None
    )


def _clause(said: Said, rng: random.Random) -> str | None:
    match = re.match(
        r"(.{20,}?)(?:, (?:and|but|so) (?:I|it|we|they|he|she)\b| because | - |, which ).{12,}$", said.text
    )
    if not match or _HANGS.search(said.text) or not _usable(said):
        return None
    return named(match[1] + ".", said.speaker, said.other, rng)


_TRUE: dict[str, _Edit] = {
    "pronoun": _pronoun,
    "date": _date,
    "filler": _filler,
    "clause": _clause,
}


# -- what is not


def _roles(said: Said, rng: random.Random) -> str | None:
    told = _pronoun(said, rng)
    if told is None:
        return None
    choice = rng.random()
    if choice < 0.4 and re.search(rf"\b{said.speaker}\b", told):  # the other did it
        swapped = {said.speaker: said.other, said.other: said.speaker}
        return re.sub(rf"\b(?:{said.speaker}|{said.other})\b", lambda m: swapped[m[0]], told)
    things = [m for m in re.finditer(r"\b[a-z]{4,}\b", told) if m[0] not in _ADJECTIVES]
    pairs = [(a, b) for a in things for b in things if b.start() - a.end() > 3 and a[0] != b[0]]
    pairs = [(a, b) for a, b in pairs if not re.search(r"\b(?:and|or)\b", told[a.end() : b.start()])]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return told[: a.start()] + b[0] + told[a.end() : b.start()] + a[0] + told[b.end() :]


def _negated(said: Said, rng: random.Random) -> str | None:
    told = _pronoun(said, rng)
    if told is None:
        return None
    if re.search(r"\b(?:not|never) ", told):
        return re.sub(r"\b(?:not|never) ", "", told, count=1)
    if re.search(r"n't\b", told):
        return re.sub(
            r"(ca)n't\b|(wo)n't\b|n't\b", lambda m: {"ca": "can", "wo": "will"}.get(m[1] or m[2] or "", ""), told
        )
    if match := re.search(r"\b(?:is|was|were|are|has|will|can|could|would)\b", told):
        return f"{told[: match.end()]} not{told[match.end() :]}"
    if match := re.search(rf"\b{said.speaker} (?!and\b)", told):
        return f"{told[: match.end()]}never {told[match.end() :]}"
    return None


def _number(said: Said, rng: random.Random) -> str | None:
    told = _pronoun(said, rng) or said.text
    told = _date(said, rng) or told
    found = list(re.finditer(r"\d+|\b(?:two|three|four|five|six|seven|eight|nine|ten)\b", told, re.IGNORECASE))
    if not found:
        return None
    match = rng.choice(found)
    if match[0].isdigit():
        other = str(int(match[0]) + rng.choice([1, 2, 3, 7]))
    else:
        other = rng.choice([number for number in _NUMBERS if number != match[0].lower()])
    return told[: match.start()] + other + told[match.end() :]


def _attribute(said: Said, rng: random.Random) -> str | None:
    told = _pronoun(said, rng) or said.text
    found = [m for m in re.finditer(r"\b([a-z]+) (?=[a-z]{3,})", told) if m[1] in _ADJECTIVES]
    if not found:
        return None
    match = rng.choice(found)
    rest = told[: match.start()] + told[match.end() :]
    places = list(re.finditer(r"\b(?:a|the|my|their|some|with|and|for) (?=[a-z]{3,})", rest))
    places = [m for m in places if m.end() != match.start() and abs(m.end() - match.start()) > 4]
    if not places:
        return None
    place = rng.choice(places)
    return rest[: place.end()] + match[0] + rest[place.end() :]


_THINGS = (
    "piano marathon sister hospital guitar wedding surgery bakery kayak telescope lawyer parrot violin passport".split()
)
_ADDED = (
    "in Lisbon", "with Roberto", "for the third time", "and won a prize", "after the divorce", "near the harbour",
    "because the doctor said so", "every Tuesday", "for 250 dollars", "on behalf of Greenpeace",
)  # fmt: skip


def _invention(said: Said, rng: random.Random) -> str | None:
    told = _pronoun(said, rng)
    if told is None:
        return None
    if rng.random() < 0.4:
        return f"{told.rstrip('.!')} {rng.choice(_ADDED)}."
    things = list(re.finditer(r"(?<=\ba )[a-z]{4,}\b|(?<=\bmy )[a-z]{4,}\b|(?<=\bthe )[a-z]{4,}\b|\b[a-z]{6,}\b", told))
    if not things or rng.random() < 0.2:
        return f"{said.speaker} bought a {rng.choice(_THINGS)}."
    match = rng.choice(things)
    return told[: match.start()] + rng.choice(_THINGS) + told[match.end() :]


_FALSE: dict[str, _Edit] = {
    "roles": _roles,
    "negated": _negated,
    "number": _number,
    "attribute": _attribute,
    "invention": _invention,
}
