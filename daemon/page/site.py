"""The page's application: its addresses, the methods of the daemon behind them, and the rendering of their answers.

The page knows nothing of memories by itself. A view asks methods of the table and fills a template; an act calls one
method and reports its outcome. Both go through the server's lanes, with its bounds and deadlines.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from loguru import logger
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ...ipc.mcp.mcp_session import WireClient
from ...ipc.protocol import BUSY, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_FOUND, Json, ProtocolError
from ...ipc.server.server import Server
from ...store import opened
from .. import formatting
from ..clock import local_now
from . import markup, wording
from .guard import KEPT, PageRequest
from .page_acts import ACTS
from .views import VIEWS, known_channels

HERE = Path(__file__).parent
MOST_SAID = 64
MOST_FIELDS = 64
UNSAID: Json = {
    "hint": "",
    "left": (),
    "place": "",
    "undo": None,
    "redo": None,
    "parts": (),
    "what": "",
    "failed": False,
}
"""The parts of a message after an act that most acts leave out."""

MARKED: Sequence[str] = ("marked", "marked_line", "glance", "own", "gist")
WORDED: Sequence[str] = (
    *("said", "thing_address", "address", "sure", "conversation", "run_note", "as_places"),
    *("kind_word", "kind_meaning", "groups_of", "change_reason", "counted"),
)
"""The functions that templates call as filters."""

_MAIN = re.compile(r"\A<!doctype html>.*?<main>\n(.*)</main>", re.DOTALL)
KINDS_OF_FILES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATUS = {NOT_FOUND: 404, INVALID_PARAMS: 400, BUSY: 503, METHOD_NOT_FOUND: 404}

Handler = Callable[[Request], Awaitable[Response]]

NAVIGATION = (
    ("/", "Today", "t"),
    ("/search", "Search", "s"),
    ("/projects", "Projects", "p"),
    ("/timeline", "Timeline", "l"),
    ("/things", "People and things", "e"),
    ("/review", "Review", "r"),
    ("/memories", "Memories", "m"),
    ("/sessions", "Sessions", "c"),
    ("/runs", "Runs", "d"),
    ("/told", "Told to agents", "o"),
    ("/health", "Health", "h"),
)
"""The places of the page, and the key that leads to each after a `g`."""


class _WrittenFile(NamedTuple):
    """A file that an act had the daemon write, and the hash of what it wrote."""

    path: Path
    sha256: bytes

    @classmethod
    def of(cls, path: Path) -> _WrittenFile:
        return cls(path, hashlib.sha256(_content(path)).digest())

    def content(self) -> bytes | None:
        """Return its content, None if it is not as it was written: a page of ours shows nobody else's markup."""
        content = _content(self.path)
        return content if content and hashlib.sha256(content).digest() == self.sha256 else None


class Site:
    """The templates, the files, and the sentences that wait to be shown after an act."""

    def __init__(self, server: Server) -> None:
        self._wire = WireClient(server)
        self._known: dict[str, tuple[float, Json]] = {}
        self._said: OrderedDict[str, Json] = OrderedDict()
        self._written: OrderedDict[str, _WrittenFile] = OrderedDict()
        self._files = {file.name: file.read_bytes() for file in sorted((HERE / "static").iterdir())}
        self._templates = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        filters = (
            (markup, MARKED),
            (wording, WORDED),
        )
        for module, names in filters:
            self._templates.filters |= {name: getattr(module, name) for name in names}
        self._templates.filters["project"] = _project
        # `count` is a filter of the template language, and counts the parts of a list.
        self._templates.filters["number"] = formatting.count
        self._templates.filters |= {"took": formatting.duration, "sentence": formatting.sentence}

    def routes(self) -> list[Route]:
        """Return the routes of the application."""
        routes = [Route(path, self._safely(self._view(template, view))) for path, template, view in VIEWS]
        routes += [Route(f"/do/{name}", self._safely(self._act(act)), methods=["POST"]) for name, act in ACTS.items()]
        routes += [Route("/written/{name}", self._safely(self._written_file))]
        return [*routes, Route("/static/{name}", self._file), Route("/alive", _alive)]

    def _safely(self, run: Handler) -> Handler:
        """Return a handler whose unforeseen error is logged by its place alone: its message may hold a text."""

        async def answer(request: Request) -> Response:
            try:
                return await run(request)
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(place.filename).name}:{place.lineno}"
                logger.error("the page failed at {}: {} at {}", request.url.path, type(error).__name__, where)
                values = {"message": "That went wrong here.", "hint": "The daemon's log has the place."}
                return self._page(request, "error.html", values, 500)

        return answer

    def _view(self, template: str, view: Callable[[Any], Awaitable[Json]]) -> Handler:
        async def answer(request: Request) -> Response:
            asked = PageRequest(self._wire, self._known, {**request.query_params, **request.path_params})
            try:
                values = {**await view(asked), "known_channels": await known_channels(asked)}
            except ProtocolError as error:
                return self._failed(request, error)
            if place := values.get("moved_to"):
                name = request.query_params.get("said")
                return RedirectResponse(_with_message(place, name) if name else place, 303)
            if (drawn := values.get("json")) is not None:
                return JSONResponse(drawn)
            name = f"_{template}" if "part" in request.query_params else template
            return self._page(request, name, values)

        return answer

    def _act(self, act: Callable[[Any], Awaitable[Json]]) -> Handler:
        async def answer(request: Request) -> Response:
            try:
                async with request.form(max_files=0, max_fields=MOST_FIELDS) as form:
                    asked = PageRequest(self._wire, self._known, *_fields(form))
            except ClientDisconnect:
                return HTMLResponse("", 413)
            # What an act changes is seen at once.
            self._known.clear()
            back = own_place(asked.word("back"))
            try:
                done = await act(asked)
            except ProtocolError as error:
                done = {"words": formatting.sentence(str(error)), "hint": error.hint, "failed": True}
            return RedirectResponse(self._told(done, own_place(done.get("at", "")) if done.get("at") else back), 303)

        return answer

    def _told(self, done: Json, place: str) -> str:
        """Keep the outcome of an act for the page that is shown next; return its address."""
        name = secrets.token_urlsafe(9)
        if path := done.get("file"):
            self._written[name] = _WrittenFile.of(Path(path))
            done = {**done, "place": f"/written/{name}"}
        self._said[name] = UNSAID | done
        for kept in (self._said, self._written):
            while len(kept) > MOST_SAID:
                kept.popitem(last=False)
        return _with_message(place, name)

    def _page(self, request: Request, template: str, values: Json, status: int = 200) -> Response:
        now = local_now()
        path = request.url.path
        query = "&".join(part for part in request.url.query.split("&") if part and not part.startswith("said="))
        common: Json = {
            "now": now,
            "day": lambda at: wording.day(at, now),
            "moment": lambda at: wording.moment(at, now),
            "ago": lambda at: wording.ago(at, now),
            "run_name": lambda run: wording.run_name(run, now),
            "difference": markup.difference,
            "path": path,
            "here": quote(path) + (f"?{query}" if query else ""),
            "navigation": NAVIGATION,
            "said": self._said.pop(request.query_params.get("said", ""), None),
            "link": _link,
        }
        return HTMLResponse(self._templates.get_template(template).render(common | values), status)

    def _failed(self, request: Request, error: ProtocolError) -> Response:
        values = {"message": formatting.sentence(str(error)), "hint": error.hint}
        return self._page(request, "error.html", values, STATUS.get(error.code, 409))

    async def nowhere(self, request: Request, error: Exception) -> Response:
        """Answer a request for a place that is not there."""
        values = {"message": "There is no such page.", "hint": ""}
        return self._page(request, "error.html", values, getattr(error, "status_code", 404))

    async def _written_file(self, request: Request) -> Response:
        written = self._written.get(request.path_params["name"])
        content = await asyncio.to_thread(written.content) if written else None
        if written is None or content is None:
            values = {"message": "It is not there, or no longer as it was written.", "hint": "Open it from its folder."}
            return self._page(request, "error.html", values, 404)
        text = content.decode()
        # An HTML file brings a style and a policy of its own; its main part is what the daemon made, and stays.
        main = Markup(found[1]) if (found := _MAIN.search(text)) else markup.marked(text)  # noqa: S704  (escaped there)
        return self._page(request, "written.html", {"name": written.path.name, "main": main})

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            return HTMLResponse("", 404)
        kind = KINDS_OF_FILES[Path(name).suffix]
        return Response(self._files[name], media_type=kind, headers={"cache-control": KEPT})


async def _alive(request: Request) -> Response:
    return Response(status_code=204)


@pass_context
def _project(context: Context, channel: str) -> str:
    return wording.project(channel, context["known_channels"])


def _content(path: Path) -> bytes:
    """Return the content of a file, b"" for none."""
    try:
        with opened(path) as file:
            return file.read()
    except OSError:
        return b""


def _fields(form: FormData) -> tuple[dict[str, str], dict[str, list[str]]]:
    lists: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            # A form sends each line end as two characters.
            lists.setdefault(name, []).append(value.replace("\r\n", "\n"))
    return {name: values[-1] for name, values in lists.items()}, lists


def own_place(given: str) -> str:
    """Return an address within the page; the first one for any other."""
    return given if re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,2000}", given) else "/"


def _with_message(place: str, name: str) -> str:
    """Return an address that shows the message of a name."""
    path, mark, rest = place.partition("#")
    return f"{path}{'&' if '?' in path else '?'}{urlencode({'said': name})}{mark}{rest}"


def _link(path: str, **words: Any) -> str:
    """Return an address with those words that are set."""
    given = {name: word for name, word in words.items() if word not in (None, "", 0, False)}
    return f"{path}?{urlencode(given)}" if given else path


def site_of(server: Server) -> Starlette:
    """Return the application over a server's methods."""
    site = Site(server)
    app = Starlette(routes=site.routes(), exception_handlers={404: site.nowhere, 405: site.nowhere})
    app.router.redirect_slashes = False
    return app
