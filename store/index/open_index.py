"""The index's database: opened, or set aside and made anew, at the start or in use; the vault is never touched by that.

`index.db` is the file in use, or, once another took its place, a symbolic link to it: each file has a name that no
other has had, so that a connection to the old one never meets the new one's write-ahead log.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import re
import shutil
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from .. import extensions
from ..embedding.embedding import NEAR_MODELS, Embedder
from ..engine.database import (
    DAMAGE,
    FALSE_ALARMS,
    LOOK_AGAIN_S,
    MAY_PASS,
    Connections,
    can_be_written,
    copy_to_memory,
    lasting_problems,
    open_database,
    tried_again,
    watch,
)
from ..engine.files import FilesStore, suffix_of
from ..engine.interface import EngineHome, VectorStore
from ..engine.served import ServedStore, ServerLink, engine_of, reach
from ..engine.sqlite_vec import SqliteVecStore
from ..model import Corrupt, IndexDamaged, SchemaTooNew, StoreBusy, StoreError
from ..results import ServerStatus
from ..settings import StoreSettings
from ..vault.vault import Vault
from .catalog import MIGRATIONS, Catalog
from .graph import Graph
from .images import Images, LostFile, lost_files
from .index import COLLECTION, Index, MissingFiles, Reconciled, Unguarded
from .projection import PROJECTION_VERSION
from .visibility import Concealment

logger = logging.getLogger(__name__)

MADE_BY_KEY: Final = "made_by"
# Set once every file of the vault has been read: before that, what is not in the index may be in the vault.
WHOLE_KEY: Final = "whole"

# Endings of the names of an index's files; the last is that of an engine without a database.
SIDECARS: Final = ("", "-wal", "-shm", suffix_of(COLLECTION))

# The engines that are servers, and their names for people.
SERVERS: Final = {"postgres": "Postgres", "qdrant": "Qdrant"}

# Changed files that are left for the moment in which nothing else is written: about as many as one transaction.
FEW: Final = 64

UNUSABLE: Final = (Corrupt, SchemaTooNew, IndexDamaged, *DAMAGE, apsw.SQLError)

# The wait of a start for a file that cannot be used: shorter than the ledger's, since it can be made again.
START_WAITS_S: Final = 5.0

# The time in which a file cannot be read, on a disk that takes others, before it is discarded.
UNREADABLE_S: Final = 60.0


@extensions.implements
def backends() -> Mapping[str, Callable[[EngineHome], VectorStore]]:
    """Return our own search engines by name."""
    return {
        "sqlite-vec": _sqlite_vec,
        "files": lambda home: FilesStore(home.path),
        **dict.fromkeys(SERVERS, lambda home: ServedStore(_sqlite_vec(home), home.writing, home.reading)),
    }


def _sqlite_vec(home: EngineHome) -> SqliteVecStore:
    return SqliteVecStore(home.writing, home.reading, home.most_held)


class IndexFile:
    """One file with its write connection and its readers, one a thread."""

    def __init__(self, path: Path, on_damage: Callable[[Exception], Exception]) -> None:
        def connect(*, read_only: bool) -> apsw.Connection:
            try:
                connection = open_database(path, durable=False, read_only=read_only, migrations=MIGRATIONS)
            except (Corrupt, *DAMAGE) as error:
                raise on_damage(error) from error
            watch(connection, on_damage)
            return connection

        self.path = path
        self.writing = connect(read_only=False)
        self.readers = Connections(lambda: connect(read_only=True))

    def close(self) -> None:
        """Close every connection."""
        self.readers.close()
        self.writing.close(True)

    def leave(self) -> None:
        """Close the write connection; a reader's is closed when its thread is done with it."""
        self.writing.close(True)


class OpenIndex:
    """The index in use. `index` and `catalog` stay what they are, whichever file they read and write.

    `on_damage` is called, in the thread that met it, when the file in use turns out damaged; the query raises
    IndexDamaged. `replace_damaged` puts a new file in its place, `reconcile` fills that.
    """

    def __init__(
        self,
        path: Path,
        vault: Vault,
        embedder: Embedder,
        settings: StoreSettings,
        now: Callable[[], datetime],
        concealment: Concealment | None = None,
        on_damage: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._concealment = concealment = concealment or Concealment()
        self._vault = vault
        self._dimension = embedder.dimension
        self._settings = settings
        self._now = now
        self.missing: MissingFiles = Unguarded()
        """Decides about files that are gone."""
        self._on_damage = on_damage
        # what was indexed before the setting was made is masked too
        rules = f", projection {PROJECTION_VERSION}" + (", without people" if settings.redact_personal else "")
        # A server has a copy of what sqlite-vec holds; any other engine has an index of its own.
        rules += "" if settings.backend in ("sqlite-vec", *SERVERS) else f", {settings.backend}"
        self._made_by = embedder.model_id + rules
        self._made_near = {near + rules for near in NEAR_MODELS.get(embedder.model_id, ())}
        self.is_copy = False
        """True for a copy in memory, since the disk could not be written at the start."""
        if path.exists() and not can_be_written(path.parent):
            self.is_copy = True
            self._copy = copy_to_memory(path, SIDECARS[3:])
        path.parent.mkdir(parents=True, exist_ok=True)
        self._numbers = itertools.count(1 + max(self._number_of(file.name) for file in (path, *path.parent.iterdir())))
        self._rebuilding = threading.RLock()
        self._damage: Exception | None = None
        self._unread_since: float | None = None
        self._false_alarms = 0
        self._read = (0, 0)
        self._lost: list[LostFile] = []
        self._file, self._file_number = self._open_or_begin()
        self._remove_strays()
        self.index = self._index_over(lambda: self._file)
        self.catalog = Catalog(lambda: self._file.readers.get(), concealment.withdrawn)
        self.graph = Graph(lambda: self._file.readers.get())
        self.images = Images(lambda: self._file.readers.get())
        self.is_whole = self.catalog.meta(WHOLE_KEY) is not None
        self.is_compared = False
        """True once the files that changed while the daemon, or the vault, was away are read."""

    def serve(self, dsn_file: Path) -> None:
        """Let a server that the settings name answer with a copy of the index, from now on."""
        backend = self.index.backend
        if isinstance(backend, ServedStore) and not self.is_copy:
            which = self._settings.backend
            link = ServerLink(SERVERS[which], self._copy_name(), partial(reach, which, dsn_file))
            backend.start(COLLECTION, self._dimension, self.index.batch, link)

    def server(self) -> ServerStatus | None:
        """Return the state of the server that the settings name, None where they name none."""
        backend = self.index.backend
        return backend.status(COLLECTION) if isinstance(backend, ServedStore) else None

    def left_copy(self, dsn_file: Path) -> str:
        """Return the name of a copy that a server has of this index though the settings name none, "" without one."""
        is_left = self.server() is None and dsn_file.exists() and self._server_id.exists()
        return self._copy_name() if is_left else ""

    def drop_copy(self, dsn_file: Path) -> None:
        """Remove such a copy from its server. Raises StoreError."""
        with closing(reach(engine_of(dsn_file), dsn_file)) as server:
            server.drop(self._copy_name())
        self._server_id.unlink()

    @property
    def _server_id(self) -> Path:
        return self.path.with_name("server-id")

    def _copy_name(self) -> str:
        """Return a server's name for its copy of this index, which no other folder or machine has."""
        file = self._server_id
        if not file.exists():
            file.write_text(uuid.uuid4().hex, encoding="ascii")
        named = f"{file.read_text(encoding='ascii')} {socket.gethostname()} {self.path}"
        return f"chunks_{hashlib.sha256(named.encode()).hexdigest()[:16]}"

    def close(self) -> None:
        """Close every connection, once a rebuild that changes files just now is through or has stopped."""
        if isinstance(self.index.backend, ServedStore):
            self.index.backend.stop()
        with self._rebuilding:
            self._file.close()

    def guard(self, missing: MissingFiles) -> None:
        """Have `missing` decide about files that are gone, from now on: before the first file is applied."""
        self.missing = self.index.missing = missing

    # ---- what is known of it

    @property
    def note(self) -> str:
        """A sentence on how much of the vault the index has read, "" once that is all of it."""
        if self.is_whole and self._damage is None and not self.is_copy:
            return ""
        if self.is_copy:
            return "the disk cannot be written: what was kept before is found"
        done, total = self._read
        return "the index is being made again" + (f": {done:,} of {total:,} files" if total else "")

    def problems(self) -> list[str]:
        """Return the problems that SQLite's own check finds, and note them as damage; reads the whole file.

        Raises StoreBusy where it cannot be read at the moment: that is no damage.
        """
        number, path = self._file_number, self._file.path
        found = lasting_problems(path) if path.exists() else ["the file is not there"]
        if found:
            self._met(number, Corrupt(found[0]))
        return found

    def remove_set_aside(self) -> None:
        """Remove the discarded file that was kept for inspection."""
        _remove(self._aside_path())

    def take_lost(self) -> list[LostFile]:
        """Return the files that were gone and that a discarded index knew; each is returned once."""
        lost, self._lost = self._lost, []
        return lost

    # ---- another file

    def reconcile(self) -> Reconciled:
        """Compare every file of the vault with what was last seen of it, and learn what differs."""
        number = self._file_number
        found = self.index.reconcile(self._has_read)
        if number == self._file_number and not self.is_whole:
            self.index.set_meta(WHOLE_KEY, "1")
            self.is_whole = True
        return found

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read the vault into a new file, and put that in the place of the one in use, which answers meanwhile.

        What changes meanwhile is read into both. Raises StoreBusy where the vault is not there.
        """
        self._vault.raise_if_away()
        with self._rebuilding:
            fresh, number = self._begin(self._next_path())
            try:
                self._read_into(fresh, number, progress)
            except BaseException:
                fresh.close()
                _remove(fresh.path)
                raise

    @contextmanager
    def no_other_file(self, closing: threading.Event) -> Iterator[None]:
        """Wait until no new file is being read, and let none be begun but by this thread. Raises StoreBusy to stop."""
        while not self._rebuilding.acquire(timeout=LOOK_AGAIN_S):
            if closing.is_set():
                raise StoreBusy("the store is closing", hint="The next start goes on.")
        try:
            yield
        finally:
            self._rebuilding.release()

    def replace_damaged(self) -> None:
        """Put a new file, which is empty, in the place of one that was found damaged, and set that one aside.

        One that a check finds whole, once it can be read, is opened again instead.
        """
        if self.is_copy:
            self._leave_copy()
            return
        error = self._damage
        if error is None:
            return
        passed = self._may_be_whole(error) and self._can_be_read()
        with self.index.still():
            old = self._file
            file, number = self._open(old.path) if passed else self._begin(self._next_path())
            if not passed:
                logger.warning("the index is damaged (%s); it is made again", type(error).__name__)
                self._set_aside(old.path)
                self._point_to(file.path)
            self._false_alarms = self._false_alarms + 1 if passed else 0
            self._use(file, number, is_whole=passed and self.is_whole)
            old.leave()

    def _leave_copy(self) -> None:
        """Go back to the file, whose disk could not be written at the start. Raises StoreBusy while that is so."""
        if not can_be_written(self.path.parent):
            raise StoreBusy("the disk of the index cannot be written", hint="Make room; dreamd goes on by itself.")
        with self.index.still():
            old = self._file
            self.is_copy = False
            file, number = self._open_or_begin()
            self._use(file, number, is_whole=False)  # what changed meanwhile is compared
            old.leave()

    def _may_be_whole(self, error: Exception) -> bool:
        """Return True unless a check said otherwise: a read that fails within SQLite may come out as damage."""
        sign = error.__cause__ or error
        return isinstance(sign, MAY_PASS) or (isinstance(sign, apsw.Error) and self._false_alarms < FALSE_ALARMS)

    def _can_be_read(self) -> bool:
        """Return True if the file in use is sound. Raises StoreBusy, up to UNREADABLE_S, if it cannot be read now."""
        if not self._file.path.is_file():
            return False
        try:
            return not lasting_problems(self._file.path)
        except StoreBusy:
            now = time.monotonic()
            self._unread_since = now if self._unread_since is None else self._unread_since
            if now - self._unread_since < UNREADABLE_S or not can_be_written(self.path.parent):
                raise
            return False

    def _read_into(self, fresh: IndexFile, number: int, progress: Callable[[int, int], None] | None) -> None:
        index = self._index_over(lambda: fresh)
        index.between_slices = self.index.between_slices
        index.raise_if_stopped = self.index.raise_if_stopped
        with self.index.noting() as noted:
            index.reconcile(progress)
            while len(paths := noted.take()) > FEW:
                index.apply_all(paths)
            index.apply_all(paths)
            index.set_meta(WHOLE_KEY, "1")
            with self.index.still():
                index.apply_all(noted.take())
                old = self._file
                self._point_to(fresh.path)
                self._use(fresh, number, is_whole=True)
                old.leave()
        self._discard(old.path)

    @property
    def generation(self) -> tuple[int, int]:
        """The state of the index: another file, and another state of it, after every change."""
        return self._file_number, self.index.generation

    def _use(self, file: IndexFile, number: int, *, is_whole: bool) -> None:
        self._file, self._file_number, self.is_whole = file, number, is_whole
        self._read = (0, 0)
        self._damage = None
        self._unread_since = None

    def _has_read(self, done: int, total: int) -> None:
        self._read = (done, total)

    def _met(self, number: int, error: Exception) -> IndexDamaged:
        """Take note of damage, unless it is of a file that is no longer in use."""
        if number == self._file_number and self._damage is None:
            self._damage = error
            self._on_damage()
        return IndexDamaged("the index is damaged and is being made again", hint="Try again in a moment.")

    # ---- opening

    def _open_or_begin(self) -> tuple[IndexFile, int]:
        self._file_number = 0  # none is in use yet
        try:
            return self._open_patiently(self._real_path())
        except UNUSABLE as error:
            logger.warning("the index is made anew: %s", error.__cause__ or error)
            self._set_aside(self._real_path())
        except _Outdated as error:
            logger.info("the index is made anew for %s, it was for %s", self._made_by, error)
            self._lost += lost_files(self._real_path(), self._vault)
            _remove(self._real_path())
        self.path.unlink(missing_ok=True)
        return self._begin(self.path)

    def _open_patiently(self, path: Path) -> tuple[IndexFile, int]:
        """Open it, trying again for START_WAITS_S while the disk does not let it be read, or lets it look damaged."""

        def may_pass(error: Exception) -> bool:
            return isinstance(error, (StoreBusy, *MAY_PASS)) and not path.is_dir()

        return tried_again(partial(self._open, path), may_pass, START_WAITS_S)

    def _open(self, path: Path) -> tuple[IndexFile, int]:
        number = next(self._numbers)
        file = IndexFile(path, partial(self._met, number))
        try:
            row = file.writing.execute("SELECT value FROM meta WHERE key = ?", (MADE_BY_KEY,)).fetchone()
            self._refuse_if_outdated(row)
            index = self._index_over(lambda: file)
            _refuse_if_behind(index)
            if row is None or row[0] != self._made_by:
                with index.batch():
                    index.hold_as_near()
                    index.set_meta(MADE_BY_KEY, self._made_by)
        except BaseException:
            file.close()
            raise
        return file, number

    def _refuse_if_outdated(self, row: tuple[str] | None) -> None:
        if row is not None and row[0] != self._made_by and row[0] not in self._made_near:
            raise _Outdated(row[0])

    def _begin(self, path: Path) -> tuple[IndexFile, int]:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(path)
        return self._open(path)

    def _index_over(self, file: Callable[[], IndexFile]) -> Index:
        index = Index(
            lambda: file().writing,
            self._engine_over(file),
            self._vault,
            now=self._now,
            dimension=self._dimension,
            chunks=self._settings.chunks,
            concealment=self._concealment,
        )
        index.missing = self.missing
        return index

    def _engine_over(self, file: Callable[[], IndexFile]) -> VectorStore:
        """Return the engine of the settings over a file, perhaps another from one call to the next."""
        known = extensions.current()
        known.add_own("engines", sys.modules[__name__])
        if (opened := known.table("backends").get(self._settings.backend)) is None:
            raise StoreError(
                f"there is no search backend {self._settings.backend}",
                f"Install its package, or set store.backend to one of {', '.join(known.table('backends'))}.",
            )
        most_held = self._settings.search.vectors_in_memory
        home = EngineHome(
            lambda: file().path, lambda: file().writing, lambda: file().readers.get(), self._dimension, most_held
        )
        engine: VectorStore = opened(home)
        return engine

    # ---- names of files

    def _real_path(self) -> Path:
        if self.is_copy:
            return self._copy
        return self.path.parent / self.path.readlink() if self.path.is_symlink() else self.path

    def _next_path(self) -> Path:
        """Return a name that no file of this folder has, or had while this process ran."""
        return self.path.with_name(f"{self.path.stem}-{next(self._numbers)}{self.path.suffix}")

    def _number_of(self, name: str) -> int:
        """Return the number in such a name, 0 for any other."""
        found = re.match(rf"{re.escape(self.path.stem)}-(\d+){re.escape(self.path.suffix)}", name)
        return int(found[1]) if found else 0

    def _point_to(self, path: Path) -> None:
        link = self.path.with_name(f"{self.path.name}.link")
        link.unlink(missing_ok=True)
        link.symlink_to(path.name)
        link.replace(self.path)

    def _set_aside(self, path: Path) -> None:
        """Keep a discarded file for inspection; only the latest stays.

        Where the disk has no room for another of its size, it is removed: the index that replaces it needs that room.
        """
        aside = self._aside_path()
        for suffix in SIDECARS:
            file, kept = path.with_name(path.name + suffix), aside.with_name(aside.name + suffix)
            kept.unlink(missing_ok=True)
            if file.exists():
                file.replace(kept)
        self._lost += lost_files(aside, self._vault)
        if aside.exists() and shutil.disk_usage(aside.parent).free < 2 * aside.stat().st_size:
            _remove(aside)

    def _aside_path(self) -> Path:
        return self.path.with_name(f"{self.path.stem}.set-aside{self.path.suffix}")

    def _discard(self, path: Path) -> None:
        """Remove a file that another took the place of; the link may have its name by now."""
        for suffix in SIDECARS if path != self.path else SIDECARS[1:]:
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    def _remove_strays(self) -> None:
        """Remove files that a rebuild left when it was killed."""
        if self.is_copy:
            return
        for file in self.path.parent.iterdir():
            if self._number_of(file.name) and not file.name.startswith(self._file.path.name):
                file.unlink()


class _Outdated(Exception):
    """The index was made by another model, not a near one, or by other rules, or its engine has lost something."""


def _refuse_if_behind(index: Index) -> None:
    if not index.is_in_step():
        raise _Outdated("a catalogue whose engine has another state")


def copy_engine(index: Path, copy: Path) -> None:
    """Copy the file of an engine without a database; if it changes meanwhile, the copied index is made anew."""
    file = index.resolve()
    with suppress(FileNotFoundError):
        shutil.copyfile(file.with_name(file.name + SIDECARS[-1]), copy.with_name(copy.name + SIDECARS[-1]))


def _remove(path: Path) -> None:
    for suffix in SIDECARS:
        path.with_name(path.name + suffix).unlink(missing_ok=True)
