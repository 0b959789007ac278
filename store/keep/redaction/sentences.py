"""Passwords in sentences, wallets' words and codes for a lost device: what people tell in their own words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .judging import classes, is_password, is_strong_password
from .shapes import Span

_SAID = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase|code)?|pwd|pw|psk|passwort|kennwort|contraseña|clave)"
    r"(?P<of>(?:[ \t]{1,3}[\w./@'’-]{1,24}){0,6}?)"
    r"[ \t]{1,3}(?:is|was|to|lautet|ist|es|=|:|→)[ \t:]{1,3}[\"'`“]?(?P<secret>[^\s\"'`”]{6,64})"
)
_PAIRED = re.compile(
    r"(?i)\b(?:creds|credentials|log[ -]?in|sign in|account)\b[^\n]{0,40}?"
    r"[ \t\"'`][\w.@-]{2,40}[ \t]?[/:][ \t]?(?P<secret>[^\s\"'`]{6,64})"
)
_SAID_NEXT = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase|code)|pwd|pw|passwort)[ \t]{1,3}[\"'`“(]{0,2}(?P<secret>[^\s\"'`”()]{8,64})"
)
_PHRASE = re.compile(
    r"(?i)\bpassphrase[ \t]{0,3}(?:is|was|:|=)[ \t]{0,3}[\"'`“]?(?P<secret>(?:[a-z]{3,12}[ -]){3,8}[a-z0-9]{1,12})"
)
_SEED_NAMED = re.compile(
    r"(?i)\b(?:seed|mnemonic|recovery|backup|wallet)(?:[ _-]?(?:phrase|words?|seed|key|recovery))?\b"
)
_SEED_CHARS = 240
_SEED = re.compile(r"(?:(?:\d{1,2}[.):]\s?)?\b[a-z]{3,8}\b[\s,]{1,3}){11,23}(?:\d{1,2}[.):]\s?)?[a-z]{3,8}\b")
_CODES_NAMED = re.compile(r"(?i)\b(?:recovery|backup|scratch)[ _-]codes?\b")
_CODE = re.compile(r"(?<![\w-])(?=[a-z-]{0,20}\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?![\w-])")
_OF_SENTENCES = frozenset(
    "the and for from have has are was were not but your our his her its with when which what who how than been would"
    " could also".split()
)


def find_said(text: str) -> Iterator[Span]:
    """Find passwords in sentences: "the password for the box is X"."""
    for found in _SAID.finditer(text):
        value = found["secret"].rstrip(".,;:!?)")
        fewest = 6 if any(map(str.isdigit, value)) else 8
        if is_password(value, fewest) and (any(map(str.isdigit, value)) or classes(value) > 2):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    for found in (*_SAID_NEXT.finditer(text), *_PAIRED.finditer(text)):
        value = found["secret"].rstrip(".,;:!?)")
        if is_strong_password(value):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    for found in _PHRASE.finditer(text):
        if not _OF_SENTENCES.intersection(found["secret"].lower().replace("-", " ").split()):
            yield *found.span("secret"), "password"


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
