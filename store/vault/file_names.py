"""Lookup of a memory's file by its file name, while the index is not available."""

from __future__ import annotations

from ..model import NodeId
from .vault import SESSIONS_FOLDER, Vault


class FileNames:
    """The ids that the names of a vault's files hold. For one thread; the vault is walked at the first question.

    A file that a person renamed is not found, nor one that came later: the index knows that one, or soon does.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._paths: dict[NodeId, str] | None = None

    def path_of(self, node_id: NodeId) -> str | None:
        """Return the path of the memory or session with this id."""
        if self._paths is None and self._vault.look() is None:
            self._paths = {}
            for stamp in self._vault.walk():
                self._paths.setdefault(_id_in(stamp.path), stamp.path)
        return (self._paths or {}).get(node_id)

    def forget(self) -> None:
        """Let go of the names: the next question is for those that are there then."""
        self._paths = None


def _id_in(path: str) -> NodeId:
    stem = path.rpartition("/")[2].removesuffix(".md")
    return stem if path.startswith(SESSIONS_FOLDER) else stem.rpartition("--")[2]
