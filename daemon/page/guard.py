"""The door of the page: lets in the browser of the person who opened it, and no other program, site or name.

A page of this machine can be reached by whatever runs on it, and by every site that a browser shows. So a browser comes
in with a secret that is good once, and is known by a cookie afterwards that no other site's request carries; a request
under another name (DNS rebinding), from another origin, or with a long body is refused before anything reads it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from ...ipc.mcp.mcp_session import WireClient
from ...ipc.protocol import METHOD_NOT_FOUND, NOT_FOUND, Json, ProtocolError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Any]
Send = Callable[[MutableMapping[str, Any]], Any]
App = Callable[[Scope, Receive, Send], Any]

TOKEN_S = 60.0
MOST_TOKENS, MOST_BROWSERS = 16, 16
MOST_BODY_BYTES = 2**18

# The kernel's table of connections (proc(5)): addresses in hexadecimal, and the column of the user.
CONNECTIONS, LOOPBACK, UID = Path("/proc/net/tcp"), "0100007F", 7

# The requests that a page makes by itself: they do not keep it open.
PEER = "peer"
"""The part of a connection's state that is the user at its other end, None where that is not known."""

UNCOUNTED = frozenset({"/alive", "/dream"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("x-frame-options", "DENY"),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)
# A style and a script may be kept for as long as the page is open: at its next opening they have another address.
KEPT = "private, max-age=3600"
CLOSED = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Closed</title>
<h1>This door is closed</h1><p>{why}</p><p>The page opens with <code>dreamctl open</code>.</p></html>"""
# What another site's link starts carries no cookie of ours to the place of a redirect: a page of our own does.
ONWARD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Opening</title>
<meta http-equiv="refresh" content="0;url={at}"><p><a href="{at}">Go on</a></p></html>"""


class Guard:
    """An application in front of the page's own. `clock` is monotonic, in seconds."""

    def __init__(self, app: App, port: int, clock: Callable[[], float]) -> None:
        self.port = port
        self._app = app
        self._clock = clock
        self._name = f"127.0.0.1:{port}"
        self._origin = f"http://{self._name}"
        # Browsers send a cookie to every port of a host: the name tells two daemons apart.
        self._cookie = f"dreamd-{port}"
        self._tokens: dict[str, tuple[float, str]] = {}
        self._browsers: list[str] = []
        self._used_s = clock()

    def invite(self, at: str) -> str:
        """Return a secret that lets one browser in, at a place, within a minute."""
        while len(self._tokens) >= MOST_TOKENS:
            self._tokens.pop(next(iter(self._tokens)))
        token = secrets.token_urlsafe(32)
        self._tokens[token] = (self._clock() + TOKEN_S, at)
        self._used_s = self._clock()
        return token

    def idle_s(self) -> float:
        """Return the seconds since a person's last request."""
        return self._clock() - self._used_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            return
        headers = _headers(scope["headers"])
        if refused := self._refusal(scope, headers):
            await _answer(send, *refused)
        elif scope["path"] == "/" and b"token=" in scope["query_string"]:
            await self._let_in(scope, headers, send)
        elif not self._knows(headers):
            await _answer(send, 403, "This browser was not let in, or the page was closed meanwhile.")
        else:
            if scope["path"] not in UNCOUNTED:
                self._used_s = self._clock()
            await self._app(scope, _bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: dict[str, list[str]]) -> tuple[int, str] | None:
        """Return the status and the reason for which a request is refused unread."""
        method = scope["method"]
        known = scope.get("state", {})
        peer = known[PEER] if PEER in known else uid_of(scope.get("client"), self.port)
        if peer not in (None, 0, os.geteuid()):
            return 403, "This memory belongs to another user."
        if headers.get("host") != [self._name]:
            return 421, "The page has another name."
        if method not in ("GET", "HEAD", "POST"):
            return 405, "The page is read, and acted on, in no other way."
        site = (headers.get("sec-fetch-site") or ["same-origin"])[-1]
        origin = (headers.get("origin") or [""])[-1]
        is_ours = site in ("same-origin", "none")
        # A link that a person follows, from their digest or a terminal, may bring a browser in; nothing else may.
        is_link = method == "GET" and headers.get("sec-fetch-mode") == ["navigate"] and not origin
        if not is_ours and not is_link:
            return 403, "Another site has asked for it."
        # Browsers that are told to send no referrer post with the origin "null", also to the page's own.
        if origin not in ("", self._origin) and not (origin == "null" and site == "same-origin" and method == "POST"):
            return 403, "Another site has asked for it."
        if method == "POST" and not origin:
            return 403, "It does not say where it comes from."
        if method == "POST" and origin == "null" and "sec-fetch-site" not in headers:
            return 403, "It does not say where it comes from."
        length = (headers.get("content-length") or ["0"])[-1]
        if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BODY_BYTES:
            return 413, "That is too long."
        return None

    async def _let_in(self, scope: Scope, headers: dict[str, list[str]], send: Send) -> None:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        until_s, at = self._tokens.pop(given, (0.0, "/"))
        if scope["method"] != "GET" or self._clock() >= until_s:
            await _answer(send, 403, "This address was used before, or is older than a minute.")
            return
        name = secrets.token_urlsafe(32)
        self._browsers = [*self._browsers[1 - MOST_BROWSERS :], name]
        self._used_s = self._clock()
        cookie = ("set-cookie", f"{self._cookie}={name}; HttpOnly; SameSite=Strict; Path=/")
        if headers.get("sec-fetch-site") in (["cross-site"], ["same-site"]):
            quoted = at.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
            await _send_page(send, 200, ONWARD.format(at=quoted), [cookie])
        else:
            await _send_page(send, 303, "", [cookie, ("location", at)])

    def _knows(self, headers: dict[str, list[str]]) -> bool:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load("; ".join(headers.get("cookie", ())))
        except CookieError:
            return False
        given = jar[self._cookie].value if self._cookie in jar else ""
        return any(secrets.compare_digest(given.encode(), name.encode()) for name in self._browsers)


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return found


def uid_of(client: Any, port: int, table: Path = CONNECTIONS) -> int | None:
    """Return the user at the other end of a connection of this machine, as Linux tells it; None where it does not."""
    if client is None:
        return None
    ends = tuple(f"{LOOPBACK}:{number:04X}" for number in (client[1], port))
    try:
        rows = table.read_text(encoding="ascii").splitlines()[1:]
    except (OSError, ValueError):
        return None
    found = (fields for row in rows if len(fields := row.split()) > UID and (fields[1], fields[2]) == ends)
    return next((int(fields[UID]) for fields in found), None)


def _bounded(receive: Receive) -> Receive:
    """Return the reader of a body that ends at its bound, whatever the request said of its length."""
    left_bytes = MOST_BODY_BYTES

    async def read() -> Any:
        nonlocal left_bytes
        message = await receive()
        left_bytes -= len(message.get("body", b""))
        return message if left_bytes >= 0 else {"type": "http.disconnect"}

    return read


def _with_headers(send: Send) -> Send:
    ours = [(name.encode(), value.encode()) for name, value in HEADERS]
    names = {name for name, _ in ours}

    async def write(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
            is_kept = (b"cache-control", KEPT.encode()) in message.get("headers", ())
            more = [(name, KEPT.encode() if is_kept and name == b"cache-control" else value) for name, value in ours]
            message["headers"] = [*given, *more]
        await send(message)

    return write


async def _answer(send: Send, status: int, why: str) -> None:
    await _send_page(send, status, CLOSED.format(why=why))


async def _send_page(send: Send, status: int, text: str, headers: Iterable[tuple[str, str]] = ()) -> None:
    body = text.encode()
    sent = [("content-type", "text/html; charset=utf-8"), ("content-length", str(len(body))), *headers]
    write = _with_headers(send)
    await write(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in sent],
        }
    )
    await write({"type": "http.response.body", "body": body})


# ---- what was let in

MOST_KNOWN = 256
"""Answers that are kept for `lately`."""


@dataclass(frozen=True)
class PageRequest:
    """A request of the page: its words, and the way to the daemon's methods."""

    wire: WireClient
    known: dict[str, tuple[float, Json]]
    words: Mapping[str, str]
    lists: Mapping[str, list[str]] = field(default_factory=dict)

    async def call(self, method: str, **params: Any) -> Json:
        """Return a method's result, without the parameters that are None. Raises ProtocolError."""
        return await self.wire.call(method, {name: value for name, value in params.items() if value is not None})

    async def call_if_any(self, method: str, **params: Any) -> Json | None:
        """Return a method's result; None where it found nothing, or is none of this daemon's."""
        try:
            return await self.call(method, **params)
        except ProtocolError as error:
            if error.code in (NOT_FOUND, METHOD_NOT_FOUND):
                return None
            raise

    async def lately(self, within_s: float, method: str, **params: Any) -> Json:
        """Return a method's result that is at most so old: for lists that hardly change between two looks."""
        key = json.dumps([method, params], sort_keys=True)
        at_s, result = self.known.get(key, (float("-inf"), {}))
        if time.monotonic() - at_s > within_s:
            result = await self.call(method, **params)
            while len(self.known) >= MOST_KNOWN:
                self.known.pop(next(iter(self.known)))
            self.known[key] = (time.monotonic(), result)
        return result

    def word(self, name: str, default: str = "") -> str:
        """Return a word of the address or the form."""
        return self.words.get(name, default)

    def whole(self, name: str, least: int = 0, most: int = 2**31) -> int:
        """Return a whole number of the address, brought within its bounds."""
        given = self.word(name)
        return min(max(int(given), least), most) if re.fullmatch(r"\d{1,10}", given) else least


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """Return the results of calls that are made at once, in their order."""
    return list(await asyncio.gather(*calls))
