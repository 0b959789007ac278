"""Topics: the people, tools and projects with several facts in a channel, each with those facts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...store.model import Memory
from ...store.okf import slug
from ...store.roles import Role
from ...store.text.words import CAPITAL
from .current_facts import place_of

# Smallest numbers of live facts of a topic, and of sessions in which they were said.
FEWEST_FACTS, FEWEST_SESSIONS = 3, 2

# The largest share of a channel's facts: a larger topic is the subject of the channel itself.
LARGEST_SHARE = 0.3

MOST_TOPICS, SHORTEST_NAME = 12, 3

# The smallest share of a name's mentions that are capitalised: "Now" is often "now".
NAMED_SHARE = 0.7

# The smallest number of mentions within a sentence, where a capital is a sign of a name.
FEWEST_NAMED = 2

_NAME = re.compile(rf"{CAPITAL}[^\W\d_A-Z]+(?:[ -][^\W_]+)*")
_POSSESSIVE = re.compile(r"['’ ]s$")
_PARTS = frozenset(role.value for role in Role)


@dataclass(frozen=True, slots=True)
class Topic:
    """A person, a tool or a project: its name in its most frequent spelling, and its facts, live or superseded."""

    name: str
    facts: tuple[Memory, ...]


def topics_of(facts: Sequence[Memory]) -> list[Topic]:
    """Return the topics with enough facts, those of the most sessions first."""
    whole = _whole_names(name for fact in facts for name in fact.about)
    about: dict[str, list[Memory]] = defaultdict(list)
    called = {name: _called(name, facts) for name in dict.fromkeys(whole.values())}
    for fact in facts:
        names = {whole.get(_bare(name).casefold()) for name in fact.about}
        for name, pattern in called.items():
            if name in names or pattern.search(fact.text):
                about[name].append(fact)
    living = sum(fact.is_live for fact in facts)
    weighty = [name for name in about if _has_weight(about[name], living) and _is_name(name, about[name])]
    weighty.sort(key=lambda name: (-len(_sessions(about[name])), -len(about[name]), name))
    return _distinct([Topic(name, tuple(about[name])) for name in weighty])[:MOST_TOPICS]


def _whole_names(names: Iterable[str]) -> dict[str, str]:
    """Map each name in lower case to its most frequent spelling, a part of one longer name to that name.

    A part of several names is left out: "Livre" may be "Roda Livre" or "Pedal Livre".
    """
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    for name in map(_bare, names):
        spelled[name.casefold()][name] += 1
    mostly = {key: min(found, key=lambda name: (-found[name], name)) for key, found in spelled.items()}
    longer: dict[str, set[str]] = defaultdict(set)
    for key in mostly:
        for part in key.split() if " " in key else ():
            longer[part].add(key)
    return {key: mostly[min(longer[key], default=key)] for key in mostly if len(longer[key]) < 2}


def _called(name: str, facts: Sequence[Memory]) -> re.Pattern[str]:
    """Return a pattern of a name and, unless it is a common word, its first part.

    A common word occurs in lower case in a fact that begins with a capital; facts all in lower case are no evidence.
    """
    first = name.split()[0]
    common = re.compile(rf"(?<!\w){re.escape(first.lower())}(?!\w)")
    is_common = first == name or any(fact.text[:1].isupper() and common.search(fact.text) for fact in facts)
    names = [name] if is_common else [name, first]
    listed = "|".join(map(re.escape, names))
    return re.compile(rf"(?<!\w)(?:{listed})(?!\w)", re.IGNORECASE if not is_common else 0)


def _bare(name: str) -> str:
    """Return a name without its possessive."""
    return _POSSESSIVE.sub("", name)


def _is_name(name: str, facts: Sequence[Memory]) -> bool:
    """Return True for a person, a product or a place: capitalised within sentences, and no code.

    A file or a function is documented in the project's own repository; a word that only opens sentences is a verb.
    """
    if len(name) < SHORTEST_NAME or name.casefold() in _PARTS or not _NAME.fullmatch(name):
        return False
    text = " ".join(fact.text for fact in facts)
    within = re.findall(rf"(?<=[^\W_][ ,;])`?{re.escape(name)}(?!\w)", text, re.IGNORECASE)
    named = sum(found == name for found in within)
    return bool(FEWEST_NAMED <= named >= NAMED_SHARE * len(within))


def _has_weight(facts: Sequence[Memory], living: int) -> bool:
    number = sum(fact.is_live for fact in facts)
    most = max(FEWEST_FACTS, LARGEST_SHARE * living)
    return FEWEST_FACTS <= number <= most and len(_sessions(facts)) >= FEWEST_SESSIONS


def _sessions(facts: Sequence[Memory]) -> set[str]:
    return {place_of(fact)[0] for fact in facts}


def _distinct(topics: Sequence[Topic]) -> list[Topic]:
    """Drop a topic whose facts all belong to an earlier one, or whose page would have the same name."""
    kept: dict[str, Topic] = {}
    for topic in topics:
        held = {fact.node_id for fact in topic.facts}
        if not any(held <= {fact.node_id for fact in other.facts} for other in kept.values()):
            kept.setdefault(slug(topic.name), topic)
    return list(kept.values())
