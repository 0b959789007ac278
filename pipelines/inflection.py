"""Inflection: the English verb after "I" or "you", put into the third person."""

from __future__ import annotations

import re

from .words import lexicon

_IRREGULAR = {"am": "is", "are": "is", "were": "was", "have": "has", "do": "does", "go": "goes", "'m": "is", "ain't": "isn't"}
_NEGATED = {"don't": "doesn't", "haven't": "hasn't", "aren't": "isn't", "weren't": "wasn't", "dont": "doesn't"}
_FINITE = frozenset(
    "will would can could shall should may might must ought was had did is has does cannot "
    "can't won't wouldn't couldn't shouldn't didn't hadn't wasn't isn't doesn't hasn't mustn't".split()
)
_PARTICIPLES = frozenset("been had done gone seen taken given known made got gotten better said become come".split())
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")


def third_person(verb: str) -> str:
    """The form after "she" of a lower-case word found after "I" or "you": a past form or a modal stays as it is."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb in _NEGATED:
        return _NEGATED[verb]
    return with_s(verb) if is_present(verb) else verb


def is_present(verb: str) -> bool:
    """Whether the word reads as a verb in its base form; what is not known to be none counts as one."""
    return (
        len(verb) > 1
        and verb.isalpha()
        and verb not in _FINITE
        and verb not in lexicon("irregular_past")
        and verb not in lexicon("not_verbs")
        and not verb.endswith(("ed", "ing", "ly", "ss's"))
        or verb in {"need", "feed", "breed", "bleed", "speed", "exceed", "proceed", "succeed", "bring", "sing", "ring", "rely",
                    "apply", "fly", "supply", "reply", "embed", "shed", "wed", "comply", "swing", "cling"}
    )  # fmt: skip


def with_s(verb: str) -> str:
    """The base form with its -s."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if _CONSONANT_Y.search(verb):
        return verb[:-1] + "ies"
    return verb + ("es" if _SIBILANT.search(verb) else "s")


def is_participle(word: str) -> bool:
    """Whether "I'd WORD" means "I had WORD"."""
    return word in _PARTICIPLES or (word.endswith("ed") and word not in {"need", "feed", "speed", "embed"})
