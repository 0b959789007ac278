"""One real daemon with a small memory for a file of tests, and a door to its page without a browser."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest


@dataclass
class Visitor:
    """A browser as far as HTTP goes: it has a cookie, says where it comes from, and follows nothing."""

    daemon: DaemonUnderTest
    port: int = 0
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def enter(self, at: str = "/") -> http.client.HTTPResponse:
        """Come in with a fresh address."""
        url = urlsplit(self.daemon.call("page_open", at=at)["url"])
        self.port = url.port or 0
        answer = self.ask("GET", f"{url.path}?{url.query}")
        self.cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        return answer

    def ask(
        self, method: str, path: str, headers: Mapping[str, str | None] | None = None, body: bytes | None = None
    ) -> http.client.HTTPResponse:
        """Return the answer to a request; a header that is None is left out."""
        given = {"Host": f"127.0.0.1:{self.port}", "Cookie": self.cookie, **self.headers, **(headers or {})}
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            wire.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value:
                    wire.putheader(name, value)
            if body is not None and not any(name.lower() in ("content-length", "transfer-encoding") for name in given):
                wire.putheader("Content-Length", str(len(body)))
            wire.endheaders(body)
            answer = wire.getresponse()
            answer.text = answer.read().decode()  # type: ignore[attr-defined]
        finally:
            wire.close()
        return answer

    def text(self, path: str) -> str:
        """Return a page."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (path, answer.status)
        return answer.text  # type: ignore[attr-defined,no-any-return]

    def post(
        self, path: str, headers: Mapping[str, str | None] | None = None, **fields: str
    ) -> http.client.HTTPResponse:
        """Send a form from the page's own origin, unless the headers say otherwise."""
        form = {
            "Origin": f"http://127.0.0.1:{self.port}",
            "Sec-Fetch-Site": "same-origin",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return self.ask("POST", path, {**form, **(headers or {})}, urlencode(fields).encode())


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonUnderTest]:
    """Give a daemon to a whole file."""
    folder = tmp_path_factory.mktemp("page")
    with DaemonUnderTest(folder, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as one:
        yield one


@pytest.fixture(scope="module")
def visitor(daemon: DaemonUnderTest) -> Visitor:
    """Give a visitor that is in."""
    one = Visitor(daemon)
    one.enter()
    return one
