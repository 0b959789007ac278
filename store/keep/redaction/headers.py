"""Passwords in URLs and headers: `scheme://user:X@host`, `Authorization: Bearer X`, cookies."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from .judging import FEWEST_BITS, entropy, is_placeholder, is_random, is_uuid, is_wordy, is_wordy_without_numbers
from .prefilter import folded, matches_at, starts_of
from .shapes import Span

_URL = re.compile(r"://(?:[^\s/:@\"'<>]{0,64}:)?(?P<secret>[^\s/:\"'<>][^\s/\"'<>]{1,255})@(?P<host>[\w.-]?)")
_BEARER = re.compile(r"(?i)(?<![a-z])(?P<scheme>bearer|basic|token)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/=_.~-]{8,2048})")
_SCHEME = re.compile(
    r"(?i)authorization[\"']?[ \t]{0,3}[:=,][ \t]{0,3}[\"']?(?:[a-z][\w-]{1,24}[ \t]{1,3})?"
    r"(?P<secret>[A-Za-z0-9+/=_.~-]{16,2048})"
)
_QUERY = re.compile(
    r"(?i)[?&;](?:x-amz-|x-goog-|x-oss-)?(?:sig|signature|appid|app_?key|hmac|[\w.-]{0,24}(?:token|key|secret|code|ticket|tkn|auth|sid|session)"
    r"|data|samlresponse)=(?P<secret>[A-Za-z0-9%+/=_.~-]{11,4096})"
)
_IN_PATH = re.compile(
    r"(?i)/(?:bot(?=\d)|private-|hooks?/|reset[\w-]{0,16}/|magic[\w-]{0,10}/|invite/|verify[\w-]{0,12}/|confirm[\w-]{0,12}/|login/|live2/|api/|services/|webhooks?/)"
    r"(?:[\w.-]{1,24}/){0,3}?(?P<secret>[A-Za-z0-9_:~.-]{20,256})(?![A-Za-z0-9])"
)
_GO = re.compile(r"(?P<user>[\w.-]{1,60}):(?P<secret>[^\s\"'`]{4,128})@(?:tcp|unix)\(")
_LOGGED_IN = re.compile(r"(?i)(?:sess(?:ion)?(?:id)?|sid|remember)[\w.-]{0,24}=(?P<secret>[A-Za-z0-9%._~+/-]{16,1024})")
_FILE = re.compile(r"\.[a-z]{1,5}$")
_JAR = re.compile(r"(?:(?<=\s)-b|--cookie)[ =][\"']?(?P<cookies>[^\n\"']{16,4096})")
_CODED_PAIR = re.compile(
    r"(?i)auth[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?(?P<secret>[A-Za-z0-9+/]{8,512}={0,2})"
    r"|_password[ \t]{0,3}=[ \t]{0,3}[\"']?(?P<coded>[A-Za-z0-9+/]{8,512}={0,2})"
)
_PAIR = re.compile(rb"[\x21-\x39\x3b-\x7e]{1,80}:[\x20-\x7e]{4,200}")
_COOKIE = re.compile(r"(?i)\bcookie: ?(?P<cookies>[^\n\"']{16,4096})")
_OF_COOKIE = re.compile(r"=([A-Za-z0-9%._~+/-]{16,1024})")
_COOKIE_DICT = re.compile(r"(?i)\bcookies?[\"']?\]?[ \t]{0,3}[:=(][ \t]{0,3}(?:dict\()?\{(?P<cookies>[^{}\n]{16,4096})")
_OF_COOKIE_DICT = re.compile(r"[\"']([A-Za-z0-9%._~+/-]{16,1024})[\"']")


def find_url_passwords(text: str) -> Iterator[Span]:
    """Find `scheme://user:X@host`, and the signatures and keys of a query that are not named so."""
    for found in _URL.finditer(text):
        is_alone = text[found.start("secret") - 1] == "/"
        if text.startswith(".ingest", found.end() + 1) or "sentry" in text[found.end() : found.end() + 40]:
            continue  # the public half of an address to report errors to
        if is_random(found["secret"]) if is_alone else not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"
    for found in _QUERY.finditer(text):
        if is_random(found["secret"]) or _is_drawn(found["secret"]):
            yield *found.span("secret"), "url"
    for found in _IN_PATH.finditer(text):
        if _is_drawn(found["secret"]) and not is_uuid(found["secret"]) and not _FILE.search(found["secret"]):
            yield *found.span("secret"), "url"


def _is_drawn(value: str) -> bool:
    """Return True for what is no word, has letters and digits, and varies as drawn values do."""
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return has_both and not is_placeholder(value) and not is_wordy(value) and entropy(value) >= FEWEST_BITS


def find_go_passwords(text: str) -> Iterator[Span]:
    """Find `user:X@tcp(host)`."""
    for found in _GO.finditer(text):
        if not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"


def find_headers(text: str) -> Iterator[Span]:
    """Find what `Authorization`, `Cookie` and `auth` carry."""
    for found in _BEARER.finditer(text):
        value = found["secret"]
        named = "authorization" in text[max(0, found.start() - 24) : found.start()].lower()
        has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        sure = found["scheme"].lower() == "bearer" and is_random(value)
        if sure or (named and (has_both or len(value) >= 16) and not is_placeholder(value)):
            yield *found.span("secret"), "bearer"
    for found in _SCHEME.finditer(text):
        if is_random(found["secret"]) and not is_placeholder(found["secret"]):
            yield *found.span("secret"), "bearer"
    for cookies, of_cookies in ((_COOKIE, _OF_COOKIE), (_COOKIE_DICT, _OF_COOKIE_DICT)):
        for found in cookies.finditer(text):
            for value in of_cookies.finditer(text, *found.span("cookies")):
                if is_random(value[1]):
                    yield *value.span(1), "cookie"


def find_logins(text: str) -> Iterator[Span]:
    """Find what a cookie for a login holds, and the cookies of a command."""
    for found in matches_at(starts_of(("sess", "sid", "remember"), folded(text)), _LOGGED_IN, text):
        value = found["secret"]
        if is_random(value) and not is_uuid(value) and not is_wordy_without_numbers(value):
            yield *found.span("secret"), "cookie"
    for found in _JAR.finditer(text) if "curl" in text or "cookie" in text else ():
        for value in _OF_COOKIE.finditer(text, *found.span("cookies")):
            if is_random(value[1]):
                yield *value.span(1), "cookie"


def find_coded_pairs(text: str) -> Iterator[Span]:
    """Find `user:password` in base64, as registries' settings keep it."""
    for found in _CODED_PAIR.finditer(text):
        group = "secret" if found["secret"] is not None else "coded"
        value = found[group]
        try:
            decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
        except binascii.Error:
            continue
        if _PAIR.fullmatch(decoded) or (group == "coded" and decoded.isascii() and len(decoded) > 3):
            yield *found.span(group), "basic"
