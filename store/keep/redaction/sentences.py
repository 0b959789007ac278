"""Passwords in sentences, words in place of one, wallets' words, codes for a lost device: what people tell."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .judging import classes, is_password, is_strong_password
from .prefilter import folded, matches_at, starts_of
from .shapes import Span

_NAMES = (
    *("pass", "pw", "psk", "kennwort", "contrase", "clave", "mot de p", "mdp", "senha", "palavra-p", "schlüssel"),
    *("密码", "口令", "密碼"),
)
"""The beginnings of `_NAME`, in the languages in which people tell passwords; those of `_PAIRED` follow."""

_PAIR_NAMES = (
    *("cred", "log", "sign in", "account", "zugangsdaten", "anmeldedaten", "user", "usu", "benutzer", "utilisateur"),
    *("connect", "entra ", "identifi", "ssh "),
)
NAMES = (*_NAMES, *_PAIR_NAMES, "pin", "puk", "code", "código")
"""Words of which one is in each text that `find_said` finds something in."""

_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|pass(?=[*_`]{0,3}[ \t]{0,2}[:=])|pwd|pw|psk|passwort|kennwort|passord"
    r"(?:et)?|contraseña|clave|mot de passe|mdp|senha"
    r"|palavra-passe|[a-z-]{0,12}schlüssel|密码|口令|密碼)"
)
_LINK = (
    r"(?:[ \t]{1,3}(?:is|was|to|lautet|ist|auf|es|a|est|par|é|er|til|nova é)(?=[ \t:])|[ \t]{0,3}"
    r"(?:[=:→：—–-]|'s|’s|it's|it is|是|为)"
    r"|[ \t]{1,3}(?=[\"'`“«(]))"
)
_TOLD = re.compile(
    rf"(?i)(?<![a-z_-])(?<!redacted:){_NAME}(?:[*_`]{{1,3}}|s)?(?P<of>"
    rf"(?:[ \t]{{1,3}}[^\s\"'`“«:=]{{1,24}}){{0,8}}?){_LINK}[*_`]{{0,3}}[ \t:]{{0,4}}[\"'`“«(]{{0,3}}[ \u00a0]?"
    r"(?P<secret>[^\s\"'`”»，。]{6,64})"
)
"""A name, some words, a sign or a verb that links, a value."""

_NEXT_SETTING = re.compile(r"[,;&](?=[\w.-]{1,30}=)")
_NEAR = re.compile(rf"(?i)(?<![a-z_-])(?<!redacted:){_NAME}(?P<rest>[^\n]{{6,100}}(?:[?:：]\n[^\n]{{6,80}})?)")
_VALUE = re.compile(r"(?<![^\s\"'`“«(，。:：])[^\s\"'`”»，。]{8,64}")
"""Any value within a line of a name, and in the answer to a question: told by its characters alone."""

_PAIRED = re.compile(
    r"(?i)\b(?:creds|credentials|logg?(?:e|ed)?[ -]?(?:inn?|dich)|log(?:ar|ue)|sign in|account|zugangsdaten"
    r"|anmeldedaten|credenciales|user(?:name)?|usu[aá]rio"
    r"|benutzer\w{0,6}|utilisateur|connecte\w{0,3}|entra|identifiants?|ssh)\b[^\n]{0,40}?"
    r"(?:[ \t\"'`][\w.@-]{2,40}[ \t]?[/:][ \t]?|[ \t](?:and|und|et|y|e|og|with|mit|avec|con|com|med|pass|pw"
    r"|，|,)[ \t:]{1,3})[\"'`«“]?(?P<secret>[^\s\"'`”»]{6,64})"
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
    r"\b(?:PINs?|PUK|(?i:(?:door|alarm|sms|entry|access|tür|pairing|lock|setup|verification|unlock|security"
    r"|gate)[ _-]?(?:code|pin)"
    r"|pin[ -]code|(?:pairing|lock|card)[ -]pin|pin(?= (?:do|da|del|de la|der|for|du) )))"
    r"(?:[ \t]{1,3}[\w'’-]{1,20}){0,6}?"
    r"(?:[ \t]{1,3}(?:is|ist|es|é|est|er|lautet)|[ \t]{0,3}[:=]"
    r"|(?=[ \t]{1,3}\d))[ \t]{1,3}[\"']?(?P<secret>\d{4,8}|\d{3}-\d{2}-\d{3})(?![\w.,]?\d|[\w%])"
)
_LOOSE = ("user", "usu", "benutzer", "utilisateur", "connect", "entra", "identifi", "ssh")
"""Names of a login beside which much stands that is no password."""

_PIN_NAMES = (
    *("pin", "puk", "door c", "alarm c", "sms c", "entry c", "access c", "türcode", "pairing c", "lock c", "setup c"),
    *("setup_c", "verification c", "unlock c", "security c", "gate c", "door p", "alarm p", "pairing p", "lock p"),
)
_GROUPED_NAMES = ("key", "secret", "code", "seed")
_GROUPED = re.compile(
    r"(?i)(?:key|secret|code|seed)(?:[ \t,]{1,3}[\w'-]{1,16}){0,4}[ \t]{0,2}[:=][ \t]{0,3}"
    r"(?P<secret>(?:[a-z0-9]{4}[ -]){3,15}[a-z0-9]{4}|(?:[A-Z0-9]{5}[ -]){3,8}[A-Z0-9]{5})(?![\w-])"
)
_SEED_NAMED = re.compile(
    r"(?i)\b(?:seed|mnemonic|recovery|backup|wallet|semilla|récupération|recuperação|wiederherstellung[a-zäöü]{0,12})"
    r"(?:[ _-]?(?:phrase|words?|seed|key|recovery))?\b"
)
_SEED_CHARS = 240
_SEED = re.compile(r"(?:(?:\d{1,2}[.):]\s?)?\b[a-zà-ÿ]{3,8}\b[\s,\"']{1,4}){11,23}(?:\d{1,2}[.):]\s?)?[a-zà-ÿ]{3,8}\b")
_OF_SEED = re.compile(r"[a-zà-ÿ]{3,8}")
_FEWEST_OF_SEED = 12
_CODES_NAMED = re.compile(r"(?i)\b(?:recovery|backup|scratch)[ _-]codes?\b")
_CODE = re.compile(r"(?<![\w-])(?=[a-z-]{0,20}\d)[a-z0-9]{4,10}(?:-[a-z0-9]{4,10}){0,3}(?![\w-])")
_OF_SENTENCES = frozenset(
    "the and for from have has are was were not but your our his her its with when which what who how than been would"
    " could also".split()
)
_AFTER_SEED = frozenset(("can", "you", "this", "that", "please"))
"""Beginnings of what is said behind a seed phrase. They are in its word list too; a phrase has 12, 15, … 24 words."""

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
    for found in matches_at(names, _TOLD, text):
        value = _NEXT_SETTING.split(found["secret"], 1)[0].rstrip(".,;:!?)*")
        has_digit = any(map(str.isdigit, value))
        if is_password(value, 6 if has_digit else 8) and (has_digit or classes(value) > 2):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    for near in matches_at(names, _NEAR, text):
        for found in _VALUE.finditer(text, *near.span("rest")):
            value = found[0].rstrip(".,;:!?)*")
            if is_strong_password(value) and _has_odd_mark(value):
                yield found.start(), found.start() + len(value), "password"
    pairs = matches_at(starts_of(_PAIR_NAMES, lowered), _PAIRED, text)
    for found in (*matches_at(names, _SAID_NEXT, text), *pairs):
        value = found["secret"].rstrip(".,;:!?)")
        if is_strong_password(value) and (not found[0].lower().startswith(_LOOSE) or _has_odd_mark(value)):
            yield found.start("secret"), found.start("secret") + len(value), "password"
    for found in matches_at(names, _PHRASE, text):
        if size := _phrase_chars(found["secret"], is_named_so=found["name"].lower() == "passphrase"):
            yield found.start("secret"), found.start("secret") + size, "password"
    for found in matches_at(starts_of(_GROUPED_NAMES, lowered), _GROUPED, text):
        if any(map(str.isdigit, found["secret"])):
            yield *found.span("secret"), "token"
    for found in matches_at(starts_of(_PIN_NAMES, lowered), _PIN, text):
        yield *found.span("secret"), "pin"


def _has_odd_mark(value: str) -> bool:
    return any(mark in value for mark in "!#$%^&*?~|+@")


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


def _seed_chars(words: str) -> int:
    """Return how far a wallet's words go before those of a sentence, 0 where they are too few."""
    size = count = 0
    for word in _OF_SEED.finditer(words):
        ends_list = count > 0 and count % 3 == 0 and word[0] in _AFTER_SEED
        if ends_list or word[0] in _OF_SENTENCES:
            break
        size, count = word.end(), count + 1
    return size if count >= _FEWEST_OF_SEED else 0


def find_seed_phrases(text: str) -> Iterator[Span]:
    """Find what follows its name: a wallet's twelve to twenty-four words of no sentence; codes for a lost device."""
    looked_to = 0
    for named in _SEED_NAMED.finditer(text):
        if named.start() < looked_to:
            continue
        words = _SEED.search(text, named.end(), named.end() + _SEED_CHARS)
        looked_to = named.end() + _SEED_CHARS // 4
        if words is not None and (size := _seed_chars(words[0])):
            looked_to = words.start() + size
            yield words.start(), looked_to, "seed-phrase"
    for named in _CODES_NAMED.finditer(text):
        for code in _CODE.finditer(text, named.end(), named.end() + _SEED_CHARS):
            yield *code.span(), "recovery-code"
