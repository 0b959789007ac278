"""Plan a purge: the nodes that a person names, the nodes that quote them, and the words that nothing else contains.

The history is planned as the vault is: a memory that was forgotten or deleted is still in its images.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final, Literal

from .. import okf
from ..channel import is_of_channel
from ..index.catalog import Catalog
from ..index.projection import Node, is_session, is_turn, memory_node, project_session, read_head
from ..ledger.ledger import Ledger
from ..ledger.salvage import kept_copies
from ..ledger.work import Work
from ..model import InvalidInput, Kind, Level, NodeId, NotFound
from ..okf import session
from ..okf.memory_file import BY_HAND, body_hash
from ..redaction import redact
from ..results import Purged, PurgedItem
from ..text.quotes import title_of
from ..vault.vault import Vault, is_derived
from .prove import GRAM, ErasedWords, longest_common, passages_of, traces_among, words_of
from .scrub import Erasure, cited_in, row_erasures

SALT_BYTES: Final = 16

REPEATED_WORDS: Final = 12
"""The length, in words, of a common passage by which a node that stays repeats one that goes."""

MOST_TITLES: Final = 10
MOST_ITEMS: Final = 100
ITEM_CHARS: Final = 160
RESTED_EVERY: Final = 200
"""Nodes between two moments in which requests come first."""

_PAGE_LEVELS: Final = frozenset({Level.SCENARIO, Level.PROFILE})


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice for a purge: nodes, a channel, all that contains a text or is older than a moment, or all secrets.

    `if_there`: nodes that are not here are no error, as of a purge on another machine.
    """

    nodes: tuple[NodeId, ...] = ()
    channel: str | None = None
    matching: str | None = None
    before: datetime | None = None
    secrets: bool = False
    if_there: bool = False


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The erasure of a selection, and its amount; `told` counts the texts that agents were handed and that change."""

    erasure: Erasure
    preview: Purged
    told: int = 0

    @property
    def is_empty(self) -> bool:
        """Return True if there is nothing to remove or to change."""
        seen = self.preview
        is_counted = seen.sessions or seen.turns or seen.memories or seen.secrets
        return not (is_counted or self.told or seen.files_removed or seen.files_changed)


@dataclass(frozen=True, slots=True)
class Version:
    """A node as some file holds it, in the vault or in the history, and the nodes that it cites."""

    node: Node
    sources: tuple[NodeId, ...] = ()


@dataclass(slots=True)
class _Selected:
    """The nodes that go. Of one there may be several versions."""

    turns: set[NodeId] = field(default_factory=set)
    memories: set[NodeId] = field(default_factory=set)
    sessions: set[NodeId] = field(default_factory=set)
    work: set[NodeId] = field(default_factory=set)
    doubled: frozenset[NodeId] = frozenset()
    versions: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> None:
        """Add a version of a node, unless it was purged before."""
        if node.text == session.ERASED:
            return
        ids = {Kind.TURN: self.turns, Kind.SESSION: self.sessions}.get(node.kind, self.memories)
        ids.add(node.node_id)
        self.versions.append(node)

    def has(self, node: Node) -> bool:
        """Return True if a node goes; of an id that several files have, the versions that were found."""
        if node.node_id in self.doubled and all(node.text != version.text for version in self.versions):
            return False
        return node.node_id in self.turns or node.node_id in self.memories


class Planner:
    """Plans purges from the index, the history and the files that the index does not hold; changes nothing.

    `rest` is called now and then, and may sleep, or raise to end the planning.
    """

    def __init__(self, vault: Vault, ledger: Ledger, catalog: Catalog, rest: Callable[[], None]) -> None:
        self._vault = vault
        self._ledger = ledger
        self._catalog = catalog
        self._rest = rest

    def plan(
        self, selection: Selection, on_looked: Callable[[int], None] = lambda number: None, *, is_listed: bool = False
    ) -> PurgePlan:
        """Return the plan of a selection, its things `listed` where they are asked for.

        `on_looked` is called now and then with the number of nodes whose words were compared. Raises NotFound for an
        unknown node, InvalidInput for no selection.
        """
        salt = secrets.token_bytes(SALT_BYTES)
        # What was forgotten or deleted is in no index, but still in the images by which it can be restored.
        history = list(self._versions(self._ledger.images()))
        if selection.secrets:
            return self._plan_secrets([*history, *self._versions(self._vault.contents())], salt)
        unindexed = list(self._versions(self._unindexed_contents()))
        history += unindexed
        work = self._ledger.work()
        chosen = self._named(selection, history, work) if selection.nodes else self._matching(selection, history)
        apart = [version for version in history if is_session(version.node.path)]  # joined to another file since
        chosen.doubled = self._doubled([*apart, *unindexed])
        for one in work:
            if one.session_id in chosen.sessions or _is_chosen(one, selection):
                if selection.matching is None:  # else its own words go, and not all of the session's work
                    chosen.work.add(one.session_id)
                chosen.versions.append(_work_node(one))
        told = self._add_told(chosen, selection)
        chosen.sessions -= {name for name in chosen.sessions if self._is_erased(name, chosen)}
        # A person's phrase is looked for as it is, also where its words are too short or common to be traces.
        phrases = [selection.matching] if selection.matching else []
        passages = ErasedWords.of(salt, (), [node.text for node in chosen.versions], phrases)
        self._add_quoting(chosen, passages, history)
        traces, repeated_in = self._traces(chosen, [version.node for version in unindexed], on_looked)
        erasure = Erasure(
            passages.with_words(traces),
            frozenset(chosen.turns),
            frozenset(chosen.memories),
            frozenset(chosen.sessions),
            frozenset(chosen.work),
            chosen.doubled,
            told if selection.matching is None else frozenset(),
        )
        # Last, since only the finished erasure knows of which pages nothing stays.
        erasure = replace(erasure, gone=erasure.gone | self._episodes_gone(erasure))
        gone = sum(erasure.removes_work(one.session_id, one.text) for one in work)
        plan = self._planned(erasure, (node.title for node in chosen.versions), repeated_in, work=gone)
        items = tuple(self._items(selection, chosen, erasure))[:MOST_ITEMS] if is_listed else ()
        return replace(plan, preview=replace(plan.preview, items=items), told=len(told))

    def _items(self, selection: Selection, chosen: _Selected, erasure: Erasure) -> Iterator[PurgedItem]:
        """Yield the things that go, each once and the named first, then the pages that lose lines."""
        versions = {node.node_id: node for node in reversed(chosen.versions)}
        named = frozenset(selection.nodes) or frozenset(versions)
        first = [node for name, node in versions.items() if name in named]
        turns = [node for name, node in versions.items() if name in chosen.turns and name not in named]
        drawn = [node for name, node in versions.items() if name in chosen.memories and name not in named]
        yield from (_item(node, "named") for node in sorted(first, key=_place))
        yield from (_item(node, "said") for node in sorted(turns, key=_place))
        yield from (_item(node, "drawn") for node in sorted(drawn, key=_place))
        for path in self.affected(erasure):
            data = self._vault.read_if_any(path)
            memory = okf.to_memory(path, okf.parse(data)) if data is not None and not is_session(path) else None
            if memory is None or data is None or memory.node_id in versions:
                continue
            if (after := erasure.scrubbed(path, data)) != data:
                yield _item(memory_node(memory), "quotes", goes=after is None)

    def _planned(
        self,
        erasure: Erasure,
        titles: Iterable[str],
        repeated_in: Sequence[NodeId] = (),
        secrets: int = 0,
        work: int = 0,
    ) -> PurgePlan:
        """Return the plan of an erasure; `work` counts the anchors and goals that go."""
        files = {path: data for path in self.affected(erasure) if (data := self._vault.read_if_any(path)) is not None}
        kept = {path: erasure.scrubbed(path, data) for path, data in files.items()}
        preview = Purged(
            sessions=len(erasure.sessions),
            turns=len(erasure.turns),
            memories=len(erasure.gone) + work,
            secrets=secrets,
            files_removed=sum(after is None for after in kept.values()),
            files_changed=sum(after is not None and after != files[path] for path, after in kept.items()),
            titles=tuple(dict.fromkeys(titles))[:MOST_TITLES],
            repeated_in=tuple(repeated_in),
            copies=tuple(path.name for path in kept_copies(self._ledger.path) if path.suffix == ".db"),
        )
        return PurgePlan(erasure, preview)

    def affected(self, erasure: Erasure) -> list[str]:
        """Return the files that may hold purged content; with secrets, every file."""
        if erasure.secrets:
            return sorted(stamp.path for stamp in self._vault.walk())
        named = erasure.ids | erasure.sessions
        nodes = self._catalog.nodes(named | self._catalog.pointing_at(erasure.ids))
        paths = {node.path for node in nodes.values()}.union(self._unindexed())
        for node in self._catalog.listing():
            if (node.level in _PAGE_LEVELS and erasure.words.mentions(f"{node.title}\n{node.text}")) or (
                node.kind is Kind.SESSION and erasure.words.covers(node.title)
            ):
                paths.add(node.path)
        return sorted(paths)

    # ---- files and versions

    def _unindexed(self) -> list[str]:
        """Return the files that the index does not hold, or not wholly: of a doubled id, or beyond its bound."""
        known = self._catalog.files().keys() - {path for path, _ in self._catalog.problems()}
        known -= set(self._catalog.cut_files())
        return [stamp.path for stamp in self._vault.walk() if stamp.path not in known]

    def _unindexed_contents(self) -> Iterator[tuple[str, bytes]]:
        for path in self._unindexed():
            if (data := self._vault.read_if_any(path)) is not None:
                yield path, data

    def _versions(self, files: Iterable[tuple[str, bytes]]) -> Iterator[Version]:
        for number, (path, data) in enumerate(files):
            if number % RESTED_EVERY == 0:
                self._rest()
            yield from versions_of(path, data)

    def _live(self, node_id: NodeId) -> Version | None:
        node = self._catalog.node(node_id)
        return None if node is None else Version(node, tuple(self._catalog.links(node_id, "cites")))

    def _doubled(self, versions: Sequence[Version]) -> frozenset[NodeId]:
        """Return the ids that one file has here and another in the index."""
        paths = {version.node.node_id: version.node.path for version in versions}
        known = self._catalog.nodes(paths)
        return frozenset(name for name, node in known.items() if node.path != paths[name])

    # ---- the selection

    def _add_told(self, chosen: _Selected, selection: Selection) -> frozenset[str]:
        """Return the ids of the selected texts that agents were handed; where words are selected, add their lines."""
        selected = set()
        for one in self._ledger.told(datetime.fromtimestamp(0, UTC)):
            lines = [Work(one.session_id, one.channel, one.at, line.statement) for line in one.lines]
            found = [_work_node(line) for line in lines if _is_chosen(line, selection)]
            if selection.matching is not None:
                chosen.versions += found
            if found or one.session_id in chosen.sessions:
                selected.add(str(one.told_id))
        return frozenset(selected)

    def _named(self, selection: Selection, history: list[Version], work: Sequence[Work]) -> _Selected:
        """Select nodes by id; with a session its turns and the facts learned in it, with a fact the turns it quotes."""
        chosen = _Selected()
        at_work = {one.session_id for one in work}
        for node_id in dict.fromkeys(chain(selection.nodes, *map(self._ledger.names_of_document, selection.nodes))):
            versions = [self._live(node_id), *(each for each in history if each.node.node_id == node_id)]
            known = [version for version in versions if version is not None]
            if not (known or selection.if_there) and node_id in selection.nodes and node_id not in at_work:
                raise NotFound(f"there is no {node_id}", hint="`dreamctl list` and `dreamctl recall` show ids.")
            for version in known:
                chosen.add(version.node)
                if version.node.kind is Kind.SESSION:
                    self._add_session(node_id, chosen, history)
                elif version.node.level is Level.FACT:
                    self._add_quoted(version, chosen, history)
        return chosen

    def _add_session(self, session_id: NodeId, chosen: _Selected, history: list[Version]) -> None:
        """Add the turns of a session, and the facts that were learned in it and rest on it alone."""
        held = [version for version in history if version.node.session_id == session_id]
        for node in (*self._catalog.turns(session_id), *(version.node for version in held)):
            if node.kind is Kind.TURN:
                chosen.add(node)
        learned = (each.node for each in held if each.node.level is Level.FACT and not each.sources)
        for node in (*self._catalog.learned_in(session_id), *learned):
            chosen.add(node)

    def _add_quoted(self, fact: Version, chosen: _Selected, history: list[Version]) -> None:
        """Add the turns that a fact quotes: its words are theirs."""
        # Any salt will do: these hashes are compared here and never kept.
        said = ErasedWords.of(bytes(1), (), [fact.node.text])
        cited = [source for source in fact.sources if is_turn(source)]
        held = (version.node for version in history if version.node.node_id in cited)
        for turn in (*self._catalog.nodes(cited).values(), *held):
            if said.overlaps(turn.text):
                chosen.add(turn)

    def _matching(self, selection: Selection, history: list[Version]) -> _Selected:
        """Select the turns and facts that match, and the sessions of which every turn does."""
        wanted = _test_of(selection)
        chosen = _Selected()
        spared: set[NodeId | None] = set()
        for node in chain(self._catalog.said(), (version.node for version in history)):
            if is_derived(node.path):
                continue  # a digest is no memory: it loses what it quotes of what goes
            if (node.kind in {Kind.TURN, Kind.DOCUMENT} or node.level is Level.FACT) and wanted(node):
                chosen.add(node)
            elif node.kind is Kind.TURN:
                spared.add(node.session_id)
        for node in self._catalog.listing():
            is_page = node.level in _PAGE_LEVELS and selection.channel is not None
            if (is_page or (node.kind is Kind.SESSION and node.node_id not in spared)) and wanted(node):
                chosen.add(node)
        return chosen

    # ---- the nodes that go with it

    def _add_quoting(self, chosen: _Selected, passages: ErasedWords, history: list[Version]) -> None:
        """Add the facts that quote a node that goes, or rest on such nodes alone."""
        citing = {other for turn in chosen.turns for other in self._catalog.cited_by(turn)} - chosen.memories
        live = (version for node_id in sorted(citing) if (version := self._live(node_id)) is not None)
        for version in (*live, *history):
            cited = chosen.turns.intersection(version.sources)
            rests_on_it = len(cited) == len(set(version.sources)) or passages.overlaps(version.node.text)
            if cited and rests_on_it and version.node.level is Level.FACT:
                chosen.add(version.node)

    def _episodes_gone(self, erasure: Erasure) -> set[NodeId]:
        """Return the episodes of which nothing stays; the memories that name them lose that link as well."""
        citing = self._catalog.nodes(self._catalog.pointing_at(erasure.ids)).values()
        pages = ((node, self._vault.read_if_any(node.path)) for node in citing if node.level is Level.SCENARIO)
        return {node.node_id for node, data in pages if data and erasure.scrubbed(node.path, data) is None}

    def _is_erased(self, session_id: NodeId, chosen: _Selected) -> bool:
        """Return True for a session of which every turn was purged before: nothing of it is left."""
        turns = list(self._catalog.turns(session_id))
        held = any(turn.partition("#")[0] == session_id for turn in chosen.turns)
        return bool(turns) and not held and all(turn.text == session.ERASED for turn in turns)

    # ---- the words that identify it

    def _traces(
        self, chosen: _Selected, unindexed: Sequence[Node], on_looked: Callable[[int], None]
    ) -> tuple[set[str], list[NodeId]]:
        """Return the words that only nodes that go contain, and the nodes that stay and repeat one of those."""
        words = {word for node in chosen.versions for word in words_of(f"{_all_words(node)}\n{node.role}")}
        kept: set[str] = set()
        repeated_in = []
        spoken = passages_of(node.text for node in chosen.versions)
        for number, node in enumerate(chain(self._catalog.said(), unindexed)):
            if number % RESTED_EVERY == 0:
                self._rest()
                on_looked(number)
            goes = chosen.has(node)
            kept.update(words_of(f"{'' if goes else node.role} {node.channel} {node.session_id}"))
            if not goes:
                said = words_of(node.text)
                kept.update(said)
                if longest_common(said, spoken.__contains__) >= REPEATED_WORDS:
                    repeated_in.append(node.node_id)
        for node in self._catalog.listing():
            for line in self._own_lines(node, chosen):
                said = words_of(line)
                # A line that is mostly a quote of a node that goes does not keep its words out of the traces.
                if longest_common(said, spoken.__contains__) < min(REPEATED_WORDS, max(GRAM, len(said) - 2)):
                    kept.update(said)
        return traces_among(words, kept), repeated_in

    def _own_lines(self, node: Node, chosen: _Selected) -> Iterator[str]:
        """Yield the text that is in titles and pages alone: the title of a session that stays, a person's lines."""
        if node.kind is Kind.SESSION:
            if node.node_id not in {turn.partition("#")[0] for turn in chosen.turns}:
                yield node.title
        elif node.level in _PAGE_LEVELS and (data := self._vault.read_if_any(node.path)) is not None:
            memory = okf.to_memory(node.path, okf.parse(data))
            if memory.extra.get(BY_HAND) != body_hash(memory.text) and not chosen.has(node):
                lost = {okf.source_ids(memory.sources)[each] for each in chosen.memories.intersection(memory.sources)}
                yield from (line for line in memory.text.split("\n") if not lost.intersection(cited_in(line)))

    # ---- secrets

    def _plan_secrets(self, versions: list[Version], salt: bytes) -> PurgePlan:
        """Plan to remove the secrets that today's rules find, in any file or row."""
        words: set[str] = set()
        kept: set[str] = set()
        titles: list[str] = []
        seen: set[tuple[NodeId, str]] = set()
        times = 0
        held = (version.node for version in versions)
        for node in chain(self._catalog.said(), self._catalog.listing(), held):
            said = _all_words(node)
            if (node.node_id, said) in seen:
                continue
            seen.add((node.node_id, said))
            cleaned = [redact(text) for text in _texts_of(node)]  # each by itself, as the file's are
            for clean in cleaned:
                kept.update(words_of(clean.text))
            if found := sum(len(clean.found) for clean in cleaned):
                words.update(words_of(said))
                titles.append(redact(node.path).text)  # its own title may hold it
                times += found
        erasure = Erasure(ErasedWords.of(salt, traces_among(words, kept), ()), secrets=True)
        if not times:  # perhaps only in questions
            times = sum(1 for _ in row_erasures(self._ledger.ask, erasure))
        return self._planned(erasure, titles, secrets=times)


def _place(node: Node) -> tuple[bool, str, int]:
    return node.kind is not Kind.SESSION, node.node_id.partition("#")[0], node.ordinal


def _item(node: Node, because: Literal["named", "said", "drawn", "quotes"], *, goes: bool = True) -> PurgedItem:
    said = title_of(node.text, ITEM_CHARS) if node.kind is Kind.TURN else node.title or title_of(node.text, ITEM_CHARS)
    return PurgedItem(
        node_id=node.node_id,
        kind=node.kind.value,
        title=redact(said).text,
        channel=node.channel,
        created_at=node.created_at,
        because=because,
        goes=goes,
    )


def versions_of(path: str, data: bytes) -> list[Version]:
    """Return the nodes of a file: a memory, or a session and its turns."""
    if is_session(path):
        head, _ = read_head(path, data)
        return [Version(node) for node in project_session(path, data, head).nodes]
    memory = okf.to_memory(path, okf.parse(data))
    return [Version(memory_node(memory), memory.sources)]


def _work_node(work: Work) -> Node:
    """Return an anchor or a goal as a node, so that its words are looked for as those of nodes are."""
    title = work.text.strip().partition("\n")[0]
    return Node(
        node_id=work.session_id,
        path="",
        level=Level.SESSION,
        kind=Kind.NOTE,
        title=title,
        text=work.text,
        channel=work.channel,
    )


def _is_chosen(work: Work, selection: Selection) -> bool:
    """Return True for an anchor or a goal that is selected by its session, its channel, its time or its words."""
    if selection.nodes:
        return work.session_id in selection.nodes
    if selection.channel is not None:
        return is_of_channel(work.channel, selection.channel)
    if selection.before is not None:
        return work.at < selection.before
    return _contains_phrase(work.text, selection.matching or "")


def _contains_phrase(text: str, phrase: str) -> bool:
    return f" {' '.join(words_of(phrase))} " in f" {' '.join(words_of(text))} "


def _test_of(selection: Selection) -> Callable[[Node], bool]:
    """Return the test that nodes must pass to be chosen. Raises InvalidInput where nothing is asked for."""
    if (channel := selection.channel) is not None:
        return lambda node: is_of_channel(node.channel, channel)
    if (before := selection.before) is not None:
        return lambda node: node.created_at is not None and node.created_at < before
    if words_of(phrase := selection.matching or ""):
        return lambda node: _contains_phrase(f"{_all_words(node)}\n{node.title}\n{node.role}", phrase)
    raise InvalidInput("nothing is named that is to be purged", hint="Name a memory, a session, a channel or a text.")


def _all_words(node: Node) -> str:
    """Return the texts of a node as one."""
    return "\n".join(_texts_of(node))


def _texts_of(node: Node) -> tuple[str, ...]:
    """Return the texts of a node; the context of a turn is its neighbours' text again, and is left out."""
    return (node.text,) if node.kind is Kind.TURN else (node.title, node.text, node.context, *node.tags)
