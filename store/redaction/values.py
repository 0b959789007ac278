"""Judgements of a value: drawn by a machine, chosen as a password, or a word, a name, a piece of code."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Final

FEWEST_RANDOM: Final = 16
"""Shorter values are too often names; an issuer's shortest key has 16 drawn characters."""

FEWEST_BITS: Final = 3.0
"""Entropy a character: English words have about 2.5 at such lengths, hexadecimal 3.5, random base64 above 4."""

FEWEST_BITS_OF_HEX: Final = 2.8
FEWEST_LETTERS: Final = 20

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")
_JOINED = re.compile(r"[A-Za-z0-9 ._/:\\-]*")  # the marks that join words in names; `!@#%&*` stand in passwords
_WORD = re.compile(
    r"[A-Z]{0,5}[a-z]*(?:[A-Z]{1,3}[a-z]+)*[A-Z]{0,4}\d{0,4}|[A-Z]{1,24}\d{0,3}|v?\d{1,6}|\d{1,2}[a-z]{1,2}"
)
_CAPITALS = re.compile(r"[A-Z]+")
_PHRASE = re.compile(
    r"(?:[a-z]{3,12}-){3,9}[a-z0-9]{1,12}"  # correct-horse-battery-staple
    r"|(?:[A-Za-z]{3,12}[-_.+=~*?!#]){2,6}"  # Winter-otter-2193, winter-otter-k4t2-83
    r"(?:(?=[a-z]{0,7}\d)[a-z0-9]{2,8}[-_.+=~*?!#]){0,2}\d{2,6}"
)
_TERM = re.compile(
    r"(?i)(?:[a-z]{2,8}-)?(?:argon2\w{0,2}|bcrypt|scrypt|pbkdf2|sha-?\d{1,3}|md5|utf-?\d{1,2}|base\d{2}|hmac|ed25519"
    r"|rsa\d{0,4}|oauth2?)(?:[-_/]\w{1,12}){0,3}"
    r"|[\w.+-]{1,64}@(?:[\w.-]{1,64}\.[a-z]{2,12}|\d{1,3}(?:\.\d{1,3}){3})(?::[\w./~-]{0,80})?|[a-z]{2,8}://.*|/.*|[\w.-]{1,40}\(.*|[A-Za-z_]{1,60}=.*|~?[\d.,:/-]{1,20}[a-z]{0,3}"
    r"|(?:get|set|new|convert(?:to|from)|read|import|export|connect)-[a-z]{3,30}|(?:[a-z0-9-]{1,40}\.){1,5}(?:com|org|net|io|dev|app|ai|co|de|fr|es|pt|no|uk|eu|us|example|test|local|lan|internal)"
    r"(?:[:/].{0,200})?"
)
_TEMPLATE = re.compile(
    r"(?i)\[redacted|<[^<>]{0,80}>?$|[{(\[].*|\$[{(].*|\$[A-Za-z_]\w{0,60}$|[#@&!]\{?[A-Za-z_.-]{1,60}\}?[@#]?$|\\.*"
    r"|%[\w(]{1,60}[%)]?s?$|[x*.•_-]{3,}$|[$#%&@]$|\+?(?:%[-_0]?[a-z][-/:., tz]?){2,20}$"  # the last: of a date
)
_STAND_IN = re.compile(
    r"(?i)(?:your|my[_-]|some[_-]|an?[_-]|the[_-]|example|sample|dummy|fake(?![a-z])|placeholder|replace|insert"
    r"|change[_-]?(?:me|it|this)|todo|redacted"
    r"|(?:none|null|nil|true|false|undefined|string|str|text|bytes|required|optional|password|passwd|passphrase|pwd|pass"
    r"|passw|secret|token|hidden|empty|test|user|username|foo|bar|process|os|env|self|this|config|settings|args|options"
    r"|params|input|props|state|request|req|data|form|body|new|get)(?![A-Za-z0-9]))"
)
_DIGITS = re.compile(r"\d+")
_CODE_BEHIND = re.compile(r"[\w.]{1,80}[\[(].*")
_EXPRESSION = re.compile(r"\$[{(]?[A-Za-z_][\w.:>\[\]-]*[)}]?|.*[{}()].*|[/~.].*/.*")
_ATTRIBUTE = re.compile(
    r"(?P<names>[A-Za-z_]\w{0,80}(?:(?:\.|->|::)[A-Za-z_]\w{0,80}){1,20})(?:[(\[].*)?|[A-Za-z]+(?:_[A-Za-z]+)+"
)


def is_placeholder(value: str) -> bool:
    """Return True for a placeholder of a secret: `<your key>`, `xxxx`, `${TOKEN}`, `None`.

    A password may begin like one: the rest must be words as well ("changeme", not "Changeme!2026").
    """
    value = value.rstrip(",;:.")  # marks of the sentence around it
    if _TEMPLATE.match(value):
        return True
    if _STAND_IN.match(value) is None:
        return False
    return is_wordy_without_numbers(value) or is_filler(value) or _CODE_BEHIND.fullmatch(value) is not None


def is_uuid(value: str) -> bool:
    """Return True for a UUID, which is an id more often than a key."""
    return _UUID.fullmatch(value) is not None


def is_hash_like(value: str) -> bool:
    """Return True for hexadecimal alone, which is a hash more often than a key."""
    return _HEX.fullmatch(value) is not None


def is_wordy(value: str) -> bool:
    """Return True for a name, a path or words joined by marks. Linear."""
    if _JOINED.fullmatch(value) is None:
        return False
    return all(_WORD.fullmatch(part) and not _is_drawn_part(part) for part in _SEPARATED.split(value))


def is_wordy_without_numbers(value: str) -> bool:
    """Return True for words joined by marks, with numbers of any length among them: `session-20260101120000`."""
    return is_wordy(_DIGITS.sub("0", value))


def is_random(value: str) -> bool:
    """Return True if a value looks drawn: letters and digits, or many letters of both cases, and no words."""
    if len(value) < FEWEST_RANDOM or value.lower() in _ALPHABET or is_wordy(value):
        return False
    # Hexadecimal has 16 characters to draw from, so its entropy is lower.
    has_digit, has_letter = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if not (has_digit and has_letter) and not (len(value) >= FEWEST_LETTERS and is_jumbled(value)):
        return False
    return entropy(value) >= (FEWEST_BITS_OF_HEX if is_hash_like(value) else FEWEST_BITS)


def is_filler(value: str) -> bool:
    """Return True for `xxxxxxxx`: half of it or more are the characters that people write instead of a key."""
    return not value or 2 * sum(map(value.lower().count, "x*._-")) >= len(value)


def is_jumbled(value: str) -> bool:
    """Return True if letters of both cases alternate, with digits or without, as they do not in names."""
    if not (any(map(str.islower, value)) and any(map(str.isupper, value))):
        return False
    # Counted are the changes between small letters, capitals, digits and marks.
    sorts = [1 if c.islower() else 2 if c.isupper() else 3 if c.isdigit() else 0 for c in value]
    return sum(one != two for one, two in pairwise(sorts)) >= len(value) * 0.25


def entropy(value: str) -> float:
    """Return Shannon's entropy of the characters, in bits a character."""
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts)


def is_term(value: str) -> bool:
    """Return True for the name of an algorithm, an address, a measure, or characters that no keyboard types."""
    return not value.isprintable() or _TERM.fullmatch(value) is not None


def is_phrase(value: str) -> bool:
    """Return True for several words that are joined as in a passphrase: correct-horse-battery-staple."""
    return _PHRASE.fullmatch(value) is not None


def is_password(value: str, fewest: int = 6) -> bool:
    """Return True if a value looks chosen as a password: two sorts of characters, and no word, name or code."""
    if len(value) < fewest or is_placeholder(value) or is_reference(value) or is_term(value):
        return False
    if is_phrase(value):
        return True
    # A password of one word and a digit is accepted, a name of several words with a number is not.
    is_several_words = sum(map(bool, _SEPARATED.split(value))) > 1 and is_wordy(value)
    return not (value.isalpha() or is_several_words) and classes(value) >= 2 and any(map(str.isalpha, value))


def is_strong_password(value: str) -> bool:
    """Return True if a value is a password in any surroundings: three sorts of characters, and no word."""
    return len(value) >= 8 and classes(value) >= 3 and any(map(str.isdigit, value)) and is_password(value)


def is_reference(value: str) -> bool:
    """Return True if a value is code that names the secret: a variable, an attribute, a call, a template, a path."""
    if _EXPRESSION.fullmatch(value):
        return True
    attribute = _ATTRIBUTE.fullmatch(value)
    return attribute is not None and is_wordy((attribute["names"] or value).replace(">", "."))


def classes(value: str) -> int:
    """Count the sorts of characters: small letters, capitals after the first, digits, others."""
    return sum(
        (
            any(map(str.islower, value)),
            any(map(str.isupper, value[1:])),
            any(map(str.isdigit, value)),
            not value.isalnum(),
        )
    )


def _is_drawn_part(part: str) -> bool:
    """Return True for a drawn value that parses as camel case by chance: `aBcDeFgH`. A name has one acronym at most."""
    # A name has few humps for its length, a drawn value one every second or third letter.
    runs = _CAPITALS.findall(part)
    capitals = len(runs) if sum(len(run) > 1 for run in runs) <= 1 else sum(map(len, runs))
    return capitals > 2 and not part.isupper() and len(part) / (capitals + 1) < 2.5
