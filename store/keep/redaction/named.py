"""Keys that have no form of their own: a drawn value beside words that say that it is a secret.

    MISTRAL_API_KEY=…      "sentryAuthToken": "…"      the W&B API key is …      use … as the deploy token

The words before a value are read backwards to the nearest that names a secret, those behind it forwards. What is
hexadecimal alone, or a UUID, is a hash or an id more often than a key: there nothing else may be said in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .judging import is_hash_like, is_jumbled, is_placeholder, is_random, is_uuid, is_wordy
from .shapes import Span

BEFORE_CHARS, BEHIND_CHARS = 120, 60
MOST_BETWEEN: Final = 7
"""Words between a secret's name and its value: "I rotated the token yesterday, the new one is …"."""

LONGEST: Final = 2000
"""A longer run is data: a picture, a certificate, a file in base64."""

SECRETS = frozenset(
    "password passwd passwort kennwort passphrase passcode secret secrets token tokens apikey authkey authtoken"
    " accesskey secretkey privatekey apitoken credential credentials creds auth bearer jwt pat contraseña clave psk"
    " seed mnemonic otp totp pw zugangstoken zugriffstoken geheimnis secreto jeton senha mdp passord passordet pepper"
    " wif xprv chave clé".split()
)
KEYS = frozenset(("key", "schlüssel", "llave", "nøkkel", "nøkkelen"))
"""Secrets only with a word before them that says of what."""

OF_ACCESS = frozenset("api secret access auth routing signing encryption private webhook aes".split())
"""Words before "key" that leave no doubt what it opens, whatever stands between it and a value."""

ARTICLES = frozenset("a the this das el la".split())
PUBLIC = frozenset(
    "public publishable anon site captcha websocket contract primary foreign composite unique partition"
    " sort cache idempotency csrf next"
    " continuation page object row column dict map json config setting settings hash group index lookup message"
    " routing translation event item field property arrow hot function home end enter escape tab host known gpg pgp"
    " pub recv fingerprint a the this each which no one any every other first last same new old with by of in for"
    " and or is sorted".split()
)
"""Words before "key" and "token" that make them an entry of a table, a part of a keyboard, or open to all."""

OPEN_TO_ALL = ("pk_live_", "pk_test_", "pk.", "phc_", "pub_", "sb_publishable_")
"""The beginnings of public keys: they stand in pages."""

OF_IDS = frozenset(
    "commit sha md5 hash hashes hashed digest checksum revision rev id ids uuid guid etag integrity fingerprint"
    " thumbprint branch tag image blob object tree salt nonce iv request trace span correlation count type name path"
    " file size version length build job transaction block address contract bucket container layer node".split()
)
OF_PEOPLE = frozenset("session sessions user users run task thread order ticket agent message".split())
"""Words that have ids too: after "the token for session …" stands one more often than a token."""

OF = frozenset("for of to from für von de del para zu".split())
COPULAS = frozenset("is was now lautet ist war es era ahora".split())
LINKING = frozenset(
    "body value data is was are be been to now new one"
    " the it this here here's my our your yesterday today set equals as using"
    " with use value should still currently from of for in and on has changed follows below paste s re got prod"
    " production staging dev test live old v b64 base64 base hex main backup default current eu us raw env rw ro db"
    " ci lautet ist war es la el mi nuestra d m b é est er du da do des les le l accès secrète webhook api"
    " user assistant agent".split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00df-\u00ff]+|\d+")
_IN_CHINESE = re.compile("(?:令牌|密钥|密鑰|密码|口令)[^\\w]{0,6}(?:是|为)?[^\\w]{0,4}$")
_SENTENCE_END = re.compile(r"[.;!?]\s")
_BEHIND = re.compile(r"[\"'`)\]]{0,2},?\s{0,2}(?:as|is|was|ist|es|for|\(|#|//|--|<-)(?![a-z])")
_UNKNOWN = re.compile(
    r"([a-zA-Z]{2,10})((?:[_-](?:live|prod|test|api|pat|sk|key|secret|token|v\d)){0,2})[_-]([A-Za-z0-9]{20,200})"
)
_FEWEST_UNKNOWN = 32
_NO_KEYS = OF_IDS | frozenset(
    "toolu msg req call chatcmpl run thread asst file resp evt cus user org proj sha task".split()
)
_REST = re.compile(r"(?:[.~:$%!][A-Za-z0-9+/_=-]{6,200}){1,8}")


def find_named(text: str, candidates: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Find drawn values where a secret is named, and those that begin as keys do: `abc_live_…`."""
    for candidate in candidates:
        start, end = candidate.span()
        value = candidate[0].rstrip("=")
        if len(value) > LONGEST or not is_random(value) or is_placeholder(value) or value.startswith(OPEN_TO_ALL):
            continue
        is_id = is_uuid(value) or is_hash_like(value)
        loose = not is_id and is_jumbled(value)
        if (
            _named_before(text, start, loose=loose)
            or _named_behind(text, end, loose=loose)
            or _begins_as_keys_do(value)
        ):
            rest = _REST.match(text, end)
            yield start, rest.end() if rest else end, "token"


def _named_before(text: str, start: int, *, loose: bool) -> bool:
    lines = text[max(0, start - BEFORE_CHARS) : start].rsplit("\n", 2)
    words = _words(lines[-1])
    if len(lines) > 1 and len(words) <= 3 and all(word in LINKING or word.isdigit() for word in words):
        words = [*_words(lines[-2]), *words]
        lines = lines[-2:]
    elif len(lines) > 1:
        lines = lines[-1:]
    if _IN_CHINESE.search(lines[-1]):
        return True
    if not {"public", "publishable"}.isdisjoint(words[-6:]):
        return False
    for at in range(len(words) - 1, max(-1, len(words) - 2 - MOST_BETWEEN), -1):
        if words[at] in OF_IDS:
            return False
        if _names_a_secret(words, at):
            between = words[at + 1 :]
            if words[at] in KEYS and words[max(0, at - 1)] in OF_ACCESS:
                return True
            if _says_whose(between, lines[-1]):
                return True
            ended = _SENTENCE_END.search(lines[-1]) is not None
            if loose and not ended:
                return True
            return all(word in LINKING or word.isdigit() for word in between)
    return False


def _says_whose(between: Sequence[str], line: str) -> bool:
    """Return True for "token [for the status page is] …", "token [de Consul:] …"."""
    if not between or between[0] not in OF or OF_PEOPLE.intersection(between):
        return False
    return between[-1] in COPULAS or line.rstrip(" \"'`").endswith((":", "="))


def _named_behind(text: str, end: int, *, loose: bool) -> bool:
    link = _BEHIND.match(text, end)
    if link is None:
        return False
    words = _words(text[link.end() : end + BEHIND_CHARS].partition("\n")[0])[: MOST_BETWEEN if loose else 4]
    for at, word in enumerate(words):
        if word in OF_IDS:
            return False
        if _names_a_secret(words, at):
            return not OF_IDS.intersection(words[at + 1 : at + 2])
    return False


def _names_a_secret(words: Sequence[str], at: int) -> bool:
    before = words[at - 1] if at else ""
    if words[at] in SECRETS:
        return before not in PUBLIC or before in ARTICLES
    return words[at] in KEYS and before not in PUBLIC and before.isalpha()


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _begins_as_keys_do(value: str) -> bool:
    """Return True for a short name and a long drawn rest, as most issuers make them; ids are shorter, or named so."""
    found = _UNKNOWN.fullmatch(value)
    if found is None or found[1].lower() in _NO_KEYS or is_wordy(found[3]):
        return False
    return is_jumbled(found[3]) and (len(found[3]) >= _FEWEST_UNKNOWN or found[2] != "")
