"""Backups: vault, ledger and settings of one moment in one archive, with the hash of every file; and their way back.

A backup is made while others write. The vault is copied in passes, each of the files that changed since the last. The
final pass, and the beginning of the ledger's copy, happen while the writer holds still, so both are of one moment:
entries that are not in their files yet are in the ledger's journal, and the next start places them.

The archive is a `.tar.gz` with `manifest.json` first. It gets its name when every byte of it was read back; before
that it lies in a hidden folder, which the next backup to the same place removes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import apsw

from ..core import VAULT_ID, Core
from ..engine.database import integrity_problems, open_database, translated
from ..ledger import records
from ..ledger.ledger import Ledger
from ..ledger.schema import MIGRATIONS
from ..model import Corrupt, InvalidInput, StoreBusy
from ..results import BackedUp
from ..settings import StorePaths
from ..vault.disk import FILE_MODE, FOLDER_MODE, Disk, is_temp, opened
from ..vault.vault import MARKER, FileStamp, Vault
from ..writer.writer import Planned
from .backup_archive import (
    BLOCK,
    LEDGER,
    OTHER,
    SETTINGS,
    VAULT,
    Manifest,
    Member,
    Progress,
    member_of,
    pack,
    read_archive,
    silent,
)

Hold = Callable[[Callable[[], float]], float]
"""Runs a function while nothing writes to vault and ledger, and returns its result."""

MOST_PASSES, FEW_FILES = 5, 64
"""Passes before the writer is held, which end sooner once so few files changed during one."""

YOUNG_NS: Final = 50_000_000
"""A file that was written so shortly before its copy may have changed again within one tick of the file system's clock;
it is copied once more."""

BACKED_UP: Final = "backed_up"
"""The ledger's flag with the time of the last backup."""

LEAST_FREE: Final = 64 * 2**20
_HIDDEN: Final = ".dreamd-backup-"


_ELSEWHERE: Final = (
    "No memory is written over. Restore elsewhere (DREAMD_DATA_DIR=/another/folder), or move this one away first."
)


def make_backup(
    paths: StorePaths,
    target: Path,
    *,
    now: datetime,
    version: str,
    settings: bytes | None = None,
    hold: Hold = lambda work: work(),
    progress: Progress = silent,
) -> BackedUp:
    """Write a verified archive to `target`, a file or an existing folder.

    Raises InvalidInput for a target that cannot be, StoreBusy where there is no room, or while a purge is under way.
    """
    began_s = time.monotonic()
    target = _target(target, paths, now)
    _remove_leftovers(target.parent)
    with _room(target.parent) as room:
        _refuse_full(room, paths)
        held_s, staged = _copy(paths, room, hold, progress)
        if settings is not None:
            (room / SETTINGS).write_bytes(settings)
            staged.files[SETTINGS] = member_of(SETTINGS, room / SETTINGS)
        manifest = Manifest(
            version, now.isoformat(), _vault_id(room / LEDGER), tuple(staged.files.values()), tuple(staged.left_out)
        )
        packed = room / "archive"
        pack(packed, manifest, room, progress)
        read_archive(packed, progress)
        Disk().fsync(packed)
        _name(packed, target)
    seconds = round(time.monotonic() - began_s, 3)
    whole = member_of(target.name, target)
    return BackedUp(str(target), len(manifest.files), whole.size, whole.sha256, seconds, held_s, manifest.left_out)


def backup_of(core: Core, target: Path, version: str, settings: bytes | None, progress: Progress = silent) -> BackedUp:
    """Write a backup of an open store, whose writer holds still for a moment; its time is kept for `doctor`."""

    def hold(work: Callable[[], float]) -> float:
        # Counters are written with the next commit; this one waits for them.
        core.writer.write(records.set_flag(BACKED_UP + "_began", records.stored(core.now()))).result()
        return core.writer.submit(lambda _files: Planned(work())).result()

    done = make_backup(
        core.paths, target, now=core.now(), version=version, settings=settings, hold=hold, progress=progress
    )
    core.writer.write(records.set_flag(BACKED_UP, records.stored(core.now()))).result()
    return done


def restore_backup(archive: Path, data_dir: Path, paths: StorePaths, progress: Progress = silent) -> Manifest:
    """Put the memory of an archive where there is none; all of it is verified before the first name is given.

    The caller holds the daemon's lock. Raises InvalidInput where something is remembered already, and Corrupt for an
    archive that is torn or altered; then nothing is changed.
    """
    manifest = read_archive(archive)
    is_apart = not paths.vault.is_relative_to(data_dir)
    ledger_is_there = is_apart and _is_left_half(paths, manifest)
    if not ledger_is_there:
        refuse_living(paths)
    staged = data_dir.with_name(f".{data_dir.name}.restoring")
    staged_vault = paths.vault.with_name(f".{paths.vault.name}.restoring") if is_apart else staged / VAULT
    for folder in (staged, staged_vault):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        _unpack(archive, staged, staged_vault, progress)
        _carry_over(data_dir, staged)
        Disk().sync_filesystem(staged, staged.rglob("*"), [staged])
        # Where the vault lies apart its ledger comes first: a ledger without its vault waits for it, and a second try
        # ends what was begun. A vault without its ledger would be given a new one.
        if not ledger_is_there:
            put_in_place(staged, data_dir)
            with contextlib.suppress(OSError):  # models of before are of use; without them they are made again
                (staged / "models").rename(data_dir / "models")
        if is_apart:
            Disk().sync_filesystem(staged_vault, staged_vault.rglob("*"), [staged_vault])
            put_in_place(staged_vault, paths.vault)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        if is_apart:
            shutil.rmtree(staged_vault, ignore_errors=True)
    return manifest


# ---- making one


@dataclass(slots=True)
class _Staged:
    """The copies so far: their entries in the manifest, and the stamps of their originals."""

    files: dict[str, Member]
    stamps: dict[str, FileStamp]
    left_out: list[str]


def _copy(paths: StorePaths, room: Path, hold: Hold, progress: Progress) -> tuple[float, _Staged]:
    staged = _Staged({}, {}, [])
    for _ in range(MOST_PASSES):
        if _follow(paths.vault, room, staged, progress) <= FEW_FILES:
            break
    with contextlib.ExitStack() as stack:

        def last() -> float:
            began_s = time.monotonic()
            _refuse_unfit(paths)
            _follow(paths.vault, room, staged, silent)
            # The snapshot of this moment is read by the copy, however long that takes.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchall()
            return round(time.monotonic() - began_s, 4)

        with translated(paths.ledger):
            source = apsw.Connection(str(paths.ledger), flags=apsw.SQLITE_OPEN_READONLY)
            stack.callback(source.close)
            source.set_busy_timeout(5000)
            held_s = hold(last)
            progress("ledger", 0, 1)
            _copy_ledger(source, room / LEDGER)
    staged.files[LEDGER] = member_of(LEDGER, room / LEDGER)
    return held_s, staged


def _copy_ledger(source: apsw.Connection, target: Path) -> None:
    copy = apsw.Connection(str(target))
    try:
        with copy.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(-1)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    finally:
        copy.close()
    if problems := integrity_problems(target):
        raise Corrupt(f"the ledger is damaged: {problems[0]}", hint="`dreamctl salvage` brings back what can be read.")
    target.chmod(FILE_MODE)


def _follow(vault: Path, room: Path, staged: _Staged, progress: Progress) -> int:
    """Copy the files that are not as they were copied, drop the copies of those that are gone; return their number."""
    staged.left_out.clear()
    there = dict(_regular_files(vault, staged.left_out))
    changed = [path for path, stamp in there.items() if staged.stamps.get(path) != stamp]
    for gone in staged.stamps.keys() - there.keys():
        (room / VAULT / gone).unlink(missing_ok=True)
        del staged.stamps[gone], staged.files[f"{VAULT}/{gone}"]
    for number, path in enumerate(changed):
        progress("vault", number, len(changed))
        try:
            _copy_file(vault, path, room, staged)
        except (FileNotFoundError, NotADirectoryError):  # it went meanwhile; the next pass sees that
            staged.stamps.pop(path, None)
            staged.files.pop(f"{VAULT}/{path}", None)
    return len(changed)


def _copy_file(vault: Path, path: str, room: Path, staged: _Staged) -> None:
    copy = room / VAULT / path
    copy.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with opened(vault / path) as source, copy.open("wb") as target:
        status = os.fstat(source.fileno())
        while block := source.read(BLOCK):
            digest.update(block)
            target.write(block)
            size += len(block)
    is_young = copy.stat().st_mtime_ns - status.st_mtime_ns < YOUNG_NS
    stamp = FileStamp.of(path, status)
    staged.stamps[path] = stamp if not is_young and size == status.st_size else FileStamp(path, 0, 0, 0, 0)
    staged.files[f"{VAULT}/{path}"] = Member(f"{VAULT}/{path}", size, digest.hexdigest(), status.st_mtime_ns)


def _regular_files(vault: Path, left_out: list[str]) -> Iterator[tuple[str, FileStamp]]:
    """Yield all regular files, a person's own and hidden ones too; links and the like are named in `left_out`."""
    for folder, folders, names in os.walk(vault):
        inner = os.path.relpath(folder, vault)
        prefix = "" if inner == "." else f"{inner}/"
        left_out.extend(f"{prefix}{name}" for name in folders if Path(folder, name).is_symlink())
        folders.sort()
        for name in sorted(names):
            if is_temp(name):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = os.lstat(f"{folder}/{name}")
                if not stat.S_ISREG(status.st_mode) or "\udc80" <= max(name) <= "\udcff":
                    left_out.append(f"{prefix}{name}".encode(errors="replace").decode())
                    continue
                yield f"{prefix}{name}", FileStamp.of(f"{prefix}{name}", status)


def _target(target: Path, paths: StorePaths, now: datetime) -> Path:
    if target.is_dir():
        target /= f"dreamd-{now:%Y-%m-%d-%H%M%S}.tar.gz"
    if os.path.lexists(target):
        raise InvalidInput(f"{target} is there already", hint="Name another file; no backup is written over.")
    if not target.parent.is_dir():
        raise InvalidInput(f"there is no folder {target.parent}", hint="Make it first, or name another.")
    parent = Path(os.path.realpath(target.parent))
    for own in (paths.vault, paths.ledger.parent):
        if parent.is_relative_to(os.path.realpath(own)):
            raise InvalidInput(
                f"{target} lies in the memory itself ({own})", hint="A backup belongs elsewhere, best on another disk."
            )
    return target


def _name(packed: Path, target: Path) -> None:
    try:
        # A link refuses to replace a file that has come there meanwhile, as a rename would not.
        os.link(packed, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links, as on a stick
        packed.rename(target)
    Disk().fsync_dir(target.parent)


@contextlib.contextmanager
def _room(folder: Path) -> Iterator[Path]:
    room = None
    try:
        room = Path(tempfile.mkdtemp(prefix=f"{_HIDDEN}{os.getpid()}-", dir=folder))
        (room / VAULT).mkdir(mode=FOLDER_MODE)
        yield room
    except OSError as error:
        raise StoreBusy(f"the backup cannot be written: {error.strerror or error}", hint="Make room there.") from error
    finally:
        if room is not None:
            shutil.rmtree(room, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove the hidden folders of backups whose process is gone."""
    for left in folder.glob(f"{_HIDDEN}*"):
        pid = left.name.removeprefix(_HIDDEN).partition("-")[0]
        if pid.isdigit() and int(pid) != os.getpid() and not _lives(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _refuse_full(room: Path, paths: StorePaths) -> None:
    """Raise StoreBusy unless there is room for the copy and the archive of it."""
    size = paths.ledger.stat().st_size if paths.ledger.exists() else 0
    size += sum(stamp.size for _, stamp in _regular_files(paths.vault, []))
    free = shutil.disk_usage(room).free
    if free < 2 * size + LEAST_FREE:
        raise StoreBusy(
            f"the backup needs up to {(2 * size + LEAST_FREE) >> 20} MiB, and {free >> 20} MiB are free",
            hint="Make room, or name another disk.",
        )


def _refuse_unfit(paths: StorePaths) -> None:
    """Raise StoreBusy for a memory that is not whole now."""
    if paths.purge.exists():
        raise StoreBusy("a purge is under way, or waits to be finished", hint="Try again when it is done.")
    if not (paths.vault / MARKER).is_file():
        raise StoreBusy(f"the vault {paths.vault} is not there", hint="Mount it, then try again.")


# ---- the way back


def _unpack(archive: Path, staged: Path, staged_vault: Path, progress: Progress) -> Manifest:
    """Unpack into new folders: the ledger and the settings into one, the vault into the other."""
    for folder in (staged, staged_vault):
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)

    @contextlib.contextmanager
    def into(member: Member) -> Iterator[IO[bytes]]:
        inner = member.path.removeprefix(f"{VAULT}/")
        target = staged / member.path if inner == member.path else staged_vault / inner
        for folder in [*reversed(target.relative_to(staged_vault).parents)][1:] if inner != member.path else ():
            (staged_vault / folder).mkdir(mode=FOLDER_MODE, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # When a file was written says when what a person changed in it began to hold.
        os.utime(target, ns=(member.mtime_ns, member.mtime_ns))

    manifest = read_archive(archive, progress, into)
    if problems := integrity_problems(staged / LEDGER):
        raise Corrupt(f"the ledger of {archive} is damaged: {problems[0]}", hint=OTHER)
    open_database(staged / LEDGER, durable=True, migrations=MIGRATIONS).close()
    return manifest


def refuse_living(paths: StorePaths) -> None:
    """Raise InvalidInput where anything is remembered, or could be."""
    marked = Vault(paths.vault, Disk())
    if paths.vault.is_dir() and next(marked.walk(), None) is not None:
        raise InvalidInput(f"{paths.vault} holds memories", hint=_ELSEWHERE)
    if paths.vault.is_dir() and not marked.has_marker() and any(paths.vault.iterdir()):
        raise InvalidInput(f"{paths.vault} holds files that are not dreamd's", hint=_ELSEWHERE)
    # A ledger whose vault is away, as on a disk that is not mounted, is of a memory too; one that never knew a vault is
    # of a memory that was about to be made.
    if paths.ledger.exists() and (
        _is_used(paths.ledger) or (not marked.has_marker() and _vault_id(paths.ledger) is not None)
    ):
        raise InvalidInput(f"{paths.ledger} holds the history of a memory", hint=_ELSEWHERE)


def _is_used(ledger: Path) -> bool:
    try:
        connection = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)
        with contextlib.closing(connection):
            tables = ("journal", "run", "cursor", "question", "feedback")
            return any(connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall() for table in tables)
    except apsw.Error:  # damaged, or of a version that had other tables: it may hold anything
        return True


def _is_left_half(paths: StorePaths, manifest: Manifest) -> bool:
    """Return True after a restore that ended between the ledger and the vault, which lies apart from it."""
    is_empty = not paths.vault.exists() or not any(paths.vault.iterdir())
    return is_empty and paths.ledger.exists() and _vault_id(paths.ledger) == manifest.vault_id is not None


def _vault_id(ledger: Path) -> str | None:
    opened_ledger = Ledger(ledger, read_only=True)
    try:
        return opened_ledger.flags().get(VAULT_ID)
    finally:
        opened_ledger.close()


def _carry_over(data_dir: Path, staged: Path) -> None:
    """Copy the notes of `connect` on programs' settings: they are of this machine, and of no memory."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copytree(data_dir / "connected", staged / "connected", dirs_exist_ok=True)


def put_in_place(staged: Path, target: Path) -> None:
    """Give a whole folder its name in one step; the folder that had it holds no memory, and goes."""
    if not target.exists():
        target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        staged.rename(target)
    else:
        with contextlib.suppress(
            OSError
        ):  # a file system that swaps no names: an empty folder is replaced all the same
            Disk().exchange(staged, target)
            return
        shutil.rmtree(target)
        staged.rename(target)
    Disk().fsync_dir(target.parent)
