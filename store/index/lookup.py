"""Lookup of the files of nodes, and of the nodes that depend on others."""

from __future__ import annotations

from collections.abc import Sequence

from ..model import IndexDamaged, NodeId, NotFound
from ..vault.vault import FileNames, Vault
from .catalog import TurnsRead
from .index import is_as_read
from .opening import OpenIndex
from .projection import SUCCESSOR, Node


class Lookup:
    """Finds the files of nodes, and the nodes that depend on others. Every method may be called from any thread."""

    def __init__(self, opened: OpenIndex, vault: Vault) -> None:
        self._opened = opened
        self._catalog = opened.catalog
        self._vault = vault
        self._names = FileNames(vault)

    def path_of(self, node_id: NodeId) -> str | None:
        """Return the path of a node's file.

        While the index is incomplete, the names of the files are searched: an acknowledgement never needs the index.
        """
        try:
            path = self._catalog.path_of(node_id)
        except IndexDamaged:
            return self._names.path_of(node_id)
        if self._opened.is_whole:
            self._names.forget()
            return path
        return path or self._names.path_of(node_id)

    def path_of_session(self, session_id: NodeId) -> str | None:
        """Return the path of a session's file.

        Until vault and index are compared, the index may lack a file that was written just before a crash: then the
        folders of the days are searched.
        """
        path = self.path_of(session_id)
        if path is None and not self._opened.is_compared:
            path = self._vault.session_named(session_id)
        return path

    def session_as_read(self, path: str) -> tuple[TurnsRead, bytes] | None:
        """Return the turns of a session's file and its bytes from the last turn on; None if the index may be behind.

        The index knows the whole file if it read it to its end, without a problem, under the file's present stamp.
        """
        try:
            row = self._catalog.file(path)
            stamp = self._vault.stamp(path)
            if row is None or stamp is None or not is_as_read(stamp, row) or row.parsed_to != row.size:
                return None
            turns = self._catalog.turns_read(path)
            if turns is None or self._catalog.file(path) != row:  # it was indexed between the two reads
                return None
            return turns, self._vault.read(path, turns.last_offset)
        except (IndexDamaged, NotFound):
            return None

    def channel_of_session(self, session_id: NodeId) -> str | None:
        """Return the channel of a known session: the session stays in it, whatever channel a later batch has."""
        try:
            head = self._catalog.session_head(session_id)
        except IndexDamaged:
            return None
        return head.channel if head else None

    def read(self, node_id: NodeId) -> bytes | None:
        """Return the content of a node's file, None where there is none."""
        path = self.path_of(node_id)
        return self._vault.read_if_any(path) if path else None

    def knows_files(self) -> bool:
        """Return True if the index was in use before; a damaged one was."""
        try:
            return bool(self._catalog.files())
        except IndexDamaged:
            return True

    def paths_citing(self, node_id: NodeId) -> Sequence[str]:
        """Return the files of the live nodes that cite a node."""
        return [node.path for node in self._catalog.nodes(self._catalog.cited_by(node_id)).values() if node.live]

    def paths_replaced_by(self, node_id: NodeId) -> Sequence[str]:
        """Return the files of the nodes that name a node as their successor."""
        return [node.path for node in self.replaced_by(node_id)]

    def replaced_by(self, node_id: NodeId) -> Sequence[Node]:
        """Return the nodes that name a node as their successor."""
        return list(self._catalog.nodes(self._catalog.cited_by(node_id, SUCCESSOR)).values())

    def resting_only_on(self, node_id: NodeId) -> Sequence[Node]:
        """Return the nodes that cite a node and no other."""
        citing = self._catalog.nodes(self._catalog.cited_by(node_id)).values()
        return [node for node in citing if set(self._catalog.links(node.node_id, "cites")) == {node_id}]
