"""Passwords in sentences, words in place of one, wallets' words, codes for a lost device: what people tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .judging import classes, is_password, is_strong_password
from .prefilter import folded, matches_at, starts_of
from .shapes import Span

_NAMES = ("pass", "pw", "psk", "kennwort", "contrase", "clave")
"""The beginnings of `_SAID`, `_SAID_NEXT` and `_PHRASE`; those of `_PAIRED` follow."""

_PAIR_NAMES = ("cred", "log", "sign in", "account", "zugangsdaten", "anmeldedaten")

_SAID = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase|code)?|pwd|pw|psk|passwort|kennwort|contraseña|clave)"
    r"(?P<of>(?:[ \t]{1,3}[\w./@'’\"-]{1,40}){0,6}?)"
    r"(?:[ \t]{1,3}(?:is|was|to|lautet|ist|es)|[ \t]{0,3}[=:→])[ \t:]{1,3}[\"'`“]?(?P<secret>[^\s\"'`”]{6,64})"
)
_PAIRED = re.compile(
    r"(?i)\b(?:creds|credentials|log[ -]?in|sign in|account|zugangsdaten|anmeldedaten|credenciales)\b[^\n]{0,40}?"
    r"[ \t\"'`][\w.@-]{2,40}[ \t]?[/:][ \t]?(?P<secret>[^\s\"'`]{6,64})"
)
_SAID_NEXT = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase|code)|pwd|pw|passwort|kennwort|contraseña|clave)[ \t]{1,3}"
    r"[\"'`“(]{0,2}(?P<secret>[^\s\"'`”()]{8,64})"
)
_PHRASE = re.compile(
    r"(?i)\b(?P<name>passphrase|password|passwort|kennwort|contraseña)(?:[ \t]{1,3}[\w./@'’-]{1,24}){0,6}?"
    r"(?:[ \t]{1,3}(?:is|was|lautet)|[ \t]{0,3}[:=])[ \t]{1,3}[\"'`“]?"
    r"(?P<secret>(?:[a-zà-ÿ]{3,12}[ -]){3,8}[a-z0-9à-ÿ]{2,12})(?![\w'’])"
)
_FEWEST_WORDS = 4
_OF_PHRASE = re.compile(r"[^ -]+")
_PIN = re.compile(
    r"\b(?:PIN|(?i:pin[ -]code))(?:[ \t]{1,3}[\w'’-]{1,20}){0,5}?"
    r"(?:[ \t]{1,3}(?:is|ist|es|lautet)|[ \t]{0,3}[:=])[ \t]{1,3}(?P<secret>\d{4,8})(?![\w.,]?\d|[\w%])"
)
_SEED_NAMED = re.compile(
    r"(?i)\b(?:seed|mnemonic|recovery|backup|wallet|semilla|wiederherstellung[a-zäöü]{0,12})"
    r"(?:[ _-]?(?:phrase|words?|seed|key|recovery))?\b"
)
_SEED_CHARS = 240
_SEED = re.compile(r"(?:(?:\d{1,2}[.):]\s?)?\b[a-z]{3,8}\b[\s,]{1,3}){11,23}(?:\d{1,2}[.):]\s?)?[a-z]{3,8}\b")
_CODES_NAMED = re.compile(r"(?i)\b(?:recovery|backup|scratch)[ _-]codes?\b")
_CODE = re.compile(r"(?<![\w-])(?=[a-z-]{0,20}\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?![\w-])")
_OF_SENTENCES = frozenset(
    "the and for from have has are was were not but your our his her its with when which what who how than been would"
    " could also".split()
)
_ABOUT_PASSWORDS = _OF_SENTENCES | frozenset(
    "password passwords passphrase phrase hash salt characters character letters letter digits symbols numbers"
    " minimum maximum least most must should shall may might can will use need needs please enter choose your you"
    " they them this that these those user users login account admin field form policy manager string text plain"
    " clear same different wrong right valid invalid correct empty blank default still always never again already"
    " just only very too really there here where then now into onto over under between against about after before"
    " without until because since while both all any some each every one two three four five six eight ten twelve"
    " long short strong weak safe secure known part kept set sent shown read sensitive case sin con para por que"
    " muy nicht noch schon immer wieder leider falsch mit von und oder wird ist sind der die das ein eine einem".split()
)
_OF_GRAMMAR = ("ly", "ed", "ing")
"""Endings of the words that say how a password is kept: seldom in a list to draw passphrases from."""


def find_said(text: str) -> Iterator[Span]:
    """Find passwords in sentences: "the password for the box is X", "passphrase: correct horse battery staple"."""
    lowered = folded(text)
    names = starts_of(_NAMES, lowered)
    for found in matches_at(names, _SAID, text):
        value = found["secret"].rstrip(".,;:!?)")
        fewest = 6 if any(map(str.isdigit, value)) else 8
        if is_password(value, fewest) and (any(map(str.isdigit, value)) or classes(value) > 2):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    pairs = matches_at(starts_of(_PAIR_NAMES, lowered), _PAIRED, text)
    for found in (*matches_at(names, _SAID_NEXT, text), *pairs):
        value = found["secret"].rstrip(".,;:!?)")
        if is_strong_password(value):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    for found in matches_at(names, _PHRASE, text):
        if size := _phrase_chars(found["secret"], is_named_so=found["name"].lower() == "passphrase"):
            yield found.start("secret"), found.start("secret") + size, "password"
    for found in matches_at(starts_of(("pin",), lowered), _PIN, text):
        yield *found.span("secret"), "pin"


def _phrase_chars(words: str, *, is_named_so: bool) -> int:
    """Return how far a text goes on as words that form no sentence, 0 where they are too few.

    "correct horse battery staple and mind the gap" ends before "and". What is only called a password is judged by more
    words, since sentences about passwords begin so too.
    """
    of_sentences = _OF_SENTENCES if is_named_so else _ABOUT_PASSWORDS
    size = count = 0
    for word in _OF_PHRASE.finditer(words):
        plain = word[0].lower()
        if plain in of_sentences and not (count == 0 and plain == "correct"):
            break
        if not is_named_so and (plain.endswith(_OF_GRAMMAR) or not word[0].islower()):
            return 0
        size, count = word.end(), count + 1
    return size if count >= _FEWEST_WORDS else 0


def find_seed_phrases(text: str) -> Iterator[Span]:
    """Find what follows its name: a wallet's twelve to twenty-four words of no sentence; codes for a lost device."""
    looked_to = 0
    for named in _SEED_NAMED.finditer(text):
        if named.start() < looked_to:
            continue
        words = _SEED.search(text, named.end(), named.end() + _SEED_CHARS)
        looked_to = named.end() + _SEED_CHARS // 4
        if words is not None and not _OF_SENTENCES.intersection(words[0].split()):
            looked_to = words.end()
            yield *words.span(), "seed-phrase"
    for named in _CODES_NAMED.finditer(text):
        for code in _CODE.finditer(text, named.end(), named.end() + _SEED_CHARS):
            yield *code.span(), "recovery-code"
