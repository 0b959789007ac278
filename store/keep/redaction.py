"""Secrets out of what people paste, before it is kept.

Most texts hold none: a few substring searches say so. Only then do the rules run whose own words were seen. Every
pattern is bounded, or eats what it has looked at, so the time is linear in the text whatever it holds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

REDACTED = "[redacted:"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the kind of each that was found."""

    text: str
    found: tuple[str, ...] = ()


Finder = Callable[[str], Iterator[tuple[int, int, str]]]
"""Yields where secrets are, from left to right, and their kind."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that finds one sort of secret.

    Every text that holds one has one of `words` (lower-case) in it, and one of `marks` as it stands: a character or two
    that most texts lack and that is found ten times faster than a word.
    """

    marks: tuple[str, ...]
    words: tuple[str, ...]
    find: Finder


def redact(text: str) -> Redacted:
    """Replace secrets by `[redacted:KIND]`; what stands around them, and their names, stay."""
    due = _due(text)
    if not due:
        return Redacted(text)
    found: list[str] = []
    for rule in due:
        pieces: list[str] = []
        position = 0
        for start, end, kind in rule.find(text):
            pieces += (text[position:start], REDACTED, kind, "]")
            position = end
            found.append(kind)
        if pieces:
            text = "".join((*pieces, text[position:]))
    return Redacted(text, tuple(found))


def _due(text: str) -> list[Rule]:
    """Return the rules whose words occur, in the order of the table."""
    lowered = text.lower()
    due: list[Rule] = []
    for marks, rules in _RULES_BY_MARKS:
        for mark in marks:
            if mark in text:
                due += [rule for rule in rules if _has_any(lowered, rule.words)]
                break
    return due if len(due) < 2 else sorted(due, key=RULES.index)


def _has_any(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator for `any` takes twice the time
        if word in text:
            return True
    return False


# --- what the issuers of keys have given a shape of its own


def _shaped(kind: str, pattern: str, accept: Callable[[str], bool] | None = None) -> Finder:
    """Find a pattern that stands alone; its group `secret`, where it has one, is what goes."""
    compiled = re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})")
    group = "secret" if "secret" in compiled.groupindex else 0

    def find(text: str) -> Iterator[tuple[int, int, str]]:
        for found in compiled.finditer(text):
            if accept is None or accept(found[group]):
                yield *found.span(group), kind

    return find


def _has_digit_and_letter(value: str) -> bool:
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_BETWEEN_LINES = r"[\s\"'\\,>|]{0,40}"
_KEY_LINES = re.compile(
    rf"(?:{_BETWEEN_LINES}(?:(?:Proc-Type|DEK-Info|Version|Comment|Hash): [^\n]{{1,100}}\n|[A-Za-z0-9+/=]{{24,}}))+"
)
_KEY_END = re.compile(rf"(?:{_BETWEEN_LINES}[A-Za-z0-9+/=]{{1,76}})?{_BETWEEN_LINES}-----END [A-Z0-9 ]{{0,40}}-----")


def _find_private_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """PEM blocks; one that was pasted without its end goes as far as its lines look like a key's."""
    position = 0
    while (begin := _PRIVATE_KEY.search(text, position)) is not None:
        position = begin.end()
        lines = _KEY_LINES.match(text, position)
        if lines is not None:
            end = _KEY_END.match(text, lines.end())
            position = lines.end() if end is None else end.end()
            yield begin.start(), position, "private-key"


# --- what only its name or its place betrays

_PLACEHOLDER = re.compile(
    r"(?i)(?:\[redacted|[$<{%*#(\[@&\\]|x{3,}|\.{3}|your|my[_-]|some[_-]|example|sample|dummy|fake|placeholder|replace|"
    r"insert|change[_-]?me|todo|redacted|(?:none|null|nil|true|false|undefined|string|str|text|bytes|required|optional|"
    r"password|passwd|passphrase|pwd|pass|passw|secret|token|hidden|empty|test|user|username|foo|bar|process|"
    r"os|env|self|this|config|settings|args|options|params|input|props|state|request|req|data|form|body)"
    r"(?:[^A-Za-z0-9]|\Z))"
)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HEX = re.compile(r"(?:0x|sha\d*[-:])?[0-9A-Fa-f]+")
_SEPARATED = re.compile(r"[^A-Za-z0-9]+")
_WORD = re.compile(r"[A-Za-z]{1,24}\d{0,3}|\d{1,4}|(?:[A-Z]?[a-z]+){1,5}\d{0,3}")
_TOKEN_CHARACTERS = re.compile(r"[A-Za-z0-9+/=_.~:%-]+")
_REST = re.compile(r"[^\s\"'`,;<>(){}\[\]&]*")
_MIN_TOKEN = 16
_MIN_ENTROPY_BITS = 3.0  # a character; English words have about 2.5 at such lengths, random base64 above 3.5

_ASSIGNED = re.compile(
    r"(?i)(?<!\[redacted:)(?P<flag>--)?"
    r"(?P<name>pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key"
    r"|encryption[_-]?key|signing[_-]?key|account[_-]?key|credentials?)"
    r"(?P<suffix>[a-z0-9_-]{0,32})[\"'`\\]{0,3}\]?[ \t]{0,3}(?P<op>:=|=>|==?|:|(?<=[a-z])[ \t])(?P<gap>[ \t]{0,3})"
    r"(?:\\?(?P<quote>[\"'`])(?P<quoted>[^\"'`\n]{4,256}?)\\?(?P=quote)|(?P<bare>[^\s\"'`,;<>(){}\[\]&]{4,256}))"
)
_SAID = re.compile(
    r"(?i)\b(?:pass(?:word|wd|phrase|code)|pwd)[ \t]{1,3}(?:is|was|to)[ \t]{1,3}[\"'`]?(?P<secret>[^\s\"'`]{6,64})"
)
_STRONG_NAME = re.compile(r"(?i)secret|api[_-]?key|access|private|auth|encryption|signing|account")
_URL = re.compile(r"://[^\s/:@\"'<>]{0,64}:(?P<secret>[^\s/@\"'<>]{2,256})@")
_BEARER = re.compile(r"(?i)(?<![a-z])(?P<scheme>bearer|basic|token)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/=_.~-]{8,})")


def _find_url_passwords(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _URL.finditer(text):
        if not _PLACEHOLDER.match(found["secret"]):
            yield *found.span("secret"), "url"


def _find_bearers(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _BEARER.finditer(text):
        value = found["secret"]
        named = "authorization" in text[max(0, found.start() - 24) : found.start()].lower()
        plausible = _has_digit_and_letter(value) or len(value) >= _MIN_TOKEN
        sure = found["scheme"].lower() == "bearer" and _is_random(value, strong=True)
        if sure or (named and plausible and not _PLACEHOLDER.match(value)):
            yield *found.span("secret"), "bearer"


def _find_said(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _SAID.finditer(text):
        value = found["secret"].rstrip(".,;:!?)")
        if len(value) >= 6 and _has_digit_and_letter(value) and not _is_wordy(value) and not _PLACEHOLDER.match(value):
            yield found.start("secret"), found.start("secret") + len(value), "password"


def _find_assigned(text: str) -> Iterator[tuple[int, int, str]]:
    position = 0
    while (found := _ASSIGNED.search(text, position)) is not None:
        is_password = found["name"].lower().startswith(("pass", "pwd"))
        quoted = found["quoted"] is not None
        start, end = found.span("quoted" if quoted else "bare")
        position = start
        if found["op"].isspace() and not found["flag"]:
            continue
        if not quoted:
            end = start + len(text[start:end].rstrip(".:!?"))
            if text[end : end + 1] in ("(", "[", "{"):
                continue
        value = text[start:end]
        if _PLACEHOLDER.match(value):
            continue
        if _is_password(value, found, quoted=quoted) if is_password else _is_token(value, found):
            if not quoted and (rest := _REST.match(text, end)) is not None and rest.end() - end > 3:
                end = rest.end()
            yield start, end, "password" if is_password else "token"
            position = end


def _is_password(value: str, found: re.Match[str], *, quoted: bool) -> bool:
    if any(c.isspace() for c in value):
        return found["name"].lower() == "passphrase" and len(value) >= 12
    if quoted:
        return _classes(value) > 1 and not _is_reference(value)
    if (found["suffix"] and found["op"] == ":") or _is_wordy(value):
        return False
    tight = found["op"] == "=" and not found["gap"]
    return len(value) >= (4 if tight else 6) and _has_digit_and_letter(value) and not _is_reference(value)


def _is_token(value: str, found: re.Match[str]) -> bool:
    return _is_random(value, strong=_STRONG_NAME.search(found["name"] + found["suffix"]) is not None)


def _is_random(value: str, *, strong: bool) -> bool:
    """Return True if a value looks machine-made; `strong`: its name means a secret, so that a hash counts too."""
    if len(value) < _MIN_TOKEN or not _TOKEN_CHARACTERS.fullmatch(value) or not _has_digit_and_letter(value):
        return False
    if _UUID.search(value) or (_HEX.fullmatch(value) and not strong) or _is_wordy(value):
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= _MIN_ENTROPY_BITS


def _is_wordy(value: str) -> bool:
    """Return True if a value is a name, a path or words joined by marks, and not random."""
    parts = [part for part in _SEPARATED.split(value) if part]
    return len(parts) > 1 and all(_WORD.fullmatch(part) for part in parts)


def _is_reference(value: str) -> bool:
    """Return True if a value is code that names the secret: a variable, an attribute, a call, a template."""
    return (
        re.fullmatch(r"[A-Za-z_]\w*(?:(?:\.|->|::)\w+)+(?:\(.*)?|[A-Za-z]+(?:_[A-Za-z]+)+|\$.*|.*\{.*\}.*", value)
        is not None
    )


def _classes(value: str) -> int:
    return sum(
        (
            any(c.islower() for c in value),
            any(c.isupper() for c in value[1:]),
            any(c.isdigit() for c in value),
            any(not c.isalnum() for c in value),
        )
    )


# The shapes are those that the issuers publish (and gitleaks collects); the words are their fixed parts.
RULES: tuple[Rule, ...] = (
    Rule(("-----",), ("private key",), _find_private_keys),
    Rule(("IA",), ("akia", "asia"), _shaped("aws", r"A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])")),
    Rule(("_",), ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _shaped("github", r"gh[pousr]_[A-Za-z0-9]{36,}")),
    Rule(("_",), ("github_pat_",), _shaped("github", r"github_pat_[A-Za-z0-9_]{22,}")),
    Rule(("-",), ("glpat-",), _shaped("gitlab", r"glpat-[A-Za-z0-9_-]{20,}")),
    Rule(("-",), ("sk-ant-",), _shaped("anthropic", r"sk-ant-[A-Za-z0-9_-]{20,}", _has_digit_and_letter)),
    Rule(("-",), ("sk-",), _shaped("openai", r"sk-[A-Za-z0-9_-]{20,}", lambda key: _is_random(key[3:], strong=True))),
    Rule(("-",), ("xox",), _shaped("slack", r"xox[abeprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}", _has_digit_and_letter)),
    Rule(("-",), ("xapp-",), _shaped("slack", r"xapp-\d-[A-Za-z0-9-]{10,}")),
    Rule(("/",), ("hooks.slack.com",), _shaped("slack", r"hooks\.slack\.com/services/(?P<secret>\w+/\w+/\w{16,})")),
    Rule(("AI",), ("aiza",), _shaped("google", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    Rule(("29.",), ("ya29.",), _shaped("google", r"ya29\.[A-Za-z0-9_-]{20,}")),
    Rule(("-",), ("gocspx-",), _shaped("google", r"GOCSPX-[A-Za-z0-9_-]{20,}")),
    Rule(("_",), ("k_live_", "k_test_"), _shaped("stripe", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}")),
    Rule(("_",), ("whsec_",), _shaped("stripe", r"whsec_[A-Za-z0-9+/=]{20,}")),
    Rule(("_",), ("hf_",), _shaped("huggingface", r"hf_[A-Za-z0-9]{30,}")),
    Rule(("_",), ("npm_",), _shaped("npm", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])")),
    Rule(("-",), ("pypi-",), _shaped("pypi", r"pypi-[A-Za-z0-9_-]{50,}")),
    Rule(("SG.",), ("sg.",), _shaped("sendgrid", r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")),
    Rule(("-",), ("age-secret-key-",), _shaped("age", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}")),
    Rule(("eyJ",), ("eyj",), _shaped("jwt", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}")),
    Rule(("://",), ("@",), _find_url_passwords),
    Rule((" ",), ("bearer", "authorization"), _find_bearers),
    Rule((" ",), ("passw", "passphrase", "passcode", "pwd"), _find_said),
    Rule(("=", ":", "--"), ("passw", "passphrase", "pwd", "secret", "token", "key", "credential"), _find_assigned),
)

_RULES_BY_MARKS = tuple(
    (marks, tuple(rule for rule in RULES if rule.marks == marks))
    for marks in dict.fromkeys(rule.marks for rule in RULES)
)
