"""Typed relations: who owns, what blocks, who handed over to whom, as sentences of people state them.

A pattern is read over a sentence in which the known names are marked, so it matches names and no other words. A
sentence that doubts, asks, denies or only proposes states no relation; a new holder ends the older relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ...store.okf.entity_page import EntityRelation, EntityType, RelationType, key_of
from ...store.text.languages import phrases, relation_words
from ...store.text.sentences import on_one_line, split
from .contexts import Speaker, TurnContext
from .naming import is_nameless, plain_text, spans_in

# Characters of a sentence that is read, and the words of a noun phrase.
LONGEST_SENTENCE: Final = 300
MOST_WORDS: Final = 4

# Of one thing at a time: the object has one owner, the subject works in one place.
ONE_SUBJECT: Final = frozenset({RelationType.OWNS})
ONE_OBJECT: Final = frozenset({RelationType.WORKS_FOR, RelationType.REPORTS_TO, RelationType.LOCATED_IN})

PEOPLE: Final = frozenset({EntityType.PERSON, EntityType.TEAM, EntityType.ORGANISATION})

_PERSON_ONLY: Final = frozenset({"P", "P2"})
_DETERMINER = re.compile(
    r"^(?:(?:the|our|my|all|all of|its|a|an|der|die|das|den|dem|unsere?n?|meine?n?|alle|le|la|les|l'|l’|notre|nos|"
    r"tous les|el|los|las|nuestr[oa]s?|todo|o|a|os|as|nosso|nossa|meu|minha|du|de|des|do|da|dos|del)\s*(?<=[\s'’]))+",
    re.IGNORECASE,
)
_ARTICLES = "the|our|my|his|her|all|die|das|den|der|unsere?n?|le|la|les|el|los|las|o|a|os|as"
_MARK = "\x01"


@dataclass(frozen=True, slots=True)
class _Way:
    """A pattern of a relation, and the parts of it that must be people or known names."""

    relation: RelationType
    pattern: re.Pattern[str]
    people: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class KnownName:
    """A person or a thing, as patterns need it: its fullest name and its kind."""

    name: str
    type: EntityType


@cache
def _ways() -> tuple[_Way, ...]:
    closers = "|".join(sorted(map(re.escape, relation_words("closers.words")), key=len, reverse=True))
    mark = rf"{_MARK}\d+{_MARK}"
    word = rf"(?!(?i:{closers})(?![\w'’-]))(?:{mark}|[^\W_][\w'’/+#-]*)"
    phrase = rf"{word}(?: {word}){{0,{MOST_WORDS - 1}}}"
    slots = {
        "P": mark, "P2": mark, "E": mark, "E2": mark, "G": mark, "T": mark, "L": mark,
        "O": phrase, "D": rf"(?:{_ARTICLES}) {phrase}", "W": rf"(?:(?:{_ARTICLES}) )?{phrase}", "S": phrase,
    }  # fmt: skip
    found = []
    for relation in RelationType:
        for way in relation_words(f"{relation.value}.ways"):
            body = way.lstrip("<>")
            names = re.findall(r"\{(\w+)\}", body)
            pattern = re.sub(r"\{(\w+)\}", lambda slot: f"(?P<{slot[1]}>{slots[slot[1]]})", body)
            found.append(
                _Way(
                    relation,
                    re.compile(rf"(?<![\w{_MARK}]){pattern}(?![\w])", re.IGNORECASE),
                    _PERSON_ONLY & set(names),
                    frozenset(names) - {"O", "D", "W", "S"},
                )
            )
    return tuple(found)


def relations_of(
    contexts: Sequence[TurnContext], known: Sequence[tuple[KnownName, Iterable[str]]]
) -> list[EntityRelation]:
    """Return the relations that people's turns state, as they were said, ended where a later one does."""
    of_key = {key_of(name): place for place, (_, names) in enumerate(known) for name in names}
    longest = max((len(key.split()) for key in of_key), default=0)
    named = [one for one, _ in known]
    found: list[EntityRelation] = []
    for context in contexts:
        if context.speaker is Speaker.ASSISTANT:
            continue
        for sentence, words in _sentences(context.text):
            for relation in _in_sentence(sentence, words, context, named, of_key, longest):
                if all(one.key != relation.key or one.until for one in found):
                    found.append(relation)
    return in_force(found)


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences that state something, each without its code and as it was written."""
    plain = plain_text(text)
    for sentence in split(text[: len(plain)]):
        if len(sentence.text) <= LONGEST_SENTENCE and not sentence.text.rstrip().endswith("?"):
            yield plain[sentence.start : sentence.end], on_one_line(sentence.text)


def is_doubtful(sentence: str) -> bool:
    """Return True for a sentence that doubts, denies or proposes: it states no relation."""
    return any(
        phrases(section).search(sentence)
        for section in ("doubt.idle", "state.doubted", "grounding.negation", "state.not_yet")
    )


def _in_sentence(
    sentence: str,
    words: str,
    context: TurnContext,
    known: Sequence[KnownName],
    of_key: Mapping[str, int],
    longest: int,
) -> Iterator[EntityRelation]:
    marked, last = [], 0
    for place, start, end in spans_in(sentence, dict(of_key), longest):
        marked += [sentence[last:start], f"{_MARK}{place}{_MARK}"]
        last = end
    if not marked or is_doubtful(sentence):
        return
    text = "".join([*marked, sentence[last:]])
    for way in _ways():
        for match in way.pattern.finditer(text):
            parts = {slot: value for slot, value in match.groupdict().items() if value}
            fits = all(_fits(value, known) for slot, value in parts.items() if slot in way.people)
            if fits and (relation := _built(way.relation, parts, context, known, words)):
                yield relation


def _fits(value: str, known: Sequence[KnownName]) -> bool:
    return known[int(value.strip(_MARK))].type in PEOPLE


def _built(
    relation: RelationType,
    parts: Mapping[str, str],
    context: TurnContext,
    known: Sequence[KnownName],
    words: str,
) -> EntityRelation | None:
    said = {slot: _plain(value, known) for slot, value in parts.items()}
    first = {"OWNS": "P", "WORKS_FOR": "P", "REPORTS_TO": "P", "HANDED_OVER_TO": "P", "CREATED_BY": "O"}
    first |= {"BLOCKED_BY": "S", "REPLACED_BY": "E"}
    second = {"OWNS": "O", "WORKS_FOR": "G", "REPORTS_TO": "P2", "HANDED_OVER_TO": "P2", "CREATED_BY": "P"}
    second |= {"USES": "T", "LOCATED_IN": "L", "PART_OF": "E2", "REPLACED_BY": "E2"}
    said.setdefault("O", said.get("D", ""))
    subject = said.get(first.get(relation.value, "E"), "")
    object_ = said.get(second.get(relation.value, "O"), "") or said["O"]
    if not subject or not object_ or key_of(subject) == key_of(object_):
        return None
    if any(phrases("speech.pointing").fullmatch(end) or is_nameless(end) for end in (subject, object_)):
        return None
    what = said.get("W", "") if relation is RelationType.HANDED_OVER_TO else ""
    at = context.turn.at
    return EntityRelation(subject, relation, object_, context.turn.node_id, words, at, what=what)


def _plain(value: str, known: Sequence[KnownName]) -> str:
    """Return the words of a slot: a name in full where that is all, else the phrase without its determiner."""
    bare = _DETERMINER.sub("", value.strip())
    if whole := re.fullmatch(rf"{_MARK}(\d+){_MARK}", bare):
        return known[int(whole[1])].name
    return re.sub(rf"{_MARK}(\d+){_MARK}", lambda mark: known[int(mark[1])].name, bare).strip(" '’")


def in_force(relations: Sequence[EntityRelation]) -> list[EntityRelation]:
    """End each relation where a later one of a kind that holds once says otherwise, or its subject handed it over."""
    found: list[EntityRelation] = []
    for one in relations:
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
