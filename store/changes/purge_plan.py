"""The plan of a purge: of what a person names, everything that quotes it, and the words that are left of nothing else.

The history is planned as the vault is: a memory that was forgotten or deleted is still in its images.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain

from .. import okf
from ..index.catalog import Catalog
from ..index.projection import Node, is_session, is_turn, memory_node, project_session, read_head
from ..ledger.work import Work
from ..model import InvalidInput, Kind, Level, NodeId, NotFound
from ..okf import session
from ..okf.wording import BY_HAND, body_hash
from ..redaction import redact
from .erased_words import GRAM, ErasedWords, longest_common, passages_of, traces_among, words_of
from .erasure import Erasure, cited_in

REPEATED_WORDS = 12
"""The length, in words, of a passage by which what stays repeats what goes."""

MOST_TITLES = 10
RESTED_EVERY = 200
"""Nodes between two moments in which requests come first."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of what is purged: nodes, or all of a channel, that says a text, that is older, or every secret."""

    nodes: tuple[NodeId, ...] = ()
    channel: str | None = None
    matching: str | None = None
    before: datetime | None = None
    secrets: bool = False


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The removal that a selection comes to. `titles` are a few of what goes, `repeated_in` says the same.

    `work` counts the anchors and goals that go.
    """

    erasure: Erasure
    titles: tuple[str, ...] = ()
    repeated_in: tuple[NodeId, ...] = ()
    secrets: int = 0
    work: int = 0

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to remove."""
        return not (self.erasure.turns or self.erasure.gone or self.erasure.sessions or self.secrets or self.work)


@dataclass(frozen=True, slots=True)
class Version:
    """A node as the history holds it, and what it cites."""

    node: Node
    sources: tuple[NodeId, ...] = ()


@dataclass(slots=True)
class _Found:
    """The nodes that go. Of one there may be several versions."""

    turns: set[NodeId] = field(default_factory=set)
    memories: set[NodeId] = field(default_factory=set)
    sessions: set[NodeId] = field(default_factory=set)
    work: set[NodeId] = field(default_factory=set)
    doubled: frozenset[NodeId] = frozenset()
    versions: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        """Add a version of a node; what was purged before says nothing."""
        if node.text == session.ERASED:
            return
        names = {Kind.TURN: self.turns, Kind.SESSION: self.sessions}.get(node.kind, self.memories)
        names.add(node.node_id)
        self.versions.append(node)

    def add_work(self, work: Work, *, with_session: bool) -> None:
        """Add an anchor or a goal, whose words are looked for as those of nodes are, or all of its session's."""
        if with_session:
            self.work.add(work.session_id)
        title = work.text.strip().partition("\n")[0]
        self.versions.append(
            Node(
                node_id=work.session_id,
                path="",
                level=Level.SESSION,
                kind=Kind.NOTE,
                title=title,
                text=work.text,
                channel=work.channel,
            )
        )

    def holds(self, node: Node) -> bool:
        """Return True if a node goes; of an id that several files have, the versions that were found."""
        if node.node_id in self.doubled and all(node.text != version.text for version in self.versions):
            return False
        return node.node_id in self.turns or node.node_id in self.memories


def versions_of(path: str, data: bytes) -> list[Version]:
    """Return what a file held: a memory, or a session and its turns."""
    if is_session(path):
        head, _ = read_head(path, data)
        return [Version(node) for node in project_session(path, data, head).nodes]
    memory = okf.to_memory(path, okf.parse(data))
    return [Version(memory_node(memory), memory.sources)]


class Planner:
    """Plans purges from the index, the history and the files beside the index, and changes nothing.

    `read` returns a file of the vault, None where it is gone; `images` yields the paths and contents of the files
    that the history holds, `files` those of the vault: a secret in one of them is in no index. `beside` yields those
    that the index does not hold, or not wholly. `names_of` returns every id that a document had. `work` returns the
    anchors and goals. `rest` is called now and then, and may sleep.
    """

    def __init__(
        self,
        catalog: Catalog,
        read: Callable[[str], bytes | None],
        images: Callable[[], Iterable[tuple[str, bytes]]],
        files: Callable[[], Iterable[tuple[str, bytes]]],
        beside: Callable[[], Iterable[tuple[str, bytes]]],
        names_of: Callable[[NodeId], Collection[NodeId]],
        work: Callable[[], Sequence[Work]],
        rest: Callable[[], None],
    ) -> None:
        self._beside = beside
        self._names_of = names_of
        self._work = work
        self._catalog = catalog
        self._rest = rest
        self._read = read
        self._images = images
        self._files = files

    def plan(self, selection: Selection, salt: bytes) -> PurgePlan:
        """Return what a selection comes to. Raises NotFound for an unknown node, InvalidInput for no selection."""
        history = list(self._versions(self._images()))
        if selection.secrets:
            return self._plan_secrets([*history, *self._versions(self._files())], salt)
        beside = list(self._versions(self._beside()))
        history += beside
        work = self._work()
        found = self._named(selection, history, work) if selection.nodes else self._chosen(selection, history)
        apart = [version for version in history if is_session(version.node.path)]  # joined to another file since
        found.doubled = self._doubled([*apart, *beside])
        for one in work:
            if one.session_id in found.sessions or _is_chosen(one, selection):
                found.add_work(one, with_session=selection.matching is None)
        found.sessions -= {name for name in found.sessions if self._is_erased(name, found)}
        phrases = [selection.matching] if selection.matching else []
        passages = ErasedWords.of(salt, (), [node.text for node in found.versions], phrases)
        self._add_quoting(found, passages, history)
        words, repeated_in = self._traces(found, [version.node for version in beside])
        erasure = Erasure(
            passages.with_words(words),
            frozenset(found.turns),
            frozenset(found.memories),
            frozenset(found.sessions),
            frozenset(found.work),
            found.doubled,
        )
        erasure = replace(erasure, gone=erasure.gone | self._episodes_gone(erasure))
        titles = dict.fromkeys(node.title for node in found.versions)
        gone = sum(erasure.takes_work(one.session_id, one.text) for one in work)
        return PurgePlan(erasure, tuple(titles)[:MOST_TITLES], tuple(repeated_in), work=gone)

    def _doubled(self, versions: Sequence[Version]) -> frozenset[NodeId]:
        """Return the ids that one file has here and another in the index."""
        paths = {version.node.node_id: version.node.path for version in versions}
        known = self._catalog.nodes(paths)
        return frozenset(name for name, node in known.items() if node.path != paths[name])

    def _versions(self, files: Iterable[tuple[str, bytes]]) -> Iterator[Version]:
        for number, (path, data) in enumerate(files):
            if number % RESTED_EVERY == 0:
                self._rest()
            yield from versions_of(path, data)

    # ---- what is selected

    def _named(self, selection: Selection, history: list[Version], work: Sequence[Work]) -> _Found:
        """Find nodes by their ids; with a session its turns and what was learned in it, with a fact what it quotes."""
        found = _Found()
        at_work = {one.session_id for one in work}
        for node_id in dict.fromkeys(chain(selection.nodes, *map(self._names_of, selection.nodes))):
            versions = [self._live(node_id), *(each for each in history if each.node.node_id == node_id)]
            known = [version for version in versions if version is not None]
            if not known and node_id in selection.nodes and node_id not in at_work:
                raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
            for version in known:
                found.add(version.node)
                if version.node.kind is Kind.SESSION:
                    self._add_session(node_id, found, history)
                elif version.node.level is Level.FACT:
                    self._add_quoted(version, found, history)
        return found

    def _live(self, node_id: NodeId) -> Version | None:
        node = self._catalog.node(node_id)
        return None if node is None else Version(node, tuple(self._catalog.links(node_id, "cites")))

    def _add_session(self, session_id: NodeId, found: _Found, history: list[Version]) -> None:
        held = (version.node for version in history if version.node.session_id == session_id)
        for node in (*self._catalog.turns(session_id), *held):
            if node.kind is Kind.TURN:
                found.add(node)
        for node in (*self._catalog.learned_in(session_id), *self._learned(session_id, history)):
            found.add(node)

    def _learned(self, session_id: NodeId, history: list[Version]) -> Iterator[Node]:
        """Yield what the history holds of the facts that were learned in a session and rest on it alone."""
        for version in history:
            node = version.node
            if node.session_id == session_id and node.level is Level.FACT and not version.sources:
                yield node

    def _add_quoted(self, fact: Version, found: _Found, history: list[Version]) -> None:
        """Add the turns that a fact quotes: its words are theirs."""
        said = ErasedWords.of(bytes(1), (), [fact.node.text])
        cited = [source for source in fact.sources if is_turn(source)]
        held = (version.node for version in history if version.node.node_id in cited)
        for turn in (*self._catalog.nodes(cited).values(), *held):
            if said.quotes(turn.text):
                found.add(turn)

    def _chosen(self, selection: Selection, history: list[Version]) -> _Found:
        """Find turns and facts that fit, and the sessions of which every turn does."""
        wanted = _test_of(selection)
        found = _Found()
        spared: set[NodeId | None] = set()
        held = (version.node for version in history)
        for node in chain(self._catalog.said(), held):
            if _was_said(node) and wanted(node):
                found.add(node)
            elif node.kind is Kind.TURN:
                spared.add(node.session_id)
        for node in self._catalog.listing():
            is_page = node.level in {Level.SCENARIO, Level.PROFILE} and selection.channel is not None
            if (is_page or (node.kind is Kind.SESSION and node.node_id not in spared)) and wanted(node):
                found.add(node)
        return found

    # ---- what goes with it

    def _add_quoting(self, found: _Found, passages: ErasedWords, history: list[Version]) -> None:
        """Add the facts that quote what goes, or rest on nothing else."""
        citing = {other for turn in found.turns for other in self._catalog.cited_by(turn)} - found.memories
        live = (version for node_id in sorted(citing) if (version := self._live(node_id)) is not None)
        for version in (*live, *history):
            cited = found.turns.intersection(version.sources)
            rests_on_it = len(cited) == len(set(version.sources)) or passages.quotes(version.node.text)
            if cited and rests_on_it and version.node.level is Level.FACT:
                found.add(version.node)

    def _episodes_gone(self, erasure: Erasure) -> set[NodeId]:
        """Return the episodes of which nothing stays: what names them goes as well."""
        citing = self._catalog.nodes(self._catalog.pointing_at(erasure.ids)).values()
        pages = ((node, self._read(node.path)) for node in citing if node.level is Level.SCENARIO)
        return {node.node_id for node, data in pages if data and erasure.scrubbed(node.path, data) is None}

    def _is_erased(self, session_id: NodeId, found: _Found) -> bool:
        """Return True for a session of which every turn was purged before: nothing of it is left."""
        turns = list(self._catalog.turns(session_id))
        held = any(turn.partition("#")[0] == session_id for turn in found.turns)
        return bool(turns) and not held and all(turn.text == session.ERASED for turn in turns)

    # ---- what it is recognised by

    def _traces(self, found: _Found, beside: Sequence[Node]) -> tuple[set[str], list[NodeId]]:
        """Return the words that nothing but what goes holds, and the nodes that stay and repeat it."""
        words = {word for node in found.versions for word in words_of(f"{_all_words(node)}\n{node.role}")}
        kept: set[str] = set()
        repeated_in = []
        spoken = passages_of(node.text for node in found.versions)
        for number, node in enumerate(chain(self._catalog.said(), beside)):
            if number % RESTED_EVERY == 0:
                self._rest()
            kept.update(words_of(f"{'' if found.holds(node) else node.role} {node.channel} {node.session_id}"))
            if not found.holds(node):
                said = words_of(node.text)
                kept.update(said)
                if longest_common(said, spoken.__contains__) >= REPEATED_WORDS:
                    repeated_in.append(node.node_id)
        for node in self._catalog.listing():
            for line in self._own_lines(node, found):
                said = words_of(line)
                if longest_common(said, spoken.__contains__) < min(REPEATED_WORDS, max(GRAM, len(said) - 2)):
                    kept.update(said)
        return traces_among(words, kept), repeated_in

    def _own_lines(self, node: Node, found: _Found) -> Iterator[str]:
        """Yield what may be said in titles and pages alone: the title of a session that stays, a person's lines."""
        if node.kind is Kind.SESSION:
            if node.node_id not in {turn.partition("#")[0] for turn in found.turns}:
                yield node.title
        elif node.level in {Level.SCENARIO, Level.PROFILE} and (data := self._read(node.path)) is not None:
            memory = okf.to_memory(node.path, okf.parse(data))
            if memory.extra.get(BY_HAND) != body_hash(memory.text) and not found.holds(node):
                lost = {okf.source_ids(memory.sources)[each] for each in found.memories.intersection(memory.sources)}
                yield from (line for line in memory.text.split("\n") if not lost.intersection(cited_in(line)))

    # ---- secrets

    def _plan_secrets(self, versions: list[Version], salt: bytes) -> PurgePlan:
        """Plan to remove what today's rules take for secrets, wherever it is."""
        words: set[str] = set()
        kept: set[str] = set()
        titles: dict[str, None] = {}
        seen: set[tuple[NodeId, str]] = set()
        times = 0
        held = (version.node for version in versions)
        for node in chain(self._catalog.said(), self._catalog.listing(), held):
            said = _all_words(node)
            if (node.node_id, said) in seen:
                continue
            seen.add((node.node_id, said))
            cleaned = [redact(field) for field in _said_in(node)]  # each by itself, as the file's are
            for clean in cleaned:
                kept.update(words_of(clean.text))
            if found := sum(len(clean.found) for clean in cleaned):
                words.update(words_of(said))
                titles[redact(node.path).text] = None  # its own title may hold it
                times += found
        erasure = Erasure(ErasedWords.of(salt, traces_among(words, kept), ()), secrets=True)
        return PurgePlan(erasure, tuple(titles)[:MOST_TITLES], secrets=times)


def _is_chosen(work: Work, selection: Selection) -> bool:
    """Return True for an anchor or a goal that is selected by its session, its channel, its time or its words."""
    if selection.nodes:
        return work.session_id in selection.nodes
    if selection.channel is not None:
        return work.channel == selection.channel
    if selection.before is not None:
        return work.at < selection.before
    return _holds_phrase(work.text, selection.matching or "")


def _holds_phrase(text: str, phrase: str) -> bool:
    return f" {' '.join(words_of(phrase))} " in f" {' '.join(words_of(text))} "


def _was_said(node: Node) -> bool:
    return node.kind in {Kind.TURN, Kind.DOCUMENT} or node.level is Level.FACT


def _test_of(selection: Selection) -> Callable[[Node], bool]:
    """Return the test that nodes must pass to be chosen. Raises InvalidInput where nothing is asked for."""
    if (channel := selection.channel) is not None:
        return lambda node: node.channel == channel
    if (before := selection.before) is not None:
        return lambda node: node.created_at is not None and node.created_at < before
    if words_of(phrase := selection.matching or ""):
        return lambda node: _holds_phrase(f"{_all_words(node)}\n{node.title}\n{node.role}", phrase)
    raise InvalidInput("nothing is named that is to be purged", hint="Name a memory, a session, a channel or a text.")


def _all_words(node: Node) -> str:
    """Return what a node says, with its title and keys; of a turn these are its own and its neighbours' words again."""
    return "\n".join(_said_in(node))


def _said_in(node: Node) -> tuple[str, ...]:
    return (node.text,) if node.kind is Kind.TURN else (node.title, node.text, node.context, *node.tags)
