"""Extensions: what other packages add, found by their entry points, registered as our own is, and called within bounds.

An extension runs in the daemon's process and may do all that the daemon may. It is bounded so that a fault of it costs
no answer: what it raises is counted and logged by its name, what takes too long is not waited for, and it rests then.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, get_args

import pluggy

from .model import Hit, Slot
from .results import ExtensionStatus
from .settings import ExtensionSettings

logger = logging.getLogger(__name__)

GROUP: Final = "dreamd"
specified, implements = pluggy.HookspecMarker(GROUP), pluggy.HookimplMarker(GROUP)

Table = Literal["providers", "importers", "backends"]
TABLES: Final[tuple[Table, ...]] = get_args(Table)
CREATED, RETRIEVED, ENDED, RECOGNISE = "on_memory_created", "on_memory_retrieved", "on_session_end", "recognise"
OWN: Final = "dreamd:"
"""The beginning of the names under which our own parts are registered; no extension may have such a name."""

REST_S: Final = 60.0
"""An extension that was too slow is not called again for so long, and not before its call has ended."""

MOST_WAITING: Final = 10_000
"""Events that wait for one extension; later ones are dropped and counted."""

LOGGED_EVERY_S: Final = 60.0
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class RetrievedText:
    """One hit of an answer as a hook sees it: its id, its text, and the turns that it was drawn from."""

    node_id: str
    text: str
    evidence: tuple[str, ...]


class HookSpecs:
    """The hooks that an extension may fill; each may take fewer parameters than there are."""

    @specified
    def on_memory_created(self, node_id: str, kind: str, channel: str, text: str) -> None:
        """Take note of a new memory or turn, after it was acknowledged and can be found."""

    @specified
    def on_memory_retrieved(self, question: str, hits: Sequence[RetrievedText]) -> Collection[str] | None:
        """Return the ids of hits to leave out of an answer of `recall` or `context`; None for none."""

    @specified
    def on_session_end(self, session_id: str, channel: str) -> None:
        """Take note that a session is over; it may be told more than once."""

    @specified
    def providers(self) -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
        """Return language models by name: functions from `LlmSettings` to a `LanguageModel`."""

    @specified
    def importers(self) -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
        """Return formats of imports by name: functions from a path to sessions and notes."""

    @specified
    def recognise(self, path: Path) -> str | None:
        """Return the name of the format of a file among one's own importers, None for a file of no such."""

    @specified
    def backends(self) -> Mapping[str, Callable[..., Any]]:  # type: ignore[empty-body]
        """Return search engines by name: functions from an `EngineHome` to a `VectorStore`."""


class HookThread:
    """One thread for the calls of an extension: one at a time, and none while it rests after one that took too long."""

    def __init__(self, name: str, deadline_s: float) -> None:
        self.failed = self.slow = self.dropped = 0
        self._name, self._deadline_s = name, deadline_s
        self._waiting: SimpleQueue[tuple[str, Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._gate = threading.Lock()
        self._began_s: float | None = None
        self._rests_until_s = self._logged_s = 0.0
        self._thread: threading.Thread | None = None

    def put(self, hook: str, call: Callable[[], Any]) -> Future[Any] | None:
        """Queue a call; None, and it never runs, while the extension rests or too many wait."""
        with self._gate:
            now_s, began_s = time.monotonic(), self._began_s
            if began_s is not None and now_s > began_s + self._deadline_s:
                self._rest(hook)
            if now_s < self._rests_until_s or self._waiting.qsize() >= MOST_WAITING:
                self.dropped += 1
                return None
            if self._thread is None:
                # A daemon thread: one that never ends must not keep the process from ending.
                self._thread = threading.Thread(target=self._run, name=f"dreamd-extension-{self._name}", daemon=True)
                self._thread.start()
            future: Future[Any] = Future()
            self._waiting.put((hook, call, future))
            return future

    def ask(self, hook: str, call: Callable[[], Any]) -> Any:
        """Return a call's result; None where it fails, is not made, or takes too long."""
        future = self.put(hook, call)
        if future is None:
            return None
        try:
            return future.result(self._deadline_s)
        except NotInTime:
            if not future.cancel() and future.done():
                return None if future.exception() else future.result()
            with self._gate:
                self._rest(hook)
        except BaseException:  # noqa: S110 (counted and logged where it was called)
            pass
        return None

    def _rest(self, hook: str) -> None:
        if time.monotonic() >= self._rests_until_s:
            self.slow += 1
            logger.warning("the extension %s was too slow (%s); it is left out for %d s", self._name, hook, REST_S)
        self._rests_until_s = time.monotonic() + REST_S

    def _run(self) -> None:
        while True:
            hook, call, future = self._waiting.get()
            if not future.set_running_or_notify_cancel():
                continue
            self._began_s = time.monotonic()
            try:
                result = call()
            except BaseException as error:  # also SystemExit: an extension does not end the daemon
                self._note(hook, error)
                future.set_exception(error)
            else:
                future.set_result(result)
            self._began_s = None

    def _note(self, hook: str, error: BaseException) -> None:
        self.failed += 1
        if time.monotonic() >= self._logged_s:
            self._logged_s = time.monotonic() + LOGGED_EVERY_S
            # Its message is left out: it may hold a person's text.
            logger.warning("the extension %s failed: %s raised %s", self._name, hook, type(error).__name__)


class _Extension:
    """One entry point: its origin, its state, and its two threads; a slow event holds up no answer."""

    def __init__(self, entry: EntryPoint, settings: ExtensionSettings) -> None:
        self.name = entry.name
        self.package = entry.dist.name if entry.dist else entry.module
        self.version = entry.dist.version if entry.dist else ""
        self.problem = ""
        self.hooks: tuple[str, ...] = ()
        self.events = HookThread(self.name, settings.event_deadline_s)
        self.questions = HookThread(self.name, settings.deadline_ms / 1000)

    def status(self) -> ExtensionStatus:
        """Return its state in plain values."""
        threads = self.events, self.questions
        failed, slow, dropped = (sum(getattr(one, what) for one in threads) for what in ("failed", "slow", "dropped"))
        return ExtensionStatus(self.name, self.package, self.version, self.hooks, self.problem, failed, slow, dropped)


class Extensions:
    """The extensions of one process, and the tables that our own parts and they fill. Any thread may call."""

    def __init__(self, settings: ExtensionSettings | None = None) -> None:
        """Load the extensions of the installed packages; without settings, none."""
        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(HookSpecs)
        # Our own parts after the extensions', whose names have a dot: the two never meet.
        self._tables: dict[str, ChainMap[str, Any]] = {table: ChainMap() for table in TABLES}
        self._extensions: dict[str, _Extension] = {}
        self._gate = threading.Lock()
        if settings is not None and settings.enabled:
            found = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
            for entry in found:
                if entry.name not in settings.off:
                    self._load(entry, settings)

    def add_own(self, name: str, plugin: object) -> None:
        """Register a part of ours, once; its names stand in the tables as they are."""
        with self._gate:
            if not self._manager.has_plugin(OWN + name):
                self._manager.register(plugin, OWN + name)
                for table, names in self._provided_by(OWN + name):
                    self._tables[table].maps.append(names)

    def table(self, table: Table) -> Mapping[str, Any]:
        """Return what our own parts and the extensions provide: an extension's by `EXTENSION.NAME`."""
        return self._tables[table]

    def listens(self, hook: str) -> bool:
        """Return True if an extension fills a hook."""
        return any(hook in one.hooks for one in self._extensions.values())

    def status(self) -> list[ExtensionStatus]:
        """Return the state of each extension, by name."""
        return [one.status() for one in self._extensions.values()]

    def tell(self, hook: str, given: Callable[[], Mapping[str, Any] | None]) -> None:
        """Queue an event for every extension that fills its hook; `given` makes its parameters there, None for none."""
        for extension, fill in self._fillers(hook):
            extension.events.put(hook, partial(_fill_with, fill, given))

    def left_out(self, question: str, hits: Sequence[Hit | Slot]) -> frozenset[str]:
        """Return the ids of hits that an extension leaves out; one that is slow or fails leaves out none."""
        found: set[str] = set()
        shown = [RetrievedText(one.node_id, one.text, tuple(turn.node_id for turn in one.evidence)) for one in hits]
        for extension, fill in self._fillers(RETRIEVED):
            asking = partial(_ids_from, fill, {"question": question, "hits": shown})
            found.update(extension.questions.ask(RETRIEVED, asking) or ())
        return frozenset(found)

    def recognised(self, path: Path) -> str | None:
        """Return the format of a file that an extension knows, as it stands in the table; None for none."""
        for extension, fill in self._fillers(RECOGNISE):
            name = f"{extension.name}.{extension.events.ask(RECOGNISE, partial(fill, {'path': path}))}"
            if name in self._tables["importers"]:
                return name
        return None

    def _fillers(self, hook: str) -> Iterator[tuple[_Extension, Fill]]:
        for found in getattr(self._manager.hook, hook).get_hookimpls():
            if (extension := self._extensions.get(found.plugin_name)) is not None:
                yield extension, partial(_fill, found)

    def _load(self, entry: EntryPoint, settings: ExtensionSettings) -> None:
        if entry.name in self._extensions or not _NAME.fullmatch(entry.name):
            logger.warning("an entry point of %s is passed over: its name is taken, or none", entry.module)
            return
        extension = self._extensions[entry.name] = _Extension(entry, settings)
        try:
            self._manager.register(entry.load(), entry.name)
            callers = self._manager.get_hookcallers(self._manager.get_plugin(entry.name)) or ()
            extension.hooks = tuple(sorted(caller.name for caller in callers if caller.has_spec()))
            if unknown := sorted(caller.name for caller in callers if not caller.has_spec()):
                extension.problem = f"it fills hooks that are not there: {', '.join(unknown)}"
            for table, names in self._provided_by(entry.name):
                self._tables[table].update(_as_added(extension.name, names))
        except (Exception, SystemExit) as error:
            extension.problem = f"it cannot be loaded ({type(error).__name__})"
            logger.warning("the extension %s cannot be loaded: %s", entry.name, type(error).__name__)
            if self._manager.has_plugin(entry.name):
                self._manager.unregister(name=entry.name)

    def _provided_by(self, plugin_name: str) -> Iterator[tuple[Table, dict[str, Any]]]:
        for table in TABLES:
            for found in getattr(self._manager.hook, table).get_hookimpls():
                if found.plugin_name == plugin_name:
                    yield table, found.function()


Fill = Callable[[Mapping[str, Any]], Any]
"""Calls what fills a hook with those of the given values that it takes."""


def _fill(found: pluggy.HookImpl, values: Mapping[str, Any]) -> Any:
    return found.function(*(values[name] for name in found.argnames))


def _fill_with(fill: Fill, given: Callable[[], Mapping[str, Any] | None]) -> None:
    if (values := given()) is not None:
        fill(values)


def _ids_from(fill: Fill, values: Mapping[str, Any]) -> list[str]:
    """Return the ids that a filter gives. Raises TypeError where it gives something else than a collection of them."""
    named = fill(values) or ()
    if isinstance(named, str) or not all(isinstance(one, str) for one in named):
        raise TypeError
    return list(named)


def _as_added(extension: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an extension provides by `EXTENSION.NAME`. Raises TypeError where it is no table of functions."""
    if not all(isinstance(name, str) and _NAME.fullmatch(name) and callable(value) for name, value in names.items()):
        raise TypeError
    return {f"{extension}.{name}": value for name, value in names.items()}


_current = Extensions()


def use(settings: ExtensionSettings) -> Extensions:
    """Load the installed extensions for this process, and return them; before that there are only our own parts."""
    global _current
    _current = Extensions(settings)
    return _current


def current() -> Extensions:
    """Return the extensions of this process."""
    return _current
