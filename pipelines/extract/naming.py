"""Names: the people and things that the turns of a channel name, and the relations between them that people state.

The reader of names (`store/judges/name_reader.py`) says which words name something, and which two are related how. Its
opinions of single turns are put together here: a name that was known once is found wherever it stands, also in lower
case.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Final

from ...store.judges.judge import JudgedTurn
from ...store.judges.name_reader import PROJECT, NamedSpan, NamesRead, StatedRelation, names_reader
from ...store.model import NodeId
from ...store.okf.entity_page import EntityRelation, EntityType, RelationType, key_of
from ...store.text.languages import first_names, phrases, words_in
from ...store.text.sentences import on_one_line, split
from ...store.text.words import before_apostrophe, grammar_words
from .contexts import Speaker, TurnContext

# Characters of a turn that are read: the rest of a longer one is pasted.
READ_CHARS: Final = 8_000

# The sum of the reader's opinions from which a name counts. On six people left out, more turns for things or a higher
# bound for people lost pages that their readers want; a lower one brought words that name nobody.
LEAST_OF_FIRST_NAME: Final = 0.6
_SURE_NAMES: Final = frozenset({"rare", "sure"})
LEAST_OF_PERSON: Final = 1.0
LEAST_OF_THING: Final = 1.0

FEWEST_TURNS: Final = 2
"""Turns in which a thing is named, where no relation tells of it."""

FEWEST_BY_PEOPLE, FEWEST_OF_FILES = 1, 2
"""Turns of people in which a thing and a file are named: assistants name every file and function of the code."""

LEAST_OF_RELATED: Final = 1.8
"""The sum for a thing that is named in one turn, and related to another there."""

# The share of a name's occurrences that the reader took for one: "will" is seldom a person, nor "tool" a thing.
LEAST_SHARE_OF_PERSON, LEAST_SHARE_OF_THING = 0.25, 0.5

# A person's name alone is so many times as sure as the same name with a word that is none of it.
SELDOM: Final = 4

# A relation is believed from here on: each end, the pair alone, and the pair read again with its ends marked.
LEAST_OF_END: Final = 0.5
LEAST_OF_PAIR: Final = 0.5
LEAST_OF_RELATION: Final = 0.9

LONGEST_SENTENCE: Final = 300
"""The characters of a sentence that is kept with a relation, or quoted on a page."""

PEOPLE: Final = frozenset({EntityType.PERSON, EntityType.TEAM, EntityType.ORGANISATION})

# Of one thing at a time: the object has one owner, the subject works in one place.
ONE_SUBJECT: Final = frozenset({RelationType.OWNS})
ONE_OBJECT: Final = frozenset({RelationType.WORKS_FOR, RelationType.REPORTS_TO, RelationType.LOCATED_IN})

_ACTS_OF_PEOPLE: Final = frozenset(
    {
        RelationType.OWNS,
        RelationType.WORKS_FOR,
        RelationType.REPORTS_TO,
        RelationType.KNOWS,
        RelationType.HANDED_OVER_TO,
    }
)
_PEOPLE_BEHIND: Final = frozenset(
    {RelationType.REPORTS_TO, RelationType.KNOWS, RelationType.HANDED_OVER_TO, RelationType.CREATED_BY}
)

_CODE = re.compile(r"```.*?```|~~~.*?~~~|https?://\S+|(?<![\w.+-])[\w.+-]+@[\w.-]+", re.DOTALL)
_TOKEN = re.compile(r"[^\W_](?:[\w-]*[^\W_])?")
_GAP = re.compile(r"[ \t]|[-./_'’@#:\\]+|['’]\s")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_SHORT = 2


@dataclass(frozen=True, slots=True)
class Found:
    """A person or a thing: `names` are its names as they were written, the fullest first; mentions are turns."""

    type: EntityType
    names: tuple[str, ...]
    mentions: tuple[NodeId, ...]

    @property
    def name(self) -> str:
        """Its fullest name."""
        return self.names[0]


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names of a person or thing that is known already; a person may have settled which are not."""

    type: EntityType
    names: tuple[str, ...]
    not_names: tuple[str, ...] = ()


def plain_text(text: str) -> str:
    """Return the beginning of a turn with its code blocks and addresses blanked; places stay as they are."""
    return _CODE.sub(lambda code: " " * len(code[0]), text[:READ_CHARS])


def read_turns(contexts: Sequence[TurnContext]) -> dict[NodeId, NamesRead]:
    """Read the names and relations of turns, each after the other side's words, by turn."""
    spoken = [
        JudgedTurn(
            "assistant" if context.speaker is Speaker.ASSISTANT else "user",
            plain_text(context.text),
            context.before.text if context.before else "",
        )
        for context in contexts
    ]
    read = names_reader().turns(spoken) if spoken else []
    return {context.turn.node_id: one for context, one in zip(contexts, read, strict=True)}


@cache
def _nameless() -> frozenset[str]:
    """Return the words that name nobody, folded."""
    asked = words_in("question_words") | words_in("weekdays") | words_in("months")
    return frozenset(key_of(word) for word in grammar_words() | asked)


def is_nameless(word: str) -> bool:
    """Return True for a word of grammar, or one that names nobody."""
    return key_of(before_apostrophe(word)) in _nameless() or len(word) < _SHORT


_ENDING = re.compile(r"\w\.\w{1,8}\Z")
_HUMPS = re.compile(r"[a-z][a-z\d]*[A-Z]\w*|(?:[A-Z][a-z\d]+){3,}")


def _is_identifier(name: str) -> bool:
    """Return True for a name of code, not of a thing: "copyMetadataDir", "FetchMetadataBranch", "SLACK_CHANNEL"."""
    return _HUMPS.fullmatch(name) is not None or ("_" in name and " " not in name)


def _is_path(name: str) -> bool:
    """Return True for the name of a file or folder, by a slash or an ending."""
    inner = name.strip("/")
    return " " not in inner and ("/" in inner or _ENDING.search(inner) is not None)


def trimmed(name: str) -> str:
    """Return a name without the words at its ends that name nothing; "" where none is left."""
    words = [re.sub(r"['’]s?$", "", word.strip('.,;:!?()[]{}"“”„«»`*')) for word in name.split()]
    while words and is_nameless(words[0]):
        words = words[1:]
    while words and is_nameless(words[-1]):
        words = words[:-1]
    joined = " ".join(words)
    return joined if len(joined) >= _SHORT and _LETTERS.search(joined) else ""


@dataclass(slots=True)
class _Opinions:
    """The opinions on a name: their sum for each kind, and the turns that gave them."""

    kinds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    turns: set[NodeId] = field(default_factory=set)

    @property
    def type(self) -> EntityType:
        """The kind of most; a person is one by half of all opinions, else it is the next kind."""
        order = sorted(self.kinds, key=lambda kind: -self.kinds[kind])
        if order[0] == EntityType.PERSON and self.kinds[order[0]] < self.total / 2 and len(order) > 1:
            return EntityType(order[1])
        return EntityType(order[0])

    @property
    def total(self) -> float:
        """The sum of all."""
        return sum(self.kinds.values())


def found_in(
    contexts: Sequence[TurnContext],
    read: Mapping[NodeId, NamesRead],
    known: Sequence[KnownNames] = (),
    projects: Iterable[str] = (),
) -> list[Found]:
    """Return the people and things that turns name, most mentioned first; `known` ones and `projects` by name."""
    texts = [(context.turn.node_id, plain_text(context.text)) for context in contexts]
    opinions = _opinions(contexts, read)
    named_in = _occurrences(texts, opinions)
    by_people = {context.turn.node_id for context in contexts if context.speaker is not Speaker.ASSISTANT}
    kinds = {key: EntityType.PROJECT for name in projects if (key := key_of(name))}
    for key, one in opinions.items():
        if _counts(key, one, named_in[key], read.keys(), by_people):
            kinds.setdefault(key, one.type)
    for key in [key for key in kinds if _only_begins_with(key, kinds, opinions)]:
        del kinds[key]
    return _mentioned(_clusters(kinds, known), texts)


def _opinions(contexts: Sequence[TurnContext], read: Mapping[NodeId, NamesRead]) -> dict[str, _Opinions]:
    found: dict[str, _Opinions] = defaultdict(_Opinions)
    for context in contexts:
        turn = context.turn.node_id
        if context.speaker is Speaker.PEER and (key := key_of(trimmed(context.turn.role))):
            found[key].kinds[EntityType.PERSON] += 1
            found[key].turns.add(turn)
        if turn not in read:
            continue
        pairs = ((each.subject, each.object) for each in believed(read[turn]))
        related = {end for pair in pairs for end in pair if PROJECT not in pair}
        for span in read[turn].names:
            name = trimmed(words_of(span, context)) if span.part == 1 and span.named != "phrase" else ""
            is_file = span.named == EntityType.FILE
            if (key := key_of(name)) and (_is_path(name) if is_file else not _is_identifier(name)):
                found[key].kinds[span.named] += span.sureness + (span in related)
                found[key].turns.add(turn)
    return found


def _occurrences(texts: Sequence[tuple[NodeId, str]], names: Collection[str]) -> dict[str, set[NodeId]]:
    """Return the turns in which each name occurs."""
    of_key = {key: place for place, key in enumerate(names)}
    keys = list(names)
    longest = max((len(key.split()) for key in keys), default=0)
    found: dict[str, set[NodeId]] = defaultdict(set)
    for turn, text in texts:
        for place, _, _ in spans_in(text, of_key, longest):
            found[keys[place]].add(turn)
    return found


def _counts(
    key: str, one: _Opinions, turns: set[NodeId], read: Collection[NodeId], by_people: Collection[NodeId]
) -> bool:
    """Return True for a name that the turns bear out; an earlier turn that was not read again bears it out too."""
    again = [turn for turn in turns if turn in read]
    is_person = one.type is EntityType.PERSON
    if len(one.turns) < (LEAST_SHARE_OF_PERSON if is_person else LEAST_SHARE_OF_THING) * len(again):
        return False
    if is_person:
        return one.total >= (
            LEAST_OF_FIRST_NAME if first_names().get(key.split()[0]) in _SURE_NAMES else LEAST_OF_PERSON
        )
    has_more = len(turns) >= FEWEST_TURNS and (len(one.turns) >= FEWEST_TURNS or len(again) < len(turns))
    if sum(turn in by_people for turn in turns) < (
        FEWEST_OF_FILES if one.type is EntityType.FILE else FEWEST_BY_PEOPLE
    ):
        return False
    return one.total >= LEAST_OF_THING and (has_more or one.total >= LEAST_OF_RELATED)


def _only_begins_with(key: str, kinds: Mapping[str, EntityType], opinions: Mapping[str, _Opinions]) -> bool:
    """Return True for a person's name with a word more, taken for the name once or twice: "wake marek"."""
    if kinds[key] is not EntityType.PERSON or " " not in key or key not in opinions:
        return False
    alone = [opinions[part].total for part in key.split() if part in kinds and part in opinions]
    return bool(alone) and max(alone) >= SELDOM * opinions[key].total


def _clusters(kinds: dict[str, EntityType], known: Sequence[KnownNames]) -> list[tuple[EntityType, list[str]]]:
    """Join the names of one person: a part of exactly one longer name is that name's; known names stay."""
    clusters: list[tuple[EntityType, list[str]]] = []
    refused: dict[str, set[str]] = {}  # the names that a cluster, by its first name, may not have
    for one in known:
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
            own = [p for p in parts if len(longer[p]) == 1 and p not in taken | settled and not is_nameless(p)]
            clusters.append((kinds[key], [key, *own]))
            taken.update(own)
        taken.add(key)
    return clusters


def _mentioned(
    clusters: Sequence[tuple[EntityType, Sequence[str]]], texts: Sequence[tuple[NodeId, str]]
) -> list[Found]:
    """Find the mentions of each cluster in the texts, in the spellings that occur."""
    of_key = {key: place for place, (_, keys) in enumerate(clusters) for key in keys}
    longest = max((len(key.split()) for key in of_key), default=0)
    turns: dict[int, dict[NodeId, None]] = defaultdict(dict)
    spelled: dict[int, Counter[str]] = defaultdict(Counter)
    for turn, text in texts:
        for place, surface in surfaces_in(text, of_key, longest):
            if clusters[place][0] is EntityType.FILE and not _is_path(surface):
                continue  # "Entire CLI" is not the folder entire/cli
            turns[place][turn] = None
            spelled[place][surface] += 1
    found = []
    for place, (kind, _) in enumerate(clusters):
        if place in turns:
            full, *others = _in_order(spelled[place])
            names = (_capitalised(full) if kind is EntityType.PERSON else full, *others)
            found.append(Found(kind, names, tuple(turns[place])))
    return sorted(found, key=lambda one: (-len(one.mentions), one.name))


def _in_order(spelled: Counter[str]) -> tuple[str, ...]:
    """Return spellings, the fullest first, then those with a capital, then the most frequent."""
    return tuple(sorted(spelled, key=lambda name: (-len(name.split()), name.islower(), -spelled[name], name)))


def _capitalised(name: str) -> str:
    """Return a person's name with capitals where it was typed without any: "Maria da Silva"."""
    if not name.islower():
        return name
    first, *others = name.split()
    return " ".join([first.title(), *(one if key_of(one) in grammar_words() else one.title() for one in others)])


def surfaces_in(text: str, of_key: dict[str, int], longest: int) -> Iterator[tuple[int, str]]:
    """Yield the known names in a text, the longest at each place, with the number of the thing that they name."""
    for place, start, end in spans_in(text, of_key, longest):
        yield place, text[start:end]


def spans_in(text: str, of_key: Mapping[str, int], longest: int) -> Iterator[tuple[int, int, int]]:
    """Yield the places of the known names in a text: the thing's number, start and end; none overlaps another."""
    tokens = [(match.start(), match.end(), key_of(match[0])) for match in _TOKEN.finditer(text)]
    at = 0
    while at < len(tokens):
        for length in range(min(longest, len(tokens) - at), 0, -1):
            chosen = tokens[at : at + length]
            if (place := of_key.get(" ".join(key for _, _, key in chosen))) is not None:
                gaps = (text[one[1] : other[0]] for one, other in pairwise(chosen))
                if all(_GAP.fullmatch(gap) for gap in gaps):
                    yield place, chosen[0][0], chosen[-1][1]
                    at += length - 1
                    break
        at += 1


# ---- relations


def relations_of(
    contexts: Sequence[TurnContext], read: Mapping[NodeId, NamesRead], found: Sequence[Found], project: str
) -> list[EntityRelation]:
    """Return the relations that people's turns state, as they were said; `project` is the name of the one at hand."""
    named = {key_of(name): one for one in found for name in one.names}
    stated: dict[tuple[str, str, str, str], EntityRelation] = {}
    for context in contexts:
        if context.speaker is Speaker.ASSISTANT or context.turn.node_id not in read:
            continue
        for each in believed(read[context.turn.node_id]):
            relation = _relation(each, context, named, project)
            if relation is not None:
                stated.setdefault(relation.key, relation)
    return _with_objects(list(stated.values()))


def believed(read: NamesRead) -> list[StatedRelation]:
    """Return the relations of a turn that may be believed, of those that exclude each other the surest."""
    surest: dict[object, StatedRelation] = {}
    for each in sorted(read.relations, key=lambda one: -one.sureness):
        ends = [end.sureness for end in (each.subject, each.object) if isinstance(end, NamedSpan)]
        is_sure = each.sureness >= LEAST_OF_RELATION and each.first_sureness >= LEAST_OF_PAIR
        if is_sure and min(ends, default=1.0) >= LEAST_OF_END:
            end = each.object if each.relation in ONE_SUBJECT else each.subject
            alone = each.relation in ONE_SUBJECT | ONE_OBJECT
            surest.setdefault((each.relation, end) if alone else each, each)
    return list(surest.values())


def _relation(
    each: StatedRelation, context: TurnContext, named: Mapping[str, Found], project: str
) -> EntityRelation | None:
    subject, object_ = (_end(end, context, named, project) for end in (each.subject, each.object))
    relation = RelationType(each.relation)
    words = sentence_of(each, context)
    if not subject or not object_ or not words or key_of(subject) == key_of(object_):
        return None
    kinds = [one.type if (one := named.get(key_of(end))) else None for end in (subject, object_)]
    if each.subject == PROJECT and kinds[1] in {None, EntityType.PERSON, EntityType.FILE}:
        return None  # what a project uses without saying so is told only where it has a page
    if relation in _ACTS_OF_PEOPLE and kinds[0] not in PEOPLE:
        return None
    if relation in _PEOPLE_BEHIND and kinds[1] not in PEOPLE:
        return None
    return EntityRelation(subject, relation, object_, context.turn.node_id, words, context.turn.at)


def _end(end: NamedSpan | str, context: TurnContext, named: Mapping[str, Found], project: str) -> str:
    """Return the full name of an end, or its words without those that name nothing; "" for one that cannot be told."""
    if isinstance(end, str):
        return project if end == PROJECT else ""
    said = trimmed(words_of(end, context))
    one = named.get(key_of(said))
    return one.name if one else on_one_line(said)


def words_of(span: NamedSpan, context: TurnContext) -> str:
    """Return the words of a span."""
    before = context.before.text if context.before else ""
    return (before, context.text)[span.part][span.start : span.end]


def sentence_of(each: StatedRelation, context: TurnContext) -> str:
    """Return the sentence that states a relation, its object's; "" for one that is too long to be shown."""
    own = [end for end in (each.object, each.subject) if isinstance(end, NamedSpan) and end.part == 1]
    place = own[0].start if own else 0
    sentence = next((one for one in split(context.text) if one.start <= place < one.end), None)
    if sentence is None or len(sentence.text) > LONGEST_SENTENCE or sentence.text.rstrip().endswith("?"):
        return ""
    words = on_one_line(sentence.text)
    return "" if is_doubtful(words) else words


def is_doubtful(sentence: str) -> bool:
    """Return True for a sentence that doubts, denies or proposes: it states no relation."""
    return any(
        phrases(section).search(sentence)
        for section in ("doubt.idle", "state.doubted", "grounding.negation", "state.not_yet")
    )


def _with_objects(relations: Sequence[EntityRelation]) -> list[EntityRelation]:
    """Name the thing that was handed over: the new one owns it by the same turn."""
    owned = {(one.turn, key_of(one.subject)): one.object for one in relations if one.relation is RelationType.OWNS}
    return [
        replace(one, what=owned.get((one.turn, key_of(one.object)), ""))
        if one.relation is RelationType.HANDED_OVER_TO
        else one
        for one in relations
    ]


def in_force(relations: Sequence[EntityRelation], denied: Sequence[EntityRelation] = ()) -> list[EntityRelation]:
    """End each relation where a later one of a kind that holds once says otherwise, or its subject handed it over.

    One that was ended by a relation that a person `denied` since holds again.
    """
    found: list[EntityRelation] = []
    for one in relations:
        if any(one.ended_by == no.turn and _ends(no, one) for no in denied):
            one = replace(one, until=None, ended_by=None)
        for place, older in enumerate(found):
            if older.until is None and _ends(one, older):
                found[place] = replace(older, until=one.since, ended_by=one.turn)
        found.append(one)
    return found


def _ends(newer: EntityRelation, older: EntityRelation) -> bool:
    if newer.turn == older.turn:
        return False
    subject, object_ = key_of(newer.subject), key_of(newer.object)
    if newer.relation is older.relation and newer.relation in ONE_SUBJECT:
        return _is_part(object_, key_of(older.object)) and subject != key_of(older.subject)
    if newer.relation is older.relation and newer.relation in ONE_OBJECT:
        return subject == key_of(older.subject) and object_ != key_of(older.object)
    if newer.relation is RelationType.HANDED_OVER_TO and older.relation is RelationType.OWNS:
        return subject == key_of(older.subject) and key_of(newer.what) == key_of(older.object)
    if newer.relation is RelationType.REPLACED_BY and older.relation is RelationType.USES:
        return subject == key_of(older.object)
    return False


def _is_part(one: str, other: str) -> bool:
    """Return True for two phrases of which one is a part of the other: "the group" and "the group of testers"."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
