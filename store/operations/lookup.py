"""Lookups of nodes and their files that several operations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..index.catalog import TurnsRead
from ..index.index import is_as_read
from ..index.opening import OpenIndex
from ..index.projection import SUCCESSOR, Node
from ..model import IndexDamaged, NodeId, NotFound
from ..vault.vault import FileNames, Vault


class Lookup:
    """Finds the files of nodes, and the nodes that depend on others. Every method may be called from any thread."""

    def __init__(self, opened: OpenIndex, vault: Vault, is_caught_up: Callable[[], bool]) -> None:
        self._opened = opened
        self._catalog = opened.catalog
        self._vault = vault
        self._names = FileNames(vault)
        self._is_caught_up = is_caught_up

    def path_of(self, node_id: NodeId) -> str | None:
        """Return the path of a node's file.

        While the index cannot say, the files' names do: an acknowledgement never needs the index.
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

        Until vault and index are compared, the index may miss a file that was written just before a crash; the folders
        of the days are asked then.
        """
        path = self.path_of(session_id)
        if path is None and not self._is_caught_up():
            path = self._vault.session_named(session_id)
        return path

    def session_as_read(self, path: str) -> tuple[TurnsRead, bytes] | None:
        """Return the turns of a session's file and its bytes from the last one on; None where the index may be behind.

        The index knows the whole file if it read it under the stamp that the file has, to its end, without a problem.
        """
        try:
            row = self._catalog.file(path)
            stamp = self._vault.stamp(path)
            if row is None or stamp is None or not is_as_read(stamp, row) or row.parsed_to != row.size:
                return None
            turns = self._catalog.turns_read(path)
            if turns is None or self._catalog.file(path) != row:  # read anew between the two
                return None
            return turns, self._vault.read(path, turns.last_offset)
        except (IndexDamaged, NotFound):
            return None

    def channel_of_session(self, session_id: NodeId) -> str | None:
        """Return the channel of a session that is known; it stays in it, whatever a later batch names."""
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
        """Return whether the index was in use before; a damaged one was."""
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
