"""Salvage: a damaged ledger is set aside, never deleted; its readable rows are copied into the ledger that replaces it.

`carry_over` copies at once the rows that promises depend on (PROMISED); `salvage` copies the rest, history above all,
when a person asks for it.

A damaged file is read row by row from a copy (`Wreck`), in four steps:
1. The keys of a table are collected from both ends of it, up to the damage, and from each of its other indexes.
2. Numbers between the lowest and the highest key are tried too: rows behind a damaged page have such ids.
3. Each row is fetched by its key alone. One that cannot be read, or has a value of the wrong type, is left out, and
   counted in `lost` if its key was seen.
4. If the schema itself is unreadable, its pages are copied from a fresh ledger, since every ledger begins alike.

Example: of `action` with ids 1 to 100, the page with ids 40 to 60 is damaged. Reading forwards finds 1 to 39, backwards
100 to 61, an index on another page also 40 to 60. Numbers that no index had are tried as well. Rows 40 to 60 cannot be
fetched: 79 rows are copied, and the 21 whose keys were seen count as lost.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import apsw

from ..engine.database import lasting_problems, open_database, schema_version, transaction
from .journal import BLIND
from .schema import MIGRATIONS

SIDECARS: Final = ("", "-wal", "-shm")
PAGE_BYTES: Final = 4096
DAMAGED, SALVAGED, DISCARDED = "damaged", "salvaged", "discarded"

PROMISED: Final = ("journal", "tombstone", "flag", "withheld", "anchor", "goal")
"""The tables that `carry_over` copies at once."""

CARRIED: Final = "carried:"
"""Prefix of a flag, before a damaged file's name: the entries of its journal that were copied at once."""

HISTORY_LOST: Final = "history_lost"
"""A flag: the vault had a ledger before this one, which was not found."""

UNREADABLE: Final = (apsw.Error, UnicodeDecodeError)
MOST_IDS: Final = 5_000_000


@dataclass(slots=True)
class Salvaged:
    """The outcome for one damaged file: copied rows by table, and the number that could not be read or did not fit."""

    file: str
    kept_as: str
    rows: dict[str, int] = field(default_factory=dict)
    lost: int = 0


# ---- files


def damaged_files(ledger: Path) -> list[Path]:
    """Return the damaged ledgers that a person has not decided about, oldest first."""
    found = {path: _number(path.name, ledger, DAMAGED) for path in ledger.parent.glob(f"{ledger.stem}.{DAMAGED}-*")}
    return sorted((path for path, number in found.items() if number), key=lambda path: found[path])


def kept_copies(ledger: Path) -> list[Path]:
    """Return the damaged ledgers that a person has decided about, and their sidecars: they are kept, and not used."""
    return [
        path
        for state in (SALVAGED, DISCARDED)
        for path in sorted(ledger.parent.glob(f"{ledger.stem}.{state}-*"))
        if path.is_file()
    ]


def set_aside(ledger: Path) -> Path:
    """Rename a damaged ledger, which no connection has open for writing; return its new path."""
    return _renamed(ledger, ledger, DAMAGED)


def _renamed(path: Path, ledger: Path, state: str) -> Path:
    taken = [_number(file.name, ledger, state) for file in ledger.parent.iterdir()]
    aside = ledger.with_name(f"{ledger.stem}.{state}-{max(taken, default=0) + 1}{ledger.suffix}")
    for suffix in reversed(SIDECARS):  # the database last: its name marks the set as complete
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.replace(aside.with_name(aside.name + suffix))
    aside.touch(mode=0o600)
    return aside


def _number(name: str, ledger: Path, state: str) -> int:
    found = re.fullmatch(rf"{re.escape(ledger.stem)}\.{state}-(\d+){re.escape(ledger.suffix)}", name)
    return int(found[1]) if found else 0


# ---- from one to the other


def carry_over(aside: Path, target: apsw.Connection) -> None:
    """Copy the readable rows that promises depend on; the rest waits for `salvage`."""
    with Wreck(aside) as wreck, transaction(target):
        carried = _journal(wreck, target)
        for table in PROMISED[1:]:
            _copy(wreck, target, table)
        value = json.dumps(carried)
        target.execute("INSERT OR REPLACE INTO flag VALUES (?, ?)", (f"{CARRIED}{aside.name}", value))


def salvage(ledger: Path) -> list[Salvaged]:
    """Copy the readable rows of the damaged files into the ledger, which must be closed, and rename the files.

    Entries of the journal that were not copied before are placed at the next start.
    """
    target = open_database(ledger, durable=True, migrations=MIGRATIONS)
    try:
        return [_salvage(path, ledger, target) for path in damaged_files(ledger)]
    finally:
        _forget_loss(target)
        target.close()


def bring_back(ledger: Path) -> None:
    """Salvage set-aside files at a start if all are whole: then a passing fault of the disk was taken for damage."""
    aside = damaged_files(ledger)
    if aside and ledger.exists() and all(map(_is_whole, aside)):
        salvage(ledger)


def _is_whole(path: Path) -> bool:
    if lasting_problems(path):
        return False
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return schema_version(connection) > 0


def discard(ledger: Path) -> list[str]:
    """Go on without the damaged or missing ledgers; return the names under which the files stay."""
    target = open_database(ledger, durable=True, migrations=MIGRATIONS)
    try:
        _forget_loss(target)
        return [_renamed(path, ledger, DISCARDED).name for path in damaged_files(ledger)]
    finally:
        target.close()


def _forget_loss(target: apsw.Connection) -> None:
    target.execute("DELETE FROM flag WHERE name = ?", (HISTORY_LOST,))


def _salvage(path: Path, ledger: Path, target: apsw.Connection) -> Salvaged:
    done = Salvaged(path.name, "")
    with Wreck(path) as wreck, transaction(target):
        done.rows["journal"] = len(_journal(wreck, target, state=BLIND))
        # Undo looks for the last action of a path by its id, so salvaged (older) actions need the lower ids.
        if highest := wreck.highest("action"):
            target.execute("UPDATE action SET id = -id")  # later actions come after salvaged ones
            target.execute("UPDATE action SET id = ? - id", (highest,))
        for table in _tables(target):
            if table != "journal":
                done.rows[table] = _copy(wreck, target, table)
        done.lost = wreck.lost
        _expire_torn_runs(target)
        target.execute("DELETE FROM flag WHERE name = ?", (f"{CARRIED}{path.name}",))
    done.kept_as = _renamed(path, ledger, SALVAGED).name
    return done


def _tables(target: apsw.Connection) -> list[str]:
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    return [name for (name,) in target.execute(sql)]


def _journal(wreck: Wreck, target: apsw.Connection, state: str = "") -> list[int]:
    """Copy the entries that were not copied before, behind those that are there; return their numbers.

    Entries that wait for their files get this `state`.
    """
    held: list[Any] = target.execute("SELECT value FROM flag WHERE name = ?", (f"{CARRIED}{wreck.name}",)).fetchall()
    known = set(json.loads(held[0][0])) if held else set()
    columns = wreck.shared_columns(target, "journal")
    # Numbers of an empty journal can stay; else they may be taken, and new ones are given.
    keeps_numbers = not target.execute("SELECT 1 FROM journal LIMIT 1").fetchall()
    taken = []
    for row in wreck.rows("journal", columns):
        named = dict(zip(columns, row, strict=True))
        if named["seq"] in known:
            continue
        if not _is_text(named["content"]):
            wreck.lost += 1
            continue
        taken.append(named["seq"])
        named["state"] = named["state"] or state
        names = [name for name in columns if keeps_numbers or name != "seq"]
        _insert(target, "journal", names, [named[name] for name in names])
    return taken


def _copy(wreck: Wreck, target: apsw.Connection, table: str) -> int:
    """Copy a table's rows; one that is there already stays as it is. Return how many were copied."""
    columns = wreck.shared_columns(target, table)
    numbered = "id" in columns and table != "action"
    copied = 0
    for row in wreck.rows(table, columns):
        named = {name: value for name, value in zip(columns, row, strict=True) if not (numbered and name == "id")}
        # Such a flag of an earlier salvage speaks of another file than the one that is read now.
        if table == "flag" and named["name"].startswith(CARRIED):
            continue
        before = target.total_changes()
        if not _insert(target, table, list(named), list(named.values())):
            wreck.lost += 1
        copied += target.total_changes() - before
    return copied


def _insert(target: apsw.Connection, table: str, columns: Sequence[str], values: Sequence[Any]) -> bool:
    """Insert a row if it fits; False where the row that it belongs to is lost."""
    sql = f"INSERT OR IGNORE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
    try:
        target.execute(sql, values)
    except apsw.ConstraintError:
        return False
    return True


def _expire_torn_runs(target: apsw.Connection) -> None:
    """Expire runs of which an action or an image is lost: half an undo is worse than none."""
    runs: list[Any] = target.execute(
        "SELECT run_id, count(*), max(ordinal) FROM action JOIN run USING (run_id) WHERE NOT expired GROUP BY run_id"
    ).fetchall()
    for run_id, count, last in runs:
        images = target.execute("SELECT pre_image, post_image FROM action WHERE run_id = ?", (run_id,))
        if count != last + 1 or not all(_unpacks(image) for row in images for image in row):
            target.execute("UPDATE run SET expired = 1 WHERE run_id = ?", (run_id,))
            target.execute("UPDATE action SET pre_image = NULL, post_image = NULL WHERE run_id = ?", (run_id,))


def _unpacks(image: bytes | None) -> bool:
    try:
        return image is None or bool(zlib.decompress(image)) or True
    except zlib.error:
        return False


def _is_text(content: bytes | None) -> bool:
    """Return True for UTF-8, which all our content is; bytes of a damaged page without structure are not."""
    with contextlib.suppress(UnicodeDecodeError):
        (content or b"").decode()
        return True
    return False


# ---- reading a damaged database


class Wreck:
    """A copy of a damaged database, read row by row; `lost` counts the rows that could not be read."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.lost = 0
        self._path = path
        self._stack = contextlib.ExitStack()
        self._connection: apsw.Connection | None = None

    def __enter__(self) -> Wreck:
        folder = Path(tempfile.mkdtemp(prefix=".salvage-", dir=self._path.parent))
        self._stack.callback(shutil.rmtree, folder)
        copy = folder / "wreck.db"
        # A copy, since even reading may write: SQLite rolls the WAL into the file that it opens.
        for suffix in SIDECARS[:2]:
            part = self._path.with_name(self._path.name + suffix)
            if part.exists():
                shutil.copy(part, copy.with_name(copy.name + suffix))
        self._connection = self._open(copy)
        if self._connection is None and copy.stat().st_size > PAGE_BYTES:
            _graft_schema(copy, folder / "whole.db")
            self._connection = self._open(copy)
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close(True)
        self._stack.close()

    def _open(self, path: Path) -> apsw.Connection | None:
        connection = apsw.Connection(str(path))
        try:
            connection.execute("SELECT * FROM sqlite_schema").fetchall()
        except UNREADABLE:
            connection.close(True)
            return None
        return connection

    def shared_columns(self, target: apsw.Connection, table: str) -> list[str]:
        """Return the columns of a table that both databases have."""
        there = self._ask(f"PRAGMA table_info({table})")
        wanted = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
        return [name for name in wanted if name in {row[1] for row in there}]

    def highest(self, table: str) -> int:
        """Return the highest id of a table, 0 where none can be read."""
        return max((key[0] for key in self._keys(table, ["id"])), default=0)

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the readable rows of a table, in the order of its keys."""
        if not columns:
            return
        info = self._ask(f"PRAGMA table_info({table})")
        key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
        types = {row[1]: row[2] for row in info}
        where = " AND ".join(f"{name} = ?" for name in key)
        seen = self._keys(table, key)
        # One row at a time: a statement over many rows ends at the first damaged page.
        for values in sorted(seen | self._between(seen)):
            found = self._ask(f"SELECT {', '.join(columns)} FROM {table} WHERE {where}", values)
            if found and all(map(_has_type, found[0], (types[name] for name in columns))):
                yield found[0]
            elif values in seen:
                self.lost += 1

    def _keys(self, table: str, key: Sequence[str]) -> set[tuple[Any, ...]]:
        """Collect the keys of a table from both its ends, and from its other indexes."""
        names = ", ".join(key)
        found, is_whole = self._until_damage(f"SELECT {names} FROM {table} ORDER BY {names}")
        if is_whole:
            return found
        backwards = ", ".join(f"{name} DESC" for name in key)
        found |= self._until_damage(f"SELECT {names} FROM {table} ORDER BY {backwards}")[0]
        for row in self._ask(f"PRAGMA index_list({table})"):
            found |= self._until_damage(f"SELECT {names} FROM {table} INDEXED BY {row[1]}")[0]
        return found

    @staticmethod
    def _between(keys: Collection[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
        """Return the numbers between the first and the last: rows that have one may lie behind a damaged page."""
        if not keys or any(len(key) != 1 or not isinstance(key[0], int) for key in keys):
            return set()
        first = min(keys)[0]
        return {(number,) for number in range(first, min(max(keys)[0], first + MOST_IDS))}.difference(keys)

    def _until_damage(self, sql: str) -> tuple[set[tuple[Any, ...]], bool]:
        found: set[tuple[Any, ...]] = set()
        if self._connection is None:
            return found, True
        try:
            for row in self._connection.execute(sql):
                found.add(row)
        except UNREADABLE:
            return found, False
        return found, True

    def _ask(self, sql: str, values: Collection[Any] = ()) -> list[tuple[Any, ...]]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(sql, tuple(values)).fetchall()
        except UNREADABLE:
            return []


def _has_type(value: Any, declared: str) -> bool:
    return value is None or isinstance(value, {"TEXT": str, "INTEGER": int, "BLOB": bytes}.get(declared, object))


def _graft_schema(damaged: Path, whole: Path) -> None:
    """Overwrite unreadable schema pages, which say where tables begin, with those of a fresh ledger.

    They are the same in every ledger that this version created. In any other, tables do not open or their rows do not
    fit, and nothing is read of them.
    """
    fresh = open_database(whole, durable=False, migrations=MIGRATIONS)
    numbers = [number for (number,) in fresh.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")]
    fresh.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    fresh.close()
    pages = whole.read_bytes()
    size = damaged.stat().st_size
    with damaged.open("r+b") as file:
        for start in ((number - 1) * PAGE_BYTES for number in numbers):
            page = bytearray(pages[start : start + PAGE_BYTES])
            if start == 0:
                page[28:32] = (size // PAGE_BYTES).to_bytes(4, "big")
                page[32:40] = bytes(8)  # no free pages
                page[92:96] = page[24:28]  # the number of pages is valid for this change
            if start < size:
                file.seek(start)
                file.write(page)
