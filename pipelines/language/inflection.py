"""Inflection: the English verb after "I" or "you", put into the third person."""

from __future__ import annotations

import re

from ...store.text.word_lists import lexicon

_IRREGULAR = {
    "am": "is",
    "are": "is",
    "were": "was",
    "have": "has",
    "do": "does",
    "go": "goes",
    "'m": "is",
    "ain't": "isn't",
}
_NEGATED = {"don't": "doesn't", "haven't": "hasn't", "aren't": "isn't", "weren't": "wasn't", "dont": "doesn't"}
_PAST: dict[str, str] = {
    base: past
    for base, _, past in (
        pair.partition(":")
        for pair in (
            "go:went get:got make:made take:took see:saw come:came find:found give:gave know:knew think:thought "
            "tell:told become:became leave:left feel:felt put:put bring:brought begin:began keep:kept hold:held "
            "write:wrote stand:stood hear:heard let:let mean:meant set:set meet:met run:ran pay:paid sit:sat "
            "speak:spoke lead:led read:read grow:grew lose:lost fall:fell send:sent build:built understand:understood "
            "draw:drew break:broke spend:spent cut:cut drive:drove buy:bought wear:wore choose:chose seek:sought "
            "forget:forgot fly:flew eat:ate catch:caught teach:taught fight:fought throw:threw win:won swim:swam "
            "sing:sang drink:drank sleep:slept hide:hid hit:hit hurt:hurt cost:cost do:did have:had is:was ride:rode "
            "rise:rose say:said sell:sold shoot:shot steal:stole stick:stuck swing:swung wake:woke deal:dealt "
            "feed:fed "
        ).split()
    )
}
_SIBILANT = re.compile(r"(?:s|x|z|ch|sh|o)$")
_CONSONANT_Y = re.compile(r"[^aeiou]y$")
_DOUBLES = re.compile(r"^[^aeiou]*[aeiou][^aeiouwxy]$")


def third_person(verb: str) -> str:
    """Return the third person of a lower-case verb found after "I" or "you"; a past form or a modal stays."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if verb in _NEGATED:
        return _NEGATED[verb]
    return with_s(verb) if is_present(verb) else verb


def is_present(verb: str) -> bool:
    """Check for a verb in its base form; an unknown word counts as one."""
    if verb in lexicon("odd_verbs"):
        return True
    return (
        len(verb) > 1
        and verb.isalpha()
        and verb not in lexicon("finite_verbs")
        and verb not in lexicon("irregular_past")
        and verb not in lexicon("not_verbs")
        and not verb.endswith(("ed", "ing", "ly"))
    )


def with_s(verb: str) -> str:
    """Return the base form with its -s."""
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    if _CONSONANT_Y.search(verb):
        return verb[:-1] + "ies"
    return verb + ("es" if _SIBILANT.search(verb) else "s")


def is_participle(word: str) -> bool:
    """Check that "I'd WORD" means "I had WORD"."""
    return word in lexicon("participles") or (word.endswith("ed") and word not in lexicon("odd_verbs"))


def past_of(verb: str) -> str:
    """Return the past form of a verb in its base form."""
    if verb in _PAST:
        return _PAST[verb]
    if verb.endswith("e"):
        return verb + "d"
    if _CONSONANT_Y.search(verb):
        return verb[:-1] + "ied"
    return verb + (verb[-1] if _DOUBLES.search(verb) else "") + "ed"
