"""The door of the page: who is let in, and what is refused before anything reads it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from dreamd.daemon.page import guard
from dreamd.daemon.page.guard import Guard
from dreamd.daemon.page.opening import OpenParams, WebPage
from dreamd.ipc.call import Call
from dreamd.ipc.protocol import Refused
from dreamd.ipc.server.server import Server
from pydantic import ValidationError

from tests.attacks import ATTACKS
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.bench.daemon_under_test import Refused as Answered
from tests.daemon.page.conftest import Visitor

PLACES: tuple[str, ...] = (
    "/",
    "/search?q=port",
    "/projects",
    "/timeline",
    "/memories",
    "/sessions",
    "/review",
    "/runs",
    "/told",
)
PLACES += ("/purge", "/health", "/static/page.css", "/static/page.js", "/alive", "/nowhere", "/do/forget")


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"Cache-Control", b"public")]})
    await send({"type": "http.response.body", "body": b"in"})


def asked(door: Guard, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str]]:
    """Return the status and the headers of the guard's answer, without a socket."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    given = {"host": "127.0.0.1:80"} | {name.replace("_", "-"): value for name, value in headers.items()}
    place, _, query = path.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": place,
        "query_string": query.encode(),
        "client": None,
    }
    scope["headers"] = [(name.encode(), value.encode()) for name, value in given.items()]
    asyncio.run(door(scope, receive, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def cookie_of(door: Guard) -> str:
    status, headers = asked(door, f"/?token={door.invite('/')}")
    assert status == 303
    return headers["set-cookie"].partition(";")[0]


# ---- who comes in


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_browser_that_was_not_let_in_sees_nothing(visitor: Visitor, place: str, method: str) -> None:
    for cookie in ("", "dreamd-1=x", f"dreamd-{visitor.port}=", f"dreamd-{visitor.port}={'x' * 43}", '"'):
        own = {"Cookie": cookie, "Origin": f"http://127.0.0.1:{visitor.port}"}
        answer = visitor.ask(method, place, own, b"" if method == "POST" else None)
        assert answer.status == 403
        assert "dreamctl open" in answer.text  # type: ignore[attr-defined]


def test_an_address_lets_one_browser_in_once_and_is_clean_afterwards(daemon: DaemonUnderTest) -> None:
    one = Visitor(daemon)
    answer = one.enter("/review")
    assert (answer.status, answer.getheader("location")) == (303, "/review")
    given = answer.getheader("set-cookie") or ""
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in given.split(";")}
    assert "Expires" not in given
    url = daemon.call("page_open")["url"].partition("/?")[2]
    assert one.ask("GET", f"/?{url}").status == 303
    again = one.ask("GET", f"/?{url}", {"Cookie": None})
    assert (again.status, again.getheader("set-cookie")) == (403, None)


@pytest.mark.parametrize("token", ["", "x", "x" * 43, "%00", "&token=", "x&token=y"])
def test_a_token_that_was_never_given_lets_nobody_in(visitor: Visitor, token: str) -> None:
    answer = visitor.ask("GET", f"/?token={token}", {"Cookie": None})
    assert (answer.status, answer.getheader("set-cookie")) == (403, None)


def test_an_address_is_good_for_a_minute() -> None:
    clock = Clock()
    door = Guard(inner, 80, clock)
    early, late = door.invite("/"), door.invite("/")
    clock.now_s += 59
    assert asked(door, f"/?token={early}")[0] == 303
    clock.now_s += 1
    assert asked(door, f"/?token={late}")[0] == 403


def test_only_so_many_addresses_and_browsers_are_known_and_the_oldest_goes() -> None:
    door = Guard(inner, 80, Clock())
    first = door.invite("/")
    for _ in range(guard.MOST_TOKENS):
        door.invite("/")
    assert asked(door, f"/?token={first}")[0] == 403
    old = cookie_of(door)
    new = [cookie_of(door) for _ in range(guard.MOST_BROWSERS)][-1]
    assert asked(door, "/", cookie=old)[0] == 403
    assert asked(door, "/", cookie=new)[0] == 200


def test_a_link_of_another_page_brings_a_browser_in_by_a_page_of_our_own() -> None:
    # A browser sends no strict cookie to a redirect that another site's link began.
    door = Guard(inner, 80, Clock())
    at = '/review?x="><script>'.replace("<", "%3C")
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    status, headers = asked(door, f"/?token={door.invite(at)}", **link)
    assert status == 200
    assert "set-cookie" in headers
    assert "location" not in headers


@pytest.mark.parametrize("at", ["//evil.example/", "/\\evil.example", "https://evil.example", "", "/a b", "/\n"])
def test_no_address_leads_elsewhere(at: str) -> None:
    with pytest.raises(ValidationError):
        OpenParams(at=at)


@pytest.mark.parametrize("back", ["//evil.example/", "/\\evil.example", "https://evil.example", "javascript:x", "/ x"])
def test_no_act_leads_elsewhere(visitor: Visitor, back: str) -> None:
    answer = visitor.post("/do/learning", on="1", back=back)
    assert answer.status == 303
    assert re.fullmatch(r"/\?said=[\w-]+", answer.getheader("location") or "")


def test_another_user_of_the_machine_is_refused(tmp_path: Path) -> None:
    row = "  0: 0100007F:{:04X} 0100007F:{:04X} 01 00000000:00000000 00:00000000 00000000 {:5} 0 1 1 x 20 4 0 10 -1\n"
    table = tmp_path / "tcp"
    table.write_text("head\n" + row.format(80, 4000, 0) + row.format(4000, 80, 1234) + row.format(4001, 80, 0))
    assert guard.uid_of(("127.0.0.1", 4000), 80, table) == 1234
    assert guard.uid_of(("127.0.0.1", 4001), 80, table) == 0
    assert guard.uid_of(("127.0.0.1", 4002), 80, table) is None
    assert guard.uid_of(("127.0.0.1", 4000), 80, tmp_path / "none") is None


# ---- from where


@pytest.mark.parametrize(
    "host", ["localhost:{}", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "[::1]:{}", "127.0.0.1.evil.example:{}", ""]
)
def test_another_name_is_refused(visitor: Visitor, host: str) -> None:
    answer = visitor.ask("GET", "/", {"Host": host.format(visitor.port)})
    assert answer.status in (400, 421)


ORIGINS = ("http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:{}", "https://127.0.0.1:{}")


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_origin_is_refused(visitor: Visitor, origin: str, method: str) -> None:
    headers = {"Origin": origin.format(visitor.port), "Sec-Fetch-Site": None}
    assert visitor.ask(method, "/do/learning", headers, b"on=0").status == 403
    assert visitor.daemon.call("status")["paused"] is False


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_makes_the_browser_ask_is_refused(visitor: Visitor, site: str) -> None:
    for mode in ("no-cors", "cors", "same-origin", None):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
        assert visitor.ask("GET", "/memories", headers).status == 403
    for origin in (None, "null", f"http://127.0.0.1:{visitor.port}"):
        assert visitor.post("/do/learning", {"Origin": origin, "Sec-Fetch-Site": site}, on="0").status == 403
    assert visitor.daemon.call("status")["paused"] is False


def test_a_post_says_where_it_comes_from(visitor: Visitor) -> None:
    for headers in (
        {"Origin": None},
        {"Origin": None, "Sec-Fetch-Site": None},
        {"Origin": "null", "Sec-Fetch-Site": None},
    ):
        assert visitor.post("/do/learning", dict(headers), on="0").status == 403
    # A browser that sends no referrer says "null" of the page itself, and beside it that the page is the same.
    assert visitor.post("/do/learning", {"Origin": "null"}, on="1").status == 303


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"])
def test_other_methods_are_refused(visitor: Visitor, method: str) -> None:
    assert visitor.ask(method, "/").status in (400, 405)


def test_an_act_is_done_by_a_post_alone(visitor: Visitor) -> None:
    for name in ("learning", "forget", "purge", "undo", "edit"):
        assert visitor.ask("GET", f"/do/{name}?on=0&node_id=x&sure=yes").status == 405
    assert visitor.daemon.call("status")["paused"] is False


# ---- what is asked


TRICKS: tuple[str, ...] = (
    "/static/../guard.py",
    "/static/%2e%2e/guard.py",
    "/static/..%2fguard.py",
    "/static/..%5cguard.py",
    "/static//etc/passwd",
)
TRICKS += (
    "/static/%2fetc%2fpasswd",
    "/static/",
    "/static/page.css/",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
)
TRICKS += (
    "/static/page.css%00.js",
    "/templates/base.html",
    "/static/\\..\\guard.py",
    "/session/..%2f..%2fledger.db",
    "/memory/%00",
)
TRICKS += ("/memory/../../x", "/project/%2e%2e%2f", "/digest?date=../../x", "/do/", "/do/__class__", "/do/forget/")


@pytest.mark.parametrize("path", TRICKS)
def test_a_path_leads_to_nothing_but_the_pages(visitor: Visitor, path: str) -> None:
    answer = visitor.ask("GET", path)
    # A project of another name is an empty one.
    assert answer.status in (400, 404) or (path.startswith("/project/") and answer.status == 200)
    assert "root:" not in answer.text  # type: ignore[attr-defined]
    assert "import secrets" not in answer.text  # type: ignore[attr-defined]


def test_a_body_has_a_bound_whatever_is_said_of_its_length(visitor: Visitor) -> None:
    long = b"text=" + b"x" * guard.MOST_BODY_BYTES
    form = {"Origin": f"http://127.0.0.1:{visitor.port}", "Content-Type": "application/x-www-form-urlencoded"}
    assert visitor.ask("POST", "/do/remember", dict(form), long).status == 413
    assert visitor.ask("POST", "/do/remember", {**form, "Content-Length": "99999999999999"}, b"").status in (400, 413)
    chunks = (
        b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (long[:100_000], long[100_000:])) + b"0\r\n\r\n"
    )
    chunked = {**form, "Transfer-Encoding": "chunked"}
    with contextlib.suppress(OSError):  # it hangs up before all is sent
        assert visitor.ask("POST", "/do/remember", chunked, chunks).status in (400, 413)
    assert not [one for one in visitor.daemon.call("list")["memories"] if "xxxx" in one["title"]]


def test_every_answer_tells_the_browser_to_be_careful(visitor: Visitor) -> None:
    for place in (*PLACES, "/?token=x", "/project/x", "/memory/none"):
        for headers in ({}, {"Cookie": None}, {"Host": "evil.example"}):
            answer = visitor.ask("GET", place, dict(headers))
            policy = answer.getheader("content-security-policy") or ""
            rules = dict(rule.strip().partition(" ")[::2] for rule in policy.split(";"))
            assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
            assert {rules[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")} == {
                "'self'"
            }
            assert answer.getheader("x-content-type-options") == "nosniff"
            assert answer.getheader("referrer-policy") == "no-referrer"
            assert answer.getheader("x-frame-options") == "DENY"
            is_file = place.startswith("/static/") and answer.status == 200
            assert answer.getheader("cache-control") == (guard.KEPT if is_file else "no-store")
            assert answer.getheader("access-control-allow-origin") is None


# ---- its end


def test_requests_of_the_page_itself_do_not_keep_it_open() -> None:
    clock = Clock()
    door = Guard(inner, 80, clock)
    cookie = cookie_of(door)
    clock.now_s += 30
    assert asked(door, "/alive", cookie=cookie)[0] == 200
    assert asked(door, "/memories")[0] == 403
    assert door.idle_s() == 30
    assert asked(door, "/memories", cookie=cookie)[0] == 200
    assert door.idle_s() == 0


def test_it_is_gone_after_a_quiet_while_and_opens_anew() -> None:
    async def life() -> None:
        server = Server(())
        server.loop = asyncio.get_running_loop()
        page = WebPage(lambda: server, idle_s=0.05)
        call = Call(1, "page_open")
        first = (await page.open(OpenParams(), call)).url
        assert page._serving is not None
        await page._serving
        second = (await page.open(OpenParams(), call)).url
        assert first != second
        await page.stop()
        await page.stop()
        with pytest.raises(OSError, match="onnect"):
            await asyncio.open_connection("127.0.0.1", int(second.split(":")[2].partition("/")[0]))

    asyncio.run(life())


def test_a_setting_switches_it_off() -> None:
    page = WebPage(lambda: Server(()), enabled=False)
    with pytest.raises(Refused, match="switched off"):
        asyncio.run(page.open(OpenParams(), Call(1, "page_open")))


# ---- stored text is text


HOSTILE = (
    "<script>document.title='run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "<svg onload=document.title='run'>",
    "</textarea><script>document.title='run'</script>",
    "\"><script>document.title='run'</script>",
    "' onmouseover='document.title=1' x='",
    "[click](javascript:document.title='run')",
    "[click](/\" onclick=\"document.title='run')",
    "`<script>document.title='run'</script>`",
    "**<b onclick=x>bold</b>** ~~<i onclick=x>gone</i>~~",
    '| <script>x</script> | b |\n| --- | --- |\n| <img src=x onerror=x> | "><svg onload=x> |',
    "> <iframe src=//evil.example></iframe>\n\n<base href=//evil.example>",
    "```\n</code></pre><script>document.title='run'</script>\n```",
    "{{ 1234 * 5678 }} {% include 'base.html' %} {{ self.__class__ }}",
    "<!--><script>document.title='run'</script>-->",
    '<a href="jav\tascript:x">x</a> &lt;script&gt; &#60;script&#62;',
)


class Elements(HTMLParser):
    """The elements of a page that run, load or lead somewhere."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("iframe", "img", "base", "object", "embed", "style", "b-", "template") or any(
            name.startswith("on") or name in ("style", "srcdoc") for name in given
        ):
            self.faults.append(f"<{tag} {given}>")
        for name in ("href", "src", "action"):
            if name in given and not re.match(r"/(?!/)|#", given[name] or ""):
                self.faults.append(f"<{tag} {name}={given[name]}>")
        if tag == "script" and (not (given.get("src") or "").startswith("/static/") or given.get("type") != "module"):
            self.faults.append(f"<script {given}>")


@pytest.fixture(scope="module")
def hostile(daemon: DaemonUnderTest, visitor: Visitor) -> list[str]:
    """Keep hostile texts in every way that the page shows, and give their ids."""
    texts = (*HOSTILE, *ATTACKS)
    kept = [daemon.call("remember", text=text, channel="evil")["node_id"] for text in texts]
    for title in HOSTILE:
        turns = [{"role": role, "text": text} for text in texts for role in ("user", "assistant", "tool")]
        daemon.call(
            "observe", session={"session_id": f"s{abs(hash(title))}", "channel": "evil", "title": title}, turns=turns
        )
    daemon.call(
        "remember", text=HOSTILE[0] + " written", kind="procedure", always=True, agent_id="a-stranger", channel="evil"
    )
    daemon.call("goal_set", session="evil", text=HOSTILE[1], channel="evil")
    for text in HOSTILE[:6]:
        daemon.call("tag", node_id=kept[0], add=[text])
    daemon.call("list")
    return kept


def test_stored_html_is_text_on_every_page(visitor: Visitor, hostile: list[str]) -> None:
    sessions = [one["node_id"] for one in visitor.daemon.call("list", level="L0", limit=4)["memories"]]
    places = [
        *PLACES[:11],
        "/project/evil",
        "/timeline?channel=evil",
        "/memories?channel=evil",
        "/search?q=port+run+script",
    ]
    places += [f"/memory/{node_id}" for node_id in hostile] + [f"/session/{name}" for name in sessions]
    places += [
        f"/search?{name}={quoted}"
        for name in ("q", "kind", "day", "channel")
        for quoted in ("%22%3E%3Cscript%3Ex", "'onx='")
    ]
    places += [
        f"/purge?node_id={hostile[0]}&back=javascript:x",
        "/purge?matching=script&back=//evil.example",
        "/memories?from=99999",
    ]
    for place in places:
        answer = visitor.ask("GET", place)
        assert answer.status in (200, 400), place
        page = Elements()
        page.feed(answer.text)  # type: ignore[attr-defined]
        assert page.faults == [], place
        assert "7006652" not in answer.text  # type: ignore[attr-defined]


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_handover_opens_from_the_message_as_it_was_written(
    visitor: Visitor, hostile: list[str], tmp_path: Path, ending: str
) -> None:
    file = tmp_path / f"evil.{ending}"
    form = urlencode({"channel": "evil", "path": str(file), "back": "/project/evil"}).encode()
    origin = {"Origin": f"http://127.0.0.1:{visitor.port}", "Content-Type": "application/x-www-form-urlencoded"}
    answer = visitor.ask("POST", "/do/hand-over", origin, form)
    (place,) = re.findall(r'href="(/written/[\w-]{12})"', visitor.text(answer.getheader("location") or ""))
    shown = visitor.text(place)
    assert "in the words in which it was said; secrets are masked." in shown
    page = Elements()
    page.feed(shown)
    assert page.faults == []
    assert visitor.ask("GET", place, {"Cookie": None}).status == 403
    # No file but as the daemon wrote it: not another's, not another at its place, none by its path.
    file.write_text("<!doctype html><main>\n<script src='/static/page.js' type='module'></script></main>")
    assert visitor.ask("GET", place).status == 404
    file.unlink()
    assert visitor.ask("GET", place).status == 404
    assert visitor.ask("GET", f"/written/{quote(str(file), safe='')}").status == 404


def test_an_error_shows_what_was_asked_as_text(visitor: Visitor) -> None:
    answer = visitor.ask("GET", "/memory/%3Cscript%3Ex%3C%2Fscript%3E")
    assert answer.status in (400, 404)
    assert "<script>x" not in answer.text  # type: ignore[attr-defined]


def test_what_a_method_refuses_is_said_on_the_page(visitor: Visitor) -> None:
    answer = visitor.post("/do/forget", node_id="nowhere", back="/memories")
    place = answer.getheader("location") or ""
    assert place.startswith("/memories?said=")
    assert "nowhere" in visitor.text(place)
    with pytest.raises(Answered):
        visitor.daemon.call("show", node_id="nowhere")
