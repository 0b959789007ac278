"""Secrets in sentences: passwords, passphrases, wallets' words, PINs, codes for a lost device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .key_forms import Span
from .prefilter import folded, matches_at, starts_of

_PHRASE = re.compile(
    r"(?i)\b(?P<name>passphrase|password|passwort|kennwort|contraseña)(?:[ \t]{1,3}[\w./@'’-]{1,24}){0,6}?"
    r"(?:[ \t]{1,3}(?:is|was|lautet)|[ \t]{0,3}[:=])[ \t]{1,3}[\"'`“]?"
    r"(?P<secret>(?:[a-zà-ÿ]{3,12}[ -]){3,8}[a-z0-9à-ÿ]{2,12})(?![\w'’])"
)
_FEWEST_WORDS = 4
_OF_PHRASE = re.compile(r"[^ -]+")
_PIN = re.compile(
    r"\b(?:PINs?|PUK|(?i:(?:door|alarm|sms|entry|access|tür|pairing|lock|setup|verification|unlock|security"
    r"|gate)[ _-]?(?:code|pin)"
    r"|pin[ -]code|(?:pairing|lock|card)[ -]pin|pin(?= (?:do|da|del|de la|der|for|du) )))"
    r"(?:[ \t]{1,3}[\w'’-]{1,20}){0,6}?"
    r"(?:[ \t]{1,3}(?:is|ist|es|é|est|er|lautet)|[ \t]{0,3}[:=]"
    r"|(?=[ \t]{1,3}\d))[ \t]{1,3}[\"']?(?P<secret>\d{4,8}|\d{3}-\d{2}-\d{3})(?![\w.,]?\d|[\w%])"
)
PIN_NAMES = (
    *("pin", "puk", "door c", "alarm c", "sms c", "entry c", "access c", "türcode", "pairing c", "lock c", "setup c"),
    *("setup_c", "verification c", "unlock c", "security c", "gate c", "door p", "alarm p", "pairing p", "lock p"),
)
PHRASE_NAMES = ("pass", "kennwort", "contrase")
GROUPED_NAMES = ("key", "secret", "code", "seed")
_GROUPED = re.compile(
    r"(?i)(?:key|secret|code|seed)(?:[ \t,]{1,3}[\w'-]{1,16}){0,4}[ \t]{0,2}[:=][ \t]{0,3}"
    r"(?P<secret>(?:[a-z0-9]{4}[ -]){3,15}[a-z0-9]{4}|(?:[A-Z0-9]{5}[ -]){3,8}[A-Z0-9]{5})(?![\w-])"
)
_RECOVERY_KEY = re.compile(r"(?<![\w-])(?:\d{6}-){7}\d{6}(?![\w-])")
"""The form of a recovery key of BitLocker."""

_SEED_NAMED = re.compile(
    r"(?i)\b(?:seed|mnemonic|recovery|backup|wallet|semilla|récupération|recuperação|wiederherstellung[a-zäöü]{0,12})"
    r"(?:[ _-]?(?:phrase|words?|seed|key|recovery))?\b"
)
_SEED_CHARS = 240
_SEED = re.compile(r"(?:(?:\d{1,2}[.):]\s?)?\b[a-zà-ÿ]{3,8}\b[\s,\"']{1,4}){11,23}(?:\d{1,2}[.):]\s?)?[a-zà-ÿ]{3,8}\b")
_OF_SEED = re.compile(r"[a-zà-ÿ]{3,8}")
_FEWEST_OF_SEED = 12
_CODES_NAMED = re.compile(
    r"(?i)\b(?:(?:recovery|backup|scratch|reserve)[ _-]?|ersatz-?|wiederherstellungs-?)codes?\b"
    r"|\b(?:codes|c[oó]digos|codici) d[ei] (?:secours|respaldo|recupera[a-zçãó]{2,4}|récupération|backup|recupero)\b"
    r"|\bkody zapasowe\b|google_authenticator\b"
)
_CODE = re.compile(r"(?<![\w-])(?=[a-z-]{0,20}\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?![\w-])")
_OF_SENTENCES = frozenset(
    "the and for from have has are was were not but your our his her its with when which what who how than been would"
    " could also".split()
)
_OF_OTHER_SENTENCES = frozenset(
    "der die das den dem und ist sind mit von auf für nicht ein eine les des une est pas dans avec pour que qui los las"
    " del con por para una muy mas não com uma que det som har ikke med til".split()
)
_AFTER_SEED = frozenset(("can", "you", "this", "that", "please"))
"""Beginnings of a sentence behind a seed phrase. They are in its word list too; a phrase has 12, 15, … 24 words."""

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


def find_named(text: str) -> Iterator[Span]:
    """Find words in place of a password, keys in groups, and PINs: "passphrase: correct horse battery staple"."""
    lowered = folded(text)
    for found in matches_at(starts_of(PHRASE_NAMES, lowered), _PHRASE, text):
        if size := _phrase_chars(found["secret"], is_named_so=found["name"].lower() == "passphrase"):
            yield found.start("secret"), found.start("secret") + size, "password"
    for found in matches_at(starts_of(GROUPED_NAMES, lowered), _GROUPED, text):
        if any(map(str.isdigit, found["secret"])):
            yield *found.span("secret"), "token"
    for found in matches_at(starts_of(PIN_NAMES, lowered), _PIN, text):
        yield *found.span("secret"), "pin"
    for found in _RECOVERY_KEY.finditer(text):
        yield *found.span(), "recovery-code"


def _phrase_chars(words: str, *, is_named_so: bool) -> int:
    """Return how far a text goes on as words that form no sentence, 0 where they are too few.

    "correct horse battery staple and mind the gap" ends before "and". A phrase that is only called a password is
    judged by more words, since sentences about passwords begin so too.
    """
    # A "passphrase" is nearly always followed by one, a "password" often by a sentence about it.
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


def _seed_chars(words: str) -> int:
    """Return how far a wallet's words go before those of a sentence, 0 where they are too few."""
    size = count = 0
    for word in _OF_SEED.finditer(words):
        ends_list = count > 0 and count % 3 == 0 and word[0] in _AFTER_SEED
        if ends_list or word[0] in _OF_SENTENCES:
            break
        size, count = word.end(), count + 1
    return size if count >= _FEWEST_OF_SEED else 0


_LONE_SEED = re.compile(
    r"(?<![\w-] )(?<![\w-])[a-zà-ÿ]{3,8}(?: [a-zà-ÿ]{3,8}){11,23}+(?![\w-])"
    r"|(?<![\w-])[a-zà-ÿ]{3,8}(?P<sign>[ ]{0,3}[,;\"'\n][\s,;\"']{0,6})"
    r"(?:[a-zà-ÿ]{3,8}(?P=sign)){10,22}+[a-zà-ÿ]{3,8}(?![\w-])"
    r"|(?<!\w)(?:\d{1,2}[.):][ \t]{0,3}[a-zà-ÿ]{3,8}[\s,;]{1,4}){11,23}+\d{1,2}[.):][ \t]{0,3}[a-zà-ÿ]{3,8}(?![\w-])"
)
"""Words behind a line's or a sentence's beginning; with one sign between each two; numbered."""

_SIZES_OF_SEED = (12, 15, 18, 21, 24)
_MOST_OF_GRAMMAR = 2


def find_lone_seeds(text: str) -> Iterator[Span]:
    """Find a wallet's words without a name: as many as a phrase has, none twice, and none of a sentence."""
    for found in _LONE_SEED.finditer(text):
        words = _OF_SEED.findall(found[0])
        # A wallet's list has hardly a plural or a participle; a sentence of twelve short words has some.
        grammar = sum(word.endswith((*_OF_GRAMMAR, "s")) and not word.endswith("ss") for word in words)
        is_drawn = len(set(words)) == len(words) in _SIZES_OF_SEED and grammar <= _MOST_OF_GRAMMAR
        if is_drawn and _OF_SENTENCES.isdisjoint(words) and _OF_OTHER_SENTENCES.isdisjoint(words):
            yield *found.span(), "seed-phrase"


def find_seed_phrases(text: str) -> Iterator[Span]:
    """Find, behind their names, a wallet's twelve to twenty-four words of no sentence, and codes for a lost device."""
    # Each stretch is searched once, or a text of the word "seed" would take quadratic time.
    looked_to = 0
    for named in _SEED_NAMED.finditer(text):
        if named.start() < looked_to:
            continue
        words = _SEED.search(text, named.end(), named.end() + _SEED_CHARS)
        looked_to = named.end() + _SEED_CHARS // 4
        if words is not None and (size := _seed_chars(words[0])):
            looked_to = words.start() + size
            yield words.start(), looked_to, "seed-phrase"
    # Recovery codes come in lists: every code within reach of the name goes.
    for named in _CODES_NAMED.finditer(text):
        for code in _CODE.finditer(text, named.end(), named.end() + _SEED_CHARS):
            yield *code.span(), "recovery-code"
