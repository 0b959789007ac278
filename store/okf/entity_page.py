"""The page of a person or a thing: its type, its names, its relations and its mentions, as keys of the frontmatter."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

from ..model import Kind, Memory, NodeId
from ..text.dates import format_date
from ..text.words import ALPHANUMERIC
from ..vault.layout import PEOPLE, kind_folder, project_folder, slug, suffix_of
from .memory_file import instant

TYPE, ALIASES, NOT_NAMES = "entity", "aliases", "not_names"
RELATIONS, NOT_RELATIONS, MENTIONS = "relations", "not_relations", "mentions"
"""The keys of the page. `not_names` are names that a person split off, and `not_relations` those relations that they
denied: no dream gives them back."""

BY_PERSON: Final = "decided_by"
"""The key of a page whose names a person merged or split."""

MOST_MENTIONS, MOST_RELATIONS, MOST_ALIASES = 150, 40, 40
"""The newest turns and relations that a page holds: YAML is read slowly, and a frontmatter has at most 64 KiB."""

LONGEST_HEAD: Final = 58
"""The characters of a line of a page before its quote."""

_LETTERS: Final = str.maketrans({"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})
"""Letters that Unicode does not take apart, as people type them without."""

_E = TypeVar("_E", bound=StrEnum)


class EntityType(StrEnum):
    """The kinds of thing that have a page."""

    PERSON = "person"
    ORGANISATION = "organisation"
    TEAM = "team"
    PROJECT = "project"
    SERVICE = "service"
    TOOL = "tool"
    PLACE = "place"
    FILE = "file"
    EVENT = "event"
    OTHER = "other"


class RelationType(StrEnum):
    """The relations from a subject to an object."""

    WORKS_FOR = "WORKS_FOR"
    PART_OF = "PART_OF"
    LOCATED_IN = "LOCATED_IN"
    KNOWS = "KNOWS"
    CREATED_BY = "CREATED_BY"
    REFERENCES = "REFERENCES"
    BLOCKED_BY = "BLOCKED_BY"
    OWNS = "OWNS"
    DEPENDS_ON = "DEPENDS_ON"
    USES = "USES"
    REPORTS_TO = "REPORTS_TO"
    HANDED_OVER_TO = "HANDED_OVER_TO"
    REPLACED_BY = "REPLACED_BY"


RELATION_WORDS: Final[Mapping[str, str]] = {
    "WORKS_FOR": "works for", "PART_OF": "is part of", "LOCATED_IN": "is in", "KNOWS": "knows",
    "CREATED_BY": "was made by", "REFERENCES": "refers to", "BLOCKED_BY": "is blocked by", "OWNS": "owns",
    "DEPENDS_ON": "depends on", "USES": "uses", "REPORTS_TO": "reports to", "HANDED_OVER_TO": "handed over to",
    "REPLACED_BY": "was replaced by",
}  # fmt: skip
"""The words of each relation, between its subject and its object."""


@dataclass(frozen=True, slots=True)
class EntityRelation:
    """A relation as a turn states it: `words` is the sentence, `what` the thing that was handed over.

    It holds from `since` until `until`, where the turn `ended_by` says otherwise; `until` None: it is in force. One
    that a person denied has no `words`, and was denied at `until`.
    """

    subject: str
    relation: RelationType
    object: str
    turn: NodeId
    words: str
    since: datetime | None = None
    until: datetime | None = None
    ended_by: NodeId | None = None
    what: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The relation without its evidence."""
        return (key_of(self.subject), self.relation.value, key_of(self.object), key_of(self.what))

    @property
    def statement(self) -> str:
        """The relation in words, without its time."""
        return statement_of(self.subject, self.relation.value, self.object, self.what)

    @property
    def head(self) -> str:
        """The relation in words with its time, short enough to stand before its quote on a page."""
        ended = f", until {_day(self.until)}" if self.until else ""
        since = f", {_day(self.since)}" if self.since and not self.until else ""
        return f"{self.statement}{ended or since}".replace("“", "").replace("”", "")[:LONGEST_HEAD]

    def as_entry(self) -> dict[str, Any]:
        """Return its entry in the frontmatter; `title` names the turn, as in the other lists of links."""
        entry = {
            "title": self.turn,
            "subject": self.subject,
            "relation": self.relation.value,
            "object": self.object,
            "what": self.what or None,
            "words": self.words or None,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "ended_by": self.ended_by,
        }
        return {name: value for name, value in entry.items() if value is not None}


@dataclass(frozen=True, slots=True)
class EntityPage:
    """The keys of an entity's page; `aliases` are its other names, as they were written."""

    name: str
    type: EntityType = EntityType.OTHER
    aliases: tuple[str, ...] = ()
    not_names: tuple[str, ...] = ()
    relations: tuple[EntityRelation, ...] = ()
    mentions: tuple[NodeId, ...] = ()
    not_relations: tuple[EntityRelation, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its aliases."""
        return tuple(dict.fromkeys((self.name, *self.aliases)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The names without case, accents and marks, that of the name first."""
        return tuple(dict.fromkeys(key for name in self.names if (key := key_of(name))))

    def as_keys(self) -> dict[str, Any]:
        """Return the keys of the frontmatter; None for those that are left out."""
        return {
            TYPE: self.type.value,
            ALIASES: list(self.aliases[:MOST_ALIASES]) or None,
            NOT_NAMES: list(self.not_names) or None,
            RELATIONS: [one.as_entry() for one in self.relations[-MOST_RELATIONS:]] or None,
            NOT_RELATIONS: [one.as_entry() for one in self.not_relations[-MOST_RELATIONS:]] or None,
            MENTIONS: list(self.mentions[-MOST_MENTIONS:]) or None,
        }

    @property
    def description(self) -> str:
        """Its type, and up to two relations in force that begin at it."""
        held = [one for one in self.relations if one.until is None][:2]
        said = "; ".join(f"{RELATION_WORDS[one.relation]} {one.object}" for one in held if one.subject == self.name)
        return ", ".join(part for part in (self.type.value.capitalize(), said) if part)

    def with_names(self, add: Iterable[str] = (), remove: Iterable[str] = ()) -> EntityPage:
        """Return the page with some aliases more and some less; a name that was split off is not added."""
        gone = {key_of(name) for name in remove}
        refused = gone | {key_of(name) for name in self.not_names}
        added = (name for name in add if key_of(name) not in refused)
        kept = (name for name in (*self.aliases, *added) if key_of(name) not in gone and name != self.name)
        return replace(self, aliases=tuple(dict.fromkeys(kept))[:MOST_ALIASES])


def key_of(name: str) -> str:
    """Return a name without case, accents and marks: "Graça Moreira" and "graca moreira" are one."""
    plain = unicodedata.normalize("NFKD", name.casefold().translate(_LETTERS))
    return " ".join(ALPHANUMERIC.findall("".join(each for each in plain if not unicodedata.combining(each))))


def says_one_of(text: str, keys: Collection[str]) -> bool:
    """Return True for a text with one of these folded names in it, as whole words."""
    folded = f" {key_of(text)} "
    return any(f" {key} " in folded for key in keys)


def statement_of(subject: str, relation: str, object_: str, what: str) -> str:
    """Return a relation in words, without its time."""
    return f"{subject} {RELATION_WORDS.get(relation, relation)} {object_}{f' {what}' if what else ''}"


def entity_of(memory: Memory) -> EntityPage | None:
    """Read the page of an entity; None for any other memory. A damaged entry is left out."""
    if memory.kind is not Kind.ENTITY:
        return None
    extra = memory.extra
    return EntityPage(
        name=memory.title,
        type=_member(EntityType, extra.get(TYPE)) or EntityType.OTHER,
        aliases=_texts(extra.get(ALIASES))[:MOST_ALIASES],
        not_names=_texts(extra.get(NOT_NAMES)),
        relations=tuple(_relations(extra.get(RELATIONS)))[:MOST_RELATIONS],
        not_relations=tuple(_relations(extra.get(NOT_RELATIONS)))[:MOST_RELATIONS],
        mentions=_texts(extra.get(MENTIONS))[-MOST_MENTIONS:],
    )


def entity_path(page: EntityPage, node_id: NodeId, channel: str) -> str:
    """Return where the page of a new entity lies, in either layout: people apart from things, in their project."""
    folder = PEOPLE if page.type is EntityType.PERSON else kind_folder(Kind.ENTITY)
    return f"{project_folder(channel)}/{folder}/{slug(page.name)}-{suffix_of(node_id)}.md"


def _relations(listed: object) -> Iterable[EntityRelation]:
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, Mapping):
            continue
        said = {name: value for name, value in entry.items() if isinstance(value, str) and value}
        kind = _member(RelationType, said.get("relation"))
        if kind is None or not all(said.get(name) for name in ("subject", "object", "title")):
            continue
        yield EntityRelation(
            said["subject"],
            kind,
            said["object"],
            said["title"],
            said.get("words", ""),
            instant(entry.get("since")),
            instant(entry.get("until")),
            said.get("ended_by"),
            said.get("what", ""),
        )


def _day(at: datetime) -> str:
    return format_date(at.date())


def _member(enum: type[_E], value: object) -> _E | None:
    try:
        return enum(str(value))
    except ValueError:
        return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str) and item) if isinstance(value, list) else ()
