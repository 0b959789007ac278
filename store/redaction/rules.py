"""Rules: secrets in command lines, settings, addresses and tables; and, where a setting asks, personal identifiers.

A rule is a row of RULES: the words and marks that a text must have before the rule is tried, and a search. Most
searches are a pattern and a judgement of the value in it (`_values_of`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from . import key_forms, prose
from .key_forms import Span
from .near_names import kind_of, words_of
from .prefilter import folded, has_any, starts_of
from .values import (
    FEWEST_BITS,
    classes,
    entropy,
    is_filler,
    is_password,
    is_phrase,
    is_placeholder,
    is_random,
    is_reference,
    is_strong_password,
    is_uuid,
    is_wordy,
)

Search = Callable[[str], Iterator[Span]]


def _values_of(kind: str, judge: Callable[[str], bool], *patterns: re.Pattern[str]) -> Search:
    """Return a search for the group `secret` of some patterns, if `judge` accepts its value."""

    def find(text: str) -> Iterator[Span]:
        for pattern in patterns:
            for found in pattern.finditer(text):
                if judge(found["secret"]):
                    yield *found.span("secret"), kind

    return find


# ---- command lines

# These take a password, and nothing else does with the same letter.
OPTIONS: Final = {
    r"mysql\w*|mariadb\w*|7za?|unrar|rar": r"-p",
    r"docker login|podman login|nerdctl login|buildah login|skopeo login|helm registry login": r"-p ?|--password[ =]",
    r"mongo\w*|az|sshpass|clickhouse-client|vncviewer|lpass|oc|sqlcmd|cqlsh"
    r"|rabbitmqadmin|arangosh|jfrog|argocd|snowsql|easy_install": r"-[pP] ?|--?pass(?:word)?[ =]|--passwd[ =]",
    r"redis-cli|valkey-cli|http|https|xh": r"-a ?|--pass[ =]|--auth[ =]",
    r"ldap\w+|kinit|radtest": r"-w ?",
    r"sqlcmd|bcp|zip|unzip": r"-P ?",
    r"openssl": r"-pass(?:in|out)? pass:|-k |-K ",
    r"htpasswd": r"-[a-zA-Z]*b[a-zA-Z]* \S{1,200} \S{1,60} ",
    r"curl|wget|aria2c": r"(?:-u|--user|--proxy-user|-U) ?[\"']?[^\s:\"']{1,80}:",
    r"net use": r"\S{1,120} (?=\S{1,60} /user:)",
    r"net user": r"[^\s/]\S{0,60} (?!/)",
    r"smbclient|rpcclient|smbget": r"(?:-U|--user)[ =]?[\"']?[^\s%\"']{1,80}%",
    r"mosquitto_pub|mosquitto_sub|mosquitto_rr": r"-P ?|--pw[ =]",
    r"xfreerdp|wfreerdp|rdesktop": r"/p(?:ass(?:word)?)?:|-p ?",
    r"ipmitool|ykman": r"-[PEn] ?",
    r"psexec|evil-winrm|cypher-shell|crackmapexec|netexec|sshpass|wg-easy": r"-p ?|--password[ =]",
    r"x11vnc|tightvncserver": r"-passwd ",
    r"vsql|psql|isql": r"-w ",
    r"nmcli": r"(?:password|psk) ",
    r"rclone|nexmo|shodan|b2": r"(?:pass|setup \S{1,40}|init|authorize-account \S{1,40}) ",
    r"snmp\w+": r"-[AX] ?",
    r"setx": r"\w{0,40}(?:PASS\w{0,8}|SECRET|TOKEN|KEY|PWD)\w{0,20} ",
    r"kubeadm": r"--token ",
    r"erl|iex|elixir": r"-{1,2}(?:set)?cookie ",
    r"adb": r"input text ",
    r"aws ssm": r"--value ",
    r"rabbitmqctl": r"(?:add_user|change_password|authenticate_user) \S{1,80} ",
    r"mc|mcli": r"(?:alias set|config host add) \S{1,80} \S{1,200} \S{1,80} ",
    r"keytool|jarsigner|apksigner": r"-{1,2}(?:store|key|ks-|src|dest)?pass(?:word)?[ =](?:pass:)?",
}
_OPTIONS = tuple(
    (
        tuple(name.strip("\\w*+a?") for name in commands.split("|")),
        re.compile(
            rf"(?<![\w-])(?:{commands})(?:\.exe)?\s(?:[^\n|;&]{{0,200}}?\s)?(?:{option})(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{{4,128}})(?P=quote)"
            r"|(?P<bare>(?:[^\s\"'|;&<>]|&(?![&\s])){4,128}))"
        ),
    )
    for commands, option in OPTIONS.items()
)


def find_options(text: str) -> Iterator[Span]:
    """Find `mysql -pX`, `curl -u user:X`, `redis-cli -a X` and their like."""
    for names, pattern in _OPTIONS:
        if has_any(text, names):
            for found in pattern.finditer(text):
                group = "quoted" if found["quoted"] is not None else "bare"
                value = found[group]
                if _is_typed(value):
                    yield *found.span(group), "password"


def _is_typed(value: str) -> bool:
    """Return True for a value that is no port, no name of a database, no variable."""
    if is_phrase(value):
        return True
    if is_placeholder(value) or is_reference(value) or not any(map(str.isalpha, value)):
        return False
    return not (is_wordy(value) and value.islower()) or any(map(str.isdigit, value))


_READERS = r"--password-stdin|\bchpasswd|\bpasswd\b|\bluks\w+|\blogin\b|\bsudo -S|--with-token"
r"|--passphrase-fd|\bcryptsetup|--stdin|\bsmbpasswd|\bvncpasswd"
_PIPED = re.compile(
    r"\b(?:echo|printf)[ \t]{1,3}(?:-\w{1,3}[ \t])?(?:[\"']%s(?:\\n)?[\"'][ \t])?[\"']?(?:[\w.@-]{1,60}:)?"
    r"(?P<secret>[^\s\"'|:]{6,512})[\"']?[ \t]{0,3}\|[^\n|]{0,200}?(?:" + _READERS + ")"
)
_HERE = re.compile(
    r"(?:" + _READERS + r")[^\n|<]{0,80}<<<[ \t]{0,3}[\"']?(?:[\w.@-]{1,60}:)?(?P<secret>[^\s\"':]{6,512})"
)


# ---- settings, addresses

_PGPASS = re.compile(
    r"(?<![\w.*:/-])[\w.*-]{1,128}:(?:\d{2,5}|\*):[\w.*-]{1,64}:[\w.*@-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)"
)
_DIRECTIVE = re.compile(
    r"(?m)^[ \t]{0,8}(?:requirepass|masterauth|auth_pass|bindpw|rootpw|r[ow]community"
    r"|\S{0,24}password)[ \t]{1,8}[\"']?(?P<secret>[^\s\"']{4,128})"
)
_SECURE_STRING = re.compile(
    r"(?i)ConvertTo-SecureString[ \t]{1,4}(?:-String[ \t]{1,4})?[\"'](?P<secret>[^\"'\n]{4,128})"
)
_ANSWERED = re.compile(
    r"(?i)assword:?[^\n]{0,20}\n[ \t]{0,16}send(?:_user)?[ \t]{1,4}(?:--[ \t])?\"(?P<secret>[^\"\n\\]{4,128})"
)
_ORACLE = re.compile(
    r"(?i)(?:\bthin:|\bsqlplus (?:-[a-z]{1,2} ){0,2}|\bconnect )[\w.-]{1,40}/(?P<secret>[^\s@/\"']{4,64})@"
)
_URL = re.compile(r"://(?:[^\s/:@\"'<>]{0,64}:)?(?P<secret>[^\s/:\"'<>][^\s/\"'<>]{1,255})@(?P<host>[\w.-]?)")
_IN_PATH = re.compile(
    r"(?i)/(?:bot(?=\d)|private-|hooks?/|reset[\w-]{0,16}/|magic[\w-]{0,10}/|invite/|verify[\w-]{0,12}/|confirm[\w-]{0,12}/|login/|live2/|api/|services/|webhooks?/)"
    r"(?:[\w.-]{1,24}/){0,3}?(?P<secret>[A-Za-z0-9_:~.-]{20,256})(?![A-Za-z0-9])"
)
_GO = re.compile(r"(?P<user>[\w.-]{1,60}):(?P<secret>[^\s\"'`]{4,128})@(?:tcp|unix)\(")
_FILE = re.compile(r"\.[a-z]{1,5}$")


def _is_no_stand_in(value: str) -> bool:
    return not is_placeholder(value) and not is_reference(value) and classes(value) >= 2


def find_url_passwords(text: str) -> Iterator[Span]:
    """Find `scheme://user:X@host`, and the drawn parts of a path to which only who knows it has access."""
    for found in _URL.finditer(text):
        is_alone = text[found.start("secret") - 1] == "/"
        if text.startswith(".ingest", found.end() + 1) or "sentry" in text[found.end() : found.end() + 40]:
            continue  # the public half of an address to report errors to
        if is_random(found["secret"]) if is_alone else not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"
    for found in _IN_PATH.finditer(text):
        if _is_drawn(found["secret"]) and not is_uuid(found["secret"]) and not _FILE.search(found["secret"]):
            yield *found.span("secret"), "url"


def _is_drawn(value: str) -> bool:
    """Return True for a value with letters and digits that is no word, and varies as drawn values do."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_both and not is_placeholder(value) and not is_wordy(value) and entropy(value) >= FEWEST_BITS


# ---- tables

HEADINGS: Final = (
    "pass pw kennw contrase senha clave mdp secret wachtw hasł парол şifre sifre lösen adgang hesl jelsz parol"
    " salasan pin puk wpa psk パスワード 密码 密碼 비밀번호"
).split()
MOST_ROWS: Final = 200
LONGEST_LINE: Final = 2000
FEWEST_CHARS: Final = 4
_CELLS: Final = (
    ("|", re.compile(r"[^|│\n]+")),
    ("│", re.compile(r"[^|│\n]+")),
    ("</t", re.compile(r"(?<=>)[^<>\n]*(?=</t[dh]>)")),
    ("\t", re.compile(r"[^\t\n]+")),
    (";", re.compile(r'(?m)"[^"\n]*"|[^;\n]+|(?:(?<=;)|^)(?=;)')),
    (",", re.compile(r'(?m)"[^"\n]*"|[^,\n]+|(?:(?<=,)|^)(?=,)')),
    ("  ", re.compile(r"\S+(?: \S+)*")),
)
_HEADING = re.compile(r"[*_`\"' ]{0,4}(?P<name>[^\W\d_]++(?:[ _-]{1,3}[^\W\d_]++){0,3}+)[*_`\"' ]{0,4}")
_RULE = re.compile(r"[\s|+:=─┼├┤│-]*")
_ROW_END = re.compile(r"\n|</tr>")
_PAIR = re.compile(
    r"(?m)^[ \t>*-]{0,6}[\w.+-]{1,64}@[\w-]{1,40}(?:\.[\w-]{2,24}){1,4}[ \t]?[:;|/,][ \t]?(?P<secret>\S{6,64})$"
)


def find_in_tables(text: str) -> Iterator[Span]:
    """Find the cells of a column `password` in a table: markdown's, a database shell's, an exported list's."""
    ended = 0
    for at in starts_of(HEADINGS, folded(text)):
        if at < ended:
            continue
        first = max(ended, at - LONGEST_LINE)
        start = max(text.rfind("\n", first, at), text.rfind("<tr", first, at), first - 1) + 1
        found = _ROW_END.search(text, at, at + LONGEST_LINE)
        ended = found.start() if found else at + LONGEST_LINE
        if found is None:
            continue
        for sign, cell in _CELLS:
            if text.find(sign, start, ended) >= 0 and (column := _column(text, start, ended, cell)) >= 0:
                spans, ended = _in_column(text, found.end(), cell, column)
                yield from spans
                break


def _column(text: str, start: int, end: int, cell: re.Pattern[str]) -> int:
    """Return the number of the column whose head names a password, -1 where the line is no head of a table."""
    cells = [found[0].strip() for found in cell.finditer(text, start, end)]
    if sum(map(bool, cells)) < 2:
        return -1
    return next((at for at, head in enumerate(cells) if _names_a_password(head)), -1)


def _names_a_password(head: str) -> bool:
    found = _HEADING.fullmatch(head)
    if found is None:
        return False
    words = words_of(found["name"])
    return len(words) < 5 and any(kind_of(word) in ("password", "pin") or word == "secret" for word in words)


def _in_column(text: str, position: int, cell: re.Pattern[str], column: int) -> tuple[list[Span], int]:
    """Return the passwords in a column, and where the table ends."""
    spans: list[Span] = []
    for _ in range(MOST_ROWS):
        found = _ROW_END.search(text, position, position + LONGEST_LINE)
        stop = found.start() if found else min(len(text), position + LONGEST_LINE)
        if _RULE.fullmatch(text, position, stop) is None:
            cells = list(cell.finditer(text, position, stop))
            if len(cells) <= max(column, 1):
                break
            value = cells[column][0].strip(" `*\"'\r\t\\")
            start = cells[column].start() + cells[column][0].index(value)
            spans.append((start, start + len(value), "password"))
        if found is None:
            break
        position = found.end()
    return _of_column(text, spans), position


def _of_column(text: str, cells: Sequence[Span]) -> list[Span]:
    """Return the cells of a column that are passwords: all but the empty ones, where one of them looks like one."""
    filled = [cell for cell in cells if _may_be_password(text[cell[0] : cell[1]])]
    return filled if any(_looks_like_one(text[start:end]) for start, end, _ in filled) else []


def _may_be_password(value: str) -> bool:
    return len(value) >= FEWEST_CHARS and not (is_placeholder(value) or is_filler(value))


def _looks_like_one(value: str) -> bool:
    return is_password(value, FEWEST_CHARS) or (any(map(str.isdigit, value)) and not any(map(str.isspace, value)))


def _is_listed_password(value: str) -> bool:
    return is_strong_password(value) or (is_password(value, 8) and any(map(str.isdigit, value)))


# ---- personal identifiers

_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w-])")
_CARD = re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
_PHONE = re.compile(
    r"(?<![\w.+/-])(?:\+|00)[1-9]\d{0,2}[ ./-]?(?:\(\d{1,5}\)[ ./-]?)?\d{1,5}(?:[ ./-]?\d{2,5}){1,5}(?![\w-])"
)
_LOCAL_PHONE = re.compile(r"(?<![\w.+/-])(?:\(\d{3}\) ?\d{3}-\d{4}|\d{3}-\d{3}-\d{4})(?![\w-])")
_CALLED = re.compile(
    r"(?i)(?:tel(?:efon|éfono)?|phone|mobile|mobil|cell|call|fax)\b[^\n\d+(]{0,20}(0[\d ()/-]{6,18}\d)(?![\w-])"
)
_PHONE_DIGITS = range(7, 16)  # ITU E.164: at most 15
_PUBLIC_ADDRESSES = ("example.com", "example.org", "example.net", "noreply.github.com", "noreply.anthropic.com")


def find_personal(text: str) -> Iterator[Span]:
    """Find addresses and numbers of people; card numbers and IBANs only if their checksums are right."""
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if not found[0].lower().endswith(_PUBLIC_ADDRESSES):
                yield *found.span(), "email"
    for found in _IBAN.finditer(text):
        if is_iban(found[0]):
            yield *found.span(), "iban"
    for found in _CARD.finditer(text):
        if is_card(found[0]):
            yield *found.span(), "card"
    for pattern in (_PHONE, _LOCAL_PHONE, _CALLED):
        for found in pattern.finditer(text):
            if sum(map(str.isdigit, found[0])) in _PHONE_DIGITS:
                yield *found.span(pattern.groups), "phone"


def is_card(text: str) -> bool:
    """Return True for 13 to 19 digits of a known network whose check digit is right (ISO/IEC 7812, Luhn)."""
    digits = [int(c) for c in text if c.isdigit()]
    if digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 2:
        return False
    doubled = [digit if n % 2 == 0 else digit * 2 - 9 * (digit > 4) for n, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Return True for an IBAN whose checksum is right (ISO 13616, modulo 97)."""
    plain = text.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


# ---- the table


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that finds one sort of secret.

    A text with one has one of `words` (lower-case) in it, and, where the rule has `marks`, one of these as it is
    written: a character or two that most texts lack, so that the words need not be looked for.
    """

    words: frozenset[str]
    find: Search
    marks: tuple[str, ...] = ()

    def may_find(self, lowered: str, words: Set[str], marks: Set[str]) -> bool:
        """Return True if a text may have one; `words` and `marks` are those of WORDS and MARKS that are in it."""
        if self.marks:
            return not marks.isdisjoint(self.marks) and has_any(lowered, self.words)
        return not words.isdisjoint(self.words)


RULES: Final = (
    # Keys are many lines long, and each line alone is only base64.
    Rule(frozenset(("private key", "static key")), key_forms.find_blocks, ("----",)),
    Rule(frozenset(("private-",)), key_forms.find_putty, ("Private-",)),
    Rule(frozenset("m"), key_forms.find_bodies, ("MII", "MC4C", "AgEAM", "MHcC", "b3BlbnNzaC1rZXktdjE")),
    # The place says that it is a password, whatever it looks like: between `user:` and `@host`.
    Rule(frozenset(("://",)), find_url_passwords),
    Rule(frozenset(("@tcp(", "@unix(")), _values_of("url", lambda value: not is_placeholder(value), _GO)),
    # Words of a sentence that say what follows.
    Rule(frozenset((*prose.PHRASE_NAMES, *prose.GROUPED_NAMES, *prose.PIN_NAMES)), prose.find_named),
    # Words of a dictionary: only their number and their name show that they are secret.
    Rule(
        frozenset(
            "seed mnemonic recovery backup scratch wallet semilla wiederherst récup recupera ersatz secours respaldo"
            " authenticator zapasowe codici reserve".split()
        ),
        prose.find_seed_phrases,
    ),
    Rule(frozenset(" "), prose.find_lone_seeds),
    # The letter of an option is a name that one program knows.
    Rule(frozenset((" -", "net use", "rabbitmqctl", "mc", "freerdp", "rdesktop")), find_options),
    # A pipe has no name beside it; the program behind it has.
    Rule(frozenset(("echo", "printf", "<<<")), _values_of("password", _is_typed, _PIPED, _HERE), ("|", "<<<")),
    # The format of a file or a prompt has a place for the password.
    Rule(frozenset((":54", ":64", ":*:")), _values_of("password", is_password, _PGPASS)),
    Rule(
        frozenset("assword requirepass auth_pass masterauth bindpw rootpw community".split()),
        _values_of("password", _is_no_stand_in, _DIRECTIVE),
    ),
    Rule(frozenset(("securestring",)), _values_of("password", _is_no_stand_in, _SECURE_STRING)),
    Rule(frozenset(("assword",)), _values_of("password", _is_no_stand_in, _ANSWERED)),
    Rule(frozenset(("thin:", "sqlplus", "connect ")), _values_of("password", _is_no_stand_in, _ORACLE)),
    # The name is lines above, at the head of the column.
    Rule(frozenset(HEADINGS), find_in_tables, ("|", "│", ",", ";", "\t", "  ", "</t")),
    Rule(frozenset("@"), _values_of("password", _is_listed_password, _PAIR), ("@",)),
    Rule(frozenset(("jwk", "kty")), _values_of(key_forms.PRIVATE_KEY, bool, key_forms.JWK), ('"',)),
    Rule(
        frozenset(("key", "secret", "pass", "pw", "seed", "solana", "wallet", "id.json")),
        key_forms.find_arrays,
        ("[", "{"),
    ),
)
# The words and marks looked for in every text, once for all rules: each takes 40 ns of a sentence, 1 µs of a page.
WORDS: Final = tuple(frozenset[str]().union(*(rule.words for rule in RULES if not rule.marks)))
MARKS: Final = tuple(frozenset[str]().union(*(rule.marks for rule in RULES)))


def find_by_rules(text: str, lowered: str) -> Iterator[Span]:
    """Yield the spans of the secrets that the rules find; `lowered` is the folded text."""
    words = {word for word in WORDS if word in lowered}
    marks = {mark for mark in MARKS if mark in text}
    for rule in RULES:
        if rule.may_find(lowered, words, marks):
            yield from rule.find(text)
