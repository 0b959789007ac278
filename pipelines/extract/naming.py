"""Names: the people and things that the turns of a channel name, each with its kind, its other names and its mentions.

A person is known by a first name with little more, or by clear signs: acts of people alone, a role beside the name,
being asked or told. A name that was known once is found wherever it stands, also in lower case.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from ...store.model import NodeId
from ...store.okf.entity_page import EntityType, key_of
from ...store.text.languages import entries, first_names, relation_words, words_in
from ...store.text.words import CAPITAL, before_apostrophe, grammar_words, language_of
from .contexts import Speaker, TurnContext

# Characters of a turn that are read: the rest of a longer one is pasted.
READ_CHARS: Final = 8_000

# The sum of the signs from which a name is a person's.
LEAST_SIGNS: Final = 1.0

# The weight of a surname behind a first name, and the share of a word's uses that must show a person where it is no
# known first name.
SURNAME_SIGN: Final = 0.5
LEAST_SHARE: Final = 0.2

# The weight of a preposition or a verb beside a known first name.
BESIDE_SIGN: Final = 0.25

# Turns in which a thing is named, where no relation tells of it.
FEWEST_TURNS: Final = 3

_CODE = re.compile(
    r"```.*?```|~~~.*?~~~|`[^`\n]*`|https?://\S+|(?<![\w.~/-])[\w.~-]*/[\w./-]*|(?<![\w.+-])[\w.+-]+@[\w.-]+", re.DOTALL
)
_WORD: Final = r"[^\W\d_][\w'’-]*[^\W_]"
_CAPITALISED: Final = rf"{CAPITAL}(?:[\w'’-]*[^\W_])?"
_SHORT = 2
_IDENTIFIER = re.compile(
    r"(?<![\w./-])(?:(?P<file>[\w-]{2,60}\.(?:py|ts|tsx|js|cs|go|rs|md|toml|yml|yaml|json|csv|sql|sh|kt|dart|tf|tex|bib|R|xlsx|pdf))"
    r"|[a-z0-9]{2,30}(?:-[a-z0-9]{2,30}){1,3})(?![\w/-])"
)
_HUMP = re.compile(r"[a-z][A-Z]")
_LETTERS = re.compile(r"[^\W\d_]+")
_OPENS = re.compile(r"(?:^|[.!?:\n*\"(–—>-])\W*$")
_OURS = (
    r"(?:my|our|their|his|her|the|a|an|mein|meine|unser|unsere|der|die|das|dem|mon|ma|notre|le|la|mi|nuestr[oa]|el|su|meu|"
    r"minha|nosso|nossa|o|um|uma|ein|eine|un|une|una|min|vår)"
)
_IS = r"(?:is|are|was|ist|war|est|es|é|er|'s|’s)"


@dataclass(slots=True)
class _Signs:
    """The words around a name: for a person, against one, and for each other kind."""

    person: float = 0.0
    thing: float = 0.0
    kinds: Counter[EntityType] = field(default_factory=Counter)
    turns: set[NodeId] = field(default_factory=set)
    spelled: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Found:
    """A person or a thing: `names` are its names as they were written, the fullest first; mentions are turns."""

    type: EntityType
    names: tuple[str, ...]
    mentions: tuple[NodeId, ...]
    role: str = ""

    @property
    def name(self) -> str:
        """Its fullest name."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class DecidedNames:
    """A person or a thing whose names a person settled: those that it has, and those that it has not."""

    type: EntityType
    names: tuple[str, ...]
    not_names: tuple[str, ...] = ()


def plain_text(text: str) -> str:
    """Return the beginning of a turn with its code, addresses and paths blanked; every place stays what it was."""
    return _CODE.sub(lambda code: " " * len(code[0]), text[:READ_CHARS])


@cache
def _nameless() -> frozenset[str]:
    """Return the words that name nobody, folded."""
    asked = words_in("question_words") | words_in("weekdays") | words_in("months")
    accepted = {
        *relation_words("nameless.words"),
        "ok",
        "okay",
        "yes",
        "no",
        "thanks",
        "everyone",
        "someone",
        "somebody",
        "nobody",
        "anyone",
        "people",
    }
    return frozenset(key_of(word) for word in grammar_words() | asked | accepted | set(relation_words("closers.words")))


def _alternatives(section: str) -> str:
    return "|".join(sorted(relation_words(section), key=len, reverse=True))


@cache
def _person_patterns() -> tuple[tuple[re.Pattern[str], float, bool], ...]:
    """Return the patterns of a person's name, each with its weight, and True if it holds for a lower-case name too."""
    return tuple((_pattern(sign["pattern"]), sign["weight"], sign["low"]) for sign in relation_words("persons.signs"))


@cache
def _thing_patterns() -> tuple[tuple[re.Pattern[str], EntityType, float], ...]:
    """Return the patterns of a thing's name with its kind, and the weight that it has against a person."""
    found = [
        (_pattern(sign["pattern"]), EntityType(sign["kind"]), float(sign["weight"]))
        for sign in relation_words("things.signs")
    ]
    for section in ("organisation", "team", "service", "project", "place"):
        words = _alternatives(f"groups.{section}")
        found.append((_pattern(rf"(?<!\w){{FULL}}[ -](?i:{words})(?!\w)"), EntityType(section), 1.0))
        found.append((_pattern(rf"(?<!\w)(?i:{words}) {{FULL}}(?!\w)"), EntityType(section), 0.6))
    return tuple(found)


def _pattern(written: str) -> re.Pattern[str]:
    """Compile a pattern of `relations.toml`, in which words in braces stand for others."""
    roles = _alternatives("persons.roles")
    parts = {
        "FULL": rf"(?P<name>{_CAPITALISED}(?: {_CAPITALISED}){{0,2}})",
        "ANY": rf"(?P<name>{_WORD})",
        "ROLE": rf"(?P<role>{roles})",
        "OURS": rf"(?i:(?<!\w){_OURS})",
        "IS": _IS,
        "ACTS": _alternatives("persons.acts"),
        "BEFORE": _alternatives("persons.before"),
        "TITLES": _alternatives("persons.titles"),
        "OPENS": rf"(?:^|[.!?,;:(] |\b(?i:{_alternatives('persons.joined_by')}) )",
    }
    for name, pattern in parts.items():
        written = written.replace(f"{{{name}}}", pattern)
    return re.compile(written, re.MULTILINE)


@cache
def _beside() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of the words before, and behind, a known first name that show a person."""
    before, after = _alternatives("persons.beside_before"), _alternatives("persons.beside_after")
    return (
        re.compile(rf"(?<!\w)(?:{before})(?: [oa])? $", re.IGNORECASE),
        re.compile(rf"['’]s?\b|,? (?:{after})\b", re.IGNORECASE),
    )


def found_in(
    contexts: Sequence[TurnContext], decided: Sequence[DecidedNames] = (), projects: Iterable[str] = ()
) -> list[Found]:
    """Return the people and things that turns name, most mentioned first; `decided` ones and `projects` by name."""
    signs: dict[str, _Signs] = defaultdict(_Signs)
    words = _Words()
    texts = [(context, plain_text(context.text)) for context in contexts]
    for context, text in texts:
        words.count(text)
        _note(signs, context, text)
    people = _people(signs, words)
    kinds: dict[str, EntityType] = dict.fromkeys(people, EntityType.PERSON)
    for key, kind in _things(signs, words, people).items():
        kinds.setdefault(key, kind)
    for key, kind in _identifiers(texts, projects).items():
        kinds.setdefault(key, kind)
    return _mentioned(_clusters(kinds, decided), signs, texts)


def _identifiers(texts: Iterable[tuple[TurnContext, str]], projects: Iterable[str]) -> dict[str, EntityType]:
    """Return the folded names of projects, and of files and hyphened things that people name in several turns."""
    found = {key_of(name): EntityType.PROJECT for name in projects if key_of(name)}
    turns: dict[str, set[NodeId]] = defaultdict(set)
    kinds: dict[str, EntityType] = {}
    for context, _ in texts:
        if context.speaker is Speaker.ASSISTANT:
            continue
        for match in _IDENTIFIER.finditer(context.text[:READ_CHARS]):
            key = key_of(match[0])
            turns[key].add(context.turn.node_id)
            kinds[key] = EntityType.FILE if match["file"] else EntityType.SERVICE
    return found | {
        key: kinds[key] for key, named in turns.items() if len(named) > 1 and " " in key and key not in found
    }


@dataclass(slots=True)
class _Words:
    """Counts of each word: in all, in lower case, and with a capital within a sentence."""

    lower: Counter[str] = field(default_factory=Counter)
    within: Counter[str] = field(default_factory=Counter)
    all: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    """As `within`, in languages whose nouns have no capital."""

    def count(self, text: str) -> None:
        """Count the words of a text."""
        has_capital_nouns = "nouns" in entries(language_of(text), "capitals")
        for match in _LETTERS.finditer(text):
            key = key_of(match[0])
            self.all[key] += 1
            if match[0].islower():
                self.lower[key] += 1
            elif match.start() and not _OPENS.search(text, max(0, match.start() - 4), match.start()):
                self.within[key] += 1
                self.named[key] += not has_capital_nouns


def _note(signs: dict[str, _Signs], context: TurnContext, text: str) -> None:
    turn = context.turn.node_id
    if context.speaker is Speaker.PEER:
        _noted(signs, context.turn.role, turn).person += LEAST_SIGNS
    for pattern, weight, is_low in _person_patterns():
        for match in pattern.finditer(text):
            name = _trimmed(match["name"])
            if not name or (is_low and not _may_be_low(name)):
                continue
            one = _noted(signs, name, turn)
            one.person += weight
            if "role" in pattern.groupindex and match["role"]:
                one.roles[match["role"].lower()] += 1
    for pattern, kind, weight in _thing_patterns():
        for match in pattern.finditer(text):
            if name := _trimmed(match["name"]):
                one = _noted(signs, name, turn)
                one.thing += weight
                one.kinds[kind] += int(weight * 10)
    known, (before, after) = first_names(), _beside()
    for match in re.finditer(rf"(?<![\w'’-]){_CAPITALISED}(?: {_CAPITALISED}){{0,2}}", text):
        if name := _trimmed(match[0]):
            one = _noted(signs, name, turn)
            first, *rest = map(key_of, name.split())
            if rest and first in known and not any(part in known and first == part for part in rest):
                one.person += LEAST_SIGNS
                _noted(signs, name.split()[0], turn).person += SURNAME_SIGN
    for match in _LETTERS.finditer(text):
        if key_of(match[0]) in known and not is_nameless(match[0]):
            one = _noted(signs, match[0], turn)
            beside = before.search(text, max(0, match.start() - 12), match.start())
            if beside or after.match(text, match.end()):
                one.person += BESIDE_SIGN


def _noted(signs: dict[str, _Signs], name: str, turn: NodeId) -> _Signs:
    one = signs[key_of(name)]
    one.turns.add(turn)
    one.spelled[name] += 1
    return one


def _trimmed(name: str) -> str:
    """Return a name without the words at its ends that name nothing; "" where none is left."""
    words = [re.sub(r"['’]s?$", "", word) for word in name.split()]
    while words and is_nameless(words[0]):
        words = words[1:]
    while words and is_nameless(words[-1]):
        words = words[:-1]
    joined = " ".join(words)
    return joined if len(joined) >= _SHORT and not joined.isdigit() else ""


def is_nameless(word: str) -> bool:
    """Return True for a word of grammar, or one that names nobody."""
    return key_of(before_apostrophe(word)) in _nameless() or len(word) < _SHORT


def _may_be_low(name: str) -> bool:
    """Return True for a word that a lower-case name may be: no role, no verb and no word of grammar."""
    return not re.fullmatch(_alternatives("persons.roles"), name.lower()) and name.lower() not in relation_words(
        "persons.acts"
    )


def _people(signs: dict[str, _Signs], words: _Words) -> list[str]:
    """Return the folded names that are people's: first names with little more, other words by clear signs."""
    return [key for key, one in signs.items() if not _is_acronym(one) and _is_person(key, one, words)]


def _is_person(key: str, one: _Signs, words: _Words) -> bool:
    how = first_names().get(key)
    times = max(1, words.all[key])
    if " " in key:
        return one.person >= LEAST_SIGNS and one.person >= one.thing
    if how is not None and one.person >= one.thing:
        if how == "common":
            return one.person >= LEAST_SIGNS / 2
        is_always_capital = words.all[key] > words.lower[key] == 0
        return one.person > 0 or is_always_capital or words.within[key] > 0 or (how == "rare" and times > 1)
    needed = LEAST_SIGNS if words.within[key] else 1.5 * LEAST_SIGNS
    return one.person >= needed and one.person > one.thing and one.person >= LEAST_SHARE * times


def _is_acronym(one: _Signs) -> bool:
    """Return True for a name in capitals, or with one inside a word: "DPO", "ImageMagick"."""
    return _is_in_capitals(one) or _HUMP.search(one.spelled.most_common(1)[0][0]) is not None


def _is_in_capitals(one: _Signs) -> bool:
    spelling = one.spelled.most_common(1)[0][0]
    return spelling.isupper() and len(spelling) > 1


def _things(signs: dict[str, _Signs], words: _Words, people: Sequence[str]) -> dict[str, EntityType]:
    """Return the folded names of other things, by kind: capitalised within sentences of several turns, or typed."""
    parts = {part for name in people for part in name.split()}
    found: dict[str, EntityType] = {}
    for key, one in signs.items():
        if key in parts or not any(name[0].isupper() for name in one.spelled):
            continue
        kinds = [(weight, kind) for kind, weight in one.kinds.items() if kind is not EntityType.OTHER]
        weight, kind = max(kinds, default=(0, EntityType.OTHER))
        if len(one.turns) < FEWEST_TURNS or words.lower[key] > len(one.turns):
            continue
        if weight >= 10:
            found[key] = kind
        elif words.named[key] >= FEWEST_TURNS and not words.lower[key] and not _is_in_capitals(one):
            found[key] = EntityType.OTHER
    return found


def _clusters(kinds: dict[str, EntityType], decided: Sequence[DecidedNames]) -> list[tuple[EntityType, list[str]]]:
    """Join the names of one person: a part of exactly one longer name is that name's; what was decided stays."""
    clusters: list[tuple[EntityType, list[str]]] = []
    refused: dict[str, set[str]] = {}  # the names that a cluster, by its first name, may not have
    for one in decided:
        keys = [key_of(name) for name in one.names]
        home = next((held for _, held in clusters if set(held) & set(keys)), None)  # of another channel
        if home is None:
            clusters.append((one.type, keys))
            home = keys
        else:
            home += [key for key in keys if key not in home]
        refused.setdefault(home[0], set()).update(key_of(name) for name in one.not_names)
    taken = {key for _, keys in clusters for key in keys}
    people = [key for key, kind in kinds.items() if kind is EntityType.PERSON]
    longer: dict[str, set[str]] = defaultdict(set)
    for key in {*people, *(key for kind, keys in clusters if kind is EntityType.PERSON for key in keys)}:
        for part in (key.split()[0], key.split()[-1]) if " " in key else ():
            longer[part].add(key)
    for key in sorted(kinds, key=lambda key: (-len(key.split()), key)):
        if key in taken:
            continue
        whole = longer.get(key, set())
        home = next((keys for _, keys in clusters if whole & set(keys)), None) if len(whole) == 1 else None
        if kinds[key] is EntityType.PERSON and home is not None and key not in refused.get(home[0], ()):
            home.append(key)
        else:
            parts = [part for part in (key.split()[0],) if " " in key and kinds[key] is EntityType.PERSON]
            settled = set[str]().union(*refused.values())
            own = [part for part in parts if len(longer[part]) == 1 and part not in taken | settled]
            clusters.append((kinds[key], [key, *own]))
            taken.update(own)
        taken.add(key)
    return clusters


def _mentioned(
    clusters: Sequence[tuple[EntityType, Sequence[str]]],
    signs: dict[str, _Signs],
    texts: Sequence[tuple[TurnContext, str]],
) -> list[Found]:
    """Find the mentions of each cluster in the texts, in the spellings that occur."""
    of_key = {key: place for place, (_, keys) in enumerate(clusters) for key in keys}
    longest = max((len(key.split()) for key in of_key), default=0)
    turns: dict[int, dict[NodeId, None]] = defaultdict(dict)
    spelled: dict[int, Counter[str]] = defaultdict(Counter)
    for context, text in texts:
        for place, surface in surfaces_in(text, of_key, longest):
            turns[place][context.turn.node_id] = None
            spelled[place][surface] += 1
    found = []
    for place, (kind, keys) in enumerate(clusters):
        if place not in turns:
            continue
        names = sorted(
            spelled[place], key=lambda name: (-len(name.split()), name.islower(), -spelled[place][name], name)
        )
        roles = sum((signs[key].roles for key in keys if key in signs), Counter[str]())
        role = roles.most_common(1)[0][0] if roles else ""
        found.append(Found(kind, tuple(names), tuple(turns[place]), role))
    return sorted(found, key=lambda one: (-len(one.mentions), one.name))


def surfaces_in(text: str, of_key: dict[str, int], longest: int) -> Iterator[tuple[int, str]]:
    """Yield the known names in a text, the longest at each place, with the number of the thing that they name."""
    for place, start, end in spans_in(text, of_key, longest):
        yield place, text[start:end]


_TOKEN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?")


def spans_in(text: str, of_key: dict[str, int], longest: int) -> Iterator[tuple[int, int, int]]:
    """Yield the places of the known names in a text: the thing's number, start and end; none overlaps another."""
    tokens = [(match.start(), match.end(), key_of(match[0])) for match in _TOKEN.finditer(text)]
    at = 0
    while at < len(tokens):
        for length in range(min(longest, len(tokens) - at), 0, -1):
            chosen = tokens[at : at + length]
            if (place := of_key.get(" ".join(key for _, _, key in chosen))) is not None:
                between = text[chosen[0][0] : chosen[-1][1]]
                if "\n" not in between and not re.search(r"[.,;:!?()]", between):
                    yield place, chosen[0][0], chosen[-1][1]
                    at += length - 1
                    break
        at += 1
