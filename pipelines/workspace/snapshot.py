"""The snapshot: index and ledger copied in one step each, and the vault read where it lies."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...store import okf
from ...store.channel import channel_apart, channel_of_folder, clones_of, know_projects, project_root
from ...store.engine.database import Connections, backup, open_database
from ...store.flags import project_channels
from ...store.index.catalog import Catalog
from ...store.index.open_index import copy_engine
from ...store.index.projection import IMPORT, Node
from ...store.ledger.ledger import Ledger, Reinforced, Usage
from ...store.ledger.questions import Gap, Probe
from ...store.model import AWAITS_REVIEW, Kind, Level, Memory, NodeId, Status, StoreError, Turn
from ...store.okf import session
from ...store.results import ToldText
from ...store.text.fence import without_controls
from ...store.vault.disk import Disk
from ...store.vault.layout import LAYOUT, Layout, layout_of
from ...store.vault.vault import Vault

# The number of a channel's newest sessions that are read for the folder in which they ran.
SESSIONS_ASKED = 40

HEAD_BYTES = 16_384


class NoSpace(StoreError):
    """Too little disk space: a copy needs twice its size free."""


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session in the copy. `last_ordinal` is that of its last turn."""

    session_id: NodeId
    channel: str
    path: str
    last_ordinal: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The parts of the ledger that stages need."""

    tombstones: frozenset[str] = frozenset()
    cursors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    paused: bool = False
    channels_off: frozenset[str] = frozenset()
    usage: Mapping[NodeId, Usage] = field(default_factory=dict)
    probes: Sequence[Probe] = ()
    gaps: Sequence[Gap] = ()
    feedback: Mapping[NodeId, Mapping[str, int]] = field(default_factory=dict)
    reinforced: Mapping[NodeId, Reinforced] = field(default_factory=dict)
    layout: Layout = Layout.FOLDERS
    told: Sequence[ToldText] = ()


class Snapshot:
    """The memory as it was when the copies were made; files are read from the vault when asked for."""

    def __init__(self, folder: Path, vault: Path, index: Path, ledger: Path) -> None:
        _check_space(folder, index, ledger)
        backup(index, folder / "index.db")
        copy_engine(index, folder / "index.db")
        backup(ledger, folder / "ledger.db")
        self._vault = Vault(vault, Disk())
        self._connections = Connections(lambda: open_database(folder / "index.db", durable=False, read_only=True))
        self._catalog = Catalog(self._connections.get)
        self.ledger = Ledger(folder / "ledger.db", read_only=True)
        know_projects(project_channels(self.ledger), self._catalog.channel_names())

    def close(self) -> None:
        """Close the copies."""
        self._connections.close()
        self.ledger.close()

    def history(self) -> History:
        """Read the parts of the ledger that stages need."""
        return History(
            tombstones=frozenset(self.ledger.tombstones()),
            cursors=self.ledger.every_cursor(),
            paused=self.ledger.paused,
            channels_off=self.ledger.channels_off,
            usage=self.ledger.usage(),
            probes=self.ledger.probes(),
            gaps=self.ledger.gaps(),
            feedback=self.ledger.feedback(),
            reinforced=self.ledger.reinforced(),
            layout=layout_of(self.ledger.flags().get(LAYOUT), self.paths()),
            told=self.ledger.told(datetime.fromtimestamp(0, UTC)),
        )

    def sessions(self) -> list[SessionState]:
        """Return every session, by id."""
        last = self._catalog.sessions()
        nodes = self._catalog.nodes(last.keys())
        return [
            SessionState(session_id, node.channel, node.path, last[session_id], without_controls(node.title))
            for session_id, node in sorted(nodes.items())
            if node.kind is Kind.SESSION
        ]

    def turns(self, session_id: NodeId) -> list[Turn]:
        """Return the turns of a session that were not forgotten, in order."""
        return [
            Turn(session_id, node.ordinal, node.role, without_controls(node.text), node.created_at, node.external_id)
            for node in self._catalog.turns(session_id)
            if node.kind is Kind.TURN and node.live
        ]

    def folders(self, channel: str) -> list[Path]:
        """Return the existing folders of a channel's project in which its newest sessions ran."""
        sql = "SELECT path FROM node WHERE channel = ? AND level = 'L0' AND kind = 'session' ORDER BY created_at DESC"
        rows = self._connections.get().execute(f"{sql} LIMIT ?", (channel, SESSIONS_ASKED))
        named = dict.fromkeys(cwd for (path,) in rows if (cwd := self._cwd(path)))
        folders = [Path(cwd) for cwd in named if Path(cwd).is_absolute()]
        return [folder for folder in folders if _is_folder(folder) and channel in _channels_of(folder)]

    def _cwd(self, path: str) -> str | None:
        """Read the folder in which a session ran, from the beginning of its file."""
        try:
            return session.head_of(path, okf.parse(self._vault.read(path, 0, HEAD_BYTES))).cwd
        except (OSError, StoreError):
            return None

    def memories(self) -> list[Memory]:
        """Return every memory above L0, by id, with the fields of the index."""
        sources: dict[NodeId, list[NodeId]] = defaultdict(list)
        conflicts: dict[NodeId, list[NodeId]] = defaultdict(list)
        waiting = frozenset(self._catalog.waiting())
        for source, target, kind in self._connections.get().execute(
            "SELECT source, target, kind FROM link WHERE kind IN ('cites', 'contradicts') ORDER BY source, rank"
        ):
            (sources if kind == "cites" else conflicts)[source].append(target)
        levels = (Level.FACT, Level.SCENARIO, Level.PROFILE)
        found = [
            _memory(
                node,
                tuple(sources.get(node.node_id, ())),
                tuple(conflicts.get(node.node_id, ())),
                {AWAITS_REVIEW: True} if node.node_id in waiting else {},
            )
            for level in levels
            for node in self._catalog.listing(level=level)
        ]
        return sorted(found, key=lambda memory: memory.node_id)

    def read(self, path: str) -> bytes | None:
        """Return a file of the vault, or None."""
        return self._vault.read_if_any(path)

    def written_at(self, path: str) -> datetime | None:
        """Return when a file of the vault was last written, None where there is none."""
        stamp = self._vault.stamp(path)
        return None if stamp is None else datetime.fromtimestamp(stamp.mtime_ns / 1e9, UTC)

    def paths(self) -> Collection[str]:
        """Return the path of every kept file of the vault."""
        return [stamp.path for stamp in self._vault.walk()]

    def indexed_paths(self) -> Mapping[str, str | None]:
        """Return every file that the index has seen, with its problem if it has one."""
        return {path: row.problem for path, row in self._catalog.files().items()}

    def unembedded(self) -> int:
        """Count the chunks without a vector."""
        return self._catalog.counts()["embedding_queue"]


def _memory(
    node: Node, sources: tuple[NodeId, ...], contradicts: tuple[NodeId, ...], extra: Mapping[str, Any]
) -> Memory:
    return Memory(
        extra=extra,
        node_id=node.node_id,
        level=node.level,
        kind=node.kind,
        title=without_controls(node.title),
        text=without_controls(node.text),
        channel=node.channel,
        tags=node.tags,
        said_by=node.role if node.role not in {"", IMPORT} else None,
        status=Status.STABLE if node.live else Status.DEPRECATED,
        created_at=node.created_at,
        valid_from=node.valid_from,
        valid_to=node.valid_to,
        session_id=node.session_id,
        certainty=node.certainty,
        sources=sources,
        contradicts=contradicts,
        path=node.path,
    )


def _channels_of(folder: Path) -> set[str]:
    """Return the channels that a folder may have: those of its project, and its own where it stands apart."""
    channel = channel_of_folder(folder)
    return {channel, *clones_of(channel), channel_apart(project_root(folder))}


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _check_space(folder: Path, *databases: Path) -> None:
    needed = 2 * sum(path.stat().st_size for path in databases if path.exists())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise NoSpace(
            f"a dream needs {needed / 2**20:.0f} MiB free and {free / 2**20:.0f} MiB are",
            hint="Free some space; nothing was changed.",
        )
