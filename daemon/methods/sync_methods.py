"""The methods that keep one memory on several machines, and the syncs that the daemon does by itself.

A sync runs at the start, when changes here have come to rest, and every few minutes for changes elsewhere;
never while an agent waits for an answer. A remote that does not answer is a state with a time, and no error.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from loguru import logger
from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.channels import searched_channel
from ...ipc.params import NoParams, Params
from ...ipc.protocol import Refused
from ...store import replace_file
from ...store.model import GLOBAL_CHANNEL, StoreError
from ...store.names import Channel
from ..clock import utc_now
from ..dreaming.dreamer import Dreamer
from ..sync.entries import Known
from ..sync.peer import Peer, new_machine_id
from ..sync.segments import Contended, RemoteAway, Repository, Sealer, SyncError, without_credentials
from ..sync.syncing import Outcome, Syncing

if TYPE_CHECKING:
    from ...pipelines.gate.gate import Recheck
    from ...store import MemoryStore

START_AFTER_S, LOOKED_EVERY_S = 20.0, 5.0
AT_REST_S = 15.0
"""The time without a change after which changes here are written."""

ELSEWHERE_EVERY_S = 300.0
"""The time after which the remote is asked for changes elsewhere."""

ATTEMPTS = 4
"""Pushes that are tried while other machines push too."""


class SyncInitParams(Params):
    """The remote, a folder on a disk or an address for git, and the key of a memory that is there already.

    `key`: the file with the key that the first machine printed, an absolute path. `plain`: without encryption, for a
    folder on one's own disk.
    """

    remote: Annotated[str, Field(min_length=1, max_length=4096)]
    key: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    plain: bool = False


class SyncSetParams(Params):
    """The setting of one channel, or of all: `mine` goes to one's other machines, `off` stays here."""

    channel: Channel | None = None
    setting: Literal["off", "mine"]


@dataclass(frozen=True, slots=True)
class SyncBegun:
    """The remote, this machine's id in it, and the others' hosts; `key` is the secret that the others need."""

    remote: str
    machine: str
    key: str | None
    key_file: str | None
    machines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Synced:
    """One sync. `changed` memories and `turns` came from elsewhere, as the run `run_id`; `written` entries went there.

    `trouble`: why the remote could not be reached; the next sync goes on.
    """

    written: int
    read: int
    turns: int
    changed: int
    run_id: str | None
    trouble: str | None
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class SyncedMachine:
    """A machine of the memory, and when it wrote last."""

    machine: str
    host: str
    last_at: datetime | None
    is_this: bool


@dataclass(frozen=True, slots=True)
class SetAside:
    """A thing that could not be let in or given out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """The state of the sync. `waiting_here` memories are not written yet, `waiting_there` are not let in.

    `unfetched`: the machines that have not carried out a purge yet. `off`: channels that stay here.
    """

    state: Literal["on", "off"]
    remote: str | None
    encrypted: bool
    last_at: datetime | None
    trouble: str | None
    trouble_since: datetime | None
    machines: Sequence[SyncedMachine]
    waiting_here: int
    waiting_there: int
    aside: Sequence[SetAside]
    unfetched: Sequence[str]
    off: Sequence[str]


@dataclass(frozen=True, slots=True)
class SyncSet:
    """The setting of a channel, or of all (null)."""

    channel: str | None
    setting: Literal["off", "mine"]


@dataclass(slots=True)
class _Opened:
    known: Known
    peer: Peer
    repository: Repository
    syncing: Syncing


class SyncMethods:
    """The methods, and `run`, which syncs by itself. Called in the server's loop; the work is done in threads."""

    def __init__(self, store: MemoryStore, dreamer: Dreamer, folder: Path, host: str = "") -> None:
        self._store = store
        self._dreamer = dreamer
        self._folder = folder
        self._host = host or socket.gethostname()
        self._one_at_a_time = asyncio.Lock()
        self._opened: _Opened | None = None
        self._last_at: datetime | None = None
        self._trouble: tuple[str, datetime] | None = None
        self._config: dict[str, Any] = self._read_config()
        if self.is_on:
            with contextlib.suppress(SyncError, OSError):  # each sync tries again, and says why not
                self._open()

    @property
    def is_on(self) -> bool:
        """True between `sync init` and `sync off`."""
        return bool(self._config.get("on"))

    # ---- the methods

    async def init(self, params: SyncInitParams, call: Call) -> SyncBegun:
        """Begin to sync with a remote, and sync once."""
        async with self._one_at_a_time:
            if self.is_on:
                raise Refused("The sync is on.", "`dreamctl sync off` ends it; then another remote can be named.")
            try:
                key = await asyncio.to_thread(self._begin, params)
            except (SyncError, OSError) as error:
                hint = getattr(error, "hint", "")
                raise Refused(str(error), hint) from error
        await self._sync()
        assert self._opened is not None
        hosts = [
            host for name, (host, old) in self._opened.known.machines().items() if name != self._machine and not old
        ]
        shown = without_credentials(str(self._config["remote"]))
        return SyncBegun(shown, self._machine, key, str(self._key_file) if key else None, sorted(hosts))

    async def sync(self, params: NoParams, call: Call) -> Synced:
        """Sync now."""
        if not self.is_on:
            raise Refused("The sync is off.", "`dreamctl sync init REMOTE` begins it.")
        try:
            outcome = await self._sync()
        except SyncError as error:
            raise Refused(str(error), error.hint) from error
        return Synced(
            outcome.written,
            outcome.read,
            outcome.turns,
            outcome.changed,
            outcome.run_id,
            self._trouble[0] if self._trouble else None,
            outcome.notes,
        )

    async def status(self, params: NoParams, call: Call) -> SyncStatus:
        """Return machines, the amount that waits, and all that could not be let in."""
        return await asyncio.to_thread(self._status)

    async def set(self, params: SyncSetParams, call: Call) -> SyncSet:
        """Have a channel stay here or go to the other machines; without a channel, end the sync or go on with it."""
        async with self._one_at_a_time:
            if params.channel is None:
                if params.setting == "mine" and "remote" not in self._config:
                    raise Refused("No remote is known.", "`dreamctl sync init REMOTE` begins it.")
                await asyncio.to_thread(self._switch, params.setting == "mine")
                return SyncSet(None, params.setting)
            there = {*self._store.channel_names_with(params.channel), *self._config.get("off", ()), GLOBAL_CHANNEL}
            channel = searched_channel(params.channel, None, lambda _: there)
            off = {*self._config.get("off", ())} - {channel} | ({channel} if params.setting == "off" else set())
            self._keep_config({"off": sorted(off)})
            return SyncSet(channel, params.setting)

    # ---- by itself

    async def run(self) -> None:
        """Sync by itself, until cancelled."""
        await asyncio.sleep(START_AFTER_S)
        seen, rest_since, synced, due = -1, 0.0, -1, 0.0
        while True:
            now, changes = time.monotonic(), self._store.replica.changes
            if changes != seen:
                seen, rest_since = changes, now
            is_at_rest = changes != synced and now - rest_since >= AT_REST_S
            if self.is_on and (is_at_rest or now >= due) and not self._store.is_busy:
                try:
                    await self._sync()
                except (StoreError, SyncError, OSError, Refused) as error:  # a job's boundary: it is tried again
                    logger.warning("a sync could not be done ({})", type(error).__name__)
                # What came from elsewhere is a change too, and no reason to sync again.
                synced, due = self._store.replica.changes, time.monotonic() + ELSEWHERE_EVERY_S
            await asyncio.sleep(LOOKED_EVERY_S)

    async def _sync(self) -> Outcome:
        async with self._one_at_a_time:
            total = Outcome()
            for attempt in range(ATTEMPTS):
                try:
                    outcome = await asyncio.to_thread(self._once, may_purge=False)
                    if outcome.purges_wait:
                        # A dream that has read what is purged could write it back.
                        async with self._dreamer.held_back("a purge of another machine is carried out"):
                            total.add(outcome)
                            outcome = await asyncio.to_thread(self._once, may_purge=True)
                    total.add(outcome)
                    self._last_at, self._trouble = utc_now(), None
                    break
                except (Contended, RemoteAway) as error:
                    if isinstance(error, Contended) and attempt + 1 < ATTEMPTS:
                        continue
                    self._trouble = str(error), self._trouble[1] if self._trouble else utc_now()
                    break
            return total

    # ---- in a thread

    def _once(self, *, may_purge: bool) -> Outcome:
        opened = self._opened or self._open()
        opened.repository.prepare()
        rechecks: list[Recheck] = []
        opened.syncing.before_change = lambda: rechecks.append(recheck_of(self._store))
        outcome = opened.syncing.run(may_purge=may_purge, keep_machine=lambda new: self._keep_config({"machine": new}))
        if rechecks and (reasons := reasons_after(self._store, rechecks[0], outcome.run_id, outcome.changed)):
            outcome.notes.append(
                f"recall is worse for it: {'; '.join(reasons)}; `dreamctl undo {outcome.run_id}` undoes it"
            )
        if opened.known.note("prune"):
            opened.repository.prune_remote()
            opened.known.set_note("prune", "")
        return outcome

    def _begin(self, params: SyncInitParams) -> str | None:
        remote = params.remote
        is_folder = "://" not in remote and not re.match(r"^[^/]+:", remote)
        if is_folder and not Path(remote).is_absolute():
            raise SyncError(f"{remote} is a relative path.", "The daemon has another working folder.")
        if is_folder and not Path(remote).parent.is_dir():
            raise SyncError(f"{Path(remote).parent} is not there.", "Plug the disk in, or make the folder.")
        if remote.startswith("-"):
            raise SyncError(f"{remote} is no remote.", "Name a folder, or an address that git understands.")
        if params.plain and (params.key or not is_folder):
            raise SyncError("`plain` is for a folder on your own disk.", "Leave it out: what leaves is encrypted.")
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = self._key_for(params)
        if key != self._key() or params.plain == self._config.get("encrypted", not params.plain):
            self._close()
            shutil.rmtree(self._folder / "repository.git", ignore_errors=True)
            for file in self._folder.glob("known.db*"):
                file.unlink()
            self._config.pop("machine", None)
        if key is not None:
            replace_file(self._key_file, f"# The key of this memory's sync: keep it secret.\n{key}\n".encode())
            self._key_file.chmod(0o600)
        machine = str(self._config.get("machine") or new_machine_id())
        self._config |= {"remote": remote, "encrypted": not params.plain, "machine": machine}
        opened = self._open()
        opened.repository.prepare()
        opened.repository.make_folder()
        opened.peer.fetch()
        if opened.peer.shares_nothing():
            raise SyncError(
                "That remote holds a memory that this key does not open.",
                "Name the key of the first machine: --key FILE.",
            )
        self._keep_config({"on": True})
        return key

    def _key_for(self, params: SyncInitParams) -> str | None:
        if params.plain:
            return None
        if params.key is not None:
            return Sealer.checked(Path(params.key).read_text(encoding="utf-8", errors="replace"))
        return self._key() or Sealer.new_key()

    @property
    def _key_file(self) -> Path:
        return self._folder / "key"

    def _key(self) -> str | None:
        return Sealer.checked(self._key_file.read_text()) if self._key_file.exists() else None

    @property
    def _machine(self) -> str:
        return str(self._config["machine"])

    def _open(self) -> _Opened:
        self._close()
        key = self._key() if self._config["encrypted"] else None
        if key is None and self._config["encrypted"]:
            raise SyncError("The key of the sync is gone.", "`dreamctl sync off`, then `sync init` with --key FILE.")
        known = Known.opened(self._folder / "known.db")
        repository = Repository(self._folder / "repository.git", str(self._config["remote"]))
        sealer = Sealer(key)
        peer = Peer(repository, sealer, known, self._machine, self._host, utc_now)
        syncing = Syncing(self._store, known, peer, self._is_off, utc_now)
        self._store.when_erased(syncing.note_erased)
        self._opened = _Opened(known, peer, repository, syncing)
        return self._opened

    def _is_off(self, channel: str) -> bool:
        """Return True for a channel that stays here: it is set so, or nothing is learned in it."""
        return channel in self._config.get("off", ()) or channel in self._store.channels_off

    def _close(self) -> None:
        if self._opened is not None:
            self._store.when_erased(lambda ids, secrets: None)
            self._opened.known.close()
            self._opened = None

    def stop(self) -> None:
        """Close the database of entries; no sync runs any more."""
        self._close()

    def _switch(self, on: bool) -> None:
        self._keep_config({"on": on})
        if on and self._opened is None:
            self._open()

    def _read_config(self) -> dict[str, Any]:
        try:
            found = json.loads((self._folder / "sync.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep_config(self, changes: Mapping[str, Any]) -> None:
        self._config |= changes
        file = self._folder / "sync.json"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(file, json.dumps(self._config, indent=1, sort_keys=True).encode())
        file.chmod(0o600)

    def _status(self) -> SyncStatus:
        if not self.is_on:
            return SyncStatus("off", None, True, None, None, None, (), 0, 0, (), (), self._config.get("off", ()))
        try:
            opened = self._opened or self._open()
        except (SyncError, OSError) as error:
            why = f"{error} {getattr(error, 'hint', '')}".strip()
            remote, is_sealed = without_credentials(str(self._config["remote"])), bool(self._config["encrypted"])
            off = self._config.get("off", ())
            return SyncStatus("on", remote, is_sealed, self._last_at, why, utc_now(), (), 0, 0, (), (), off)
        here, there = opened.syncing.waiting()
        machines = opened.known.machines()
        times = opened.peer.times() if (self._folder / "repository.git").exists() else {}
        active = {name: host for name, (host, old) in machines.items() if not old}
        unfetched = {active[one] for _, _, _, _, acks in opened.known.purges() for one in active if one not in acks}
        trouble, since = self._trouble or (None, None)
        return SyncStatus(
            "on",
            without_credentials(str(self._config["remote"])),
            bool(self._config["encrypted"]),
            self._last_at,
            trouble,
            since,
            [SyncedMachine(name, host, _at(times.get(name)), name == self._machine) for name, host in active.items()],
            here,
            there,
            [SetAside(name, reason) for name, reason in (opened.known.aside() | _ahead(active, times)).items()],
            sorted(unfetched),
            self._config.get("off", ()),
        )


MOST_PROBES, MOST_EMBEDDED = 20, 200
MOST_AHEAD_MINUTES = 10


def _ahead(hosts: Mapping[str, str], times: Mapping[str, str]) -> dict[str, str]:
    """Return the machines whose clocks are ahead of this one's, with what to do."""
    latest = utc_now() + timedelta(minutes=MOST_AHEAD_MINUTES)
    ahead = [name for name in hosts if (at := _at(times.get(name))) is not None and at > latest]
    return {f"clock of {hosts[name]}": "it is ahead of this machine's: set the one that is wrong" for name in ahead}


def recheck_of(store: MemoryStore) -> Recheck:
    """Ask the person's past questions before a change that comes from elsewhere."""
    from ...pipelines.gate.gate import Recheck
    from ...pipelines.messages import Check

    asked = store.replica.past_questions(MOST_PROBES)
    checks = [Check(text=one.text, channel=one.channel, gold=one.gold) for one in asked]
    return Recheck(store, checks, lambda: store.is_busy)


def reasons_after(store: MemoryStore, recheck: Recheck, run_id: str | None, changed: int) -> list[str]:
    """Ask them again after a run, and return the reason if several are no longer answered."""
    if changed <= MOST_EMBEDDED and run_id:  # otherwise found by words alone for a while
        store.embed({change.node_id for change in store.changes_of(run_id, 0, MOST_EMBEDDED)})
    return recheck.unanswered()


def _at(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


SYNC_METHODS: tuple[Method[Any, Any], ...] = (
    Method("sync_init", SyncInitParams, SyncBegun, SyncMethods.init, long=True),
    Method("sync", NoParams, Synced, SyncMethods.sync, long=True),
    Method("sync_status", NoParams, SyncStatus, SyncMethods.status),
    Method("sync_set", SyncSetParams, SyncSet, SyncMethods.set),
)
