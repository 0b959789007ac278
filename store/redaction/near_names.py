"""Values near the name of a secret, and drawn ones without a name: the input of the classifier.

    DB_PASS=X      --token X      "apiKey": "X"      the password of the box is X      X is the new pin

A name is an identifier of which one word names a secret, in some twenty languages. Its candidates are the values behind
it, as far as the second line end, and those before it on its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final

from .prefilter import starts_of
from .values import is_filler, is_hash_like, is_placeholder, is_random, is_uuid, is_wordy

PASSWORDS: Final = frozenset(
    "pass password passwords passwd passwort passphrase passcode pw pwd psk kennwort contraseña contrasena clave"
    " senha mdp passe passord passordet parol parola hasło haslo hasła пароль пароля wachtwoord lösenord"
    " lösenordet løsenord adgangskode heslo jelszo salasana şifre sifre kodeord passwrd wpa eap".split()
)
KEYS: Final = frozenset(
    "key keys apikey secret secrets token tokens credential credentials creds cred auth authtoken accesskey"
    " secretkey privatekey apitoken authkey bearer jwt pat schlüssel clé llave nøkkel nøkkelen chave nyckel"
    " nyckeln klucz ключ токен секрет chiave sleutel geheimnis secreto segredo jeton authorization sig signature"
    " cookie session sessionid sid seed mnemonic otp totp pepper tkn passkey zugangstoken zugriffstoken".split()
)
PINS: Final = frozenset("pin pins puk tan cvv unlock".split())
"""A bare "code" is none of them: most are of errors. `sentences` knows those of doors and messages."""

LOGINS: Final = frozenset(
    "login user username usr account zugangsdaten anmeldedaten ssh logge logg sign credenciales identifiants"
    " connecte entra usuario usuário benutzer bruker utilisateur connect connection wifi wlan ssid basic pdo"
    " logins accounts nickserv".split()
)
_KINDS: Final = (("password", PASSWORDS), ("key", KEYS), ("pin", PINS), ("login", LOGINS))
KIND_OF: Final = {word: kind for kind, words in _KINDS for word in words}
_LOGGING_IN: Final = ("log in", "logged in", "sign in", "signed in")
_BARE: Final = (
    "パスワード",
    "密码",
    "密碼",
    "口令",
    "暗証番号",
    "비밀번호",
    "암호",
    "סיסמ",
    "पासवर्ड",
    "รหัสผ่าน",
    "κωδικ",
)
"""Names in scripts without spaces between words, and beginnings of inflected ones; a longer word is another one."""

_OF_TWO_WORDS: Final = ("mật khẩu", "kata sandi", "كلمة المرور", "كلمة السر", "mot de passe")

_INFLECTED: Final = (
    *"парол hasł hasl heśl jelsz jelsza şifre sifre parola adgangskod lösenord losenord wachtwoord salasan".split(),
    *"hesl lozink passwört passwort kennwört kennwort contrase zaporka slaptažod parool".split(),
)
"""Beginnings of names that languages inflect, as in "hasłem" and "şifresi"."""

_OF_SEVERAL: Final[Mapping[str, str]] = {
    **dict.fromkeys(_LOGGING_IN, "login"),
    **dict.fromkeys(_OF_TWO_WORDS, "password"),
}

STEMS: Final = (
    *"pass pw psk kennw clave senha mdp parol wachtw lösen løsen salasa wpa".split(),
    *"key secret token cred auth bearer jwt pat schlüssel clé llave nøkkel".split(),
    *"chave nyckel klucz ключ токен секрет chiave sleutel geheim segredo jeton sig cookie sess sid seed".split(),
    *"mnemonic otp pepper tkn pin puk tan cvv unlock login user usr".split(),
    *"account zugangs anmelded ssh logg identif connect entra usu benutz bruker utilis wifi wlan basic pdo".split(),
    *("eap", "nickserv"),
    *_INFLECTED,
    *_BARE,
    *_LOGGING_IN,
    *_OF_TWO_WORDS,
)
"""Beginnings of the names, or of the words before and in them."""

BEHIND_CHARS: Final = 110
BEFORE_CHARS: Final = 60
COMMAND_CHARS: Final = 200
MOST_LINE_ENDS: Final = 2
MOST_VALUES: Final = 10
MOST_NESTED: Final = 4
LONGEST_NAME: Final = 40
MOST_NAMES: Final = 3
"""The names before a value for which it is classified: bounded, so that a text of names takes linear time."""

MOST_OF_OPTION: Final = 2
MOST_USER_CHARS: Final = 40
MOST_MARGIN: Final = 16
LEAD_CHARS: Final = 24
DAY_CHARS: Final = 16
FEWEST: Final = 4
LONGEST: Final = 512
"""Characters of a value: a longer run is data, as a picture or a certificate in base64."""

OPEN_TO_ALL: Final = ("pk_live_", "pk_test_", "pk.", "phc_", "pub_", "sb_publishable_")
"""The beginnings of public keys, which web pages contain."""

COPULAS: Final = frozenset(
    "is was now lautet ist war es era ahora est é er är è jest to til auf a nova nu i s sera será fue var je on là"
    " adalah".split()
)
WORD: Final = re.compile(r"[^\W\d_]+")
_OF_HASHES: Final = frozenset(
    "commit sha md5 hash checksum digest revision rev fingerprint etag integrity blob tree branch".split()
)
"""Words between a name and a value that make it no secret: "the key for the commit is 9f86d0…"."""

_OTHER_SETTING = re.compile(r"[A-Za-z_][\w.-]{0,40}=[^=]")
"""On another line than the name, a value's own name: only the part behind its sign is classified."""

_SENTENCE_END = re.compile(r"[.;!?]\s")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d[\d:.Z+-]{0,20})?")
"""A day or an instant, as in the head of a memory's file."""

_YEAR = re.compile(r"(?:19|20)\d\d[:,.)]?")
_DAY_BEFORE = re.compile(r"(?:(?<!\w)\d{1,2}\.? [^\W\d_]{3,10}\.? |(?:^|\n)[#*\- \[(]{0,6})$")
"""The year of a day ("6 July 2026: …"), or one that begins a line."""

_SPEAKER: Final = "user: "
"""The head of a line of a conversation: no login."""

_MARK: Final = "redacted:"
_LINE_OF_KEY: Final = "-----"

_PART = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿĀ-ɏ]+|[Ѐ-ӿ]+|\d+")
_GLUED = re.compile(r"(?:pass(?:word|wd|phrase)?|pwd|pw|secret|token|key|schlüssel|nøkkel|passwort|kennwort)$")
_NOT_GLUED: Final = frozenset(
    "compass bypass surpass overpass underpass trespass encompass monkey turkey donkey hockey jockey whiskey".split()
)
_VALUE = re.compile(
    r"(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{1,300}?)(?P=quote)(?!\w)"
    r"|[«“„](?P<typeset>[^«»“”„\n]{1,120})[»”“]"
    rf"|(?P<bare>[^\s\"'`<>«»“”„，。]{{1,{LONGEST}}})"
)

_LINE_END = re.compile(r"\n(?:[ \t\r]{0,40}\n){0,3}")
"""A line end, with the empty lines behind it."""

_SETTING = re.compile(
    r"[\"'\]]{0,2}[ \t]{0,3}[:=][ \t]{0,3}(?P<words>[^\W\d_]{2,16}(?: [^\W_]{1,16}){1,7})[ \t]*$", re.MULTILINE
)
"""A setting of several words, without quotation marks, to the end of its line."""


@dataclass(frozen=True, slots=True)
class Name:
    """An identifier that names a secret, and its place."""

    start: int
    end: int
    kind: str
    word: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """The place of a value, and whether it is in quotation marks."""

    start: int
    end: int
    is_quoted: bool


@dataclass(frozen=True, slots=True)
class NearValue:
    """A value that may be the secret of a name."""

    name: Name
    value: ValueSpan
    is_before: bool = False
    """True of a value before its name."""


def candidates(text: str, lowered: str, runs: Sequence[re.Match[str]] = ()) -> Iterator[NearValue]:
    """Yield each name with each value near it that may be a secret. `runs` are those that are long enough for a key."""
    # An option of one letter is a name only with its command: `-p` of mysql, not of mkdir.
    for option in options_in(text):
        for value in islice(values_behind(text, option, len(text)), MOST_OF_OPTION):
            if value.start - option.end < MOST_USER_CHARS and _is_worth_asking(text, "w w", value):
                yield NearValue(option, value)
    names = list(names_in(text, lowered))
    for at, name in enumerate(names):
        limit = names[at + MOST_NAMES].start if at + MOST_NAMES < len(names) else len(text)
        for value in values_behind(text, name, limit):
            if _fits(text, name, value) and _is_worth_asking(text, text[name.end : value.start], value):
                yield NearValue(name, value)
        for value in values_before(text, name, names[at - 1].end if at else 0):
            if _fits(text, name, value) and _is_worth_asking(text, "w w", value):
                yield NearValue(name, value, is_before=True)
    yield from _alone(text, runs)


def _fits(text: str, name: Name, value: ValueSpan) -> bool:
    """Return False for a value without a digit near "pin" (a brooch), and for a number in another sentence (a port)."""
    piece = text[value.start : value.end]
    if name.kind == "pin" and not any(map(str.isdigit, piece)):
        return False
    between = text[min(name.end, value.end) : max(name.start, value.start)]
    return not (piece.isdigit() and _SENTENCE_END.search(between))


def _alone(text: str, runs: Sequence[re.Match[str]]) -> Iterator[NearValue]:
    """Yield drawn values with no name, but for the lines of a block: a certificate, a picture."""
    # Drawn runs on neighbouring lines are a certificate or a picture.
    for at, run in enumerate(runs):
        if any(_is_next_line(text, one, two) for one, two in pairwise(runs[max(0, at - 1) : at + 2])):
            continue
        value = ValueSpan(*run.span(), False)
        if run[0].isdigit():
            continue
        is_drawn = len(run[0]) <= LONGEST and (is_hash_like(run[0]) or is_random(run[0].rstrip("=")))
        if is_drawn and _is_worth_asking(text, text[max(0, run.start() - LEAD_CHARS) : run.start()], value):
            yield NearValue(Name(run.start(), run.start(), "none", "", (), ()), value)


def _is_next_line(text: str, one: re.Match[str], two: re.Match[str]) -> bool:
    between = text[one.end() : two.start()] if two.start() - one.end() < MOST_MARGIN else ""
    return "\n" in between and not between.strip()


def _is_worth_asking(text: str, gap: str, value: ValueSpan) -> bool:
    """Return False for a stand-in, and for a plain word that no sign ties to the name: most of a sentence."""
    piece = text[value.start : value.end]
    # A value that was cut at LONGEST is data, and a word that names a secret is a name.
    is_cut = text[value.end - 1 : value.end + 1].isalnum() and value.end < len(text)
    if len(piece) < FEWEST or is_cut or kind_of(piece.rstrip("=:").lower()) is not None:
        return False
    if not value.is_quoted and piece.isascii() and piece.isalpha() and piece[1:].islower():
        words = WORD.findall(gap)
        return not words or (len(words) == 1 and words[0].lower() in COPULAS)
    if (is_hash_like(piece) or is_uuid(piece)) and not _OF_HASHES.isdisjoint(WORD.findall(gap.lower())):
        return False
    if _YEAR.fullmatch(piece) and _DAY_BEFORE.search(text, max(0, value.start - DAY_CHARS), value.start):
        return False
    if _INSTANT.fullmatch(piece) or ("\n" in gap and _OTHER_SETTING.match(piece)):
        return False
    if _MARK in gap or _MARK in piece or _LINE_OF_KEY in piece or (piece[0] == "-" and is_wordy(piece)):
        return False
    return not (is_placeholder(piece) or is_filler(piece) or piece.startswith(OPEN_TO_ALL))


# ---- names


def names_in(text: str, lowered: str) -> Iterator[Name]:
    """Find the names of secrets, from left to right."""
    ended = 0
    for at in starts_of(STEMS, lowered):
        if at < ended:
            continue
        if (words := next((words for words in _OF_SEVERAL if lowered.startswith(words, at)), None)) is not None:
            ended = at + len(words)
            yield Name(at, ended, _OF_SEVERAL[words], words, (), ())
            continue
        start, end = _bounds(lowered, at)
        ended = end
        is_mark = lowered.endswith(_MARK, 0, start) or lowered.startswith(_SPEAKER, start, end + 2)
        if not is_mark and (name := _read(text[start:end], start)) is not None:
            yield name


def _bounds(text: str, at: int) -> tuple[int, int]:
    """Return the bounds of the identifier around a position, up to `LONGEST_NAME` to each side."""
    start, end = at, at
    while start > 0 and at - start < LONGEST_NAME and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    while end < len(text) and end - at < LONGEST_NAME and (text[end].isalnum() or text[end] in "_-"):
        end += 1
    return start, end


def _read(identifier: str, start: int) -> Name | None:
    # In a script without spaces the name is a part of a run of letters.
    for bare in _BARE:
        if (at := identifier.find(bare)) >= 0:
            return Name(start, start + at + len(bare), "password", bare, (), ())
    if (kind := KIND_OF.get(whole := identifier.lower())) is not None:
        return Name(start, start + len(identifier), kind, whole, (), ())
    if (stem := _stem_of(whole)) is not None:
        return Name(start, start + len(identifier), "password", stem, (), ())
    words = words_of(identifier)
    # The last word that names a secret counts: in `token_key_id` the key, in `passwordFile` the password.
    for at in range(len(words) - 1, -1, -1):
        word = words[at]
        kind = KIND_OF.get(word)
        if kind is None and len(word) > 4 and word not in _NOT_GLUED and (glued := _GLUED.search(word)):
            kind, word = KIND_OF[glued[0]], "+" + glued[0]
        if kind is not None:
            return Name(start, start + len(identifier), kind, word, tuple(words[:at]), tuple(words[at + 1 :]))
    return None


@lru_cache(maxsize=4096)
def kind_of(word: str) -> str | None:
    """Return the kind of secret that a word names, also where it is inflected."""
    is_inflected = _stem_of(word) is not None or any(bare in word for bare in _BARE)
    return KIND_OF.get(word) or ("password" if is_inflected else None)


def _stem_of(word: str) -> str | None:
    return next((stem for stem in _INFLECTED if word.startswith(stem)), None)


def words_of(identifier: str) -> list[str]:
    """Split an identifier into its words: `dbPassword_v2` into db, password, v, 2."""
    return [word.lower() for word in _PART.findall(identifier)]


_OPTION = re.compile(r"(?<=[\s\"'])-(?P<letter>[A-Za-z])(?: ?[\"']?(?=\S))")
_COMMAND = re.compile(r"[\w.-]+")


def options_in(text: str) -> Iterator[Name]:
    """Find options of one letter, each with the name of its command: `mysql -p`, `curl -u`."""
    if " -" not in text and "'-" not in text:
        return
    for found in _OPTION.finditer(text):
        line = text[max(0, found.start() - COMMAND_CHARS) : found.start()].rpartition("\n")[2]
        # Behind a pipe, a prompt or `sudo` another command begins.
        command = re.split(r"[|;&]\s*|\$\(|^[$>#+ \t]+|\bsudo ", line)[-1]
        if (of := _COMMAND.search(command)) is not None:
            yield Name(found.start(), found.end(), "option", found["letter"], (of[0].lower(),), ())


# ---- values


def values_behind(text: str, name: Name, limit: int) -> Iterator[ValueSpan]:
    """Find the values behind a name that begin before its second line end; none goes on behind `limit`.

    Those of a login are on its line: on the next a password has its own name.
    """
    # A value often is on the next line: below a heading, or the answer to a prompt.
    last = min(limit, name.end + BEHIND_CHARS)
    end = name.end
    for _ in range(1 if name.kind == "login" else MOST_LINE_ENDS):
        found = _LINE_END.search(text, end, last)
        if found is None:
            end = last
            break
        end = found.end()
    if (setting := _SETTING.match(text, name.end, end)) is not None:
        yield ValueSpan(*setting.span("words"), False)
    yield from _values(text, name.end, end, limit)


def values_before(text: str, name: Name, first: int) -> Iterator[ValueSpan]:
    """Find the values before a name on its line, from `first`."""
    first = max(first, name.start - BEFORE_CHARS)
    # Whole words alone: neither the first nor the last of the span may be a part of one.
    begin = max(text.rfind("\n", first, name.start) + 1, first)
    while 0 < begin < name.start and not text[begin - 1].isspace():
        begin += 1
    end = name.start
    while begin < end and not text[end - 1].isspace() and text[end - 1] not in "\"'`":
        end -= 1
    yield from _values(text, begin, end, end)


def _values(text: str, position: int, end: int, limit: int) -> Iterator[ValueSpan]:
    """Yield the values that begin before `end`, none of which goes on behind `limit`."""
    for _ in range(MOST_VALUES):
        found = _VALUE.search(text, position, limit)
        if found is None or found.start() >= end:
            return
        position = found.end()
        if found["bare"] is not None:
            yield from _bare(text, *found.span("bare"))
        else:
            first, last = found.span("quoted" if found["quoted"] else "typeset")
            yield ValueSpan(first, last - (text[last - 1] == "\\"), True)


_SIGN = re.compile(r"(?<=[\w\])])(?:=>|:=|==?|:)(?=[^\s=/:])|[,;&](?=[\w.-]{1,30}=)|[(\[{]+")
_NEXT_SETTING = re.compile(r"[,;&](?=[\w.-]{1,40}=)")


def _bare(text: str, start: int, end: int) -> Iterator[ValueSpan]:
    """Yield a run without spaces, and the parts behind a sign or a bracket in it: `password=X`, `user:X`, `f(X`."""
    # Marks of a sentence or of code at both ends are no part of a value.
    piece = text[start:end]
    end -= len(piece) - len(piece.rstrip(".,;:!?)]}*_\\"))
    start += len(piece) - len(piece.lstrip("([{*,;:=→>|"))
    for _ in range(MOST_NESTED):
        if start >= end:
            return
        following = _NEXT_SETTING.search(text, start, end)
        yield ValueSpan(start, following.start() if following else end, False)
        sign = _SIGN.search(text, start, end)
        start = sign.end() if sign else end
