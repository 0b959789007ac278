"""Names: the people and things that the turns of a channel name, each with its kind, its other names and its mentions.

A person is known by what people alone do, by a role beside the name, by being asked or told. A name that was known once
is found wherever it stands, also in lower case, unless it is a common word there.
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
from ...store.text.languages import relation_words, words_in
from ...store.text.words import CAPITAL, before_apostrophe, grammar_words
from .contexts import Speaker, TurnContext

# Characters of a turn that are read: what is longer is pasted.
READ_CHARS: Final = 8_000

# The sum of the signs from which a name is a person's.
LEAST_SIGNS: Final = 1.0

# Turns in which a thing is named, where no relation tells of it.
FEWEST_TURNS: Final = 3

_CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`|https?://\S+|(?<!\w)[\w.~-]*/[\w./-]+|\S+@\S+", re.DOTALL)
_WORD: Final = r"[^\W\d_][\w'’-]*[^\W_]"
_CAPITALISED: Final = rf"{CAPITAL}(?:[\w'’-]*[^\W_])?"
_SHORT = 2
_OURS = (
    r"(?:my|our|their|his|her|the|a|an|mein|meine|unser|unsere|der|die|das|dem|mon|ma|notre|le|la|mi|nuestr[oa]|el|su|meu|"
    r"minha|nosso|nossa|o|um|uma|ein|eine|un|une|una|min|vår)"
)
_IS = r"(?:is|are|was|ist|war|est|es|é|er|'s|’s)"


@dataclass(slots=True)
class _Signs:
    """What stands around a name: for a person, against one, and for each other kind."""

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
class Decided:
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
    accepted = {"ok", "okay", "yes", "no", "thanks", "everyone", "someone", "somebody", "nobody", "anyone", "people"}
    return frozenset(key_of(word) for word in grammar_words() | asked | accepted | set(relation_words("closers.words")))


def _alternatives(section: str) -> str:
    return "|".join(sorted(relation_words(section), key=len, reverse=True))


@cache
def _person_patterns() -> tuple[tuple[re.Pattern[str], float, bool], ...]:
    """Return the patterns of a person's name, each with its weight, and True if it holds for a lower-case name too."""
    acts, before = _alternatives("persons.acts"), _alternatives("persons.before")
    roles, titles = _alternatives("persons.roles"), _alternatives("persons.titles")
    full, any_case = rf"(?P<name>{_CAPITALISED}(?: {_CAPITALISED}){{0,2}})", rf"(?P<name>{_WORD})"
    role = rf"(?P<role>{roles})"
    ours = rf"(?i:(?<!\w){_OURS}) (?:(?i:[\w-]+) )?"
    opens = r"(?:^|[.!?,;:(] |\b(?i:and|but|und|aber|mas|pero|mais|that|dass|que|when|wenn|because|weil) )"
    found: list[tuple[str, float, bool]] = [
        (rf"{ours}(?i:{role})(?:,? | is | ist | est | es | é |: ){full}", 1.0, False),
        (rf"{ours}(?i:{role})(?:,? | is | heißt |: ){any_case}(?=[,.;:)\n]|$)", 1.0, True),
        (rf"(?<!\w){full}(?:,? ?\(|, | {_IS} )(?:(?i:{_OURS}) )?(?:(?i:[\w-]+) )?(?i:{role})(?!\w)", 1.0, False),
        (rf"(?<!\w){any_case}(?: ?\(|, | {_IS} )(?i:{_OURS}) (?i:{role})(?!\w)", 1.0, True),
        (rf"(?<!\w){full}(?:,? )(?:(?:s?he|elle|il|ela|ele|ella|él|sie|er|hun|han)(?:'s| is| ist| est| es| é) )(?i:{_OURS}) ?(?i:{role})?", 1.0, False),
        (rf"(?<!\w)(?i:{titles})\.? {full}", 1.0, False),
        (rf"(?<!\w)(?i:{before}) (?:o |a |den |die )?{full}", 1.0, False),
        (rf"(?<!\w)(?i:{before}) (?:o |a |den |die )?{any_case}", 0.6, True),
        (rf"(?<!\w){full} (?:(?:has|hat|a|just|already|also|always|never|still|auch|noch|já|ya) )?(?:{acts})(?!\w)", 0.6, False),
        (rf"{opens}{any_case} (?:(?:has|just|already|also|hat) )?(?:{acts})(?!\w)", 0.5, True),
        (rf"(?<!\w){full} (?:is|ist|está|est|é|tá) (?:off|away|out|sick|back|on (?:holiday|leave|vacation)|krank|im urlaub|weg|de vacaciones|de férias|en vacances)(?!\w)", 1.0, False),
        (rf"(?<!\w)(?:from|with|by|to|for|von|mit|bei|avec|pour|par|con|para|por|com|pra|pro|fra|til|av) (?:o |a |der |die |dem )?{full}(?!\w)", 0.25, False),
        (rf"(?<!\w){full}['’]s (?!\w*ing)", 0.25, False),
    ]  # fmt: skip
    return tuple((re.compile(pattern, re.MULTILINE), weight, low) for pattern, weight, low in found)


@cache
def _thing_patterns() -> tuple[tuple[re.Pattern[str], EntityType, float], ...]:
    """Return the patterns of a thing's name with its kind, and the weight that it has against a person."""
    name = rf"(?P<name>{_CAPITALISED}(?: {_CAPITALISED}){{0,2}})"
    tool, place = EntityType.TOOL, EntityType.PLACE
    found: list[tuple[str, EntityType, float]] = [
        (rf"(?<!\w){name} v?\d+(?:\.\d+)*(?![\w%:])", tool, 1.0),
        (rf"(?<!\w)(?i:use|using|uses|via|install|upgrade|nutzen|nutze|benutze|mit hilfe von|utilise|usar|usamos|usando) {name}", tool, 0.7),
        (rf"(?<!\w)(?i:in|near|nach|aus|à|en|em|i) {name}(?!\w)", place, 0.3),
        (rf"(?<!\w)(?i:lives? in|based in|office in|trip to|train to|flight to|wohnt in|büro in|habite à|vive en|mora em|bor i) {name}(?!\w)", place, 1.0),
        (rf"(?<!\w)the {name}(?!\w)", EntityType.OTHER, 0.5),
    ]  # fmt: skip
    for section in ("organisation", "team", "service", "project", "place"):
        words = _alternatives(f"groups.{section}")
        kind = EntityType(section)
        found.append((rf"(?<!\w){name}[ -](?i:{words})(?!\w)", kind, 1.0))
        found.append((rf"(?<!\w)(?i:{words}) {name}(?!\w)", kind, 0.6))
    return tuple((re.compile(pattern, re.MULTILINE), kind, weight) for pattern, kind, weight in found)


def found_in(contexts: Sequence[TurnContext], decided: Sequence[Decided] = ()) -> list[Found]:
    """Return the people and things that turns name, most mentioned first; `decided` ones by their names."""
    signs: dict[str, _Signs] = defaultdict(_Signs)
    lower: Counter[str] = Counter()
    texts = [(context, plain_text(context.text)) for context in contexts]
    for context, text in texts:
        _note(signs, lower, context, text)
    people = _people(signs, lower)
    kinds: dict[str, EntityType] = dict.fromkeys(people, EntityType.PERSON)
    for key, kind in _things(signs, lower, people).items():
        kinds.setdefault(key, kind)
    clusters = _clusters(kinds, decided)
    return _mentioned(clusters, signs, texts, lower)


def _note(signs: dict[str, _Signs], lower: Counter[str], context: TurnContext, text: str) -> None:
    turn = context.turn.node_id
    lower.update(key_of(word) for word in re.findall(r"[^\W\d_]+", text) if word.islower())
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
    for match in re.finditer(rf"(?<=[^\W_][ ,(]|[,;)] ){_CAPITALISED}(?: {_CAPITALISED}){{0,2}}", text):
        if name := _trimmed(match[0]):
            _noted(signs, name, turn)


def _noted(signs: dict[str, _Signs], name: str, turn: NodeId) -> _Signs:
    one = signs[key_of(name)]
    one.turns.add(turn)
    one.spelled[name] += 1
    return one


def _trimmed(name: str) -> str:
    """Return a name without the words at its ends that name nothing; "" where none is left."""
    words = [re.sub(r"['’]s?$", "", word) for word in name.split()]
    while words and _is_nameless(words[0]):
        words = words[1:]
    while words and _is_nameless(words[-1]):
        words = words[:-1]
    joined = " ".join(words)
    return joined if len(joined) >= _SHORT and not joined.isdigit() else ""


def _is_nameless(word: str) -> bool:
    return key_of(before_apostrophe(word)) in _nameless() or len(word) < _SHORT


def _may_be_low(name: str) -> bool:
    """Return True for a word that a lower-case name may be: no role, no verb and no word of grammar."""
    return not re.fullmatch(_alternatives("persons.roles"), name.lower()) and name.lower() not in relation_words("persons.acts")


def _people(signs: dict[str, _Signs], lower: Counter[str]) -> list[str]:
    """Return the folded names that are people's."""
    found = []
    for key, one in signs.items():
        has_capital = any(name[0].isupper() for name in one.spelled)
        needed = LEAST_SIGNS if has_capital else 1.5 * LEAST_SIGNS
        is_common = not has_capital and lower[key] > 4 * len(one.turns)
        if one.person >= needed and one.person > one.thing and not is_common and not _is_acronym(one):
            found.append(key)
    return found


def _is_acronym(one: _Signs) -> bool:
    spelling = one.spelled.most_common(1)[0][0]
    return spelling.isupper() and len(spelling) > 1


def _things(signs: dict[str, _Signs], lower: Counter[str], people: Sequence[str]) -> dict[str, EntityType]:
    """Return the folded names of other things, by kind: capitalised within sentences of several turns, or typed."""
    parts = {part for name in people for part in name.split()}
    found: dict[str, EntityType] = {}
    for key, one in signs.items():
        if key in parts or not any(name[0].isupper() for name in one.spelled):
            continue
        kinds = [(weight, kind) for kind, weight in one.kinds.items() if kind is not EntityType.OTHER]
        weight, kind = max(kinds, default=(0, EntityType.OTHER))
        is_common = lower[key] > len(one.turns)
        if not is_common and weight >= 10 and len(one.turns) >= FEWEST_TURNS:
            found[key] = kind
    return found


def _clusters(
    kinds: dict[str, EntityType], decided: Sequence[Decided]
) -> list[tuple[EntityType, list[str]]]:
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
    lower: Counter[str],
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
        names = sorted(spelled[place], key=lambda name: (-len(name.split()), name.islower(), -spelled[place][name], name))
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
