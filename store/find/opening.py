"""The index's database: opened, or set aside and made anew; the vault is never touched by that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import apsw

from ..keep.database import Connections, integrity_problems, open_database
from ..keep.vault import Vault
from ..model import Corrupt, NodeId, SchemaTooNew
from ..settings import StoreSettings
from .backends.sqlite_vec import SqliteVecStore
from .catalog import MIGRATIONS, Catalog
from .embedding import Embedder
from .images import Images
from .index import Index, MissingFiles, Reconciled
from .projection import PROJECTION_VERSION

logger = logging.getLogger(__name__)

MADE_BY_KEY = "made_by"


class OpenIndex:
    """An open index: its one write connection and its readers, one a thread. `note` says why it was made anew."""

    def __init__(
        self,
        path: Path,
        vault: Vault,
        embedder: Embedder,
        settings: StoreSettings,
        now: Callable[[], datetime],
        is_hidden: Callable[[NodeId], bool],
        missing: MissingFiles | None = None,
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.note = ""
        made_by = f"{embedder.model_id}, projection {PROJECTION_VERSION}"
        self._connection = self._open_or_replace(made_by)
        self._readers = Connections(lambda: open_database(path, durable=False, read_only=True, migrations=MIGRATIONS))
        self.catalog = Catalog(self._readers.get)
        self.images = Images(self._readers.get)
        self.index = Index(
            self._connection,
            SqliteVecStore(lambda: self._connection, self._readers.get),
            vault,
            now=now,
            dimension=embedder.dimension,
            chunk_tokens=settings.chunks.max_tokens,
            overlap_tokens=settings.chunks.overlap_tokens,
            is_hidden=is_hidden,
            missing=missing,
        )
        self.index.set_meta(MADE_BY_KEY, made_by)

    def problems(self) -> list[str]:
        """What SQLite's own check finds wrong; reads the whole file."""
        return integrity_problems(self.path)

    def close(self) -> None:
        """Close every connection."""
        self._readers.close()
        self._connection.close()

    def _open_or_replace(self, made_by: str) -> apsw.Connection:
        try:
            connection = open_database(self.path, durable=False, migrations=MIGRATIONS)
        except (Corrupt, SchemaTooNew) as error:
            return self._replace(f"the index was made anew: {error}")
        try:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (MADE_BY_KEY,)).fetchone()
        except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
            connection.close()
            return self._replace(f"the index was made anew: {error}")
        if row is not None and row[0] != made_by:
            connection.close()
            return self._replace(f"the index was made anew for {made_by}, it was for {row[0]}")
        return connection

    def _replace(self, why: str) -> apsw.Connection:
        """Set the unusable files aside, once; they are no loss, but somebody may want to look."""
        logger.warning("%s", why)
        self.note = f"{why[0].upper()}{why[1:]}."
        for suffix in ("", "-wal", "-shm"):
            file = self.path.with_name(self.path.name + suffix)
            if file.exists():
                file.replace(self.path.with_name(f"{self.path.stem}.set-aside{self.path.suffix}{suffix}"))
        return open_database(self.path, durable=False, migrations=MIGRATIONS)


def rebuild(index: Index, progress: Callable[[int, int], None] | None = None) -> Reconciled:
    """Unlearn everything and read the vault again, in one transaction: old answers stand until the new are whole."""
    with index.batch():
        index.clear()
        return index.reconcile(progress)
