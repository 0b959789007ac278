"""Passwords in URLs and headers: `scheme://user:X@host`, `Authorization: Bearer X`, cookies."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from .judging import is_placeholder, is_random
from .shapes import Span

_URL = re.compile(r"://(?:[^\s/:@\"'<>]{0,64}:)?(?P<secret>[^\s/:@\"'<>][^\s/@\"'<>]{1,255})@(?P<host>[\w.-]?)")
_BEARER = re.compile(r"(?i)(?<![a-z])(?P<scheme>bearer|basic|token)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/=_.~-]{8,2048})")
_SCHEME = re.compile(
    r"(?i)authorization[\"']?[ \t]{0,3}[:=,][ \t]{0,3}[\"']?(?:[a-z][\w-]{1,24}[ \t]{1,3})?"
    r"(?P<secret>[A-Za-z0-9+/=_.~-]{16,2048})"
)
_QUERY = re.compile(
    r"(?i)[?&;](?:x-amz-|x-goog-|x-oss-)?(?:sig|signature|appid|app_?key|hmac|security-token)=(?P<secret>[A-Za-z0-9%+/=_.~-]{16,2048})"
)
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
        if is_random(found["secret"]) if is_alone else not is_placeholder(found["secret"]):
            yield *found.span("secret"), "url"
    for found in _QUERY.finditer(text):
        if is_random(found["secret"]):
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
